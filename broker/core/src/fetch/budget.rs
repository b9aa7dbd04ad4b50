//! How many bytes each partition of a fetch may give, and whether the answer goes out at once (F-10 to F-12).

use std::time::Duration;

/// A size on the wire that must not be negative, and is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a size of {0} bytes")]
pub struct NegativeSize(pub i32);

/// The sizes of one fetch request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The request's own limit, in bytes; absent before Fetch had one.
    pub request_max: Option<u64>,
    /// `fetch.max.bytes`.
    pub broker_max: u64,
    /// What the quota of the reader leaves, in bytes.
    pub quota_max: u64,
    /// How much must be there before the answer goes out.
    pub min: u64,
}

/// What one partition may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// Up to so many bytes, but at least one whole batch, however large: nothing has been found so far, and a reader
    /// must always get on (F-11).
    OneBatchOrUpTo(u64),
    /// Up to so many bytes; nothing at all if the first batch does not fit (F-11).
    UpTo(u64),
}

/// What has been used of a request's bytes. Partitions ask in the order in which they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    remaining: u64,
    min: u64,
    given: u64,
}

/// What was found over all partitions, besides bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing that the reader must know before more records come.
    Plain,
    /// Some partition has an error, a diverging epoch or a preferred replica.
    News,
}

impl Budget {
    /// The whole budget of a request (F-10).
    #[must_use]
    pub fn of(sizes: Sizes) -> Self {
        let max = sizes
            .request_max
            .unwrap_or(u64::MAX)
            .min(sizes.broker_max)
            .min(sizes.quota_max);
        Self {
            remaining: max,
            min: sizes.min.min(max),
            given: 0,
        }
    }

    /// What the next partition may give, given its own limit.
    ///
    /// # Errors
    /// [`NegativeSize`]: the partition is answered with an error of its own (F-10).
    pub fn next_partition(&self, partition_max: i32) -> Result<Allowance, NegativeSize> {
        let limit = u64::try_from(partition_max).map_err(|_| NegativeSize(partition_max))?;
        let limit = limit.min(self.remaining);
        Ok(if self.given == 0 {
            Allowance::OneBatchOrUpTo(limit)
        } else {
            Allowance::UpTo(limit)
        })
    }

    /// A partition gave so many bytes. The first one may give more than is left.
    pub fn took(&mut self, bytes: u64) {
        assert!(
            self.given == 0 || bytes <= self.remaining,
            "only the first partition with records may exceed the budget"
        );
        self.remaining = self.remaining.saturating_sub(bytes);
        self.given += bytes;
    }

    /// Bytes given so far.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given
    }

    /// How much must be there before a waiting fetch is answered.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.min
    }

    /// Whether the answer goes out at once (F-12); else it waits until more comes, or `max_wait` is over.
    #[must_use]
    pub fn answers_at_once(&self, max_wait: Duration, partitions: usize, outcome: Outcome) -> bool {
        max_wait.is_zero() || partitions == 0 || self.min <= self.given || outcome == Outcome::News
    }
}
