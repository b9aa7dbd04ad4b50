//! The session beneath a broker's life: one stream to one controller, one question at a time.

use std::time::Duration;

use metadata::ids::ControllerId;

use super::Effect;
use crate::time::Moment;

/// Streams are opened no more often than this; one that lasted longer is replaced at once.
const REOPEN_AFTER: Duration = Duration::from_millis(100);
/// Where a controller names the active one, that is tried so soon: two that name each other must not be asked in a
/// tight loop.
const REDIRECT_AFTER: Duration = Duration::from_millis(20);

/// Where the next question is asked, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    stream: Stream,
    /// When the next question is due.
    next_at: Moment,
    /// When a stream was opened last.
    opened_at: Moment,
    /// Something happened that must be told at once, also if a question is open just now.
    urgent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stream {
    None {
        open_at: Moment,
        prefer: Option<ControllerId>,
    },
    Opening {
        since: Moment,
    },
    Idle,
    Asked {
        at: Moment,
        offline: usize,
    },
}

/// What was asked, now answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// How many failed directories it told of.
    pub offline: usize,
}

impl Session {
    pub fn new(now: Moment) -> Self {
        Self {
            stream: Stream::None {
                open_at: now,
                prefer: None,
            },
            next_at: now,
            opened_at: now,
            urgent: false,
        }
    }

    pub fn next_tick(&self, interval: Duration) -> Moment {
        match self.stream {
            Stream::None { open_at, .. } => open_at,
            Stream::Opening { since } => since.after(interval),
            Stream::Idle => self.next_at,
            Stream::Asked { at, .. } => at.after(interval),
        }
    }

    /// Opens a stream when one is due, and gives up one whose answer is overdue: a controller that hangs must not take
    /// the broker's session with it (R1.12).
    pub fn tend(&mut self, now: Moment, interval: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        let overdue = match self.stream {
            Stream::Opening { since: at } | Stream::Asked { at, .. } => at.after(interval) <= now,
            Stream::None { .. } | Stream::Idle => false,
        };
        if overdue {
            effects.push(Effect::CloseSession);
            self.closed(now);
        }
        if let Stream::None { open_at, prefer } = self.stream
            && open_at <= now
        {
            self.stream = Stream::Opening { since: now };
            self.opened_at = now;
            effects.push(Effect::OpenSession(prefer));
        }
        effects
    }

    pub fn opened(&mut self, now: Moment) {
        if matches!(self.stream, Stream::Opening { .. }) {
            self.stream = Stream::Idle;
            self.next_at = now;
        }
    }

    pub fn closed(&mut self, now: Moment) {
        if !matches!(self.stream, Stream::None { .. }) {
            let open_at = now.max(self.opened_at.after(REOPEN_AFTER));
            self.stream = Stream::None {
                open_at,
                prefer: None,
            };
        }
    }

    /// Goes to the controller that is said to be active, or without a name to the next one.
    pub fn move_to(&mut self, active: Option<ControllerId>, now: Moment) -> Vec<Effect> {
        let pause = if active.is_some() {
            REDIRECT_AFTER
        } else {
            REOPEN_AFTER
        };
        let open_at = now.max(self.opened_at.after(pause));
        self.stream = Stream::None {
            open_at,
            prefer: active,
        };
        vec![Effect::CloseSession]
    }

    pub fn is_due(&self, now: Moment) -> bool {
        self.stream == Stream::Idle && self.next_at <= now
    }

    pub fn asked(&mut self, now: Moment, offline: usize) {
        assert!(self.stream == Stream::Idle, "one question at a time");
        self.stream = Stream::Asked { at: now, offline };
        self.urgent = false;
    }

    /// What was asked has its answer; nothing if nothing was asked. The next question is due at once unless said
    /// otherwise.
    pub fn answered(&mut self, now: Moment) -> Option<Answered> {
        let Stream::Asked { offline, .. } = self.stream else {
            return None;
        };
        self.stream = Stream::Idle;
        self.next_at = now;
        Some(Answered { offline })
    }

    pub fn ask_at(&mut self, moment: Moment) {
        if !self.urgent {
            self.next_at = moment;
        }
    }

    /// The next question is due now; one that is open is answered first (R1.13).
    pub fn ask_at_once(&mut self, now: Moment) {
        self.urgent = true;
        self.next_at = self.next_at.min(now);
    }
}
