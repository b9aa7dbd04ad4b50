//! The way of in-sync proposals to the controller: one request on its way per broker, everything that waits goes with
//! the next, and a proposal is never given up, for it may have been carried out (R3.56).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use metadata::ids::PartitionId;

use crate::replica::Proposal;
use crate::time::Moment;

/// After a request failed as a whole it is sent again so much later (R3.56).
const RESEND_AFTER: Duration = Duration::from_millis(50);

/// Proposals of this broker's leaders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposals {
    waiting: BTreeMap<PartitionId, Proposal>,
    sent: BTreeMap<PartitionId, Proposal>,
    /// What was answered last, and when it was sent: the same proposal again is a retry.
    answered: BTreeMap<PartitionId, Proposal>,
    sent_at: Moment,
    not_before: Moment,
}

impl Proposals {
    /// A leader proposes. A newer proposal of a partition replaces one that was not sent yet. One that was refused just
    /// now is not sent again at once: what refused it needs a moment to change.
    pub fn submit(&mut self, proposal: Proposal) {
        if self.answered.get(&proposal.partition) == Some(&proposal) {
            self.not_before = self.not_before.max(self.sent_at.after(RESEND_AFTER));
        }
        self.waiting.insert(proposal.partition, proposal);
    }

    /// The partition is led here no longer: nothing more is asked for it.
    pub fn withdraw(&mut self, partition: PartitionId) {
        self.waiting.remove(&partition);
    }

    /// The next request, if one is due: everything that waits. None while one is on its way.
    #[must_use]
    pub fn next_request(&mut self, now: Moment) -> Option<Vec<Proposal>> {
        if !self.sent.is_empty() || self.waiting.is_empty() || now < self.not_before {
            return None;
        }
        self.sent = std::mem::take(&mut self.waiting);
        self.sent_at = now;
        Some(self.sent.values().cloned().collect())
    }

    /// When [`Self::next_request`] is due; nothing if nothing waits, or a request is on its way.
    #[must_use]
    pub fn next_send(&self) -> Option<Moment> {
        (self.sent.is_empty() && !self.waiting.is_empty()).then_some(self.not_before)
    }

    /// Every partition of the request has its answer; the shell gives each to its replica.
    pub fn answered(&mut self) {
        self.answered = std::mem::take(&mut self.sent);
    }

    /// The request failed as a whole: refused at the top, not active, or lost. It goes out again, except where a newer
    /// proposal has come meanwhile.
    pub fn failed(&mut self, now: Moment) {
        for (partition, proposal) in std::mem::take(&mut self.sent) {
            self.waiting.entry(partition).or_insert(proposal);
        }
        self.not_before = now.after(RESEND_AFTER);
    }
}
