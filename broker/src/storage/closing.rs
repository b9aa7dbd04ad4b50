//! Closing the logs of a lane. Syncing them one after the other takes a disk's latency each; side by side the file
//! system makes many durable at once.
//!
//! Must not: hold the files of all logs open at a time.

use parking_lot::Mutex;
use partition_log::{LogFault, SyncJob, Synced};
use tracing::info;

use super::dirs::Marks;
use super::owned::Owned;
use super::shared::Shared;

/// Logs whose files are open at a time. A log that is written to has a handful.
const LOGS_AT_A_TIME: usize = 256;
/// Syncs at a time.
const SYNCS_AT_A_TIME: usize = 8;

/// Closes them all. What could not be closed has no marks.
pub fn close_all(owned: Vec<Owned>, shared: &Shared) -> Vec<Marks> {
    let (count, mut marks) = (owned.len(), Vec::new());
    let mut left = owned.into_iter();
    loop {
        let some: Vec<Owned> = left.by_ref().take(LOGS_AT_A_TIME).collect();
        if some.is_empty() {
            return marks;
        }
        marks.extend(close(some, shared));
        info!(left = left.len(), of = count, "logs are being closed");
    }
}

fn close(mut owned: Vec<Owned>, shared: &Shared) -> Vec<Marks> {
    let mut jobs = Vec::new();
    let mut results: Vec<Result<Option<Synced>, LogFault>> = Vec::new();
    for (at, owned) in owned.iter_mut().enumerate() {
        results.push(owned.close(shared).map(|job| {
            jobs.extend(job.map(|job| (at, job)));
            None
        }));
    }
    for (at, synced) in sync(jobs) {
        results[at] = synced.map(Some);
    }
    let closed = owned.into_iter().zip(results);
    closed
        .filter_map(|(owned, result)| owned.closed(shared, result))
        .collect()
}

type Done = Vec<(usize, Result<Synced, LogFault>)>;

fn sync(jobs: Vec<(usize, SyncJob)>) -> Done {
    let (threads, done) = (SYNCS_AT_A_TIME.min(jobs.len()), Mutex::new(Done::new()));
    let jobs = Mutex::new(jobs.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // Not in the head of the loop: the lock would be held while the job runs.
                    let next = jobs.lock().next();
                    let Some((at, job)) = next else { return };
                    let synced = job.run();
                    done.lock().push((at, synced));
                }
            });
        }
    });
    done.into_inner()
}
