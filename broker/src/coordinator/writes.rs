//! Follows what became of the records that a lane asked the storage to append.
//!
//! Must not: give up a write that is in the log. It counts when it is committed, whoever still waits.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use broker_core::group::{self, Outcome, Refusal, WriteId};
use metadata::ids::LeaderEpoch;
use partition_log::{AppendError, Appended};

use super::{Event, load};
use crate::storage::hosted::Hosted;
use crate::storage::ticket::{PartState, Ticket};

/// One append of a lane.
pub struct Following {
    /// Where to.
    pub hosted: Arc<Hosted>,
    /// Under which leadership.
    pub under: LeaderEpoch,
    /// What it consists of.
    pub writes: Vec<WriteId>,
    /// `offsets.commit.timeout.ms`
    pub patience: Duration,
    /// Whom to tell.
    pub lane: Sender<Event>,
}

impl Following {
    /// Tells the lane what became of it.
    pub async fn run(self, ticket: Arc<Ticket>) {
        if tokio::time::timeout(self.patience, ticket.decided())
            .await
            .is_err()
        {
            self.tell(Outcome::Overdue);
            ticket.decided().await;
        }
        match ticket.take().pop() {
            Some(PartState::Appended { appended, outcome }) => match group::outcome_of(outcome) {
                Outcome::Overdue => self.until_committed(appended).await,
                outcome => self.tell(outcome),
            },
            other => self.tell(Outcome::Refused(refused(other))),
        }
    }

    /// It is in the log, and too few replicas have it: they may come back.
    async fn until_committed(&self, appended: Appended) {
        self.tell(Outcome::Overdue);
        if load::committed_up_to(&self.hosted, self.under, appended.last.next()).await {
            self.tell(Outcome::Committed);
        } else {
            // The shard ends with its leadership; the next one reads what became of it.
            self.tell(Outcome::Refused(Refusal::WriteElsewhere));
        }
    }

    fn tell(&self, outcome: Outcome) {
        // A lane ends only with the process.
        let _ = self.lane.send(Event::Written {
            place: self.hosted.id.index,
            under: self.under,
            writes: self.writes.clone(),
            outcome,
        });
    }
}

/// Why nothing was appended (G-2).
fn refused(state: Option<PartState>) -> Refusal {
    match state {
        Some(PartState::NotAdmitted { refusal, .. }) => group::unappended(refusal),
        Some(PartState::Failed {
            error: AppendError::Fault(_),
            ..
        }) => Refusal::WriteElsewhere,
        Some(PartState::Failed {
            error: AppendError::Refused(_),
            ..
        }) => Refusal::WriteImpossible,
        _ => Refusal::WriteUnavailable,
    }
}
