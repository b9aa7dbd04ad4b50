//! No process ends by itself, and each starts on what a kill or a power loss has left: the disks here keep what was
//! synced, so nothing that happens is a reason to stop or to call a store damaged.

use crate::history::{Fact, History};

pub fn check(history: &History) -> Result<(), String> {
    for fact in history.iter() {
        if let Fact::Died { at, why } = fact {
            return Err(format!("{at}: {why}"));
        }
    }
    Ok(())
}

#[test]
fn a_process_that_ended_is_rejected() {
    let died = Fact::Died {
        at: 1,
        why: "its store is damaged".into(),
    };
    assert!(check(&History::default()).is_ok());
    assert!(check(&History::from_iter([died])).is_err());
}
