//! Time as an argument. Nothing here asks a clock.

use std::time::Duration;

/// A point on the shell's monotonic clock, counted from the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// When the process started.
    pub const START: Self = Self(Duration::ZERO);

    /// The moment `elapsed` after the start of the process.
    #[must_use]
    pub const fn from_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after the start of the process.
    #[must_use]
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long after `earlier`; nothing if `earlier` is in fact later, for arrival stamps may be taken out of order.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `duration` later; the end of time if that does not fit.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}
