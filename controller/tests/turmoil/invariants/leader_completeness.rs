//! Who leads a term has every entry that was committed in an earlier one (Raft, leader completeness).

use std::collections::BTreeMap;

use crate::history::{Fact, History, Log};

pub fn check(history: &History) -> Result<(), String> {
    let mut committed: BTreeMap<u64, u64> = BTreeMap::new();
    for fact in history.iter() {
        match fact {
            Fact::Applied { position, term, .. } => {
                committed.insert(position - 1, *term);
            }
            Fact::Led { at, term, log } => has_all(*at, *term, log, &committed)?,
            _ => {}
        }
    }
    Ok(())
}

fn has_all(at: usize, led: u64, log: &Log, committed: &BTreeMap<u64, u64>) -> Result<(), String> {
    for (index, term) in committed.range(log.begin..) {
        let held = log.entries.get(index).map(|(term, _)| term);
        if *term < led && held != Some(term) {
            return Err(format!(
                "{at} leads term {led} with {held:?} at index {index}, where term {term} is committed"
            ));
        }
    }
    Ok(())
}

#[test]
fn a_leader_without_a_committed_entry_is_rejected() {
    let applied = Fact::Applied {
        at: 0,
        life: 0,
        position: 4,
        term: 1,
        batch: None,
        durable_on: 2,
        majority: 2,
    };
    let led = |begin, entries: &[(u64, u64)]| Fact::Led {
        at: 1,
        term: 2,
        log: Log {
            begin,
            entries: entries.iter().map(|(index, term)| (*index, (*term, 0))).collect(),
        },
    };
    assert!(check(&History::from_iter([applied.clone(), led(2, &[(2, 1), (3, 1)])])).is_ok());
    assert!(check(&History::from_iter([applied.clone(), led(4, &[])])).is_ok());
    assert!(check(&History::from_iter([applied.clone(), led(2, &[(2, 1)])])).is_err());
    assert!(check(&History::from_iter([applied, led(2, &[(2, 1), (3, 2)])])).is_err());
}
