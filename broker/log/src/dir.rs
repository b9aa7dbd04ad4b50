//! A log directory: its lock, its identity, its checkpoints, and the partitions in it.
//!
//! Must not: open logs by itself, or decide what becomes of a partition.

use std::path::{Path, PathBuf};

use crate::types::{DirectoryId, Offset, TopicPartition};
use crate::{LogFault, LogHost, Opening};

/// Whose directory it is, as its `meta.properties` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// The cluster.
    pub cluster_id: String,
    /// The node.
    pub node_id: i32,
    /// The directory.
    pub directory_id: DirectoryId,
}

/// Who opens a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirOwner {
    /// The cluster that it belongs to.
    pub cluster_id: String,
    /// The node.
    pub node_id: i32,
}

/// The marker of a clean shutdown (L-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanShutdown {
    /// Epoch of the broker that shut down; `None` if it did not say.
    pub broker_epoch: Option<i64>,
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
pub struct LogDir {}

impl LogDir {
    /// The identity of a directory without opening it; `None` if it has none yet.
    ///
    /// # Errors
    /// `UnreadableIdentity`, faults of the disk.
    pub fn identity(host: &LogHost, path: &Path) -> Result<Option<MetaProperties>, LogDirError> {
        let _ = (host, path);
        todo!()
    }

    /// Creates the directory if needed, locks it, checks or writes its identity, loads its checkpoints, and takes the
    /// clean-shutdown marker away (L-16).
    ///
    /// # Errors
    /// All of [`LogDirError`].
    pub fn open(host: &LogHost, path: &Path, owner: &DirOwner) -> Result<LogDir, LogDirError> {
        let _ = (host, path, owner);
        todo!()
    }

    /// The directory's id.
    pub fn id(&self) -> DirectoryId {
        todo!()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        todo!()
    }

    /// The marker found at opening; `None` means that its logs must be recovered.
    pub fn clean_shutdown(&self) -> Option<CleanShutdown> {
        todo!()
    }

    /// The partitions in it; those being deleted or set aside are left out.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn partitions(&self) -> Result<Vec<PartitionDir>, LogFault> {
        todo!()
    }

    /// Where the log of a partition is, or would be created.
    pub fn partition_path(&self, partition: &TopicPartition) -> PathBuf {
        let _ = partition;
        todo!()
    }

    /// How to open the log of a partition, from the checkpoints and the marker.
    pub fn opening(&self, partition: &TopicPartition) -> Opening {
        let _ = partition;
        todo!()
    }

    /// Replaces the three checkpoints: recovery points, log starts (only those above the first segment matter, all may
    /// be given), watermarks.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn write_recovery_points(&mut self, points: &[(TopicPartition, Offset)]) -> Result<(), LogFault> {
        let _ = points;
        todo!()
    }

    /// Replaces the log-start checkpoint.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn write_log_starts(&mut self, starts: &[(TopicPartition, Offset)]) -> Result<(), LogFault> {
        let _ = starts;
        todo!()
    }

    /// Replaces the watermark checkpoint.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn write_high_watermarks(&mut self, marks: &[(TopicPartition, Offset)]) -> Result<(), LogFault> {
        let _ = marks;
        todo!()
    }

    /// Marks a clean shutdown (L-24). Last of all, after every log is closed and synced and the checkpoints written.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn mark_clean(&mut self, broker_epoch: i64) -> Result<(), LogFault> {
        let _ = broker_epoch;
        todo!()
    }

    /// Deletes a partition: its directory is renamed at once, so that the name is free; the caller removes the returned
    /// path with [`LogDir::remove`] when no reader needs it any more.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn delete_partition(&mut self, partition: &TopicPartition) -> Result<PathBuf, LogFault> {
        let _ = partition;
        todo!()
    }

    /// Sets a partition aside that the cluster does not know here: renamed, kept, not served (L-22).
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn set_aside_as_stray(&mut self, partition: &TopicPartition) -> Result<PathBuf, LogFault> {
        let _ = partition;
        todo!()
    }

    /// Removes what [`LogDir::delete_partition`] renamed.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn remove(&self, path: &Path) -> Result<(), LogFault> {
        let _ = path;
        todo!()
    }

    /// Paths that an earlier process was deleting and did not finish.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn unfinished_deletions(&self) -> Result<Vec<PathBuf>, LogFault> {
        todo!()
    }
}
