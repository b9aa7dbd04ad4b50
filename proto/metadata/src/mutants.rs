//! Planted faults, so that the checks of this project can show that they catch them. Compiled only with the cargo
//! feature `mutants`, and inert until one is selected.
//!
//! Never part of a release, and never a way to change behaviour that is meant.

use std::sync::atomic::{AtomicBool, Ordering};

static SKIPPED_CHAIN_CHECK: AtomicBool = AtomicBool::new(false);
static EPOCH_NOT_BUMPED: AtomicBool = AtomicBool::new(false);
static SNAPSHOT_WITHOUT_NEXT_OFFSET: AtomicBool = AtomicBool::new(false);

/// Switches a fault on for the life of the process. False when this crate has none of that name.
#[must_use]
pub fn select(name: &str) -> bool {
    let fault = match name {
        "skipped_chain_check" => &SKIPPED_CHAIN_CHECK,
        "epoch_not_bumped" => &EPOCH_NOT_BUMPED,
        "snapshot_without_next_offset" => &SNAPSHOT_WITHOUT_NEXT_OFFSET,
        _ => return false,
    };
    fault.store(true, Ordering::Relaxed);
    true
}

/// Batches apply without the check that they follow the one that they were decided on.
pub(crate) fn skipped_chain_check() -> bool {
    SKIPPED_CHAIN_CHECK.load(Ordering::Relaxed)
}

/// A new leader gets the leader epoch of the old one.
pub(crate) fn epoch_not_bumped() -> bool {
    EPOCH_NOT_BUMPED.load(Ordering::Relaxed)
}

/// An image from a dump counts its records instead of taking over the offset that the dump stands for.
pub(crate) fn snapshot_without_next_offset() -> bool {
    SNAPSHOT_WITHOUT_NEXT_OFFSET.load(Ordering::Relaxed)
}
