//! A log directory: its lock, its identity, its checkpoints, and the partitions in it.
//!
//! Must not: open logs by itself, or decide what becomes of a partition.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use host::{EntryKind, LockGuard};

use crate::checkpoint::{self, CleanShutdown, MetaProperties};
use crate::types::{DirectoryId, Offset, TopicPartition};
use crate::{LogFault, LogHost, Opening};

/// Who opens a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirOwner {
    /// The cluster that it belongs to.
    pub cluster_id: String,
    /// The node.
    pub node_id: i32,
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogDirError {
    /// Another process has it open.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The lock file.
        path: PathBuf,
    },
    /// It belongs to another cluster.
    #[error("{} belongs to cluster {held}, not to {given}", path.display())]
    OtherCluster {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        held: String,
        /// Who asked.
        given: String,
    },
    /// It belongs to another node.
    #[error("{} belongs to node {held}, not to {given}", path.display())]
    OtherNode {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        held: i32,
        /// Who asked.
        given: i32,
    },
    /// Its `meta.properties` cannot be understood.
    #[error("{}: {what}", path.display())]
    UnreadableIdentity {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The machine failed.
    #[error(transparent)]
    Fault(#[from] LogFault),
}

/// A partition's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDir {
    /// Whose log it is.
    pub partition: TopicPartition,
    /// Where it is.
    pub path: PathBuf,
}

/// An open and locked log directory.
#[derive(Debug)]
pub struct LogDir {
    host: LogHost,
    path: PathBuf,
    meta: MetaProperties,
    clean_shutdown: Option<CleanShutdown>,
    /// As the checkpoints on the disk say, these three; a recovery point that was only noted is higher here than there, and
    /// never lower.
    recovery_points: BTreeMap<TopicPartition, Offset>,
    log_starts: BTreeMap<TopicPartition, Offset>,
    high_watermarks: BTreeMap<TopicPartition, Offset>,
    _lock: LockGuard,
}

const META_PROPERTIES: &str = "meta.properties";
const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
const LOG_STARTS: &str = "log-start-offset-checkpoint";
const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
const LOCK: &str = ".lock";
const DELETED: &str = "-delete";
const STRAY: &str = "-stray";
/// A directory name with its suffix stays under what file systems allow.
const NAME_BYTES_MAX: usize = 255;

impl LogDir {
    /// The identity of a directory without opening it; `None` if it has none yet.
    ///
    /// # Errors
    /// `UnreadableIdentity`, faults of the disk.
    pub fn identity(host: &LogHost, path: &Path) -> Result<Option<MetaProperties>, LogDirError> {
        let file = path.join(META_PROPERTIES);
        let Some(bytes) = read_if_there(host, &file)? else {
            return Ok(None);
        };
        let unreadable = |what| LogDirError::UnreadableIdentity {
            path: file.clone(),
            what,
        };
        let text = String::from_utf8(bytes).map_err(|_| unreadable("not UTF-8".to_owned()))?;
        checkpoint::parse_meta_properties(&text)
            .map(Some)
            .map_err(unreadable)
    }

    /// Creates the directory if needed, locks it, checks or writes its identity, and loads its checkpoints. Logs in it may
    /// be opened after [`LogDir::take_into_use`].
    ///
    /// # Errors
    /// All of [`LogDirError`].
    pub fn open(host: &LogHost, path: &Path, owner: &DirOwner) -> Result<LogDir, LogDirError> {
        let disk = &*host.disk;
        disk.create_dir_all(path).map_err(LogFault::io("create", path))?;
        let lock = path.join(LOCK);
        let guard = match disk.lock(&lock) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(LogDirError::InUse {
                    path: path.to_owned(),
                });
            }
            taken => taken.map_err(LogFault::io("lock", &lock))?,
        };
        let meta = match LogDir::identity(host, path)? {
            Some(meta) => checked(path, meta, owner)?,
            None => new_identity(host, path, owner)?,
        };
        let marker = path.join(CLEAN_SHUTDOWN);
        let clean_shutdown = read_if_there(host, &marker)?
            .map(|bytes| checkpoint::parse_clean_shutdown(&String::from_utf8_lossy(&bytes)));
        Ok(LogDir {
            host: host.clone(),
            path: path.to_owned(),
            meta,
            clean_shutdown,
            recovery_points: read_offsets(host, &path.join(RECOVERY_POINTS))?,
            log_starts: read_offsets(host, &path.join(LOG_STARTS))?,
            high_watermarks: read_offsets(host, &path.join(HIGH_WATERMARKS))?,
            _lock: guard,
        })
    }

    /// Takes the clean-shutdown marker away (L-16). Apart from [`LogDir::open`], since a start that goes no further, because
    /// another directory cannot be used, must not cost all logs their mark.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn take_into_use(&mut self) -> Result<(), LogFault> {
        if self.clean_shutdown.is_none() {
            return Ok(());
        }
        let marker = self.path.join(CLEAN_SHUTDOWN);
        let disk = &*self.host.disk;
        disk.remove_file(&marker)
            .map_err(LogFault::io("remove", &marker))?;
        disk.sync_dir(&self.path)
            .map_err(LogFault::io("sync", &self.path))
    }

    /// The directory's id.
    pub fn id(&self) -> DirectoryId {
        self.meta.directory_id
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The marker found at opening; `None` means that its logs must be recovered.
    pub fn clean_shutdown(&self) -> Option<&CleanShutdown> {
        self.clean_shutdown.as_ref()
    }

    /// The partitions in it; those being deleted or set aside are left out.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn partitions(&self) -> Result<Vec<PartitionDir>, LogFault> {
        let partition = |name: &String| TopicPartition::parse(name);
        let dirs = self.directories()?;
        Ok(dirs
            .iter()
            .filter_map(|name| {
                Some(PartitionDir {
                    partition: partition(name)?,
                    path: self.path.join(name),
                })
            })
            .collect())
    }

    /// Where the log of a partition is, or would be created.
    pub fn partition_path(&self, partition: &TopicPartition) -> PathBuf {
        self.path.join(partition.to_string())
    }

    /// How to open the log of a partition, from the checkpoints and the marker.
    pub fn opening(&self, partition: &TopicPartition) -> Opening {
        let of =
            |offsets: &BTreeMap<TopicPartition, Offset>| offsets.get(partition).copied().unwrap_or_default();
        let recover_from = match self.clean_shutdown.is_some() {
            true => None,
            false => Some(of(&self.recovery_points)),
        };
        Opening {
            recover_from,
            log_start: of(&self.log_starts),
            high_watermark: of(&self.high_watermarks),
        }
    }

    /// The recovery point that the checkpoint holds.
    pub fn recovery_point(&self, partition: &TopicPartition) -> Option<Offset> {
        self.recovery_points.get(partition).copied()
    }

    /// The log start that the checkpoint holds.
    pub fn log_start(&self, partition: &TopicPartition) -> Option<Offset> {
        self.log_starts.get(partition).copied()
    }

    /// The watermark that the checkpoint holds.
    pub fn high_watermark(&self, partition: &TopicPartition) -> Option<Offset> {
        self.high_watermarks.get(partition).copied()
    }

    /// Lowers one recovery point in the checkpoint, at once; the others stay. Owed before a cut (see
    /// [`crate::Log::truncate_to`]). Nothing happens when the checkpoint does not hold a higher one.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn lower_recovery_point(&mut self, partition: &TopicPartition, to: Offset) -> Result<(), LogFault> {
        let held = self.recovery_points.get(partition).copied();
        let Some(held) = held.filter(|held| to < *held) else {
            return Ok(());
        };
        self.recovery_points.insert(partition.clone(), to);
        let written = self.write_offsets(RECOVERY_POINTS, &self.recovery_points);
        if written.is_err() {
            // What could not be written is still owed.
            self.recovery_points.insert(partition.clone(), held);
        }
        written
    }

    /// Takes note of a recovery point without writing it down. Nothing happens when a higher one is held: to lower it is owed
    /// to the disk (see [`LogDir::lower_recovery_point`]), and would count as done.
    pub fn note_recovery_point(&mut self, partition: &TopicPartition, point: Offset) {
        let held = self.recovery_points.entry(partition.clone()).or_insert(point);
        *held = point.max(*held);
    }

    /// Writes down the recovery points as they are known.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn write_noted_recovery_points(&self) -> Result<(), LogFault> {
        self.write_offsets(RECOVERY_POINTS, &self.recovery_points)
    }

    /// Forgets, at once, what the checkpoints hold of a partition. Owed before a log is created under a name that an
    /// earlier one had, and when a log begins anew at a lower start: it would be cut, or trusted, as that one. Nothing
    /// happens when they hold nothing.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn forget(&mut self, partition: &TopicPartition) -> Result<(), LogFault> {
        self.forget_in(RECOVERY_POINTS, |dir| &mut dir.recovery_points, partition)?;
        self.forget_in(LOG_STARTS, |dir| &mut dir.log_starts, partition)?;
        self.forget_in(HIGH_WATERMARKS, |dir| &mut dir.high_watermarks, partition)
    }

    /// What could not be written down is still there, and is tried again by the next one who asks.
    fn forget_in(
        &mut self,
        name: &str,
        offsets: fn(&mut Self) -> &mut BTreeMap<TopicPartition, Offset>,
        partition: &TopicPartition,
    ) -> Result<(), LogFault> {
        let Some(held) = offsets(self).remove(partition) else {
            return Ok(());
        };
        let rest = offsets(self).clone();
        let written = self.write_offsets(name, &rest);
        if written.is_err() {
            offsets(self).insert(partition.clone(), held);
        }
        written
    }

    /// Replaces the checkpoint of recovery points.
    ///
    /// # Errors
    /// Faults of the disk; it then says what it said before.
    pub fn write_recovery_points(&mut self, points: &[(TopicPartition, Offset)]) -> Result<(), LogFault> {
        self.replace_in(RECOVERY_POINTS, |dir| &mut dir.recovery_points, points)
    }

    /// Replaces the checkpoint of log starts.
    ///
    /// # Errors
    /// Faults of the disk; it then says what it said before.
    pub fn write_log_starts(&mut self, starts: &[(TopicPartition, Offset)]) -> Result<(), LogFault> {
        self.replace_in(LOG_STARTS, |dir| &mut dir.log_starts, starts)
    }

    /// Replaces the checkpoint of watermarks.
    ///
    /// # Errors
    /// Faults of the disk; it then says what it said before.
    pub fn write_high_watermarks(&mut self, marks: &[(TopicPartition, Offset)]) -> Result<(), LogFault> {
        self.replace_in(HIGH_WATERMARKS, |dir| &mut dir.high_watermarks, marks)
    }

    /// What could not be written is not taken for written: a recovery point that must be lowered would count as lowered.
    fn replace_in(
        &mut self,
        name: &str,
        offsets: fn(&mut Self) -> &mut BTreeMap<TopicPartition, Offset>,
        with: &[(TopicPartition, Offset)],
    ) -> Result<(), LogFault> {
        let with: BTreeMap<TopicPartition, Offset> = with.iter().cloned().collect();
        self.write_offsets(name, &with)?;
        *offsets(self) = with;
        Ok(())
    }

    fn write_offsets(&self, name: &str, offsets: &BTreeMap<TopicPartition, Offset>) -> Result<(), LogFault> {
        let path = self.path.join(name);
        host::replace_file(
            &*self.host.disk,
            &path,
            checkpoint::write_offsets(offsets).as_bytes(),
        )
        .map_err(LogFault::io("write", &path))
    }

    /// Marks a clean shutdown (L-24). Last of all, after every log is closed and synced and the checkpoints written.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn mark_clean(&mut self, mark: &CleanShutdown) -> Result<(), LogFault> {
        let path = self.path.join(CLEAN_SHUTDOWN);
        let text = checkpoint::write_clean_shutdown(mark);
        host::replace_file(&*self.host.disk, &path, text.as_bytes()).map_err(LogFault::io("write", &path))
    }

    /// Deletes a partition: its directory is renamed at once, so that the name is free; the caller removes the returned
    /// path with [`LogDir::remove`] when no reader needs it any more. Its lines leave the checkpoints when these are
    /// written next, or with [`LogDir::forget`].
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn delete_partition(&mut self, partition: &TopicPartition) -> Result<PathBuf, LogFault> {
        self.rename_partition(partition, DELETED)
    }

    /// Sets a partition aside that the cluster does not know here: renamed, kept, not served (L-22).
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn set_aside_as_stray(&mut self, partition: &TopicPartition) -> Result<PathBuf, LogFault> {
        self.rename_partition(partition, STRAY)
    }

    fn rename_partition(&mut self, partition: &TopicPartition, suffix: &str) -> Result<PathBuf, LogFault> {
        let unique = format!(
            ".{:016x}{:016x}{suffix}",
            self.host.entropy.next_u64(),
            self.host.entropy.next_u64()
        );
        let mut name = partition.to_string();
        name.truncate(NAME_BYTES_MAX - unique.len());
        let (from, to) = (self.partition_path(partition), self.path.join(name + &unique));
        self.host
            .disk
            .rename(&from, &to)
            .map_err(LogFault::io("rename", &from))?;
        self.host
            .disk
            .sync_dir(&self.path)
            .map_err(LogFault::io("sync", &self.path))?;
        Ok(to)
    }

    /// Removes what [`LogDir::delete_partition`] renamed.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn remove(&self, path: &Path) -> Result<(), LogFault> {
        match self.host.disk.remove_dir_all(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(LogFault::io("remove", path)),
        }
    }

    /// Paths that an earlier process was deleting and did not finish.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn unfinished_deletions(&self) -> Result<Vec<PathBuf>, LogFault> {
        let dirs = self.directories()?;
        Ok(dirs
            .iter()
            .filter(|name| name.ends_with(DELETED))
            .map(|name| self.path.join(name))
            .collect())
    }

    fn directories(&self) -> Result<Vec<String>, LogFault> {
        let entries = self
            .host
            .disk
            .list(&self.path)
            .map_err(LogFault::io("list", &self.path))?;
        Ok(entries
            .into_iter()
            .filter(|e| e.kind == EntryKind::Directory)
            .map(|e| e.name)
            .collect())
    }
}

fn checked(path: &Path, meta: MetaProperties, owner: &DirOwner) -> Result<MetaProperties, LogDirError> {
    if meta.cluster_id != owner.cluster_id {
        let (path, given) = (path.to_owned(), owner.cluster_id.clone());
        return Err(LogDirError::OtherCluster {
            path,
            held: meta.cluster_id,
            given,
        });
    }
    if meta.node_id != owner.node_id {
        let path = path.to_owned();
        return Err(LogDirError::OtherNode {
            path,
            held: meta.node_id,
            given: owner.node_id,
        });
    }
    Ok(meta)
}

fn new_identity(host: &LogHost, path: &Path, owner: &DirOwner) -> Result<MetaProperties, LogDirError> {
    let mut id = [0; 16];
    // The smallest hundred ids are kept for special meanings by Kafka.
    while id[..15] == [0; 15] {
        host.entropy.fill(&mut id);
    }
    let meta = MetaProperties {
        cluster_id: owner.cluster_id.clone(),
        node_id: owner.node_id,
        directory_id: DirectoryId(id),
    };
    let file = path.join(META_PROPERTIES);
    host::replace_file(
        &*host.disk,
        &file,
        checkpoint::write_meta_properties(&meta).as_bytes(),
    )
    .map_err(LogFault::io("write", &file))?;
    Ok(meta)
}

/// A checkpoint that is missing or cannot be understood is empty: what it knew is then found out again (L-17).
fn read_offsets(host: &LogHost, path: &Path) -> Result<BTreeMap<TopicPartition, Offset>, LogFault> {
    let text = read_if_there(host, path)?.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(text
        .and_then(|text| checkpoint::parse_offsets(&text))
        .unwrap_or_default())
}

fn read_if_there(host: &LogHost, path: &Path) -> Result<Option<Vec<u8>>, LogFault> {
    match host.disk.read_file(path, checkpoint::CHECKPOINT_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(LogFault::io("read", path)(e)),
    }
}
