//! The law that the store stands on: what it acknowledged, a power loss cannot take back.
//!
//! `MILLRACE_MUTANT=commit_before_sync` with the feature `mutants` plants the fault that this must catch.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::mpsc::channel;

use bytes::Bytes;
use controller::quorum::drill::Drill;
use controller::quorum::mem_backend::MemMedium;
use host::OsDisk;

/// Appends an entry and loses the power when its sync begins. Returns whether it was acknowledged by then, and
/// whether it is there after a restart.
fn append_and_lose_power() -> (bool, bool) {
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

    let durable = drill.append([Bytes::from_static(b"orders")]);
    at_sync.recv().unwrap();
    let acknowledged = durable.is_acknowledged();
    // What a disk would hold if the power went now.
    let survivor = medium.durable_copy();
    drop(go_on);
    drop(drill);

    let fresh_floor = dir.path().join("floor of the survivor");
    let after = Drill::open_on(survivor.open(), &OsDisk, &fresh_floor).unwrap();
    (acknowledged, !after.entries().is_empty())
}

#[test]
fn what_was_acknowledged_survives_a_power_loss() {
    #[cfg(feature = "mutants")]
    if let Ok(mutant) = std::env::var("MILLRACE_MUTANT") {
        assert!(
            controller::mutants::select(&mutant),
            "there is no mutant {mutant}"
        );
    }
    let (acknowledged, survived) = append_and_lose_power();

    assert!(
        !acknowledged || survived,
        "an acknowledged entry was lost with the power"
    );
}
