//! The answer to one Produce request while its partitions are at work: the lanes report, the handler waits.
//!
//! Must not: know the protocol, or how long anybody waits.

use broker_core::produce::{ProduceRefusal, WaitOutcome, WaiterId};
use metadata::ids::PartitionId;
use parking_lot::Mutex;
use partition_log::{AppendError, Appended, Offset};
use tokio::sync::Notify;

/// What became of one partition's batch.
#[derive(Debug)]
pub enum PartState {
    /// Not appended and not refused yet.
    Queued,
    /// Appended; waits for the in-sync replicas.
    Waiting {
        /// What was appended.
        appended: Appended,
        /// The name of the wait.
        waiter: WaiterId,
    },
    /// Appended, and the wait, if there was one, is over.
    Appended {
        /// What was appended.
        appended: Appended,
        /// How the wait ended.
        outcome: WaitOutcome,
    },
    /// The replica does not take batches.
    NotAdmitted {
        /// Why.
        refusal: ProduceRefusal,
        /// First readable offset, where there is a log.
        log_start: Option<Offset>,
    },
    /// The batch was refused, or the disk failed.
    Failed {
        /// Why.
        error: AppendError,
        /// First readable offset.
        log_start: Offset,
    },
    /// The partition is not here any more.
    Gone,
}

impl PartState {
    fn is_decided(&self) -> bool {
        !matches!(self, PartState::Queued | PartState::Waiting { .. })
    }
}

#[derive(Debug)]
struct Parts {
    states: Vec<(PartitionId, PartState)>,
    /// Neither appended nor refused.
    queued: usize,
    /// Queued, or waiting for the in-sync replicas.
    undecided: usize,
}

/// One Produce request at work.
#[derive(Debug)]
pub struct Ticket {
    parts: Mutex<Parts>,
    appended: Notify,
    decided: Notify,
}

impl Ticket {
    /// A request with a batch for each of these partitions; the place in the list names it from now on.
    pub fn new(partitions: Vec<PartitionId>) -> Ticket {
        let states: Vec<_> = partitions
            .into_iter()
            .map(|partition| (partition, PartState::Queued))
            .collect();
        let parts = Parts {
            queued: states.len(),
            undecided: states.len(),
            states,
        };
        Ticket {
            parts: Mutex::new(parts),
            appended: Notify::new(),
            decided: Notify::new(),
        }
    }

    /// A lane reports on the partition at `place`.
    pub fn report(&self, place: usize, state: PartState) {
        let mut parts = self.parts.lock();
        let Parts {
            states,
            queued,
            undecided,
        } = &mut *parts;
        let Some((_, held)) = states.get_mut(place).filter(|(_, held)| !held.is_decided()) else {
            return;
        };
        if matches!(held, PartState::Queued) {
            *queued -= 1;
        }
        if state.is_decided() {
            *undecided -= 1;
        }
        *held = state;
        if *queued == 0 {
            self.appended.notify_one();
        }
        if *undecided == 0 {
            self.decided.notify_one();
        }
    }

    /// The wait of the partition at `place` is over.
    pub fn completed(&self, place: usize, outcome: WaitOutcome) {
        let appended = match self.parts.lock().states.get(place) {
            Some((_, PartState::Waiting { appended, .. })) => *appended,
            _ => return,
        };
        self.report(place, PartState::Appended { appended, outcome });
    }

    /// Waits until everything is appended or refused.
    pub async fn appended(&self) {
        until(&self.appended, || self.parts.lock().queued == 0).await;
    }

    /// Waits until everything is decided.
    pub async fn decided(&self) {
        until(&self.decided, || self.parts.lock().undecided == 0).await;
    }

    /// The time is over: what still waits is timed out. Returns the waits that are to be forgotten.
    pub fn expire(&self) -> Vec<(PartitionId, WaiterId)> {
        let mut parts = self.parts.lock();
        let Parts {
            states, undecided, ..
        } = &mut *parts;
        let mut abandoned = Vec::new();
        for (partition, state) in states.iter_mut() {
            if let PartState::Waiting { appended, waiter } = state {
                abandoned.push((*partition, *waiter));
                *state = PartState::Appended {
                    appended: *appended,
                    outcome: WaitOutcome::TimedOut,
                };
                *undecided -= 1;
            }
        }
        abandoned
    }

    /// Takes out what became of each, in the order of the places.
    pub fn take(&self) -> Vec<PartState> {
        let mut parts = self.parts.lock();
        std::mem::take(&mut parts.states)
            .into_iter()
            .map(|(_, state)| state)
            .collect()
    }
}

/// Waits for an event that several may wait for, each of whom passes it on.
async fn until(event: &Notify, happened: impl Fn() -> bool) {
    while !happened() {
        event.notified().await;
    }
    event.notify_one();
}
