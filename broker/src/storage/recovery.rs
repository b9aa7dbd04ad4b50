//! How far the recovery of logs is that were not closed in order, for the operator: how many, how fast, until when.
//!
//! Must not: recover anything itself.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use host::WallMs;
use tracing::info;

/// Time between two lines of the log.
const SAID_EVERY_MS: i64 = 2_000;

/// Counts the logs that are recovered at a start.
#[derive(Debug)]
pub struct RecoveryProgress {
    total: usize,
    done: AtomicUsize,
    bytes: AtomicU64,
    begun_ms: AtomicI64,
    said_ms: AtomicI64,
}

impl RecoveryProgress {
    /// So many logs are to be recovered.
    pub fn of(total: usize) -> RecoveryProgress {
        RecoveryProgress {
            total,
            done: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            begun_ms: AtomicI64::new(0),
            said_ms: AtomicI64::new(0),
        }
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.total.saturating_sub(self.done.load(Ordering::Relaxed))
    }

    /// How many there were.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The first log is about to be opened.
    pub fn begins(&self, now: WallMs) {
        let unset = self
            .begun_ms
            .compare_exchange(0, now.0, Ordering::Relaxed, Ordering::Relaxed);
        if unset.is_ok() {
            self.said_ms.store(now.0, Ordering::Relaxed);
            info!(logs = self.total, "recovering logs that were not closed in order");
        }
    }

    /// One more is recovered; so many bytes of it were looked at.
    pub fn recovered(&self, bytes: u64, now: WallMs) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let said = self.said_ms.load(Ordering::Relaxed);
        let is_due = SAID_EVERY_MS <= now.0 - said || done == self.total;
        // One of those that find it due says it.
        let is_mine = self
            .said_ms
            .compare_exchange(said, now.0, Ordering::Relaxed, Ordering::Relaxed);
        if !is_due || is_mine.is_err() {
            return;
        }
        let took_ms = (now.0 - self.begun_ms.load(Ordering::Relaxed)).max(1);
        let left_ms = self.time_left_ms(done, took_ms);
        let mib_per_s = (bytes.saturating_mul(1_000) / took_ms.unsigned_abs()) >> 20;
        let (of, mib) = (self.total, bytes >> 20);
        info!(
            recovered = done,
            of, mib, mib_per_s, took_ms, left_ms, "recovering logs"
        );
    }

    /// As if those that are left took as long as those that are done.
    fn time_left_ms(&self, done: usize, took_ms: i64) -> i64 {
        let count = |logs: usize| i64::try_from(logs).unwrap_or(i64::MAX);
        took_ms.saturating_mul(count(self.total.saturating_sub(done))) / count(done.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_is_done() {
        let progress = RecoveryProgress::of(10);
        progress.begins(WallMs(1_000));
        for at in [1_100, 1_200, 1_300] {
            progress.recovered(1 << 20, WallMs(at));
        }
        assert_eq!((progress.left(), progress.total()), (7, 10));
        assert_eq!(progress.time_left_ms(3, 300), 700);
    }
}
