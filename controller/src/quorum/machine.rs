//! The state machine as the consensus library sees it: it hands every committed entry to the driver, in order, and
//! keeps the snapshots. It holds no metadata of its own.
//!
//! Must not interpret a batch, and must not answer for an entry before the driver's queue has it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::position;
use super::snapshots::{Dump, Newest, SnapshotFile, Snapshots};
use super::types::{LogId, SnapshotMeta, StoredMembership, TypeConfig};

/// What the quorum committed, in order.
pub enum Committed {
    /// One entry of the log.
    Entry {
        /// Its position.
        position: u64,
        /// Its term.
        term: u64,
        /// The encoded batch in it; `None` for a leader's first entry and for changes of the membership.
        batch: Option<Bytes>,
    },
    /// Everything so far is replaced: the leader's log no longer reached back far enough.
    Replaced {
        /// The last position that it contains.
        position: u64,
        /// The new state.
        dump: Dump,
    },
    /// Asks for the state at exactly this point.
    Capture(oneshot::Sender<Capture>),
}

/// Dumps the state of the moment in which it was made, later and elsewhere.
pub type Capture = Box<dyn FnOnce() -> Dump + Send>;

type Snapshot = openraft::alias::SnapshotOf<TypeConfig, SnapshotFile>;
type Current = Arc<Mutex<Option<(SnapshotMeta, SnapshotFile)>>>;

/// Hands on what is committed.
pub struct Machine {
    applied: Option<LogId>,
    membership: StoredMembership,
    driver: mpsc::UnboundedSender<Committed>,
    snapshots: Snapshots,
    current: Current,
    /// Bytes of batches applied since the last snapshot, for the policy.
    since_snapshot: Arc<AtomicU64>,
}

impl Machine {
    /// Starts from the newest snapshot, whose dump is returned for the driver.
    pub fn new(
        snapshots: Snapshots,
        newest: Option<Newest>,
        driver: mpsc::UnboundedSender<Committed>,
    ) -> (Machine, Option<Dump>) {
        let (current, dump) = match newest {
            None => (None, None),
            Some((meta, file, dump)) => (Some((meta, file)), Some(dump)),
        };
        let meta = current.as_ref().map(|(meta, _)| meta.clone()).unwrap_or_default();
        let machine = Machine {
            applied: meta.last_log_id,
            membership: meta.last_membership,
            driver,
            snapshots,
            current: Arc::new(Mutex::new(current)),
            since_snapshot: Arc::new(AtomicU64::new(0)),
        };
        (machine, dump)
    }

    /// What the newest snapshot stands for.
    pub fn snapshot_end(&self) -> Option<LogId> {
        self.current
            .lock()
            .as_ref()
            .and_then(|(meta, _)| meta.last_log_id)
    }

    /// Counts bytes of batches applied since the last snapshot.
    pub fn since_snapshot(&self) -> Arc<AtomicU64> {
        self.since_snapshot.clone()
    }

    fn hand_on(&self, committed: Committed) -> io::Result<()> {
        self.driver
            .send(committed)
            .map_err(|_| io::Error::other("the driver has ended"))
    }

    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
        }
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let batch = match entry.payload {
                EntryPayload::Blank => None,
                EntryPayload::Normal(proposal) => {
                    let size_bytes = proposal.0.len() as u64;
                    self.since_snapshot.fetch_add(size_bytes, Ordering::Relaxed);
                    Some(proposal.0)
                }
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(entry.log_id), membership);
                    None
                }
            };
            self.hand_on(Committed::Entry {
                position: position(Some(entry.log_id)),
                term: entry.log_id.leader_id.term,
                batch,
            })?;
            self.applied = Some(entry.log_id);
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let (tx, captured) = oneshot::channel();
        // A driver that has ended shows when the snapshot is built.
        let _ = self.hand_on(Committed::Capture(tx));
        Builder {
            meta: self.meta(),
            captured: Some(captured),
            snapshots: self.snapshots.clone(),
            current: self.current.clone(),
            since_snapshot: self.since_snapshot.clone(),
        }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotFile,
    ) -> Result<(), io::Error> {
        let (snapshots, named) = (self.snapshots.clone(), meta.clone());
        let adopting = move || {
            let (_, dump) = snapshots.read(&snapshot.path)?;
            Ok((snapshots.adopt(&named, &snapshot.path)?, dump))
        };
        let (file, dump) = self.snapshots.blocking(adopting).await?;
        let position = position(meta.last_log_id);
        self.hand_on(Committed::Replaced { position, dump })?;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        *self.current.lock() = Some((meta.clone(), file));
        self.since_snapshot.store(0, Ordering::Relaxed);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        let current = self.current.lock().clone();
        Ok(current.map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}

/// Builds one snapshot off the apply path, from the state captured when it was ordered.
pub struct Builder {
    meta: SnapshotMeta,
    captured: Option<oneshot::Receiver<Capture>>,
    snapshots: Snapshots,
    current: Current,
    since_snapshot: Arc<AtomicU64>,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let ended = || io::Error::other("the driver has ended");
        let captured = self.captured.take().ok_or_else(ended)?;
        let capture = captured.await.map_err(|_| ended())?;
        let (snapshots, meta) = (self.snapshots.clone(), self.meta.clone());
        self.since_snapshot.store(0, Ordering::Relaxed);
        let writing = move || snapshots.write(&meta, &capture());
        let snapshot = self.snapshots.blocking(writing).await?;
        let mut current = self.current.lock();
        // A snapshot installed meanwhile may stand for more.
        if current
            .as_ref()
            .is_none_or(|(held, _)| held.last_log_id < self.meta.last_log_id)
        {
            *current = Some((self.meta.clone(), snapshot.clone()));
        }
        let meta = self.meta.clone();
        Ok(Snapshot { meta, snapshot })
    }
}
