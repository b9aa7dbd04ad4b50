//! Deleting records by moving the log start up (L-27). A leader moves its own at once; the request waits until every
//! replica that is alive has followed, for only then no election can bring the records back.

use metadata::ids::{BrokerId, LeaderEpoch};

use super::assignment::Standing;
use super::{Effect, Leading, Replica, Role};
use crate::offsets::{LogStart, Offset};
use crate::produce::{WaitOutcome, WaiterId};

/// Why no records are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeletionRefusal {
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
    /// Only what is committed may be deleted.
    #[error("offset {given} is not between 0 and the watermark {watermark}")]
    OutOfRange {
        /// As given.
        given: i64,
        /// The watermark.
        watermark: Offset,
    },
}

/// Asks for everything up to the watermark.
const UP_TO_WATERMARK: i64 = -1;

impl Replica {
    /// Where the log start must go when everything before `before` is to be deleted, −1 being the watermark. It may be
    /// there already, for it never goes back.
    ///
    /// # Errors
    /// A [`DeletionRefusal`].
    pub fn admits_deletion(&self, before: i64) -> Result<LogStart, DeletionRefusal> {
        let leading = match &self.role {
            Role::Leading(leading) => leading,
            Role::Offline(_) => return Err(DeletionRefusal::LogOffline),
            Role::Following(_) => {
                let state = &self.assignment().state;
                return Err(DeletionRefusal::NotLeader {
                    leader: state.leader,
                    epoch: state.leader_epoch,
                });
            }
        };
        let watermark = leading.log().watermark.0;
        match before {
            UP_TO_WATERMARK => Ok(LogStart(watermark)),
            before if (0..=watermark.0).contains(&before) => Ok(LogStart(Offset(before))),
            given => Err(DeletionRefusal::OutOfRange { given, watermark }),
        }
    }

    /// Waits until no replica that is alive holds anything before `start`; completes at once if so already. To be asked
    /// after the log start was moved here.
    #[must_use]
    pub fn await_deletion(&mut self, waiter: WaiterId, start: LogStart) -> Vec<Effect> {
        let outcome = match &mut self.role {
            Role::Leading(leading) => return leading.await_deletion(waiter, start),
            Role::Offline(_) => WaitOutcome::LogOffline,
            Role::Following(following) => WaitOutcome::NotLeader {
                leader: following.assignment.state.leader,
                epoch: following.assignment.state.leader_epoch,
            },
        };
        vec![Effect::Completed { waiter, outcome }]
    }

    /// The least log start among this leader and the replicas that are alive; nothing while one of them is not known, or
    /// where this broker does not lead.
    #[must_use]
    pub fn low_watermark(&self) -> Option<LogStart> {
        match &self.role {
            Role::Leading(leading) => leading.low_watermark(),
            Role::Offline(_) | Role::Following(_) => None,
        }
    }
}

impl Leading {
    fn low_watermark(&self) -> Option<LogStart> {
        let is_alive = |broker: &BrokerId| {
            let registered = self.assignment().registrations.get(broker);
            registered.is_some_and(|registered| registered.standing != Standing::Fenced)
        };
        let mut least = self.log.start;
        for (_, progress) in self.followers().iter().filter(|(broker, _)| is_alive(broker)) {
            least = least.min(progress.log_start?);
        }
        Some(least)
    }

    fn await_deletion(&mut self, waiter: WaiterId, start: LogStart) -> Vec<Effect> {
        assert!(start <= self.log.start, "the leader itself comes first");
        self.deletions.add(waiter, start.0);
        self.release_deletions()
    }

    /// Ends the waits that every replica has caught up with.
    pub(super) fn release_deletions(&mut self) -> Vec<Effect> {
        if self.deletions.is_empty() {
            return Vec::new();
        }
        let Some(low) = self.low_watermark() else {
            return Vec::new();
        };
        let outcome = WaitOutcome::Replicated;
        let released = self.deletions.release(low.0).into_iter();
        released
            .map(|waiter| Effect::Completed { waiter, outcome })
            .collect()
    }
}
