//! Positions in a partition's log. The log has its own types; the shell translates at the seam.

use std::fmt;

use metadata::ids::LeaderEpoch;

/// Position of one record in a partition's log. Never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

/// The first offset that may still be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogStart(pub Offset);

/// Where the next record will be written. An empty log has `start == end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogEnd(pub Offset);

/// Everything below is held by every in-sync replica and may be shown to consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HighWatermark(pub Offset);

/// A leader epoch and the offset that follows its last record: an answer of the epoch history (L-51).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch of the history that is not above the one asked for.
    pub epoch: LeaderEpoch,
    /// Exclusive end of that epoch.
    pub end: Offset,
}

/// What the core must know of a log, in offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFacts {
    /// First readable offset.
    pub start: LogStart,
    /// Where the next record goes.
    pub end: LogEnd,
    /// The watermark as last saved or learned; never above `end`.
    pub watermark: HighWatermark,
}

impl LogFacts {
    /// The facts of a log as the disk has them. A saved watermark that lies outside of the log (the tail was lost, or
    /// the start has moved since) is brought back into it.
    #[must_use]
    pub fn recovered(start: LogStart, end: LogEnd, saved: HighWatermark) -> Self {
        assert!(start.0 <= end.0, "a log never ends before it starts");
        Self {
            start,
            end,
            watermark: HighWatermark(saved.0.max(start.0).min(end.0)),
        }
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for LogEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for HighWatermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
