//! The law that the store stands on: what it acknowledged, a power loss cannot take back.
//!
//! With the feature `mutants`, `MILLRACE_MUTANT` plants a fault that this must catch: `commit_before_sync` or
//! `vote_not_synced`.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::mpsc::channel;

use bytes::Bytes;
use controller::quorum::drill::{Drill, Durable};
use controller::quorum::mem_backend::MemMedium;
use host::OsDisk;

/// Makes a change and loses the power when its sync begins, or when it is acknowledged without one. Returns whether it was
/// acknowledged by then, and the store after a restart.
fn change_and_lose_power(change: impl FnOnce(&mut Drill) -> Durable) -> (bool, Drill) {
    #[cfg(feature = "mutants")]
    if let Ok(mutant) = std::env::var("MILLRACE_MUTANT") {
        assert!(
            controller::mutants::select(&mutant),
            "there is no mutant {mutant}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let floor = dir.path().join("floor");
    let medium = MemMedium::default();
    let mut drill = Drill::open_on(medium.open(), &OsDisk, &floor).unwrap();
    let (reached, at_sync) = channel();
    let (go_on, gate) = channel::<()>();
    medium.watch_syncs(move || {
        // The second sync, when the drill closes, finds nobody waiting.
        let _ = reached.send(());
        let _ = gate.recv();
    });

    let durable = change(&mut drill);
    let acknowledged = loop {
        if durable.is_acknowledged() {
            break true;
        }
        if at_sync.try_recv().is_ok() {
            break durable.is_acknowledged();
        }
        std::thread::yield_now();
    };
    // What a disk would hold if the power went now.
    let survivor = medium.durable_copy();
    drop(go_on);
    drop(drill);

    let fresh_floor = dir.path().join("floor of the survivor");
    let after = Drill::open_on(survivor.open(), &OsDisk, &fresh_floor).unwrap();
    (acknowledged, after)
}

#[test]
fn what_was_acknowledged_survives_a_power_loss() {
    let (acknowledged, after) = change_and_lose_power(|drill| drill.append([Bytes::from_static(b"orders")]));

    assert!(
        !acknowledged || !after.entries().is_empty(),
        "an acknowledged entry was lost with the power"
    );
}

#[test]
fn a_vote_that_was_given_survives_a_power_loss() {
    let (acknowledged, after) = change_and_lose_power(|drill| drill.vote(7));

    assert!(
        !acknowledged || after.voted_term() == Some(7),
        "a vote that was given was lost with the power"
    );
}
