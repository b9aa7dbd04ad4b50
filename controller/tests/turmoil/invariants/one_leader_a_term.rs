//! At most one controller leads a term (Raft, election safety).

use std::collections::BTreeMap;

use crate::history::{Fact, History};

pub fn check(history: &History) -> Result<(), String> {
    let mut leaders = BTreeMap::new();
    for fact in history.iter() {
        let Fact::Led { at, term, .. } = fact else {
            continue;
        };
        let first = leaders.entry(*term).or_insert(*at);
        if first != at {
            return Err(format!("{first} and {at} both lead term {term}"));
        }
    }
    Ok(())
}

#[test]
fn two_leaders_of_one_term_are_rejected() {
    let led = |at, term| Fact::Led {
        at,
        term,
        log: Default::default(),
    };
    assert!(check(&History::from_iter([led(0, 1), led(1, 2), led(1, 2)])).is_ok());
    assert!(check(&History::from_iter([led(0, 1), led(1, 1)])).is_err());
}
