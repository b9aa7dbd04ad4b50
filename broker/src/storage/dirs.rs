//! The log directories of this broker: opened together, checked to belong together, chosen among for new partitions.
//!
//! Must not: open a log. Lanes do, each its own.

mod checkpoints;
mod copies;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use broker_core::names::{self, Lies, Names};
use broker_core::time::Moment;
use host::Clock;
use metadata::ids::{DirectoryId, TopicId};
use parking_lot::Mutex;
use partition_log::{
    DirOwner, Log, LogConfig, LogDir, LogDirError, LogFault, LogHost, Offset, OpenReport, TopicPartition,
};
use tokio::sync::Notify;
use tracing::{debug, error, info, warn};

use self::checkpoints::Cuts;
pub use self::checkpoints::{Loading, Marks};
pub use self::copies::Copies;
use super::faults::Room;
use super::place::Place;
use super::recovery::RecoveryProgress;
use crate::seam;

/// Why the directories cannot be used together.
#[derive(Debug, thiserror::Error)]
pub enum DirsError {
    /// One of them cannot be used.
    #[error(transparent)]
    One(#[from] LogDirError),
    /// Two of them belong to different clusters.
    #[error("{} belongs to cluster {held}, another log directory to {other}", path.display())]
    Divided {
        /// The second one.
        path: PathBuf,
        /// Its cluster.
        held: String,
        /// That of the first one.
        other: String,
    },
    /// It belongs to another node.
    #[error("{} belongs to node {held}, this is node {given}", path.display())]
    OtherNode {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        held: i32,
        /// This node.
        given: i32,
    },
    /// It belongs to another cluster than the configuration says.
    #[error("{} belongs to cluster {held}, cluster.id is {given}", path.display())]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        held: String,
        /// As configured.
        given: String,
    },
    /// Partitions lie in several of them (L-25).
    #[error("{0}")]
    Several(Copies),
}

/// The cluster that the directories say they belong to, if any does. Opens and changes nothing.
///
/// # Errors
/// When they belong to another node, or not to one cluster.
pub fn cluster_of(
    host: &LogHost,
    paths: &[PathBuf],
    node: i32,
    configured: Option<&str>,
) -> Result<Option<String>, DirsError> {
    let mut cluster: Option<String> = None;
    for path in paths {
        let Some(identity) = LogDir::identity(host, path)? else {
            continue;
        };
        if identity.node_id != node {
            return Err(DirsError::OtherNode {
                path: path.clone(),
                held: identity.node_id,
                given: node,
            });
        }
        let held = identity.cluster_id;
        if let Some(given) = configured.filter(|given| *given != held) {
            return Err(DirsError::OtherCluster {
                path: path.clone(),
                held,
                given: given.to_owned(),
            });
        }
        match &cluster {
            Some(other) if *other != held => {
                return Err(DirsError::Divided {
                    path: path.clone(),
                    held,
                    other: other.clone(),
                });
            }
            _ => cluster = Some(held),
        }
    }
    Ok(cluster)
}

/// Place of a directory in the configured list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirIndex(pub usize);

/// A directory as an operator is told of it.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Where it is.
    pub path: PathBuf,
    /// The room on its disk; nothing where the directory, or the question, failed.
    pub space: Option<DiskSpace>,
}

/// The room on a disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskSpace {
    /// Of the whole file system.
    pub total_bytes: u64,
    /// What may still be written.
    pub free_bytes: u64,
}

struct Dir {
    log_dir: Mutex<LogDir>,
    id: DirectoryId,
    path: PathBuf,
    was_clean: bool,
}

/// All log directories, open and locked.
pub struct Dirs {
    host: LogHost,
    clock: Arc<dyn Clock>,
    dirs: Vec<Dir>,
    /// Where each partition lies.
    placed: Mutex<BTreeMap<TopicPartition, DirIndex>>,
    /// Names change hands only under this lock; it comes before all others.
    owners: Mutex<Names<TopicPartition>>,
    /// Taken after a directory's lock.
    cuts: Mutex<Cuts>,
    failed: Mutex<Vec<DirIndex>>,
    another_failed: Notify,
    /// By directory.
    rooms: Mutex<Vec<Room>>,
    /// A log was found where the controller does not look for it.
    is_any_misplaced: AtomicBool,
    /// What a directory lacks to be marked clean.
    missing: Mutex<BTreeSet<(DirIndex, &'static str)>>,
    /// Of logs that were not closed in order.
    recovery: Arc<RecoveryProgress>,
    /// When the checkpoint of recovery points was last written because logs had been recovered.
    recovery_written_ms: AtomicI64,
}

impl std::fmt::Debug for Dirs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.dirs.iter().map(|dir| &dir.path))
            .finish()
    }
}

impl Dirs {
    /// Opens and locks all of them.
    ///
    /// # Errors
    /// When one cannot be used, or partitions lie in several.
    pub fn open(
        host: LogHost,
        clock: Arc<dyn Clock>,
        paths: &[PathBuf],
        owner: &DirOwner,
    ) -> Result<Dirs, DirsError> {
        let mut dirs: Vec<Dir> = Vec::new();
        let mut found: BTreeMap<TopicPartition, Vec<DirIndex>> = BTreeMap::new();
        for path in paths {
            let log_dir = LogDir::open(&host, path, owner)?;
            let index = DirIndex(dirs.len());
            for one in log_dir.partitions().map_err(LogDirError::Fault)? {
                found.entry(one.partition).or_default().push(index);
            }
            dirs.push(Dir {
                id: seam::directory_to_image(log_dir.id()),
                path: path.clone(),
                was_clean: log_dir.clean_shutdown().is_some(),
                log_dir: Mutex::new(log_dir),
            });
        }
        let placed = copies::one_each(&host, paths, found, clock.wall())?;
        // All of them can be used: from here on something is changed.
        for dir in &dirs {
            dir.log_dir.lock().take_into_use().map_err(LogDirError::Fault)?;
        }
        let is_unclean = |dir: &DirIndex| !dirs[dir.0].was_clean;
        let to_recover = placed.values().filter(|dir| is_unclean(dir)).count();
        Ok(Dirs {
            host,
            clock,
            recovery: Arc::new(RecoveryProgress::of(to_recover)),
            recovery_written_ms: AtomicI64::new(0),
            rooms: Mutex::new(vec![Room::default(); dirs.len()]),
            missing: Mutex::default(),
            is_any_misplaced: AtomicBool::new(false),
            dirs,
            placed: Mutex::new(placed),
            owners: Mutex::default(),
            cuts: Mutex::default(),
            failed: Mutex::default(),
            another_failed: Notify::new(),
        })
    }

    /// The directories' ids, in the configured order.
    pub fn ids(&self) -> Vec<DirectoryId> {
        self.dirs.iter().map(|dir| dir.id).collect()
    }

    /// The id of one.
    pub fn id(&self, dir: DirIndex) -> DirectoryId {
        self.dirs[dir.0].id
    }

    /// Every directory as it is now. Asks the disks.
    pub fn standings(&self) -> Vec<(DirIndex, Standing)> {
        let failed = self.failed.lock().clone();
        let standing = |(index, dir): (usize, &Dir)| {
            let works = !failed.contains(&DirIndex(index));
            let space = works.then(|| self.space(&dir.path)).flatten();
            let path = dir.path.clone();
            (DirIndex(index), Standing { path, space })
        };
        self.dirs.iter().enumerate().map(standing).collect()
    }

    fn space(&self, path: &Path) -> Option<DiskSpace> {
        let disk = &self.host.disk;
        Some(DiskSpace {
            total_bytes: disk.total_bytes(path).ok()?,
            free_bytes: disk.free_bytes(path).ok()?,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.dirs.len()
    }

    /// `what` could not be done, to `whom`. The one place where a fault of the disk is told, and where a directory fails
    /// because of it (L-55). A full disk is no failure: what was to be written is refused, and that is told once a minute.
    pub fn report(&self, dir: DirIndex, what: &'static str, whom: &dyn Display, fault: &LogFault) {
        let directory = self.dirs[dir.0].path.display();
        if let LogFault::DiskFull { .. } = fault {
            match self.rooms.lock()[dir.0].refused(self.now()) {
                Some(refused) => error!(%directory, refused, last = what, %whom, %fault,
                    "the disk is full: writes are refused until there is room"),
                None => debug!(%directory, what, %whom, %fault, "refused on a full disk"),
            }
            return;
        }
        if self.has_failed(dir) {
            debug!(%directory, what, %whom, %fault, "in a directory that failed");
            return;
        }
        match fault.fails_directory() {
            true => {
                error!(what, %whom, %fault, "the disk failed");
                self.fail(dir);
            }
            false => error!(what, %whom, %fault, "the disk holds something else than was written"),
        }
    }

    /// Something was written there.
    fn written(&self, dir: DirIndex) {
        if self.rooms.lock()[dir.0].written(self.now()) {
            info!(directory = %self.dirs[dir.0].path.display(), "the disk has room again");
        }
    }

    /// A log was not closed in order: the next start looks at it again.
    pub fn was_not_closed(&self, dir: DirIndex) {
        self.missing.lock().insert((dir, "a log"));
    }

    fn now(&self) -> Moment {
        Moment::from_start(Duration::from_nanos(self.clock.now().0))
    }

    /// A directory does not work any more.
    fn fail(&self, dir: DirIndex) {
        let mut failed = self.failed.lock();
        if !failed.contains(&dir) {
            failed.push(dir);
            error!(directory = %self.dirs[dir.0].path.display(), failed = failed.len(), of = self.dirs.len(),
                "a log directory is offline: its replicas stay out of service until the disk works and this broker is \
                restarted");
            self.another_failed.notify_one();
        }
    }

    /// Whether a directory does not work any more.
    pub fn has_failed(&self, dir: DirIndex) -> bool {
        self.failed.lock().contains(&dir)
    }

    /// Those that do not work any more.
    pub fn failed(&self) -> Vec<DirIndex> {
        self.failed.lock().clone()
    }

    /// The directory that holds this partition, or would hold it.
    pub fn holding(&self, partition: &TopicPartition, assigned: DirectoryId) -> DirIndex {
        let known = self.placed.lock().get(partition).copied();
        known.unwrap_or_else(|| self.choose(assigned))
    }

    /// Waits until one more directory does not work any more.
    pub async fn another_failed(&self) {
        self.another_failed.notified().await;
    }

    /// The partitions that lie on the disk.
    pub fn on_disk(&self) -> Vec<TopicPartition> {
        self.placed.lock().keys().cloned().collect()
    }

    /// Opens a partition's log, or creates it: in the directory that the image assigns (R3.80), else in the one that
    /// has the fewest partitions (L-56). One that is found somewhere else stays there, and that is told.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn open_log(
        &self,
        partition: &TopicPartition,
        topic: TopicId,
        assigned: DirectoryId,
        config: LogConfig,
        now: host::WallMs,
    ) -> Result<(Log, DirIndex, OpenReport), LogFault> {
        let mut owners = self.owners.lock();
        let known = self.placed.lock().get(partition).copied();
        if owners.is_taken_from(partition, topic) {
            // The next start removes the files.
            self.take_name(partition, LogDir::delete_partition)?;
        } else if let Some(dir) = known {
            if self.has_failed(dir) {
                return Err(self.offline(dir));
            }
            drop(owners);
            let (path, opening) = {
                let log_dir = self.dirs[dir.0].log_dir.lock();
                (log_dir.partition_path(partition), log_dir.opening(partition))
            };
            let unclean = !self.dirs[dir.0].was_clean;
            if unclean {
                self.recovery.begins(now);
            }
            let (log, report) = Log::open(&self.host, &path, config.clone(), opening, now)?;
            if unclean {
                self.recovery.recovered(report.scanned_bytes, self.clock.wall());
            }
            self.tell(partition, &report);
            owners = self.owners.lock();
            let found = log.topic().map(seam::topic_to_core);
            match names::lies_there(found, log.log_end() == Offset::ZERO, topic) {
                Lies::Own => {
                    owners.opened(partition.clone(), topic);
                    // What is appended to a log that lost its tail is not durable yet. Where a full disk has no room to
                    // write that down, whoever appends owes it.
                    match self.lower_recovery_point(partition, dir, log.recovery_point()) {
                        Err(LogFault::DiskFull { .. }) => {}
                        lowered => lowered?,
                    }
                    self.placed_well(partition, dir, assigned);
                    return Ok((log, dir, report));
                }
                Lies::Bare => {
                    drop(log);
                    if let Some((dir, path)) = self.take_name(partition, LogDir::delete_partition)? {
                        self.remove(dir, &path)?;
                    }
                }
                Lies::Other => {
                    drop(log);
                    warn!(%partition, %topic, "a log of another topic is set aside");
                    self.take_name(partition, LogDir::set_aside_as_stray)?;
                }
            }
        }
        self.create_log(&mut owners, partition, topic, assigned, config, now)
    }

    fn create_log(
        &self,
        owners: &mut Names<TopicPartition>,
        partition: &TopicPartition,
        topic: TopicId,
        assigned: DirectoryId,
        config: LogConfig,
        now: host::WallMs,
    ) -> Result<(Log, DirIndex, OpenReport), LogFault> {
        let dir = self.choose(assigned);
        if self.has_failed(dir) {
            // The assigned one did, as the controller is about to hear, or all of them, and the broker is about to end.
            return Err(self.offline(dir));
        }
        self.forget_marks(partition, dir)?;
        let path = self.dirs[dir.0].log_dir.lock().partition_path(partition);
        let log = Log::create(&self.host, &path, config, seam::topic_to_log(topic), now)?;
        self.placed.lock().insert(partition.clone(), dir);
        owners.opened(partition.clone(), topic);
        Ok((log, dir, OpenReport::default()))
    }

    fn offline(&self, dir: DirIndex) -> LogFault {
        LogFault::Io {
            doing: "use",
            path: self.dirs[dir.0].path.clone(),
            source: std::io::Error::other("the log directory is offline"),
        }
    }

    fn tell(&self, partition: &TopicPartition, report: &OpenReport) {
        if !report.set_aside.is_empty() {
            warn!(%partition, files = ?report.set_aside, "files that are no segments of this log are set aside");
        }
        if let Some(cut) = &report.tail_cut {
            warn!(%partition, log_end = cut.log_end.0, removed_bytes = cut.removed_bytes, why = %cut.why,
                "a damaged tail was cut off");
        } else if 0 < report.scanned_bytes {
            debug!(%partition, scanned_bytes = report.scanned_bytes, "log recovered");
        }
    }

    /// Looks whether a log lies where the controller thinks, and says it where it does not.
    fn placed_well(&self, partition: &TopicPartition, dir: DirIndex, assigned: DirectoryId) {
        let known = self.dirs.iter().find(|dir| dir.id == assigned);
        let path = known.map(|dir| dir.path.as_path());
        let place = Place::of(self.id(dir), assigned, path, self.count());
        place.tell(partition, &self.dirs[dir.0].path);
        if place != Place::Assigned {
            self.is_any_misplaced.store(true, Ordering::Relaxed);
        }
    }

    fn choose(&self, assigned: DirectoryId) -> DirIndex {
        if let Some(index) = self.dirs.iter().position(|dir| dir.id == assigned) {
            return DirIndex(index);
        }
        let failed = self.failed.lock().clone();
        let placed = self.placed.lock();
        let load = |index: usize| placed.values().filter(|dir| dir.0 == index).count();
        let usable = (0..self.dirs.len()).filter(|index| !failed.contains(&DirIndex(*index)));
        DirIndex(usable.min_by_key(|index| load(*index)).unwrap_or(0))
    }

    /// Deletes a partition's files: the name is free at once. Returns what is to be removed later, by
    /// [`Dirs::remove`]; nothing when the name is already another topic's.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn delete(
        &self,
        partition: &TopicPartition,
        topic: TopicId,
    ) -> Result<Option<(DirIndex, PathBuf)>, LogFault> {
        let mut owners = self.owners.lock();
        if !owners.give_up(partition, topic) {
            return Ok(None);
        }
        let taken = self.take_name(partition, LogDir::delete_partition)?;
        self.cuts.lock().since.remove(partition);
        Ok(taken)
    }

    /// Whether the name is this topic's: no later topic has taken it.
    pub fn has_name(&self, partition: &TopicPartition, topic: TopicId) -> bool {
        self.owners.lock().has(partition, topic)
    }

    /// Sets aside what the cluster does not know here (L-22).
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn set_aside(&self, partition: &TopicPartition) -> Result<(), LogFault> {
        let _owners = self.owners.lock();
        self.take_name(partition, LogDir::set_aside_as_stray).map(drop)
    }

    /// Renames a partition's directory, so that its name is free.
    fn take_name(
        &self,
        partition: &TopicPartition,
        rename: fn(&mut LogDir, &TopicPartition) -> Result<PathBuf, LogFault>,
    ) -> Result<Option<(DirIndex, PathBuf)>, LogFault> {
        let Some(dir) = self.placed.lock().remove(partition) else {
            return Ok(None);
        };
        let path = rename(&mut self.dirs[dir.0].log_dir.lock(), partition)?;
        Ok(Some((dir, path)))
    }

    /// Removes what [`Dirs::delete`] renamed.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn remove(&self, dir: DirIndex, path: &Path) -> Result<(), LogFault> {
        self.dirs[dir.0].log_dir.lock().remove(path)
    }

    /// Finishes what an earlier process was deleting.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn finish_deletions(&self) -> Result<(), LogFault> {
        for dir in &self.dirs {
            let log_dir = dir.log_dir.lock();
            for path in log_dir.unfinished_deletions()? {
                log_dir.remove(&path)?;
            }
        }
        Ok(())
    }

    /// The machine that the logs live on.
    pub fn host(&self) -> &LogHost {
        &self.host
    }
}
