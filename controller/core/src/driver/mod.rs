//! The machine around the decisions: who is active, what is proposed, when an answer is certain.
//!
//! ```text
//!  commands ──► decide on `decided` ──► Propose ──► the log ──► Applied ──► `committed` ──► Publish
//!                     ▲     │ records replayed at once             │
//!                     │     └─ reply parked ◄── its batch applied ─┘
//!                     └── := committed, whenever a proposal came to nothing
//! ```
//!
//! Two images share structure: `decided` holds everything proposed, `committed` what the log has agreed on. A batch is
//! never proposed twice; only a command may be decided again, by whoever asked. Must not touch a clock, a socket or
//! the quorum: it is told events and returns effects.

mod commit;
pub mod event;
mod leadership;
mod propose;
mod retries;
#[cfg(test)]
mod stories;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use metadata::batch::Provenance;
use metadata::ids::{MetadataOffset, Term};
use metadata::image::Image;

use crate::command::{Command, Reply};
use crate::liveness::Liveness;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::time::{Moment, Now};
use event::{CommandId, Effect, Event, LogPosition, StreamId, TICK_INTERVAL_MS};
use leadership::{Role, Stage};
use retries::Retries;

/// Commands that wait while nothing can be decided; more are turned away.
const HELD_MAX: usize = 4096;

/// Proposals without an outcome; while there are so many, commands wait.
const PENDING_MAX: usize = 1024;

/// A tick this much later than due means that the driver did not run, and could not hear anybody.
const LAG_MIN: Duration = Duration::from_millis(100);

/// The rules of one controller, leading or not. Feed it with [`Driver::step`].
#[derive(Debug)]
pub struct Driver {
    settings: Settings,
    role: Role,
    /// What the log has agreed on.
    committed: Arc<Image>,
    /// The last log position in `committed`.
    position: LogPosition,
    /// Term of the last entry applied. The blank of a term may be applied before the leadership is told.
    applied_term: Option<Term>,
    /// `committed` and everything proposed on top; equal to it on a follower.
    decided: Image,
    liveness: Liveness,
    /// Proposals without an outcome, in the order they were made.
    pending: VecDeque<Proposal>,
    /// Answers without records of their own, that wait for what they have read to be committed.
    waiting: VecDeque<Waiting>,
    /// Commands that wait until something can be decided again.
    held: VecDeque<Asked>,
    /// Requests that may come again.
    retries: Retries,
    last_proposal: Moment,
    /// When leadership went back to preferred replicas last, or the wait for that began.
    last_rebalance: Moment,
    last_tick: Option<Moment>,
    /// Set once the log could not be replayed; nothing is applied or decided any more.
    quarantine: Option<String>,
}

/// A batch on its way into the log.
#[derive(Debug)]
struct Proposal {
    base_offset: MetadataOffset,
    end: MetadataOffset,
    bytes: Bytes,
    answer: Option<(CommandId, Reply)>,
    /// The request that it carries out, and the image on which that was decided.
    request: Option<(String, Image)>,
}

/// An answer that waits for `until` to be committed.
#[derive(Debug)]
struct Waiting {
    until: MetadataOffset,
    id: CommandId,
    result: Result<Reply, Refusal>,
}

/// A command with everything that came with it.
#[derive(Debug)]
struct Asked {
    id: CommandId,
    arrived: Moment,
    stream: Option<StreamId>,
    provenance: Provenance,
    command: Box<Command>,
}

impl Driver {
    /// A driver over the image that the node restored, up to a position of its log.
    #[must_use]
    pub fn new(settings: Settings, image: Image, position: LogPosition) -> Self {
        Self {
            settings,
            role: Role::Follower,
            decided: image.clone(),
            committed: Arc::new(image),
            position,
            applied_term: None,
            liveness: Liveness::default(),
            pending: VecDeque::new(),
            waiting: VecDeque::new(),
            held: VecDeque::new(),
            retries: Retries::default(),
            last_proposal: Moment::default(),
            last_rebalance: Moment::default(),
            last_tick: None,
            quarantine: None,
        }
    }

    /// Takes note of one event and returns what is to be done about it, in order.
    #[must_use]
    pub fn step(&mut self, now: Now, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Led { term, log_end } => self.led(now.at, term, log_end, &mut effects),
            Event::QuorumAcknowledged { term, at } => self.role.acknowledged(term, at),
            Event::Lost => self.lost(&mut effects),
            Event::Applied {
                position,
                term,
                entry,
            } => self.applied(position, term, entry, &mut effects),
            Event::Installed { position, image } => self.installed(position, *image, &mut effects),
            Event::Refused { term, base_offset } => self.refused(term, base_offset, &mut effects),
            Event::Command {
                id,
                arrived,
                stream,
                provenance,
                command,
            } => self.asked(
                now,
                Asked {
                    id,
                    arrived,
                    stream,
                    provenance,
                    command,
                },
                &mut effects,
            ),
            Event::StreamClosed { stream, end } => self.liveness.stream_closed(stream, end, now.at),
            Event::Tick => self.tick(now, &mut effects),
        }
        self.advance(now, &mut effects);
        effects
    }

    /// The committed image.
    #[must_use]
    pub fn committed(&self) -> &Arc<Image> {
        &self.committed
    }

    /// The term in which this node is the active controller, if it is.
    #[must_use]
    pub fn active_in(&self) -> Option<Term> {
        self.role.active_in()
    }

    /// Who was heard when, as the active controller knows it.
    #[must_use]
    pub fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// Why nothing is applied any more, if so.
    #[must_use]
    pub fn quarantine(&self) -> Option<&str> {
        self.quarantine.as_deref()
    }

    fn asked(&mut self, now: Now, asked: Asked, effects: &mut Vec<Effect>) {
        if let Some(why) = &self.quarantine {
            let refusal = Refusal::Unavailable(why.clone());
            effects.push(self.reply(asked.id, Err(refusal)));
        } else if self.can_decide(now) && self.held.is_empty() {
            self.decide(now, asked, effects);
        } else if self.role.may_decide_soon() && self.held.len() < HELD_MAX {
            self.held.push_back(asked);
        } else {
            effects.push(self.reply(asked.id, Err(Refusal::NotActive)));
        }
    }

    fn can_decide(&self, now: Now) -> bool {
        self.pending.len() < PENDING_MAX && self.role.can_decide(now.at, self.settings.quorum_lease)
    }

    fn reply(&self, id: CommandId, result: Result<Reply, Refusal>) -> Effect {
        Effect::Reply {
            id,
            result,
            visible_at: self.committed.next_offset,
        }
    }

    /// Does what has become possible: settles, activates, takes up what was held.
    fn advance(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.quarantine.is_some() {
            return;
        }
        self.settle(now.at);
        self.activate(now, effects);
        // Nothing can be decided before the first records, and they may be refused like any others.
        if self.can_decide(now) && self.decided.is_empty() {
            self.propose_bootstrap(now, effects);
        }
        while self.can_decide(now) {
            let Some(asked) = self.held.pop_front() else {
                break;
            };
            self.decide(now, asked, effects);
        }
    }

    fn tick(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let due = self
            .last_tick
            .map(|last| last.plus(Duration::from_millis(TICK_INTERVAL_MS)));
        self.last_tick = Some(now.at);
        let lag = due.map_or(Duration::ZERO, |due| now.at.since(due));
        if lag >= LAG_MIN {
            self.liveness.driver_lagged(lag, now.at);
        }
        self.demote_when_lapsed(now.at, effects);
        if self.quarantine.is_some() || !self.role.can_decide(now.at, self.settings.quorum_lease) {
            return;
        }
        self.fence_silent(now, effects);
        self.rebalance(now, effects);
        let is_idle = |interval| now.at.since(self.last_proposal) >= interval;
        if self.role.stage() == Some(Stage::Active) && self.settings.idle_interval.is_some_and(is_idle) {
            self.propose_idle(now, effects);
        }
    }
}
