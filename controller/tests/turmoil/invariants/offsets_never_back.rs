//! A process never publishes an older state than it has published.

use std::collections::BTreeMap;

use crate::history::{Fact, History};

pub fn check(history: &History) -> Result<(), String> {
    let mut ends = BTreeMap::new();
    for fact in history.iter() {
        let Fact::Published {
            at,
            life,
            next_offset,
            ..
        } = fact
        else {
            continue;
        };
        let before = ends.insert((*at, *life), *next_offset);
        if before.is_some_and(|before| *next_offset < before) {
            return Err(format!("{at}/{life} publishes {next_offset} after {before:?}"));
        }
    }
    Ok(())
}

#[test]
fn an_older_state_is_rejected() {
    let published = |life, next_offset| Fact::Published {
        at: 1,
        life,
        next_offset,
        digest: 0,
    };
    assert!(
        check(&History::from_iter([
            published(0, 4),
            published(1, 3),
            published(1, 3)
        ]))
        .is_ok()
    );
    assert!(check(&History::from_iter([published(0, 4), published(0, 3)])).is_err());
}
