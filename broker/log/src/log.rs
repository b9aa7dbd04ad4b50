//! The log of one partition, as its one owner sees it: its parts, its bounds, and what readers get to see.
//!
//! Appending, recovering, cutting, deleting and syncing are in modules of their own. Must not: know who asks, or wait
//! for a disk beyond the one write of an append.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use host::{Disk, Entropy, OpenHow, WallMs};

use crate::checkpoint;
use crate::epochs::{EpochChange, EpochHistory};
use crate::producer_snapshot;
use crate::producers::Producers;
use crate::segment::{FileSizes, Segment, file_name};
use crate::sync::{Names, Unsynced};
use crate::types::{LeaderEpoch, Offset, TopicId};
use crate::view::Snapshot;
use crate::{Bounds, LogConfig, LogFault, ReadView, SyncJob};

/// The machine that logs live on.
#[derive(Clone)]
pub struct LogHost {
    /// Where the files are.
    pub disk: Arc<dyn Disk>,
    /// Where the jitter of rolls comes from.
    pub entropy: Arc<dyn Entropy>,
}

impl std::fmt::Debug for LogHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogHost")
            .field("disk", &self.disk)
            .finish_non_exhaustive()
    }
}

/// The log of one partition.
pub struct Log {
    pub(crate) host: LogHost,
    pub(crate) dir: PathBuf,
    pub(crate) config: LogConfig,
    pub(crate) topic: Option<TopicId>,
    /// Oldest first, never empty; the last one is being written.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) active: Active,
    pub(crate) bounds: Bounds,
    /// Everything before is durable.
    pub(crate) recovery_point: Offset,
    pub(crate) epochs: Arc<EpochHistory>,
    epochs_file: EpochsFile,
    pub(crate) producers: Producers,
    /// The newest snapshot of the producers stands at this offset.
    pub(crate) snapshot_at: Option<Offset>,
    pub(crate) unsynced: Unsynced,
    /// Raised when something is cut off: what was synced before then says nothing about what comes after.
    pub(crate) timeline: u64,
    identity: Identity,
    pub(crate) published: Arc<ArcSwap<Snapshot>>,
}

/// How safe it is whose directory this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    /// A power loss may take it, and with it nothing else.
    Written,
    Durable,
}

/// What `leader-epoch-checkpoint` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochsFile {
    /// Every epoch, or at least every one that has a record.
    Current,
    /// It lacks the newest epoch, which has no record yet, or what a full disk had no room for.
    Behind,
}

/// What the owner knows about the segment that is being written.
#[derive(Debug)]
pub(crate) struct Active {
    /// Bytes since the last index entry.
    pub since_index: u32,
    pub age_from: AgeFrom,
    /// When this process began to write it.
    pub created: WallMs,
    /// Taken off the time after which it is rolled.
    pub jitter_ms: u64,
    /// Bytes of a failed write may stand behind its end.
    pub torn: bool,
}

/// What the age of a segment is counted from (L-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgeFrom {
    /// Its first batch was not looked at yet.
    Unknown,
    /// It has none.
    Empty,
    /// The largest time of its first batch.
    Record(i64),
}

impl Active {
    pub(crate) fn new(host: &LogHost, config: &LogConfig, age_from: AgeFrom, created: WallMs) -> Active {
        let jitter_ms = host
            .entropy
            .below(config.segment_jitter_ms.min(config.segment_ms));
        Active {
            since_index: 0,
            age_from,
            created,
            jitter_ms,
            torn: false,
        }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("dir", &self.dir)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Creates an empty log in a directory that does not exist yet. Its identity becomes durable before the first append
    /// (L-1): a topic may have thousands of partitions, and a sync for each would take minutes.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn create(
        host: &LogHost,
        dir: &Path,
        config: LogConfig,
        topic: TopicId,
        now: WallMs,
    ) -> Result<Log, LogFault> {
        let disk = &*host.disk;
        disk.create_dir_all(dir).map_err(LogFault::io("create", dir))?;
        let identity = dir.join(PARTITION_METADATA);
        write_whole(disk, &identity, checkpoint::write_topic(topic).as_bytes())?;
        let first = new_segment(host, dir, Offset::ZERO)?;
        let active = Active::new(host, &config, AgeFrom::Empty, now);
        Ok(Log::assemble(LogParts {
            host: host.clone(),
            dir: dir.to_owned(),
            config,
            topic: Some(topic),
            segments: vec![first],
            active,
            bounds: Bounds {
                log_start: Offset::ZERO,
                last_stable: Offset::ZERO,
                high_watermark: Offset::ZERO,
                log_end: Offset::ZERO,
            },
            recovery_point: Offset::ZERO,
            epochs: EpochHistory::default(),
            epochs_file: EpochsFile::Current,
            producers: Producers::default(),
            snapshot_at: None,
            names: Names::Changed,
        }))
    }

    /// Makes durable whose directory it is, where nothing was written into it yet.
    pub(crate) fn save_identity(&mut self) -> Result<(), LogFault> {
        if self.identity == Identity::Durable {
            return Ok(());
        }
        let disk = &*self.host.disk;
        let path = self.dir.join(PARTITION_METADATA);
        match disk.open(&path, OpenHow::Write) {
            // Of a directory that an earlier version of this program, or somebody else, made.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            opened => opened
                .and_then(|file| file.sync_data())
                .map_err(LogFault::io("sync", &path))?,
        }
        disk.sync_dir(&self.dir)
            .map_err(LogFault::io("sync", &self.dir))?;
        if let Some(parent) = self.dir.parent() {
            disk.sync_dir(parent).map_err(LogFault::io("sync", parent))?;
        }
        self.identity = Identity::Durable;
        Ok(())
    }

    pub(crate) fn assemble(parts: LogParts) -> Log {
        let epochs = Arc::new(parts.epochs);
        // Whatever has a record had its identity made durable before.
        let identity = match parts.segments.iter().all(|segment| segment.size() == 0) {
            true => Identity::Written,
            false => Identity::Durable,
        };
        let end_position = parts.segments[parts.segments.len() - 1].size();
        let snapshot = Snapshot {
            segments: parts.segments.clone().into(),
            bounds: parts.bounds,
            end_position,
            epochs: epochs.clone(),
        };
        Log {
            host: parts.host,
            dir: parts.dir,
            config: parts.config,
            topic: parts.topic,
            segments: parts.segments,
            active: parts.active,
            bounds: parts.bounds,
            recovery_point: parts.recovery_point,
            epochs,
            epochs_file: parts.epochs_file,
            producers: parts.producers,
            unsynced: Unsynced {
                names: parts.names,
                paths: Vec::new(),
            },
            snapshot_at: parts.snapshot_at,
            timeline: 0,
            identity,
            published: Arc::new(ArcSwap::from_pointee(snapshot)),
        }
    }

    /// The topic that the directory belongs to; `None` if its `partition.metadata` is missing or unreadable.
    pub fn topic(&self) -> Option<TopicId> {
        self.topic
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The configuration.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Replaces the configuration; it counts from the next append.
    pub fn configure(&mut self, config: LogConfig) {
        self.config = config;
    }

    /// The reading side.
    pub fn view(&self) -> ReadView {
        ReadView {
            current: self.published.clone(),
        }
    }

    /// All bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// First readable offset.
    pub fn log_start(&self) -> Offset {
        self.bounds.log_start
    }

    /// Behind the last record.
    pub fn log_end(&self) -> Offset {
        self.bounds.log_end
    }

    /// Everything before is durable.
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// The newest leader epoch.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.latest()
    }

    /// Notes that this leader epoch begins at the log end (L-54). An epoch that is not newer than the latest changes
    /// nothing. Readers see it at once; the file is told with the first record of the epoch. An epoch without a record is
    /// forgotten by a restart anyway (L-20), and a broker may begin to lead thousands of logs in one moment.
    pub fn begin_epoch(&mut self, epoch: LeaderEpoch) {
        if let Some(epochs) = self.epochs_with(epoch, self.bounds.log_end) {
            self.epochs = Arc::new(epochs);
            self.epochs_file = EpochsFile::Behind;
            self.publish_now();
        }
    }

    /// Makes sure that the file has an epoch before its first record is written, whether it began with
    /// [`Log::begin_epoch`] or begins with this record.
    pub(crate) fn write_epoch(&mut self, epoch: LeaderEpoch, start: Offset) -> Result<(), LogFault> {
        match (self.epochs_with(epoch, start), self.epochs_file) {
            (Some(epochs), _) => self.replace_epochs(epochs),
            (None, EpochsFile::Behind) => self.replace_epochs((*self.epochs).clone()),
            (None, EpochsFile::Current) => Ok(()),
        }
    }

    /// The history with one more epoch, if it is newer than all of them.
    fn epochs_with(&self, epoch: LeaderEpoch, start: Offset) -> Option<EpochHistory> {
        if self.epochs.latest().is_some_and(|latest| epoch <= latest) {
            return None;
        }
        let mut epochs = (*self.epochs).clone();
        (epochs.assign(epoch, start) == EpochChange::Changed).then_some(epochs)
    }

    /// Writes the history down and shows it to readers. It is not synced here: after a power loss it can be built again
    /// from the batches.
    pub(crate) fn replace_epochs(&mut self, epochs: EpochHistory) -> Result<(), LogFault> {
        let path = write_epochs(&*self.host.disk, &self.dir, &epochs)?;
        self.note_unsynced(path);
        self.epochs_file = EpochsFile::Current;
        self.epochs = Arc::new(epochs);
        self.publish_now();
        Ok(())
    }

    /// Shows a history from which the oldest or the newest epochs are gone. Where a full disk has no room for it, the file is
    /// told with the next record: deleting records is what makes room, and a restart forgets what lies before the log's start
    /// and behind its end anyway.
    pub(crate) fn shorten_epochs(&mut self, epochs: EpochHistory) -> Result<(), LogFault> {
        match self.replace_epochs(epochs.clone()) {
            Err(LogFault::DiskFull { .. }) => {
                self.epochs = Arc::new(epochs);
                self.epochs_file = EpochsFile::Behind;
                Ok(())
            }
            done => done,
        }
    }

    pub(crate) fn note_unsynced(&mut self, path: PathBuf) {
        self.unsynced.names = Names::Changed;
        if !self.unsynced.paths.contains(&path) {
            self.unsynced.paths.push(path);
        }
    }

    /// Sets the watermark and the last stable offset that readers see.
    ///
    /// # Panics
    /// If not `last_stable ≤ high_watermark ≤ log_end`: the caller's rules are broken.
    pub fn publish(&mut self, high_watermark: Offset, last_stable: Offset) {
        assert!(
            high_watermark <= self.bounds.log_end,
            "only what is written can be committed"
        );
        assert!(
            last_stable <= high_watermark,
            "only what is committed can be stable"
        );
        self.bounds.high_watermark = high_watermark;
        self.bounds.last_stable = last_stable;
        self.producers.settle(high_watermark);
        self.publish_now();
    }

    /// The last stable offset under a watermark: before the first transaction that is open, or that was decided at or
    /// behind the watermark; at least the log start (F-7).
    pub fn last_stable_below(&self, high_watermark: Offset) -> Offset {
        let unstable = self
            .producers
            .first_unstable(high_watermark)
            .unwrap_or(high_watermark);
        unstable
            .min(high_watermark)
            .max(self.bounds.log_start.min(high_watermark))
    }

    pub(crate) fn publish_now(&self) {
        let shown = self.published.load();
        let same = shown.segments.len() == self.segments.len()
            && shown
                .segments
                .iter()
                .zip(&self.segments)
                .all(|(a, b)| Arc::ptr_eq(a, b));
        let segments = if same {
            shown.segments.clone()
        } else {
            self.segments.clone().into()
        };
        self.published.store(Arc::new(Snapshot {
            segments,
            bounds: self.bounds,
            end_position: self.active_segment().size(),
            epochs: self.epochs.clone(),
        }));
    }

    pub(crate) fn active_segment(&self) -> &Arc<Segment> {
        self.segments.last().expect("a log always has a segment")
    }

    /// Writes the producers down as they are at the log end (T-10).
    pub(crate) fn snapshot_producers(&mut self) -> Result<(), LogFault> {
        let path = self.dir.join(file_name(self.bounds.log_end, ".snapshot"));
        let bytes = producer_snapshot::encode(&self.producers);
        write_whole(&*self.host.disk, &path, &bytes)?;
        self.note_unsynced(path);
        self.snapshot_at = Some(self.bounds.log_end);
        Ok(())
    }

    /// Forgets producers that have been silent for too long (T-9). Returns how many.
    pub fn expire_producers(&mut self, now: WallMs) -> usize {
        self.producers.expire(now, self.config.producer_id_expiration_ms)
    }

    /// Whether a file of a segment is open.
    pub fn holds_files(&self) -> bool {
        self.segments.iter().any(|segment| segment.log.is_open())
    }

    /// Gives back file handles and cached indexes; the next read or append opens what it needs.
    ///
    /// # Errors
    /// Faults of the disk: index entries are written first. Those that a full disk has no room for stay in memory; every
    /// handle is given back all the same.
    pub fn release_idle(&mut self) -> Result<(), LogFault> {
        let mut released = Ok(());
        for segment in &self.segments {
            let unloaded = segment.unload();
            segment.release();
            released = released.and(unloaded);
        }
        released
    }

    /// Writes everything down for a clean shutdown: producers, indexes, epochs. Run the job, tell the log, then write the
    /// checkpoints and the marker of the directory.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn close(&mut self) -> Result<Option<SyncJob>, LogFault> {
        // Without a record and without a producer there is nothing that the next start could read from a snapshot.
        let is_bare = self.bounds.log_end == self.segments[0].base && self.producers.is_empty();
        if self.snapshot_at != Some(self.bounds.log_end) && !is_bare {
            self.snapshot_producers()?;
        }
        for segment in &self.segments {
            segment.unload()?;
        }
        self.sync_job()
    }
}

/// What a log is put together from.
pub(crate) struct LogParts {
    pub host: LogHost,
    pub dir: PathBuf,
    pub config: LogConfig,
    pub topic: Option<TopicId>,
    pub segments: Vec<Arc<Segment>>,
    pub active: Active,
    pub bounds: Bounds,
    pub recovery_point: Offset,
    pub epochs: EpochHistory,
    pub epochs_file: EpochsFile,
    pub producers: Producers,
    pub snapshot_at: Option<Offset>,
    pub names: Names,
}

pub(crate) const PARTITION_METADATA: &str = "partition.metadata";
pub(crate) const EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";

/// An empty segment; files that an earlier process left under its name are emptied.
pub(crate) fn new_segment(host: &LogHost, dir: &Path, base: Offset) -> Result<Arc<Segment>, LogFault> {
    let segment = Segment::without_indexes(&host.disk, dir, base, 0);
    let file = segment.log.get_or_create()?;
    file.set_len(0)
        .map_err(LogFault::io("truncate", segment.log.path()))?;
    for path in &Segment::paths(dir, base)[1..] {
        remove_if_there(&*host.disk, path)?;
    }
    Ok(Arc::new(segment))
}

/// The segment of files that hold what `sizes` says.
pub(crate) fn old_segment(host: &LogHost, dir: &Path, base: Offset, sizes: FileSizes) -> Arc<Segment> {
    Arc::new(Segment::on_disk(&host.disk, dir, base, sizes))
}

pub(crate) fn write_epochs(disk: &dyn Disk, dir: &Path, epochs: &EpochHistory) -> Result<PathBuf, LogFault> {
    let path = dir.join(EPOCH_CHECKPOINT);
    write_whole(disk, &path, checkpoint::write_epochs(epochs.entries()).as_bytes())?;
    Ok(path)
}

/// Replaces a file as a whole for every process on this machine; durable only after a sync.
fn write_whole(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), LogFault> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let write = || {
        let file = disk.open(&temporary, host::OpenHow::CreateOrWrite)?;
        file.set_len(0)?;
        file.write_at(bytes, 0)?;
        drop(file);
        disk.rename(&temporary, path)
    };
    write().map_err(LogFault::io("write", path))
}

pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<(), LogFault> {
    match disk.remove_file(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(LogFault::io("remove", path)),
    }
}
