//! When a node is the active controller: leader of a term, with everything applied that was in the log when it took
//! the leadership, and its quorum lease valid. Keyed on the term, never on a boolean.
//!
//! ```text
//!  Follower ── Led(T) ──► Waiting ──┐                                          ┌──► Settling ─┐
//!     ▲                             ├─ reached, lease valid, nothing pending ─► Active ◄──────┘
//!     └── Lost, from anywhere   Lapsed ◄── no lease for an election timeout ────┘   all settled
//! ```

use metadata::ids::Term;

use super::event::{Effect, LogPosition};
use super::{Driver, Proposal};
use crate::liveness::Liveness;
use crate::mutants::{self, Mutant};
use crate::refusal::Refusal;
use crate::time::{Moment, Now};
use std::time::Duration;

/// What this node is in the quorum.
#[derive(Debug)]
pub(super) enum Role {
    Follower,
    Leader(Leadership),
}

/// The leadership of one term.
#[derive(Debug)]
pub(super) struct Leadership {
    term: Term,
    /// Everything up to here was in the log when the leadership was taken.
    log_end: LogPosition,
    /// An entry of this term was applied: its blank, and so everything before it.
    blank_applied: bool,
    /// The lease counts from here.
    acknowledged_at: Option<Moment>,
    since: Moment,
    stage: Stage,
}

/// How far a leader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not active yet.
    Waiting,
    /// Not active any more, or not soon: somebody else may be.
    Lapsed,
    Active,
    /// Active, but nothing is decided until every proposal has its outcome.
    Settling,
}

impl Role {
    pub(super) fn acknowledged(&mut self, term: Term, at: Moment) {
        if let Self::Leader(leadership) = self
            && leadership.term == term
        {
            leadership.acknowledged_at = leadership.acknowledged_at.max(Some(at));
        }
    }

    pub(super) fn entry_applied(&mut self, term: Term) {
        if let Self::Leader(leadership) = self {
            leadership.blank_applied |= leadership.term == term;
        }
    }

    pub(super) fn leads(&self, term: Term) -> bool {
        matches!(self, Self::Leader(leadership) if leadership.term == term)
    }

    pub(super) fn stage(&self) -> Option<Stage> {
        match self {
            Self::Follower => None,
            Self::Leader(leadership) => Some(leadership.stage),
        }
    }

    pub(super) fn active_in(&self) -> Option<Term> {
        match self {
            Self::Leader(leadership) => leadership.stage.is_active().then_some(leadership.term),
            Self::Follower => None,
        }
    }

    /// Whether a decision made now would be made by the only active controller.
    pub(super) fn can_decide(&self, now: Moment, lease: Duration) -> bool {
        match self {
            Self::Leader(leadership) => {
                leadership.stage == Stage::Active && leadership.lease_is_valid(now, lease)
            }
            Self::Follower => false,
        }
    }

    /// Whether waiting is better than asking elsewhere.
    pub(super) fn may_decide_soon(&self) -> bool {
        matches!(self, Self::Leader(leadership) if leadership.stage != Stage::Lapsed)
    }

    pub(super) fn settle_first(&mut self) {
        if let Self::Leader(leadership) = self
            && leadership.stage == Stage::Active
        {
            leadership.stage = Stage::Settling;
        }
    }
}

impl Stage {
    fn is_active(self) -> bool {
        matches!(self, Self::Active | Self::Settling)
    }
}

impl Leadership {
    fn lease_is_valid(&self, now: Moment, lease: Duration) -> bool {
        self.acknowledged_at.is_some_and(|at| now.since(at) <= lease)
    }
}

impl Driver {
    pub(super) fn led(&mut self, now: Moment, term: Term, log_end: LogPosition, effects: &mut Vec<Effect>) {
        if self.role.leads(term) {
            return;
        }
        self.lost(effects);
        self.role = Role::Leader(Leadership {
            term,
            log_end,
            blank_applied: self.applied_term == Some(term),
            acknowledged_at: None,
            since: now,
            stage: Stage::Waiting,
        });
    }

    /// Leads no more: what was proposed may still come to be, so whoever waits must ask elsewhere (R0.6).
    pub(super) fn lost(&mut self, effects: &mut Vec<Effect>) {
        self.step_down(effects);
        self.pending.clear();
        self.decided = self.committed.as_ref().clone();
        self.role = Role::Follower;
    }

    /// Sessions end and nothing is answered any more; proposals still await their outcome.
    fn step_down(&mut self, effects: &mut Vec<Effect>) {
        let answers = self
            .pending
            .iter_mut()
            .filter_map(|proposal: &mut Proposal| proposal.answer.take());
        let mut unanswered: Vec<_> = answers.map(|(id, _)| id).collect();
        unanswered.extend(self.waiting.drain(..).map(|waiting| waiting.id));
        unanswered.extend(self.held.drain(..).map(|asked| asked.id));
        for id in unanswered {
            effects.push(self.reply(id, Err(Refusal::NotActive)));
        }
        self.liveness = Liveness::default();
        if let Some(term) = self.role.active_in() {
            effects.push(Effect::Deposed { term });
        }
    }

    /// A lease that is lapsed for longer than an election takes: another controller may be active by now.
    pub(super) fn demote_when_lapsed(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let patience = self.settings.quorum_lease + self.settings.demotion_after;
        let is_lapsed = match &self.role {
            Role::Leader(leadership) if leadership.stage != Stage::Lapsed => {
                now.since(leadership.acknowledged_at.unwrap_or(leadership.since)) > patience
            }
            _ => false,
        };
        if is_lapsed {
            self.step_down(effects);
            if let Role::Leader(leadership) = &mut self.role {
                leadership.stage = Stage::Lapsed;
            }
        }
    }

    /// Becomes active when everything is there that it takes.
    pub(super) fn activate(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let nothing_pending = self.pending.is_empty();
        let Role::Leader(leadership) = &mut self.role else {
            return;
        };
        let is_reached = leadership.blank_applied && self.position >= leadership.log_end
            || mutants::is_selected(Mutant::ActivatedBeforeTheLogIsApplied);
        let lease = self.settings.quorum_lease;
        if leadership.stage.is_active()
            || !is_reached
            || !nothing_pending
            || !leadership.lease_is_valid(now.at, lease)
        {
            return;
        }
        leadership.stage = Stage::Active;
        let term = leadership.term;
        self.decided = self.committed.as_ref().clone();
        self.liveness = Liveness::fresh(&self.committed, now.at);
        self.last_proposal = now.at;
        self.last_rebalance = now.at;
        effects.push(Effect::Activated { term });
    }

    /// Once every proposal has its outcome, the committed state is the only one, and decisions go on from there.
    pub(super) fn settle(&mut self, now: Moment) {
        if !self.pending.is_empty() || self.role.stage() != Some(Stage::Settling) {
            return;
        }
        if let Role::Leader(leadership) = &mut self.role {
            leadership.stage = Stage::Active;
        }
        self.decided = self.committed.as_ref().clone();
        self.liveness.forget_shutdowns_past(self.committed.next_offset);
        self.liveness.ensure_sessions(&self.decided, now);
    }
}
