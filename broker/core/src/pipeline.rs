//! The order of things on one connection. Answers leave in the order of the requests. Produce behind Produce overlaps
//! its waiting; every other request is a barrier: it starts when everything before it is answered, and nothing behind
//! it starts before it is. Kafka's own order, one request at a time, is a switch.
//!
//! Must not know what requests say, nor hold their bytes.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::mutants::{self, Mutant};

/// Names a request of a connection: its place in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Whether requests of a connection may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Kafka's order: one request at a time, muted until its answer is sent.
    None,
    /// Produce behind Produce, as far as the limits go.
    Produce(Limits),
}

/// How much may be pending before reading stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests.
    pub requests: usize,
    /// Bytes of their frames.
    pub bytes: usize,
}

impl Default for Limits {
    /// 16 requests: three times what an idempotent producer keeps in flight. 64 MiB: a few requests of the largest
    /// size that clients send by default; one request may always be pending, however large.
    fn default() -> Self {
        Self {
            requests: 16,
            bytes: 64 << 20,
        }
    }
}

/// What a request is to the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It may wait beside others of its kind, once it has appended.
    Produce,
    /// Anything else.
    Barrier,
}

/// What a request ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// An answer is ready to be sent.
    Answer,
    /// There is nothing to send (acks=0, F-39).
    Silence,
    /// The connection must close, after earlier answers are sent (an error on acks=0, F-39; what cannot be answered).
    Close,
}

/// What happened on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole request was read.
    Arrived {
        /// What it is to the order.
        kind: Kind,
        /// Bytes of its frame.
        bytes: usize,
    },
    /// A Produce has appended, or had refused, everything on all its partitions; verification included.
    Appended(RequestId),
    /// A request ended.
    Ended(RequestId, Ending),
    /// The answer of a request is written out, and any throttling of it is over.
    Sent(RequestId),
}

/// What must be done, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Hand the request to its handler.
    Start(RequestId),
    /// Write its answer out, behind those before.
    Send(RequestId),
    /// Close the connection. Nothing follows.
    Close,
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    overlap: Overlap,
    /// Pending requests in the order of arrival.
    pending: VecDeque<Pending>,
    next: RequestId,
    /// The answer that left last; they leave in order.
    last_sent: Option<RequestId>,
    closed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pending {
    id: RequestId,
    kind: Kind,
    bytes: usize,
    stage: Stage,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Read, and nothing more.
    Queued,
    /// At its handler.
    Started,
    /// Appended; waits for the in-sync replicas.
    Appended,
    /// Ended; waits for those before it.
    Ended(Ending),
    /// Its answer is being written.
    Sending,
}

impl Pipeline {
    /// A fresh connection.
    #[must_use]
    pub fn new(overlap: Overlap) -> Self {
        Self {
            overlap,
            pending: VecDeque::new(),
            next: RequestId(0),
            last_sent: None,
            closed: false,
        }
    }

    /// Whether the shell may read another request. Asked after each step; while it may not, bytes wait in the socket.
    #[must_use]
    pub fn wants_request(&self) -> bool {
        let closes = self
            .pending
            .iter()
            .any(|pending| pending.stage == Stage::Ended(Ending::Close));
        if self.closed || closes {
            return false;
        }
        match self.overlap {
            Overlap::None => self.pending.is_empty(),
            Overlap::Produce(limits) => {
                let bytes: usize = self.pending.iter().map(|pending| pending.bytes).sum();
                let behind_barrier = self.pending.iter().any(|pending| pending.kind == Kind::Barrier);
                self.pending.is_empty()
                    || !behind_barrier && self.pending.len() < limits.requests && bytes < limits.bytes
            }
        }
    }

    /// The name that the next arriving request gets.
    #[must_use]
    pub fn next_request(&self) -> RequestId {
        self.next
    }

    /// How many requests are read and not answered.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Takes in one event. Events of a closed connection change nothing.
    #[must_use]
    pub fn step(&mut self, event: Event) -> Vec<Effect> {
        if self.closed {
            return Vec::new();
        }
        match event {
            Event::Arrived { kind, bytes } => {
                self.pending.push_back(Pending {
                    id: self.next,
                    kind,
                    bytes,
                    stage: Stage::Queued,
                });
                self.next = RequestId(self.next.0 + 1);
            }
            Event::Appended(id) => {
                // A request may have ended already: nothing to wait for.
                if let Some(pending) = self.find(id)
                    && pending.stage == Stage::Started
                {
                    pending.stage = Stage::Appended;
                }
            }
            Event::Ended(id, ending) => {
                let pending = self.find(id).expect("only a request that was started can end");
                assert!(
                    matches!(pending.stage, Stage::Started | Stage::Appended),
                    "a request ends once, and after it was started"
                );
                pending.stage = Stage::Ended(ending);
            }
            Event::Sent(id) => {
                let first = self
                    .pending
                    .pop_front()
                    .expect("only what is pending can be sent");
                assert!(
                    first.id == id && first.stage == Stage::Sending,
                    "answers leave in request order"
                );
            }
        }
        let mut effects = self.send();
        effects.extend(self.start());
        effects
    }

    fn find(&mut self, id: RequestId) -> Option<&mut Pending> {
        self.pending.iter_mut().find(|pending| pending.id == id)
    }

    /// Sends what has ended at the head of the line.
    fn send(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(first) = self
            .pending
            .iter()
            .position(|pending| pending.stage != Stage::Sending)
        {
            let Stage::Ended(ending) = self.pending[first].stage else {
                break;
            };
            let id = self.pending[first].id;
            match ending {
                Ending::Answer => {
                    assert!(self.last_sent < Some(id), "answers leave in request order");
                    self.last_sent = Some(id);
                    self.pending[first].stage = Stage::Sending;
                    effects.push(Effect::Send(id));
                }
                Ending::Silence => {
                    self.pending.remove(first);
                }
                // Answers before it must be out first: the shell reports them sent one by one.
                Ending::Close if first == 0 => {
                    self.closed = true;
                    self.pending.clear();
                    effects.push(Effect::Close);
                    break;
                }
                Ending::Close => break,
            }
        }
        effects
    }

    /// Starts what may start now.
    fn start(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(at) = self
            .pending
            .iter()
            .position(|pending| pending.stage == Stage::Queued)
        {
            if !self.may_start(at) {
                break;
            }
            self.pending[at].stage = Stage::Started;
            effects.push(Effect::Start(self.pending[at].id));
        }
        effects
    }

    /// Whether the request at `at` may start, given what is before it. Everything before it has been started.
    fn may_start(&self, at: usize) -> bool {
        let before = || self.pending.iter().take(at);
        // Nothing starts behind a request that will close the connection.
        if before().any(|earlier| earlier.stage == Stage::Ended(Ending::Close)) {
            return false;
        }
        let kind = self.pending[at].kind;
        if kind == Kind::Barrier && mutants::is_selected(Mutant::BarrierMissingInPipeline) {
            return true;
        }
        if kind == Kind::Barrier || self.overlap == Overlap::None {
            return at == 0;
        }
        // On no partition may a later batch overtake an earlier one: all of the earlier are in their logs.
        before().all(|earlier| {
            earlier.kind == Kind::Produce
                && matches!(earlier.stage, Stage::Appended | Stage::Ended(_) | Stage::Sending)
        })
    }
}
