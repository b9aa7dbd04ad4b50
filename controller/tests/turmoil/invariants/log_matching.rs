//! Logs that have an entry of one index and term in common are the same up to it (Raft, log matching), and what is
//! applied at a position is one and the same entry everywhere and for ever (state machine safety).

use std::collections::BTreeMap;

use super::replayed::checksum;
use crate::history::{Entry, Fact, History, Log};

pub fn check(history: &History) -> Result<(), String> {
    let mut applied: BTreeMap<u64, Entry> = BTreeMap::new();
    let mut by_term: BTreeMap<(u64, u64), (u32, Option<Entry>)> = BTreeMap::new();
    for fact in history.iter() {
        match fact {
            Fact::Applied {
                at,
                position,
                term,
                batch,
                ..
            } => {
                let entry = (*term, checksum(batch.as_ref()));
                let first = *applied.entry(*position).or_insert(entry);
                if first != entry {
                    return Err(format!(
                        "{at} applies {entry:?} at {position}, where {first:?} was applied"
                    ));
                }
            }
            Fact::Led { at, log, .. } | Fact::Logged { at, log } => matches(*at, log, &mut by_term)?,
            _ => {}
        }
    }
    Ok(())
}

/// Each entry of a term has the same content and the same entry before it wherever it is: so whole prefixes match.
fn matches(
    at: usize,
    log: &Log,
    seen: &mut BTreeMap<(u64, u64), (u32, Option<Entry>)>,
) -> Result<(), String> {
    let mut before = None;
    for (index, entry) in &log.entries {
        let (term, content) = *entry;
        let first = seen.entry((*index, term)).or_insert((content, before));
        if first.0 != content {
            return Err(format!(
                "{at} has another entry {index} of term {term} than was seen"
            ));
        }
        // The entry before the first one of a log is in a snapshot.
        match (first.1, before) {
            (Some(one), Some(other)) if one != other => {
                return Err(format!(
                    "{at} has {other:?} before entry {index} of term {term}, not {one:?}"
                ));
            }
            (None, Some(known)) => first.1 = Some(known),
            _ => {}
        }
        before = Some(*entry);
    }
    Ok(())
}

#[cfg(test)]
fn logged(at: usize, entries: &[(u64, Entry)]) -> Fact {
    let log = Log {
        begin: 0,
        entries: entries.iter().copied().collect(),
    };
    Fact::Logged { at, log }
}

#[test]
fn another_content_and_another_past_are_rejected() {
    let one = logged(0, &[(0, (1, 5)), (1, (2, 6))]);
    assert!(
        check(&History::from_iter([
            one.clone(),
            logged(1, &[(1, (2, 6)), (2, (3, 7))])
        ]))
        .is_ok()
    );
    assert!(
        check(&History::from_iter([
            one.clone(),
            logged(1, &[(0, (1, 5)), (1, (3, 9))])
        ]))
        .is_ok()
    );
    assert!(check(&History::from_iter([one.clone(), logged(1, &[(1, (2, 9))])])).is_err());
    assert!(check(&History::from_iter([one, logged(1, &[(0, (1, 9)), (1, (2, 6))])])).is_err());
}

#[test]
fn two_entries_applied_at_one_position_are_rejected() {
    let applied = |at, term| Fact::Applied {
        at,
        life: 0,
        position: 4,
        term,
        batch: None,
        durable_on: 2,
        majority: 2,
    };
    assert!(check(&History::from_iter([applied(0, 1), applied(1, 1)])).is_ok());
    assert!(check(&History::from_iter([applied(0, 1), applied(1, 2)])).is_err());
}
