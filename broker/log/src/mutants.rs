//! Planted faults, so that the checks of this project can show that they catch them. Compiled only with the cargo
//! feature `mutants`, and inert until one is selected.
//!
//! Never part of a release, and never a way to change behaviour that is meant.

use std::sync::atomic::{AtomicBool, Ordering};

static DUPLICATE_SEQUENCE_ACCEPTED: AtomicBool = AtomicBool::new(false);
static PRODUCER_STATE_NOT_REBUILT: AtomicBool = AtomicBool::new(false);

/// Switches a fault on for the life of the process. False when this crate has none of that name.
#[must_use]
pub fn select(name: &str) -> bool {
    let fault = match name {
        "duplicate_sequence_accepted" => &DUPLICATE_SEQUENCE_ACCEPTED,
        "producer_state_not_rebuilt" => &PRODUCER_STATE_NOT_REBUILT,
        _ => return false,
    };
    fault.store(true, Ordering::Relaxed);
    true
}

/// A batch that repeats one in the log is appended again (breaks T-2).
pub(crate) fn duplicate_sequence_accepted() -> bool {
    DUPLICATE_SEQUENCE_ACCEPTED.load(Ordering::Relaxed)
}

/// A log that is opened knows nobody who wrote to it before (breaks L-21).
pub(crate) fn producer_state_not_rebuilt() -> bool {
    PRODUCER_STATE_NOT_REBUILT.load(Ordering::Relaxed)
}
