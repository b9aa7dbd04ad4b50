//! Replication: this broker as a follower of others, and its wishes for the in-sync sets that it leads.
//!
//! Must not: decide. [`broker_core::fetcher`] and [`broker_core::proposals`] do.

pub mod fetchers;
pub mod isr;
mod leader;
mod link;
mod request;

use broker_core::fetcher::LocalLog;
use broker_core::offsets::HighWatermark;
use metadata::ids::{BrokerId, LeaderEpoch, PartitionId};
use partition_log::TopicPartition;

/// What a lane wants of the fetchers.
#[derive(Clone, Debug)]
pub enum FetchOrder {
    /// Follow this leader from now on; replaces what was followed before (F-27).
    Start {
        /// Which partition.
        partition: PartitionId,
        /// Its name.
        name: TopicPartition,
        /// From whom.
        leader: BrokerId,
        /// Under which leadership.
        leader_epoch: LeaderEpoch,
        /// The log here.
        log: LocalLog,
        /// Its watermark.
        watermark: HighWatermark,
    },
    /// Follow nobody.
    Stop(PartitionId),
}

impl FetchOrder {
    /// Which partition it is about.
    pub fn partition(&self) -> PartitionId {
        match self {
            FetchOrder::Start { partition, .. } | FetchOrder::Stop(partition) => *partition,
        }
    }
}
