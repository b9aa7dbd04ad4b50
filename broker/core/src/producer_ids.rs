//! Producer ids: handed out one by one from blocks that the controller gives (T-12). The next block is asked for
//! before the present one is used up, so that nobody waits for it.

#[cfg(test)]
mod tests;

use std::time::Duration;

use metadata::ids::ProducerId;

use crate::time::Moment;

/// How long to wait after the controller refused, or could not be asked.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// A block of producer ids that belongs to this broker alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First id.
    pub first: ProducerId,
    /// How many; Kafka's and ours have 1000.
    pub count: i32,
}

/// No id is at hand, the next block is on its way: the client shall ask again (COORDINATOR_LOAD_IN_PROGRESS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no producer id is at hand yet")]
pub struct NoneAtHand;

/// What must be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the controller for a block, and report what it says.
    AskForBlock,
}

/// What this broker can hand out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerIds {
    present: Range,
    next: Option<Range>,
    question: Question,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Range {
    next: i64,
    /// Exclusive.
    end: i64,
    size: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Question {
    #[default]
    None,
    Asked,
    /// Refused; not to be asked again before this.
    NotBefore(Moment),
}

impl ProducerIds {
    /// Hands out the next id, and says whether a block is to be asked for.
    ///
    /// # Errors
    /// [`NoneAtHand`] until a block has come.
    pub fn take(&mut self, now: Moment) -> (Result<ProducerId, NoneAtHand>, Option<Effect>) {
        if self.present.is_used_up()
            && let Some(next) = self.next.take()
        {
            self.present = next;
        }
        let taken = self.present.take().ok_or(NoneAtHand);
        (taken, self.ask(now))
    }

    /// Asks for a block if one is needed; to be called at the start, and when a retry is due.
    #[must_use]
    pub fn ask(&mut self, now: Moment) -> Option<Effect> {
        let may_ask = match self.question {
            Question::None => true,
            Question::Asked => false,
            Question::NotBefore(moment) => moment <= now,
        };
        if !may_ask || self.next.is_some() || !self.present.is_nearly_used_up() {
            return None;
        }
        self.question = Question::Asked;
        Some(Effect::AskForBlock)
    }

    /// When [`Self::ask`] is due again after a refusal.
    #[must_use]
    pub fn next_retry(&self) -> Option<Moment> {
        match self.question {
            Question::NotBefore(moment) => Some(moment),
            Question::None | Question::Asked => None,
        }
    }

    /// The controller gave a block. An empty or impossible one is taken as a refusal.
    pub fn granted(&mut self, block: Block, now: Moment) {
        let first = block.first.0;
        let count = i64::from(block.count);
        let Some(end) = first.checked_add(count).filter(|_| 0 < count && 0 <= first) else {
            self.refused(now);
            return;
        };
        self.question = Question::None;
        let range = Range {
            next: first,
            end,
            size: count,
        };
        if self.present.is_used_up() {
            self.present = range;
        } else {
            self.next = Some(range);
        }
    }

    /// The controller refused, or the question was lost.
    pub fn refused(&mut self, now: Moment) {
        self.question = Question::NotBefore(now.after(RETRY_AFTER));
    }
}

impl Range {
    fn take(&mut self) -> Option<ProducerId> {
        if self.is_used_up() {
            return None;
        }
        let id = ProducerId(self.next);
        self.next += 1;
        Some(id)
    }

    fn is_used_up(self) -> bool {
        self.end <= self.next
    }

    /// Less than a tenth is left.
    fn is_nearly_used_up(self) -> bool {
        (self.end - self.next) * 10 <= self.size
    }
}
