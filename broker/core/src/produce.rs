//! Producing: who may append, and how long an answer waits for the in-sync replicas. Waiters are released by events,
//! never by asking again. Must not know records.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use metadata::ids::{BrokerId, LeaderEpoch, PartitionId};

use crate::offsets::Offset;
use crate::time::Moment;

/// What a producer wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// `0`: nothing (F-39).
    Nothing,
    /// `1`: that the leader has appended (F-40).
    Leader,
    /// `-1`: that every in-sync replica has it (F-41).
    All,
}

/// Why a batch is not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProduceRefusal {
    /// Another broker leads, or nobody.
    #[error("led by {leader:?} in epoch {epoch}")]
    NotLeader {
        /// Who does, as far as is known here.
        leader: Option<BrokerId>,
        /// In which epoch.
        epoch: LeaderEpoch,
    },
    /// The log cannot be used.
    #[error("the log is offline")]
    LogOffline,
    /// acks=all cannot be kept.
    #[error("{in_sync} in-sync replicas, {required} required")]
    NotEnoughReplicas {
        /// In sync now.
        in_sync: usize,
        /// Effective `min.insync.replicas`.
        required: usize,
    },
}

/// Names one partition's part of a request that waits; the shell draws them, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub u64);

/// How a wait for the in-sync replicas ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Every in-sync replica has it.
    Replicated,
    /// The in-sync set fell below its minimum after the append; the data stays (F-41).
    NotEnoughReplicasAfterAppend,
    /// This broker no longer leads (F-38).
    NotLeader {
        /// Who does, as far as is known here.
        leader: Option<BrokerId>,
        /// In which epoch.
        epoch: LeaderEpoch,
    },
    /// The log went offline.
    LogOffline,
    /// The partition left this broker, or its topic was deleted.
    Gone,
    /// The producer's time is over; the data stays (F-41).
    TimedOut,
}

/// The waiters of one partition, by the offset that must be covered by the watermark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiters {
    by_offset: BTreeSet<(Offset, WaiterId)>,
    /// The same once more: while the watermark stands still, thousands may time out at once.
    offsets: BTreeMap<WaiterId, Offset>,
}

impl Waiters {
    /// Waits until the watermark reaches `required`, the offset after the last one produced.
    pub fn add(&mut self, waiter: WaiterId, required: Offset) {
        let before = self.offsets.insert(waiter, required);
        assert!(before.is_none(), "a waiter waits once");
        self.by_offset.insert((required, waiter));
    }

    /// Takes out those that the watermark covers, in offset order.
    pub fn release(&mut self, watermark: Offset) -> Vec<WaiterId> {
        let still_waiting = self.by_offset.split_off(&(Offset(watermark.0 + 1), WaiterId(0)));
        let released = std::mem::replace(&mut self.by_offset, still_waiting);
        released.iter().for_each(|(_, waiter)| {
            self.offsets.remove(waiter);
        });
        released.into_iter().map(|(_, waiter)| waiter).collect()
    }

    /// Takes out all of them.
    pub fn drain(&mut self) -> Vec<WaiterId> {
        self.offsets.clear();
        std::mem::take(&mut self.by_offset)
            .into_iter()
            .map(|(_, waiter)| waiter)
            .collect()
    }

    /// Forgets one whose request is answered already.
    pub fn forget(&mut self, waiter: WaiterId) {
        if let Some(required) = self.offsets.remove(&waiter) {
            self.by_offset.remove(&(required, waiter));
        }
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_offset.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }
}

/// A request that waits for all of its partitions (F-42). Partitions that failed on append are not waited for, and
/// the shell keeps their answers; here stand only those that were appended and wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    deadline: Moment,
    waiting: BTreeMap<WaiterId, PartitionId>,
    settled: BTreeMap<PartitionId, WaitOutcome>,
}

/// Whether a request can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Some partition still waits.
    Waiting,
    /// Every partition has its outcome: [`Pending::into_outcomes`] gives them.
    Answer,
}

impl Pending {
    /// A request that nothing waits for yet and that must be answered by `deadline`.
    #[must_use]
    pub fn until(deadline: Moment) -> Self {
        Self {
            deadline,
            waiting: BTreeMap::new(),
            settled: BTreeMap::new(),
        }
    }

    /// One more partition of the request waits. A partition that stands twice in a request waits for the later (F-42).
    pub fn wait_for(&mut self, waiter: WaiterId, partition: PartitionId) {
        self.waiting.retain(|_, waiting| *waiting != partition);
        self.waiting.insert(waiter, partition);
    }

    /// When the request must be answered.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// A replica reports the outcome of a wait. Outcomes of waiters that are not waited for are ignored.
    pub fn completed(&mut self, waiter: WaiterId, outcome: WaitOutcome) -> Verdict {
        if let Some(partition) = self.waiting.remove(&waiter) {
            self.settled.insert(partition, outcome);
        }
        self.verdict()
    }

    /// Looks at the time: past the deadline, what still waits is timed out. Gives the waiters that their replicas must
    /// forget.
    pub fn expire(&mut self, now: Moment) -> Vec<(PartitionId, WaiterId)> {
        if now < self.deadline {
            return Vec::new();
        }
        let late = std::mem::take(&mut self.waiting);
        self.settled
            .extend(late.values().map(|partition| (*partition, WaitOutcome::TimedOut)));
        late.into_iter()
            .map(|(waiter, partition)| (partition, waiter))
            .collect()
    }

    /// Whether the request can be answered: at once if nothing waits (F-42).
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.waiting.is_empty() {
            Verdict::Answer
        } else {
            Verdict::Waiting
        }
    }

    /// What became of each partition that waited.
    #[must_use]
    pub fn into_outcomes(self) -> BTreeMap<PartitionId, WaitOutcome> {
        assert!(
            self.waiting.is_empty(),
            "a request is answered for all of its partitions at once"
        );
        self.settled
    }
}
