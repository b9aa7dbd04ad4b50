//! Planted faults of the shell, so that the checks of this project can show that they catch them. Compiled only with
//! the cargo feature `mutants`, and inert until one is selected.
//!
//! Never part of a release, and never a way to change behaviour that is meant.

use std::sync::atomic::{AtomicBool, Ordering};

static COMMIT_BEFORE_SYNC: AtomicBool = AtomicBool::new(false);

/// Switches a fault on for the life of the process. False when no crate of the controller has one of that name.
#[must_use]
pub fn select(name: &str) -> bool {
    if name == "commit_before_sync" {
        COMMIT_BEFORE_SYNC.store(true, Ordering::Relaxed);
        return true;
    }
    metadata::mutants::select(name)
}

/// The store acknowledges entries before they are durable.
pub(crate) fn commit_before_sync() -> bool {
    COMMIT_BEFORE_SYNC.load(Ordering::Relaxed)
}
