//! The one thread (in simulations: task) that owns the store. It drains its queue and merges everything queued into one batch and one sync:
//! group commit is what makes the store fast enough.
//!
//! Order of a commit: lower the floor (if entries go), apply, sync, raise the floor, only then acknowledge. Must not
//! acknowledge anything that a power loss could still take back.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::floor::{Floor, FloorFile};
use super::log_backend::{Batch, COMMITTED, LogBackend, MetaKey, PURGED, VOTE};
use super::types::{LogId, Vote, encode_log_id, encode_vote};

/// A merged batch stops growing here; what is queued behind goes into the next one.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Called once the change is durable, or failed.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// One change to the store.
pub enum Change {
    /// Entries behind the last one.
    Append(Vec<(u64, Bytes)>),
    /// Drops entries from this index on.
    TruncateFrom(u64),
    /// Drops entries up to and with this one.
    Purge(LogId),
    /// The vote given.
    Vote(Vote),
    /// What is known to be committed. A hint: it is written with the next change and waits for none.
    Committed(LogId),
}

struct Job {
    change: Change,
    done: Option<Done>,
}

/// Hands changes to whoever owns the store. Dropping it waits until a thread has ended and the store is closed; a task
/// ends by itself.
pub struct Writer {
    jobs: Option<UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread on a store that was loaded, above its floor.
    ///
    /// # Errors
    /// The operating system's, when it gives no thread.
    pub fn start(backend: impl LogBackend, floor: FloorFile) -> io::Result<Writer> {
        let (jobs, queue) = unbounded_channel();
        let thread = std::thread::Builder::new()
            .name("metadata-log".into())
            .spawn(move || Commits::new(backend, floor).run(queue))?;
        Ok(Writer {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Starts a task in place of the thread, on the runtime's time: every commit takes `latency()`, a new draw each
    /// time, between the write and its sync.
    pub fn start_task(
        backend: impl LogBackend,
        floor: FloorFile,
        latency: impl FnMut() -> Duration + Send + 'static,
    ) -> Writer {
        let (jobs, queue) = unbounded_channel();
        tokio::spawn(Commits::new(backend, floor).run_slowly(queue, latency));
        Writer {
            jobs: Some(jobs),
            thread: None,
        }
    }

    /// Queues a change; `done` is called on the writer's thread.
    pub fn write(&self, change: Change, done: Done) {
        self.send(Job {
            change,
            done: Some(done),
        });
    }

    /// Queues a hint that nobody waits for.
    pub fn note(&self, change: Change) {
        self.send(Job { change, done: None });
    }

    fn send(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("the sender lives until drop");
        if let Err(unsent) = jobs.send(job)
            && let Some(done) = unsent.0.done
        {
            done(Err(io::Error::other("the writer of the metadata log has ended")));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer of the metadata log panicked");
        }
    }
}

struct Commits<B> {
    backend: B,
    floor: FloorFile,
    batch: Batch,
    vote: Option<Vote>,
    waiting: Vec<Done>,
    /// The first failure; everything after it fails alike, for what is on disk is unknown.
    failed: Option<String>,
}

impl<B: LogBackend> Commits<B> {
    fn new(backend: B, floor: FloorFile) -> Self {
        Self {
            backend,
            floor,
            batch: Batch::default(),
            vote: None,
            waiting: Vec::new(),
            failed: None,
        }
    }

    fn run(mut self, mut queue: UnboundedReceiver<Job>) {
        while let Some(job) = queue.blocking_recv() {
            self.gather(job, &mut queue);
            if !self.waiting.is_empty() {
                let written = self.write();
                self.settle(written);
            }
        }
        if !self.batch.is_empty() {
            let written = self.write();
            self.settle(written);
        }
    }

    async fn run_slowly(
        mut self,
        mut queue: UnboundedReceiver<Job>,
        mut latency: impl FnMut() -> Duration + Send,
    ) {
        while let Some(job) = queue.recv().await {
            self.gather(job, &mut queue);
            if !self.waiting.is_empty() {
                let written = self.write();
                tokio::time::sleep(latency()).await;
                self.settle(written);
            }
        }
    }

    /// Takes a job and everything queued behind it, up to a size.
    fn gather(&mut self, job: Job, queue: &mut UnboundedReceiver<Job>) {
        let mut size_bytes = self.take(job);
        while size_bytes < BATCH_BYTES_MAX
            && let Ok(job) = queue.try_recv()
        {
            size_bytes += self.take(job);
        }
    }

    /// Merges a job into the open batch, so that applying the batch is applying its jobs in order.
    fn take(&mut self, job: Job) -> usize {
        let Job { change, done } = job;
        #[cfg(feature = "mutants")]
        let done = match (done, &change) {
            (Some(done), Change::Vote(_)) if crate::mutants::vote_not_synced() => {
                done(Ok(()));
                None
            }
            (done, _) => done,
        };
        let batch = &mut self.batch;
        let mut size_bytes = 0;
        match change {
            Change::Append(entries) => {
                size_bytes = entries.iter().map(|(_, entry)| entry.len()).sum();
                batch.append.extend(entries);
            }
            Change::TruncateFrom(from) => {
                batch.append.retain(|(index, _)| *index < from);
                batch.truncate_from = Some(batch.truncate_from.map_or(from, |other| other.min(from)));
            }
            Change::Purge(upto) => {
                batch.append.retain(|(index, _)| upto.index < *index);
                batch.purge_upto = batch.purge_upto.max(Some(upto.index));
                put_meta(&mut batch.meta, PURGED, encode_log_id(&upto));
            }
            Change::Vote(vote) => {
                put_meta(&mut batch.meta, VOTE, encode_vote(&vote));
                self.vote = Some(vote);
            }
            Change::Committed(committed) => {
                put_meta(&mut batch.meta, COMMITTED, encode_log_id(&committed));
            }
        }
        self.waiting.extend(done);
        size_bytes
    }

    /// Writes what was gathered; not durable yet.
    fn write(&mut self) -> io::Result<Floor> {
        let batch = std::mem::take(&mut self.batch);
        let vote = self.vote.take();
        #[cfg(feature = "mutants")]
        if crate::mutants::commit_before_sync() {
            self.waiting.drain(..).for_each(|done| done(Ok(())));
        }
        if let Some(why) = &self.failed {
            return Err(io::Error::other(why.clone()));
        }
        let mut floor = self.floor.held().clone();
        if let Some(from) = batch.truncate_from
            && floor.index.is_some_and(|index| from <= index)
        {
            // First the promise goes, then what it was about: the other way round a crash in between would look
            // like damage.
            floor.index = from.checked_sub(1);
            self.floor.set(floor.clone())?;
        }
        self.backend.apply(&batch)?;
        let last = batch.append.last().map(|(index, _)| *index);
        Ok(Floor {
            vote: vote.or(floor.vote),
            index: floor.index.max(last).max(batch.purge_upto),
        })
    }

    /// Makes it durable, raises the floor, and tells everybody who waits.
    fn settle(&mut self, written: io::Result<Floor>) {
        let result = written.and_then(|floor| {
            self.backend.sync()?;
            self.floor.set(floor)
        });
        if let Err(fault) = &result
            && self.failed.is_none()
        {
            tracing::error!(%fault, "the metadata log cannot be written");
            self.failed = Some(fault.to_string());
        }
        for done in self.waiting.drain(..) {
            done(match &result {
                Ok(()) => Ok(()),
                Err(fault) => Err(io::Error::new(fault.kind(), fault.to_string())),
            });
        }
    }
}

fn put_meta(meta: &mut Vec<(MetaKey, Bytes)>, key: MetaKey, value: Bytes) {
    match meta.iter_mut().find(|(name, _)| *name == key) {
        Some((_, held)) => *held = value,
        None => meta.push((key, value)),
    }
}
