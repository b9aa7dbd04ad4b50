//! Making a log durable away from its owner's thread.
//!
//! The owner hands out a [`SyncJob`], a sync thread runs it, and the owner takes the [`Synced`] back, which moves the
//! recovery point. **A failed sync is fatal**: what is on the disk is then unknown, and asking again may report a
//! success that is none. The shell must end the process. Must not: touch a log's state.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use host::{Disk, File, OpenHow};

use crate::types::Offset;
use crate::{Log, LogFault};

/// Everything of a log that is written and not yet durable, up to one offset.
#[must_use = "nothing is durable until the job has run"]
pub struct SyncJob {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    handles: Vec<Arc<dyn File>>,
    /// Small files, opened by the job.
    paths: Vec<PathBuf>,
    names: Names,
    upto: Offset,
    timeline: u64,
}

/// Whether names in the directory changed since the last sync began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Names {
    /// They are as they were.
    #[default]
    AsBefore,
    /// Files were created, renamed or removed.
    Changed,
}

/// Proof that everything before an offset is durable. Give it to [`crate::Log::synced`].
#[derive(Clone, Copy, Debug)]
#[must_use = "the recovery point moves only when the log is told"]
pub struct Synced {
    upto: Offset,
    timeline: u64,
}

/// What of a log is not durable, beside the records behind its recovery point.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsynced {
    pub names: Names,
    /// Small files that were written.
    pub paths: Vec<PathBuf>,
}

impl fmt::Debug for SyncJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncJob")
            .field("dir", &self.dir)
            .field("upto", &self.upto)
            .finish_non_exhaustive()
    }
}

impl SyncJob {
    /// Everything before this offset becomes durable, with its index entries.
    pub fn upto(&self) -> Offset {
        self.upto
    }

    /// Syncs. Blocks as long as the disk takes; may run on any thread.
    ///
    /// # Errors
    /// The disk's. Fatal: the process must end, see the module.
    pub fn run(self) -> Result<Synced, LogFault> {
        for handle in &self.handles {
            handle
                .sync_data()
                .map_err(LogFault::io("sync a file of", &self.dir))?;
        }
        for path in &self.paths {
            // Retention or a newer epoch may have removed it meanwhile; then there is nothing to save.
            match self.disk.open(path, OpenHow::Write) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                opened => opened
                    .and_then(|file| file.sync_data())
                    .map_err(LogFault::io("sync", path))?,
            }
        }
        if self.names == Names::Changed {
            self.sync_names()?;
        }
        Ok(Synced {
            upto: self.upto,
            timeline: self.timeline,
        })
    }

    fn sync_names(&self) -> Result<(), LogFault> {
        match self.disk.sync_dir(&self.dir) {
            // The partition was deleted while the job waited.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(LogFault::io("sync", &self.dir)),
        }
    }
}

impl Synced {
    /// Everything before this offset is durable.
    pub fn upto(&self) -> Offset {
        self.upto
    }
}

impl Log {
    /// What has to be synced to make everything written so far durable; `None` if nothing has.
    ///
    /// Index entries are written first. Where a full disk has no room for them, the records become durable all the same,
    /// but the recovery point stays: the next start makes the entries again.
    ///
    /// # Errors
    /// Other faults of the disk.
    pub fn sync_job(&mut self) -> Result<Option<SyncJob>, LogFault> {
        let upto = self.bounds.log_end;
        if self.recovery_point == upto && self.unsynced == Unsynced::default() {
            return Ok(None);
        }
        let first = self
            .segments
            .partition_point(|segment| segment.base <= self.recovery_point);
        let mut handles = Vec::new();
        let mut durable_upto = upto;
        for segment in &self.segments[first.saturating_sub(1)..] {
            match segment.write_indexes_out() {
                Err(LogFault::DiskFull { .. }) => durable_upto = self.recovery_point,
                written => written?,
            }
            handles.extend(segment.unsynced()?);
        }
        let unsynced = std::mem::take(&mut self.unsynced);
        Ok(Some(SyncJob {
            disk: self.host.disk.clone(),
            dir: self.dir.clone(),
            handles,
            paths: unsynced.paths,
            names: unsynced.names,
            upto: durable_upto,
            timeline: self.timeline,
        }))
    }

    /// Takes note of a finished sync: the recovery point moves.
    pub fn synced(&mut self, synced: Synced) {
        // What was cut off and written again since then is not what was synced.
        if synced.timeline == self.timeline && self.recovery_point < synced.upto {
            assert!(
                synced.upto <= self.bounds.log_end,
                "only what is written can be durable"
            );
            self.recovery_point = synced.upto;
        }
    }
}
