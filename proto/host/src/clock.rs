//! Time: a monotonic clock for durations and deadlines, a wall clock for what is written down.
//!
//! Must not: mix the two. A deadline is never computed from the wall clock, which can be set back.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point on the monotonic clock, in nanoseconds since an origin that is fixed while the process lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// Time passed from `earlier` to this point; zero if `earlier` lies later.
    pub fn since(self, earlier: Monotonic) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The point `duration` after this one, at most the last one that can be named.
    pub fn after(self, duration: Duration) -> Monotonic {
        Monotonic(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// Wall-clock time in milliseconds since 1970-01-01 UTC. It may jump, also backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMs(pub i64);

impl std::fmt::Display for WallMs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The two clocks of a machine.
pub trait Clock: Send + Sync + 'static {
    /// The monotonic clock now.
    fn now(&self) -> Monotonic;

    /// The wall clock now.
    fn wall(&self) -> WallMs;
}

/// The clocks of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct OsClock {
    origin: Instant,
}

impl OsClock {
    /// Clocks whose monotonic origin is this call.
    pub fn new() -> OsClock {
        OsClock {
            origin: Instant::now(),
        }
    }
}

impl Default for OsClock {
    fn default() -> OsClock {
        OsClock::new()
    }
}

impl Clock for OsClock {
    fn now(&self) -> Monotonic {
        Monotonic(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> WallMs {
        // A machine whose clock stands before 1970 reads as 1970: no caller could do better.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Clocks that stand still until they are moved.
#[derive(Debug, Default)]
pub struct SimClock {
    now_ns: AtomicU64,
    wall_ms: AtomicI64,
}

impl SimClock {
    /// Clocks at monotonic zero and the given wall time.
    pub fn new(wall: WallMs) -> SimClock {
        SimClock {
            now_ns: AtomicU64::new(0),
            wall_ms: AtomicI64::new(wall.0),
        }
    }

    /// Moves both clocks forward.
    pub fn advance(&self, by: Duration) {
        self.now_ns
            .fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
        self.wall_ms.fetch_add(
            i64::try_from(by.as_millis()).unwrap_or(i64::MAX),
            Ordering::SeqCst,
        );
    }

    /// Sets the wall clock alone, as an operator or a time daemon does.
    pub fn set_wall(&self, wall: WallMs) {
        self.wall_ms.store(wall.0, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Monotonic {
        Monotonic(self.now_ns.load(Ordering::SeqCst))
    }

    fn wall(&self) -> WallMs {
        WallMs(self.wall_ms.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_clock_moves_only_when_told() {
        let clock = SimClock::new(WallMs(1_000));
        clock.advance(Duration::from_millis(5));
        clock.set_wall(WallMs(7));

        assert_eq!(clock.now(), Monotonic(5_000_000));
        assert_eq!(clock.wall(), WallMs(7));
    }

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let clock = OsClock::new();
        let first = clock.now();
        let second = clock.now();

        assert!(first <= second);
        assert_eq!(first.since(second.after(Duration::from_secs(1))), Duration::ZERO);
    }
}
