//! Durable ordered batches: the log of one partition in Kafka's own files, over [`host::Disk`].
//!
//! One owner mutates a [`Log`]; any number of readers use its [`ReadView`], which never waits for the owner.
//! A [`LogDir`] is the directory that the partitions' directories lie in, with its lock, identity, checkpoints
//! and clean-shutdown marker. Everything here is synchronous; what must not run on the owner's thread is handed
//! out as a [`SyncJob`].
//!
//! What must never be in it: replicas, in-sync sets, requests, error codes, async, a clock or a file system of
//! its own.
#![allow(clippy::todo, dead_code)]

mod config;
mod dir;
mod epochs;
mod errors;
mod log;
mod sync;
mod types;
mod validate;
mod view;

pub use config::{CleanupPolicy, LogConfig, StoredCompression, TimestampKind};
pub use dir::{CleanShutdown, DirOwner, LogDir, LogDirError, MetaProperties, PartitionDir};
pub use epochs::{EpochEnd, EpochHistory, EpochStart};
pub use errors::{
    AppendError, AppendRefusal, LogFault, ReadError, RecordError, RecordFlaw, StaleLeaderEpoch,
};
pub use log::{
    AppendOutcome, Appended, FollowerAppended, LeaderAppend, Log, LogHost, OpenReport, Opening, Origin,
    SyncNeed, TailCut,
};
pub use sync::{SyncJob, Synced};
pub use types::{
    CoordinatorEpoch, DirectoryId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition,
};
pub use validate::{ProduceVersionLimits, check_payload};
pub use view::{AbortedTransaction, Bounds, FileSlice, FirstBatch, ReadView, TimestampedOffset};
