//! How much of their time the threads that serve have nothing to do.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use host::Monotonic;

/// Shorter stretches than this are not judged: the next look is told what the last one was.
const STRETCH_MIN: Duration = Duration::from_secs(1);

/// How long the threads of a kind have been at work.
#[derive(Debug, Default)]
pub struct Work {
    threads: AtomicUsize,
    busy_ns: AtomicU64,
}

impl Work {
    /// One thread more does it.
    pub fn joined(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
    }

    /// One of them was at work for so long.
    pub fn worked(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.busy_ns.fetch_add(time, Ordering::Relaxed);
    }

    /// How many threads do it, and for how long they have all been at work.
    pub fn seen(&self) -> (usize, Duration) {
        let busy = Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed));
        (self.threads.load(Ordering::Relaxed), busy)
    }
}

/// The idle share of some threads between two looks.
#[derive(Debug)]
pub struct IdleShare {
    looked: Monotonic,
    busy: Duration,
    share: f64,
}

impl IdleShare {
    /// Nobody has worked yet.
    pub fn new(now: Monotonic) -> IdleShare {
        IdleShare {
            looked: now,
            busy: Duration::ZERO,
            share: 1.0,
        }
    }

    /// From 0, all busy all the time, to 1, since the last look; `busy` is the time that `threads` spent at work so far.
    pub fn look(&mut self, now: Monotonic, (threads, busy): (usize, Duration)) -> f64 {
        let stretch = now.since(self.looked);
        if STRETCH_MIN <= stretch && 0 < threads {
            let worked = busy.saturating_sub(self.busy).as_secs_f64();
            // Work is counted when it is done, also what began before the last look.
            self.share = (1.0 - worked / (stretch.as_secs_f64() * threads as f64)).clamp(0.0, 1.0);
            self.looked = now;
            self.busy = busy;
        }
        self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic(ms * 1_000_000)
    }

    #[test]
    fn the_share_is_of_all_threads_since_the_last_look() {
        let work = Work::default();
        let mut idle = IdleShare::new(at(0));
        work.joined();
        work.joined();
        work.worked(Duration::from_secs(2));
        assert_eq!(idle.look(at(4_000), work.seen()), 0.75);
        work.worked(Duration::from_secs(1));
        assert_eq!(idle.look(at(5_000), work.seen()), 0.5);
        assert_eq!(idle.look(at(6_000), work.seen()), 1.0);
    }

    #[test]
    fn a_look_too_soon_is_told_the_last_share_and_its_time_counts_at_the_next() {
        let work = Work::default();
        let mut idle = IdleShare::new(at(0));
        work.joined();
        work.worked(Duration::from_secs(1));
        assert_eq!(idle.look(at(2_000), work.seen()), 0.5);
        work.worked(Duration::from_millis(500));
        assert_eq!(idle.look(at(2_500), work.seen()), 0.5);
        assert_eq!(idle.look(at(4_000), work.seen()), 0.75);
    }

    #[test]
    fn work_that_began_before_the_last_look_makes_no_share_below_nothing() {
        let work = Work::default();
        let mut idle = IdleShare::new(at(0));
        work.joined();
        idle.look(at(1_000), work.seen());
        work.worked(Duration::from_secs(2));
        assert_eq!(idle.look(at(2_000), work.seen()), 0.0);
    }
}
