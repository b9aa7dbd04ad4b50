//! What a client was told it has, it has: in the log, applied, and given to nobody else.

use std::collections::BTreeSet;

use super::replayed::Replayed;
use crate::history::{Fact, History};

const BLOCK: i64 = 1000;

pub fn check(history: &History) -> Result<(), String> {
    let replayed = Replayed::of(history)?;
    let mut given = BTreeSet::new();
    for fact in history.iter() {
        let Fact::Acknowledged { at, first, .. } = fact else {
            continue;
        };
        if !given.insert(*first) {
            return Err(format!("{at} gives the ids from {first} away again"));
        }
        match replayed.blocks.get(&(first + BLOCK)) {
            Some(1) => {}
            other => {
                return Err(format!(
                    "{at} acknowledged the ids from {first}; the log gives them away {} times",
                    other.unwrap_or(&0)
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn a_lost_block_and_one_given_twice_are_rejected() {
    use super::replayed::{applied, block};
    let mut image = metadata::image::Image::default();
    let log: Vec<Fact> = (1..=2)
        .map(|position| applied(position, block(&mut image)))
        .collect();
    let acknowledged = |first| Fact::Acknowledged {
        at: 0,
        term: 1,
        first,
    };
    let after = |facts: &[Fact]| check(&log.iter().chain(facts).cloned().collect());
    assert!(after(&[acknowledged(0), acknowledged(1000)]).is_ok());
    assert!(after(&[acknowledged(2000)]).is_err());
    assert!(after(&[acknowledged(0), acknowledged(0)]).is_err());
}
