//! What a fetch from a leader brought for one partition, on its way to the lane, and what the lane answers.
//!
//! Must not: decide; [`broker_core::fetcher`] does.

use broker_core::fetcher::Outcome;
use broker_core::offsets::{HighWatermark, LogStart, Offset};
use bytes::Bytes;
use metadata::ids::{LeaderEpoch, PartitionId};
use tokio::sync::oneshot;

/// What the lane is to do with its log.
#[derive(Clone, Debug)]
pub enum Work {
    /// Append these batches at `from`, then take in what the leader said of its log (F-25).
    Append {
        /// Where this log must end, or the batches are not for it.
        from: Offset,
        /// Batches as they came, a slice of the received frame.
        batches: Bytes,
        /// The leader's watermark.
        watermark: HighWatermark,
        /// The leader's log start.
        log_start: LogStart,
    },
    /// Remove everything from this offset on (F-23).
    Truncate(Offset),
    /// Begin anew at this offset (F-24).
    Restart(LogStart),
}

impl Work {
    /// Whether nothing is to be done to the log's files.
    pub fn is_empty(&self) -> bool {
        matches!(self, Work::Append { batches, .. } if batches.is_empty())
    }
}

/// Work for the log of a partition that this broker follows.
#[derive(Debug)]
pub struct FetchedPart {
    /// Which partition.
    pub partition: PartitionId,
    /// The leadership under which it was fetched; under another one it is void (F-26).
    pub leader_epoch: LeaderEpoch,
    /// What is to be done.
    pub work: Work,
    /// Told what became of it; dropped where the replica follows somebody else by now, or leads, or is gone.
    pub done: oneshot::Sender<Outcome>,
}

impl FetchedPart {
    /// The partition is not here any more.
    pub fn nobody_is_here(self) {
        drop(self.done);
    }
}
