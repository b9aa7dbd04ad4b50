//! The log of one partition, as its one owner sees it.
//!
//! Must not: know who asks, or wait for a disk beyond the one write of an append.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::{Disk, Entropy, WallMs};

use crate::types::{LeaderEpoch, Offset, TopicId};
use crate::{AppendError, Bounds, LogConfig, LogFault, ReadView, SyncJob, Synced};

/// The machine that logs live on.
#[derive(Clone)]
pub struct LogHost {
    /// Where the files are.
    pub disk: Arc<dyn Disk>,
    /// Where the jitter of rolls comes from.
    pub entropy: Arc<dyn Entropy>,
}

/// What is known about a log before it is opened; [`crate::LogDir::opening`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Everything before is trusted and everything behind is checked; `None` after a clean shutdown, when nothing
    /// is (L-16, L-17).
    pub recover_from: Option<Offset>,
    /// First offset that may be read, as last checkpointed (L-20).
    pub log_start: Offset,
    /// Watermark as last checkpointed (L-23).
    pub high_watermark: Offset,
}

/// What opening a log did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Bytes of batches that were checked.
    pub scanned_bytes: u64,
    /// Segments whose indexes were built anew.
    pub rebuilt_segments: u32,
    /// What was cut off, if the tail was bad.
    pub tail_cut: Option<TailCut>,
}

/// A damaged tail that recovery removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailCut {
    /// The log ends here now.
    pub log_end: Offset,
    /// Bytes removed, later segments included.
    pub removed_bytes: u64,
    /// What was wrong.
    pub why: String,
}

/// Who appends as a client of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A producer.
    Client,
    /// A coordinator of this broker, writing to its internal topic.
    Coordinator,
}

/// Around an append at the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderAppend {
    /// Stamped into the batch.
    pub leader_epoch: LeaderEpoch,
    /// The broker's wall clock.
    pub now: WallMs,
    /// Who appends.
    pub origin: Origin,
}

/// Whether an append wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It did.
    Written,
    /// The same batch is in the log already; the offsets are those of the first time (T-2).
    Duplicate,
}

/// When a sync is needed because of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncNeed {
    /// Not because of this.
    None,
    /// Soon, in the background: a segment was rolled (L-15).
    Background,
    /// Before the append is answered (`flush.messages`).
    BeforeAnswer,
}

/// An append at the leader succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub first: Offset,
    /// Offset of the last record.
    pub last: Offset,
    /// The time the answer carries: the broker's for LogAppendTime, the original's for a duplicate, else none.
    pub log_append_time: Option<WallMs>,
    /// First readable offset.
    pub log_start: Offset,
    /// Written or recognised.
    pub outcome: AppendOutcome,
    /// Bytes written.
    pub size_bytes: u32,
    /// Whether to sync.
    pub sync: SyncNeed,
}

/// An append of fetched batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerAppended {
    /// The log ends here now.
    pub log_end: Offset,
    /// Bytes appended; less than given if the tail was cut off or skipped.
    pub size_bytes: u32,
    /// Whether to sync.
    pub sync: SyncNeed,
}

/// The log of one partition.
pub struct Log {}

impl Log {
    /// Creates an empty log in a directory that does not exist yet, and makes its identity durable (L-1).
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn create(host: &LogHost, dir: &Path, config: LogConfig, topic: TopicId) -> Result<Log, LogFault> {
        let _ = (host, dir, config, topic);
        todo!()
    }

    /// Opens the log in a directory, recovering it if need be (L-16 to L-21).
    ///
    /// # Errors
    /// Faults of the disk. Damage is no error: it is cut off and reported.
    pub fn open(
        host: &LogHost,
        dir: &Path,
        config: LogConfig,
        opening: Opening,
        now: WallMs,
    ) -> Result<(Log, OpenReport), LogFault> {
        let _ = (host, dir, config, opening, now);
        todo!()
    }

    /// The topic that the directory belongs to; `None` if its `partition.metadata` is missing or unreadable.
    pub fn topic(&self) -> Option<TopicId> {
        todo!()
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        todo!()
    }

    /// The configuration.
    pub fn config(&self) -> &LogConfig {
        todo!()
    }

    /// Replaces the configuration; it counts from the next append.
    pub fn configure(&mut self, config: LogConfig) {
        let _ = config;
        todo!()
    }

    /// The reading side.
    pub fn view(&self) -> ReadView {
        todo!()
    }

    /// All bounds.
    pub fn bounds(&self) -> Bounds {
        todo!()
    }

    /// First readable offset.
    pub fn log_start(&self) -> Offset {
        todo!()
    }

    /// Behind the last record.
    pub fn log_end(&self) -> Offset {
        todo!()
    }

    /// Everything before is durable.
    pub fn recovery_point(&self) -> Offset {
        todo!()
    }

    /// The newest leader epoch.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        todo!()
    }

    /// Notes that this leader epoch begins at the log end (L-54). Older epochs than the latest change nothing.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn begin_epoch(&mut self, epoch: LeaderEpoch) -> Result<(), LogFault> {
        let _ = epoch;
        todo!()
    }

    /// Validates the one batch in `batch` (what [`crate::check_payload`] returned) in the order, gives
    /// it the next offsets and the leader's epoch, and writes it. Its payload is not copied.
    ///
    /// # Errors
    /// The first rule that it breaks; faults of the disk. The log is then as before.
    pub fn append_as_leader(&mut self, batch: &[u8], append: LeaderAppend) -> Result<Appended, AppendError> {
        let _ = (batch, append);
        todo!()
    }

    /// Appends batches fetched from a leader, with the offsets and epochs they have. A batch that is cut
    /// off at the end is left out, as are all from the first one of an epoch beyond `leader_epoch`.
    ///
    /// # Errors
    /// `NotAtLogEnd`, `Corrupt`; faults of the disk. The log is then as before.
    pub fn append_as_follower(
        &mut self,
        batches: &[u8],
        leader_epoch: LeaderEpoch,
        now: WallMs,
    ) -> Result<FollowerAppended, AppendError> {
        let _ = (batches, leader_epoch, now);
        todo!()
    }

    /// Sets the watermark and the last stable offset that readers see; both at most the log end.
    pub fn publish(&mut self, high_watermark: Offset, last_stable: Offset) {
        let _ = (high_watermark, last_stable);
        todo!()
    }

    /// The last stable offset under a watermark: before the first transaction that is open, or that was decided at or
    /// behind the watermark (F-7).
    pub fn last_stable_below(&self, high_watermark: Offset) -> Offset {
        let _ = high_watermark;
        todo!()
    }

    /// Removes everything from `end` on (F-23). An `end` at or behind the log end changes nothing.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn truncate_to(&mut self, end: Offset) -> Result<(), LogFault> {
        let _ = end;
        todo!()
    }

    /// Removes everything and goes on at `start` (F-24).
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn restart_at(&mut self, start: Offset) -> Result<(), LogFault> {
        let _ = start;
        todo!()
    }

    /// Raises the log start (L-27 to L-29); never lowers it. `to` is at most the watermark.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn raise_log_start(&mut self, to: Offset) -> Result<Offset, LogFault> {
        let _ = to;
        todo!()
    }

    /// What has to be synced to make everything written so far durable; `None` if nothing has.
    ///
    /// # Errors
    /// Faults of the disk: index entries are written first.
    pub fn sync_job(&mut self) -> Result<Option<SyncJob>, LogFault> {
        todo!()
    }

    /// Takes note of a finished sync: the recovery point moves.
    pub fn synced(&mut self, synced: Synced) {
        let _ = synced;
        todo!()
    }

    /// Deletes the segments that retention allows (L-30 to L-33). Their files are renamed; the caller removes the
    /// returned paths after `file.delete.delay.ms`.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn delete_old_segments(&mut self, now: WallMs) -> Result<Vec<PathBuf>, LogFault> {
        let _ = now;
        todo!()
    }

    /// Forgets producers that have been silent for too long (T-9). Returns how many.
    pub fn expire_producers(&mut self, now: WallMs) -> usize {
        let _ = now;
        todo!()
    }

    /// Gives back file handles and cached indexes; the next read or append opens what it needs.
    pub fn release_idle(&mut self) {
        todo!()
    }

    /// Writes everything down for a clean shutdown: producer snapshot, trimmed indexes, epochs. Run the job, then
    /// write the checkpoints and the marker of the directory.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn close(&mut self) -> Result<Option<SyncJob>, LogFault> {
        todo!()
    }
}
