//! Time as the core sees it: given from outside, only ever compared.

use std::time::Duration;

/// A reading of one node's monotone clock. Readings of different nodes or processes mean nothing to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Duration);

impl Moment {
    /// How long after `earlier` this is; zero when it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment this much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// Both clocks of a node, read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotone one, which decides.
    pub at: Moment,
    /// Milliseconds since 1970, which only goes into provenance.
    pub wall_time_ms: i64,
}
