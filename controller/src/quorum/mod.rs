//! The replicated log under the control plane, and the only place that knows the consensus library and the store.
//!
//! Reading order: [`log_backend`], [`sled_backend`], [`floor`] and `writer` make changes durable; `store` is the log,
//! `machine` what is committed, `snapshots` its short form; `network`, `append_stream` and `service` are the ends of the
//! wire between controllers; `addressing` says who may speak; `founding` starts a cluster and repairs its membership.
//!
//! Must not leave: Raft indexes, and any type of the libraries. Must not enter: what a batch means.

mod addressing;
mod append_stream;
pub mod drill;
pub mod floor;
mod founding;
pub mod log_backend;
mod machine;
pub mod mem_backend;
mod network;
mod service;
pub mod sled_backend;
mod snapshots;
mod standing;
mod store;
mod types;
mod writer;

#[cfg(test)]
mod member_tests;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod suite_tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use host::{Disk, Entropy};
use metadata::ids::Term;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, ForwardReason};
use openraft::impls::ProgressResponder;
use openraft::{Config, SnapshotPolicy};
use parking_lot::Mutex;
use tokio::sync::{RwLock, RwLockReadGuard, mpsc};

pub use addressing::{Addressing, Adopt, Dial, raft_id, wire_id};
pub use founding::{others_lead, who_answers};
pub use machine::{Capture, Committed};
pub use service::server;
pub use snapshots::Dump;
pub use standing::{Member, Progress, Role, Standing};
pub use store::Unusable;

use machine::Machine;
use mem_backend::MemMedium;
use network::Network;
use snapshots::{DiskWork, Newest, Snapshots};
use standing::CaughtUp;
use store::LogStore;
use types::{CommittedLeader, Proposal, Runtime, TypeConfig};
use writer::Writer;

type Raft = openraft::Raft<TypeConfig, Machine>;

/// However long elections may take, leaders speak at least this often.
const HEARTBEAT_MAX: Duration = Duration::from_millis(250);
/// A batch is refused above this (POLICY_VIOLATION).
pub const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Entries that are usually kept behind a snapshot, so that a follower that was away for a moment needs none.
pub const ENTRIES_KEPT: u64 = 5_000;
/// Changes to the snapshot policy's counters are looked at this often.
const POLICY_INTERVAL: Duration = Duration::from_secs(1);

/// How the quorum keeps time, and when it takes snapshots.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Shortest silence after which a follower stands for election.
    pub election_shortest: Duration,
    /// Longest one; a leader that heard no majority for this long is not active.
    pub election_longest: Duration,
    /// A snapshot is due after this many bytes of batches.
    pub snapshot_bytes: u64,
    /// Or this long after the last one, if there is anything new.
    pub snapshot_age: Option<Duration>,
    /// Entries kept behind a snapshot.
    pub entries_kept: u64,
}

/// The files of the quorum.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The store.
    pub store: PathBuf,
    /// The floor under it.
    pub floor: PathBuf,
    /// Its snapshots.
    pub snapshots: PathBuf,
}

impl Layout {
    /// Everything below one folder, for drills.
    #[must_use]
    pub fn below(dir: &Path) -> Layout {
        Layout {
            store: dir.join("raft"),
            floor: dir.join("floor"),
            snapshots: dir.join("snapshots"),
        }
    }
}

/// Store and snapshots, found to be whole.
pub struct Opened {
    store: LogStore,
    snapshots: Snapshots,
    newest: Option<Newest>,
}

impl Opened {
    /// Opens the log on sled, and the snapshots.
    ///
    /// # Errors
    /// [`Unusable`] when they may not be started on; nothing was changed then.
    pub fn at(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<Opened, Unusable> {
        let store = open_log(disk.as_ref(), layout)?;
        let snapshots = Snapshots::open(disk.clone(), &layout.snapshots, DiskWork::Threads)?;
        Opened::whole(store, snapshots)
    }

    /// Opens the log on a store in memory, whose every commit takes a `latency` of the runtime's time, and the
    /// snapshots: without any thread, for simulations.
    ///
    /// # Errors
    /// As [`Opened::at`].
    pub fn in_memory(
        medium: &MemMedium,
        disk: &Arc<dyn Disk>,
        layout: &Layout,
        latency: impl FnMut() -> Duration + Send + 'static,
    ) -> Result<Opened, Unusable> {
        if let Some(dir) = layout.floor.parent() {
            disk.create_dir_all(dir)?;
        }
        let task = |backend, floor| Ok(Writer::start_task(backend, floor, latency));
        let store = LogStore::open_behind(medium.open(), disk.as_ref(), &layout.floor, task)?;
        let snapshots = Snapshots::open(disk.clone(), &layout.snapshots, DiskWork::InPlace)?;
        Opened::whole(store, snapshots)
    }

    fn whole(store: LogStore, snapshots: Snapshots) -> Result<Opened, Unusable> {
        let newest = snapshots.newest()?;
        let end = newest.as_ref().and_then(|(meta, ..)| meta.last_log_id);
        if end < store.purged() {
            return Err(Unusable::Damaged(
                "the log begins behind the newest snapshot that can be read".into(),
            ));
        }
        Ok(Opened {
            store,
            snapshots,
            newest,
        })
    }
}

/// Opens the log on sled.
///
/// # Errors
/// [`Unusable`] when it may not be started on; nothing was changed then.
fn open_log(disk: &dyn Disk, layout: &Layout) -> Result<LogStore, Unusable> {
    if let Some(dir) = layout.store.parent() {
        disk.create_dir_all(dir)?;
    }
    let backend = sled_backend::SledBackend::open(disk, &layout.store)?;
    LogStore::open(backend, disk, &layout.floor)
}

/// What came of a proposal. Anything but a refusal shows in the apply stream, or in the loss of the lead.
pub type Outcome = Box<dyn Future<Output = Result<(), NotProposed>> + Send + Unpin>;

/// A proposal never came into the log, and never will.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not proposed: {0:?}")]
pub struct NotProposed(ForwardReason);

/// One member of the controller quorum.
pub struct Quorum {
    raft: Raft,
    store: LogStore,
    addressing: Arc<Addressing>,
    snapshots: Snapshots,
    since_snapshot: Arc<AtomicU64>,
    timing: Timing,
    entropy: Arc<dyn Entropy>,
    caught_up: Mutex<CaughtUp>,
    /// Whether calls of other controllers still reach the consensus core. Read-held while one does.
    takes_part: RwLock<bool>,
}

impl Quorum {
    /// Starts the member. What is committed goes into `committed`, beginning with what follows the returned dump,
    /// which stands for the log up to the returned position.
    ///
    /// # Errors
    /// When the consensus core does not start.
    pub async fn start(
        opened: Opened,
        addressing: Arc<Addressing>,
        timing: Timing,
        entropy: Arc<dyn Entropy>,
        committed: mpsc::UnboundedSender<Committed>,
    ) -> io::Result<(Arc<Quorum>, Option<(u64, Dump)>)> {
        let Opened {
            store,
            snapshots,
            newest,
        } = opened;
        let (machine, dump) = Machine::new(snapshots.clone(), newest, committed);
        let position = position(machine.snapshot_end());
        let network = Network::new(addressing.clone(), snapshots.clone());
        let since_snapshot = machine.since_snapshot();
        let config = Arc::new(config(timing).map_err(io::Error::other)?);
        let starting = Raft::new(addressing.me(), config, network, store.clone(), machine);
        let raft = Runtime::scope(entropy.next_u64(), starting)
            .await
            .map_err(io::Error::other)?;
        let quorum = Quorum {
            raft,
            store,
            addressing,
            snapshots,
            since_snapshot,
            timing,
            entropy,
            caught_up: Mutex::default(),
            takes_part: RwLock::new(true),
        };
        Ok((Arc::new(quorum), dump.map(|dump| (position, dump))))
    }

    /// Proposes one encoded batch on behalf of the leader of `term`. Proposals of one caller are appended in order.
    /// The outcome tells only of refusals.
    pub async fn propose(&self, term: Term, batch: Bytes) -> Outcome {
        let (responder, complete) = ProgressResponder::complete_only();
        let written = self
            .raft
            .write(Proposal(batch))
            .with_leader(CommittedLeader::new(term.0))
            .responder(responder)
            .await;
        Box::new(Box::pin(async move {
            match written {
                Ok(()) => {}
                // The core has ended, and the process ends with it.
                Err(_) => return Ok(()),
            }
            match complete.await {
                Ok(Err(ClientWriteError::ForwardToLeader(forward))) => Err(NotProposed(forward.reason)),
                // It was in the log, and went with the lead: the loss of the lead tells.
                Ok(_) | Err(_) => Ok(()),
            }
        }))
    }

    /// Resolves when the consensus core has died, with its last words. The process must end then.
    pub async fn died(&self) -> String {
        let mut metrics = self.raft.metrics();
        loop {
            if let Err(fatal) = &metrics.borrow_watched().running_state {
                return fatal.to_string();
            }
            if metrics.changed().await.is_err() {
                return "the consensus core has ended".into();
            }
        }
    }

    /// Hands the lead to the follower that is furthest, once it has everything; returns when another leads or the
    /// time is over. Does nothing on a node that does not lead or is alone. False if nobody took it over in time.
    pub async fn hand_over(&self, within: Duration) -> bool {
        let handed = tokio::time::timeout(within, async {
            let target = self.furthest_follower().await?;
            self.raft.trigger().transfer_leader(target).await.ok()?;
            let mut metrics = self.raft.metrics();
            while {
                let leader = metrics.borrow_watched().current_leader;
                leader.is_none() || leader == Some(self.addressing.me())
            } {
                metrics.changed().await.ok()?;
            }
            Some(target)
        })
        .await;
        if let Ok(Some(controller)) = handed {
            tracing::info!(controller, "lead handed over");
        }
        handed.is_ok()
    }

    /// The follower that has the whole log, as soon as there is one.
    async fn furthest_follower(&self) -> Option<u64> {
        let mut metrics = self.raft.metrics();
        loop {
            {
                let seen = metrics.borrow_watched();
                let progress = seen.replication.as_ref()?;
                let voters = seen.membership_config.voter_ids().collect::<Vec<_>>();
                let furthest = progress
                    .iter()
                    .filter(|(id, _)| **id != self.addressing.me() && voters.contains(id))
                    .max_by_key(|(_, matched)| **matched)?;
                if furthest.1.map(|matched| matched.index) == seen.last_log_index {
                    return Some(*furthest.0);
                }
            }
            metrics.changed().await.ok()?;
        }
    }

    /// Takes snapshots when they are due, for as long as it is polled.
    pub async fn keep_snapshots(&self) {
        let mut ticks = tokio::time::interval(POLICY_INTERVAL);
        let mut age = Duration::ZERO;
        loop {
            ticks.tick().await;
            age += POLICY_INTERVAL;
            let bytes = self.since_snapshot.load(Ordering::Relaxed);
            let old = self.timing.snapshot_age.is_some_and(|max| max <= age);
            if self.timing.snapshot_bytes <= bytes || (old && 0 < bytes) {
                age = Duration::ZERO;
                if self.raft.trigger().snapshot().await.is_err() {
                    return;
                }
            }
        }
    }

    /// Takes a snapshot now, whatever the policy says.
    pub async fn take_snapshot(&self) {
        // A core that has ended is told about by `died`.
        let _ = self.raft.trigger().snapshot().await;
    }

    /// Held while a call of another controller is in the consensus core; none once this node stops taking part. The
    /// core takes a call that it does not live to answer for a fault, and alarms the operator.
    async fn taking_part(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let guard = self.takes_part.read().await;
        guard.then_some(guard)
    }

    /// Stops taking part, once the calls of other controllers are answered, and waits until the store is closed as
    /// far as this handle keeps it open.
    pub async fn stop(&self) {
        *self.takes_part.write().await = false;
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(%error, "the consensus core did not end in order");
        }
    }

    /// Who this node is and where the others are.
    pub fn addressing(&self) -> &Arc<Addressing> {
        &self.addressing
    }
}

/// A place in the log as others count it: the number of entries up to and with this one, so that 0 is the empty log.
fn position(id: Option<types::LogId>) -> u64 {
    id.map_or(0, |id| id.index + 1)
}

/// How often a leader speaks, and how long it waits for each answer: the consensus library has one number for both. An
/// answer that comes later does not count for the lease, and on a busy machine it takes tens of milliseconds. A follower
/// stands for election after a silence of `election_longest` and once more at least `election_shortest`, which is longer
/// than three heartbeats.
fn heartbeat_interval(timing: Timing) -> Duration {
    HEARTBEAT_MAX.min(timing.election_shortest * 2 / 3)
}

fn config(timing: Timing) -> Result<Config, openraft::ConfigError> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Config {
        cluster_name: "millrace".into(),
        election_timeout_min: millis(timing.election_shortest),
        election_timeout_max: millis(timing.election_longest),
        heartbeat_interval: millis(heartbeat_interval(timing)),
        install_snapshot_timeout: 120_000,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: timing.entries_kept,
        purge_batch_size: 1 + timing.entries_kept / 5,
        replication_lag_threshold: 100,
        enable_pre_vote: Some(true),
        // A restarted leader must be elected anew: its state machine is rebuilt first.
        enable_leader_restore: Some(false),
        allow_log_reversion: Some(false),
        backoff: "20ms 40ms 80ms ..250ms".into(),
        ..Config::default()
    }
    .validate()
}
