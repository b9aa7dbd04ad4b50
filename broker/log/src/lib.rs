//! Durable ordered batches: the log of one partition in Kafka's own files, over [`host::Disk`].
//!
//! One owner mutates a [`Log`]; any number of readers use its [`ReadView`], which never waits for the owner.
//! A [`LogDir`] is the directory that the partitions' directories lie in, with its lock, identity, checkpoints
//! and clean-shutdown marker. Everything here is synchronous; what must not run on the owner's thread is handed
//! out as a [`SyncJob`].
//!
//! What must never be in it: replicas, in-sync sets, requests, error codes, async, a clock or a file system of
//! its own.

mod aborted;
mod append;
mod checkpoint;
mod config;
mod dir;
pub mod dump;
mod epochs;
mod errors;
mod glance;
mod index;
mod log;
#[cfg(feature = "mutants")]
pub mod mutants;
mod producer_snapshot;
mod producers;
mod recovery;
mod retention;
mod scan;
mod segment;
mod sync;
mod truncate;
mod types;
mod validate;
mod view;

pub use append::{AppendOutcome, Appended, FollowerAppended, LeaderAppend, SyncNeed};
pub use checkpoint::{CleanShutdown, MetaProperties};
pub use config::{CleanupPolicy, LogConfig, StoredCompression, TimestampKind};
pub use dir::{DirOwner, LogDir, LogDirError, PartitionDir};
pub use epochs::{EpochEnd, EpochHistory, EpochStart};
pub use errors::{AppendError, AppendRefusal, LogFault, ReadError, RecordError, RecordFlaw};
pub use glance::Glance;
pub use log::{Log, LogHost};
pub use recovery::{OpenReport, Opening, TailCut};
pub use retention::{DeletedSegment, RetentionRule};
pub use sync::{SyncJob, Synced};
pub use types::{
    CoordinatorEpoch, DirectoryId, IncarnationId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId,
    TopicPartition,
};
pub use validate::{Origin, ProduceVersionLimits, check_payload};
pub use view::{AbortedTransaction, Bounds, FileSlice, FirstBatch, ReadView, TimestampedOffset};
