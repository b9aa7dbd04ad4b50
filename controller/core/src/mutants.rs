//! Planted faults, so that the checks of this project can show that they catch them. Compiled only with the cargo
//! feature `mutants`, and inert until one is selected.
//!
//! Never part of a release, and never a way to change behaviour that is meant.

use std::sync::atomic::{AtomicBool, Ordering};

static UNCLEAN_RESTART_KEEPS_ITS_PLACE: AtomicBool = AtomicBool::new(false);
static STALE_ALTER_PARTITION_ACCEPTED: AtomicBool = AtomicBool::new(false);

/// Switches a fault on for the life of the process. False when this crate has none of that name.
#[must_use]
pub fn select(name: &str) -> bool {
    let fault = match name {
        "unclean_restart_keeps_its_place" => &UNCLEAN_RESTART_KEEPS_ITS_PLACE,
        "stale_alter_partition_accepted" => &STALE_ALTER_PARTITION_ACCEPTED,
        _ => return metadata::mutants::select(name),
    };
    fault.store(true, Ordering::Relaxed);
    true
}

/// A broker that comes back without a clean stop is trusted like one with it.
pub(crate) fn unclean_restart_keeps_its_place() -> bool {
    UNCLEAN_RESTART_KEEPS_ITS_PLACE.load(Ordering::Relaxed)
}

/// A wish for an in-sync set counts whatever state it was made on.
pub(crate) fn stale_alter_partition_accepted() -> bool {
    STALE_ALTER_PARTITION_ACCEPTED.load(Ordering::Relaxed)
}
