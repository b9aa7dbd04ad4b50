//! What the shell itself takes from the configuration. What decisions depend on is in `controller-core`.

use std::time::Duration;

use metadata::config::ControllerSettings;

use crate::quorum::{ENTRIES_KEPT, Timing};

/// How the quorum keeps time.
#[must_use]
pub fn timing(settings: &ControllerSettings) -> Timing {
    Timing {
        election_shortest: settings.election.shortest,
        election_longest: settings.election.longest,
        snapshot_bytes: settings.snapshots.bytes_between,
        snapshot_age: settings.snapshots.age_max,
        entries_kept: ENTRIES_KEPT,
    }
}

/// How often those who follow are told that there is nothing new.
#[must_use]
pub fn progress_interval(settings: &ControllerSettings) -> Duration {
    settings.idle_interval.unwrap_or(Duration::from_millis(500))
}
