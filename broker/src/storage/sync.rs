//! Threads that make logs durable, one per log directory: a disk that is slow to sync holds nobody up but itself.
//!
//! Must not: touch a log's state; the lane is told.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use metadata::ids::PartitionId;
use partition_log::{SyncJob, Synced};
use tracing::error;

use super::dirs::DirIndex;
use super::lane::{Event, LaneHandle};
use crate::essential;
use crate::metrics::BrokerMetrics;

/// A log to be synced, and whom to tell.
pub struct Sync {
    /// Which log.
    pub partition: PartitionId,
    /// What to do.
    pub job: SyncJob,
    /// Its owner.
    pub lane: LaneHandle,
}

/// The ways to the threads.
#[derive(Debug)]
pub struct SyncThreads {
    senders: Vec<Sender<Sync>>,
}

impl SyncThreads {
    /// Starts one thread for each directory.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(dirs: usize, metrics: &Arc<BrokerMetrics>) -> std::io::Result<SyncThreads> {
        let senders = (0..dirs).map(|index| {
            let (sender, jobs) = std::sync::mpsc::channel();
            let metrics = Arc::clone(metrics);
            essential::thread(format!("sync-{index}"), "sync", move || run(&jobs, &metrics))?;
            std::io::Result::Ok(sender)
        });
        Ok(SyncThreads {
            senders: senders.collect::<Result<_, _>>()?,
        })
    }

    /// None, for a test in which nothing is synced in the background.
    #[cfg(test)]
    pub fn asleep(dirs: usize) -> SyncThreads {
        let senders = (0..dirs).map(|_| std::sync::mpsc::channel().0);
        SyncThreads {
            senders: senders.collect(),
        }
    }

    /// Hands a log over.
    pub fn sync(&self, dir: DirIndex, sync: Sync) {
        // The threads end with the process.
        let _ = self.senders[dir.0].send(sync);
    }
}

fn run(jobs: &Receiver<Sync>, metrics: &BrokerMetrics) {
    for Sync { partition, job, lane } in jobs {
        lane.send(Event::Synced(partition, carry_out(job, metrics)));
    }
}

/// Makes a log durable. Does not return when that fails.
pub fn carry_out(job: SyncJob, metrics: &BrokerMetrics) -> Synced {
    let begun = metrics.clock.now();
    match job.run() {
        Ok(synced) => {
            metrics.syncs.record(metrics.clock.now().since(begun));
            synced
        }
        Err(fault) => end_the_process(&fault),
    }
}

/// After a failed sync nobody knows what is on the disk, and asking again may report a success that is none. Another
/// replica takes over; the log is checked at the next start.
pub fn end_the_process(fault: &partition_log::LogFault) -> ! {
    error!(%fault, "a sync failed; the process ends, for what is on the disk is unknown");
    std::process::abort()
}
