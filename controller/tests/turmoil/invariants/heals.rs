//! When nothing is disturbed any more, the quorum works again: everybody is at one offset and has a vote.

use crate::history::{Fact, History};

pub fn check(history: &History) -> Result<(), String> {
    let healed = history.iter().find_map(|fact| match fact {
        Fact::Healed { ends, voters } => Some((ends, *voters)),
        _ => None,
    });
    let Some((ends, voters)) = healed else {
        return Err("nothing was acknowledged in time after everything was healed".into());
    };
    let first = ends.first().copied().flatten();
    if first.is_none() || ends.iter().any(|end| *end != first) {
        return Err(format!("the controllers stand at {ends:?}"));
    }
    if voters != ends.len() {
        return Err(format!("{voters} of {} have a vote", ends.len()));
    }
    Ok(())
}

#[test]
fn a_controller_that_stays_behind_and_one_without_a_vote_are_rejected() {
    let healed = |ends: &[Option<i64>], voters| {
        check(&History::from_iter([Fact::Healed {
            ends: ends.to_vec(),
            voters,
        }]))
    };
    assert!(healed(&[Some(7), Some(7)], 2).is_ok());
    assert!(healed(&[Some(7), Some(6)], 2).is_err());
    assert!(healed(&[Some(7), None], 2).is_err());
    assert!(healed(&[Some(7), Some(7)], 1).is_err());
    assert!(check(&History::default()).is_err());
}
