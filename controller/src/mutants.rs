//! Planted faults of the shell, so that the checks of this project can show that they catch them. Compiled only with
//! the cargo feature `mutants`, and inert until one is selected.
//!
//! Never part of a release, and never a way to change behaviour that is meant.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Each with its judges: `tests/power_loss.rs` for the first two, `tests/turmoil` for all.
const NAMES: [&str; 3] = [
    "commit_before_sync",
    "vote_not_synced",
    "snapshot_without_next_offset",
];

/// One more than the place in [`NAMES`]; 0 is none.
static SELECTED: AtomicUsize = AtomicUsize::new(0);

/// Switches a fault on for the life of the process. False when no crate of the controller has one of that name.
#[must_use]
pub fn select(name: &str) -> bool {
    let Some(at) = NAMES.iter().position(|known| *known == name) else {
        return controller_core::mutants::select(name);
    };
    SELECTED.store(at + 1, Ordering::Relaxed);
    true
}

fn is_selected(name: &str) -> bool {
    let selected = SELECTED.load(Ordering::Relaxed);
    selected.checked_sub(1).is_some_and(|at| NAMES[at] == name)
}

/// The store acknowledges entries before they are durable.
pub(crate) fn commit_before_sync() -> bool {
    is_selected("commit_before_sync")
}

/// A vote is given before it is durable.
pub(crate) fn vote_not_synced() -> bool {
    is_selected("vote_not_synced")
}

/// A snapshot does not say where its image ends.
pub(crate) fn snapshot_without_next_offset() -> bool {
    is_selected("snapshot_without_next_offset")
}
