//! What is applied for the first time would survive a power loss of everybody on a majority of disks.

use std::collections::BTreeSet;

use crate::history::{Fact, History};

pub fn check(history: &History) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for fact in history.iter() {
        let Fact::Applied {
            at,
            position,
            durable_on,
            majority,
            ..
        } = fact
        else {
            continue;
        };
        // Later, disks may have been lost.
        if seen.insert(*position) && durable_on < majority {
            return Err(format!(
                "{at} applies {position}, which is durable on {durable_on} disks only, and a majority is {majority}"
            ));
        }
    }
    Ok(())
}

#[test]
fn an_entry_on_a_minority_of_disks_is_rejected() {
    let applied = |position, durable_on| Fact::Applied {
        at: 0,
        life: 0,
        position,
        term: 1,
        batch: None,
        durable_on,
        majority: 2,
    };
    assert!(check(&History::from_iter([applied(1, 2), applied(1, 1)])).is_ok());
    assert!(check(&History::from_iter([applied(1, 2), applied(2, 1)])).is_err());
}
