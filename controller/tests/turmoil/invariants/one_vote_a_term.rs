//! A disk votes for one candidate a term, follows one leader a term, and never votes in a term that it has left (Raft,
//! election safety): a vote that is not synced before it is given breaks this after a power loss. It may follow another
//! than it voted for: the majority has chosen.

use std::collections::BTreeMap;

use crate::history::{Fact, History};

pub fn check(history: &History) -> Result<(), String> {
    let mut held: BTreeMap<&str, (u64, bool, u64)> = BTreeMap::new();
    for fact in history.iter() {
        let Fact::Voted {
            directory,
            term,
            candidate,
            won,
        } = fact
        else {
            continue;
        };
        if let Some((older, followed, other)) = held.insert(directory, (*term, *won, *candidate))
            && ((*term, *won) < (older, followed)
                || (*term, *won) == (older, followed) && other != *candidate)
        {
            return Err(format!(
                "{directory} chose {other} in term {older}, then {candidate} in term {term}"
            ));
        }
    }
    Ok(())
}

#[test]
fn a_second_vote_in_a_term_and_an_older_vote_are_rejected() {
    let voted = |term, candidate, won| Fact::Voted {
        directory: "disk".into(),
        term,
        candidate,
        won,
    };
    let after = |facts: &[Fact]| check(&facts.iter().cloned().collect());
    assert!(after(&[voted(1, 7, false), voted(1, 8, true), voted(2, 8, false)]).is_ok());
    assert!(after(&[voted(1, 7, false), voted(1, 8, false)]).is_err());
    assert!(after(&[voted(1, 7, true), voted(1, 7, false)]).is_err());
    assert!(after(&[voted(1, 7, true), voted(1, 8, true)]).is_err());
    assert!(after(&[voted(2, 7, false), voted(1, 7, true)]).is_err());
}
