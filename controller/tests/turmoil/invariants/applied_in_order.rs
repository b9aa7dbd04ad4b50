//! A process is told every position once, in order, beginning behind its snapshot; a snapshot only moves it forward.

use std::collections::BTreeMap;

use crate::history::{Fact, History};

pub fn check(history: &History) -> Result<(), String> {
    let mut ends = BTreeMap::new();
    for fact in history.iter() {
        match fact {
            Fact::Began { at, life, position } => {
                ends.insert((*at, *life), *position);
            }
            Fact::Applied {
                at, life, position, ..
            } => {
                let end = ends.entry((*at, *life)).or_insert(0);
                if *position != *end + 1 {
                    return Err(format!("{at}/{life} is told {position} after {end}"));
                }
                *end = *position;
            }
            Fact::Replaced { at, life, position } => {
                let end = ends.entry((*at, *life)).or_insert(0);
                if *position <= *end {
                    return Err(format!("{at}/{life} is put back from {end} to {position}"));
                }
                *end = *position;
            }
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn a_gap_a_repetition_and_a_step_back_are_rejected() {
    let applied = |position| Fact::Applied {
        at: 0,
        life: 3,
        position,
        term: 1,
        batch: None,
        durable_on: 2,
        majority: 2,
    };
    let began = Fact::Began {
        at: 0,
        life: 3,
        position: 5,
    };
    let replaced = |position| Fact::Replaced {
        at: 0,
        life: 3,
        position,
    };
    let after = |facts: &[Fact]| {
        let all = std::iter::once(&began).chain(facts).cloned();
        check(&History::from_iter(all))
    };
    assert!(after(&[applied(6), replaced(9), applied(10)]).is_ok());
    assert!(after(&[applied(7)]).is_err());
    assert!(after(&[applied(6), applied(6)]).is_err());
    assert!(after(&[applied(6), replaced(6)]).is_err());
}
