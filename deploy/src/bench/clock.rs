//! Time in the load generator: nanoseconds since the process began, the same on every thread.

use std::time::Duration;

use host::{Clock as _, Monotonic, OsClock};

/// A clock that threads share.
#[derive(Debug, Clone, Copy)]
pub struct Clock(OsClock);

impl Clock {
    /// Begins at zero.
    pub fn new() -> Self {
        Self(OsClock::new())
    }

    /// Nanoseconds since it began.
    pub fn now(&self) -> u64 {
        self.0.now().0
    }

    /// Milliseconds since 1970, for the time of records.
    pub fn wall_ms(&self) -> i64 {
        self.0.wall().0
    }

    /// Sleeps until a point, or returns at once where it has passed.
    pub fn sleep_until(&self, at: u64) {
        let left = Monotonic(at).since(Monotonic(self.now()));
        if left > Duration::ZERO {
            std::thread::sleep(left);
        }
    }
}
