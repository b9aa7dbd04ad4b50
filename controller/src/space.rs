//! Room on the disk of the metadata log, so that a full disk is a refusal and not a failed write.
//!
//! Two watermarks: below the first nothing new is taken on, below the second nothing is proposed at all. Must not
//! touch the disk from an async task.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::Disk;
use tokio::sync::watch;

/// Below this no command is taken that makes the metadata grow. Four times the largest batch, with the store's own
/// waste (a segment being rewritten) on top.
pub const SCARCE_BYTES: u64 = 64 * 1024 * 1024;
/// Below this nothing is proposed: one batch, its place in a fresh segment of the store, and a snapshot's beginning.
pub const EXHAUSTED_BYTES: u64 = 16 * 1024 * 1024;
const INTERVAL: Duration = Duration::from_secs(1);

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Nothing is held back.
    Enough,
    /// Nothing new is taken on.
    Scarce,
    /// Nothing is proposed.
    Exhausted,
}

impl Space {
    /// What so many free bytes mean.
    #[must_use]
    pub fn of(free_bytes: u64) -> Space {
        if free_bytes < EXHAUSTED_BYTES {
            Space::Exhausted
        } else if free_bytes < SCARCE_BYTES {
            Space::Scarce
        } else {
            Space::Enough
        }
    }
}

/// Looks once a second, for as long as it is polled, and tells of every change.
pub async fn keep_watch(disk: Arc<dyn Disk>, dir: PathBuf, tell: watch::Sender<Space>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        let (disk, dir) = (disk.clone(), dir.clone());
        let Ok(Ok(free_bytes)) = tokio::task::spawn_blocking(move || disk.free_bytes(&dir)).await else {
            continue;
        };
        let now = Space::of(free_bytes);
        tell.send_if_modified(|held| {
            let changed = *held != now;
            if changed && now == Space::Enough {
                tracing::info!(free_bytes, "the disk of the metadata log has room again");
            } else if changed {
                tracing::warn!(free_bytes, ?now, "the disk of the metadata log is almost full");
            }
            *held = now;
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermarks_are_where_they_are_said_to_be() {
        assert_eq!(Space::of(SCARCE_BYTES), Space::Enough);
        assert_eq!(Space::of(SCARCE_BYTES - 1), Space::Scarce);
        assert_eq!(Space::of(EXHAUSTED_BYTES), Space::Scarce);
        assert_eq!(Space::of(EXHAUSTED_BYTES - 1), Space::Exhausted);
    }
}
