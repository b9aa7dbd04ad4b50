//! Making a log durable away from its owner's thread.
//!
//! The owner hands out a [`SyncJob`], a sync thread runs it, and the owner takes the [`Synced`] back, which moves the
//! recovery point. **A failed sync is fatal**: what is on the disk is then unknown, and asking again may report a
//! success that is none. The shell must end the process. Must not: touch a log's state.

use crate::LogFault;
use crate::types::Offset;

/// Everything of a log that is written and not yet durable, up to one offset.
#[derive(Debug)]
#[must_use = "nothing is durable until the job has run"]
pub struct SyncJob {
    pub(crate) upto: Offset,
}

/// Proof that everything before an offset is durable. Give it to [`crate::Log::synced`].
#[derive(Debug)]
#[must_use = "the recovery point moves only when the log is told"]
pub struct Synced {
    pub(crate) upto: Offset,
}

impl SyncJob {
    /// Everything before this offset becomes durable.
    pub fn upto(&self) -> Offset {
        self.upto
    }

    /// Syncs. Blocks as long as the disk takes; may run on any thread.
    ///
    /// # Errors
    /// The disk's. Fatal: the process must end, see the module.
    pub fn run(self) -> Result<Synced, LogFault> {
        todo!()
    }
}

impl Synced {
    /// Everything before this offset is durable.
    pub fn upto(&self) -> Offset {
        self.upto
    }
}
