//! What every simulated process has: it takes an input at a moment of the world, and puts out what it wants carried.
//!
//! Must not: hold state of the world. Processes see only what reaches them.

use std::time::Duration;

use bytes::Bytes;
use controller_core::driver::event::Entry;
use metadata::ids::{ControllerId, MetadataOffset, Term};

use crate::fact::Fact;
use crate::marks::Mark;
use crate::message::{Ask, CallKey, NodeId, Purpose, StreamKey, Told, Word};

/// The moment of an input, as a process may know it.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Virtual time of the world. Processes turn it into their own clock.
    pub world: Duration,
    /// The node's wall clock, in milliseconds since 1970; it may jump.
    pub wall_ms: i64,
    /// Who leads the quorum, as far as this node heard.
    pub leader: Option<ControllerId>,
}

/// How the other end of a stream went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// It closed the stream.
    Closed,
    /// It vanished, or could not be reached.
    Broken,
}

/// Something that reaches a process.
#[derive(Debug)]
pub enum Input {
    /// Somebody opened a stream to it.
    StreamOpened(StreamKey, NodeId, Purpose),
    /// The stream that it wanted is open.
    StreamReady(StreamKey),
    /// A word on a stream.
    Heard(StreamKey, Word),
    /// A stream ended.
    StreamClosed(StreamKey, StreamEnd),
    /// A question.
    Asked(CallKey, Ask),
    /// An answer; none if the question or the answer was lost.
    Answered(CallKey, Option<Told>),
    /// The quorum tells a controller something.
    Quorum(QuorumTold),
    /// A timer that it asked for.
    Tick,
    /// The process is asked to stop in order.
    Stop,
    /// An operator or client wish of the plan.
    Wish(Wish),
}

/// What a controller's own quorum member tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuorumTold {
    /// It leads.
    Led(Term, u64),
    /// A majority acknowledged what was sent at that moment of the world.
    Acknowledged(Term, Duration),
    /// It leads no more.
    Lost,
    /// An entry is committed.
    Committed(u64, Term, Entry),
    /// A proposal will never be in the log.
    Refused(Term, MetadataOffset),
}

/// Something that the plan wants of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Produce and read no more; settle what is open.
    Settle,
    /// Read everything from the beginning.
    ReadAll,
}

/// Something that a process wants carried.
#[derive(Debug)]
pub enum Output {
    /// Open a stream.
    Open(StreamKey, NodeId, Purpose),
    /// Say a word on a stream.
    Say(StreamKey, Word),
    /// Close a stream, behind the words said before.
    Close(StreamKey),
    /// Ask somebody; the answer is given up after the last.
    Ask(CallKey, NodeId, Ask, Duration),
    /// Answer a question.
    Answer(CallKey, Told),
    /// Append to the replicated log.
    Propose(Term, MetadataOffset, Bytes),
    /// Something that judges must know.
    Fact(Fact),
    /// A rare branch was reached.
    Mark(Mark),
    /// The process ends.
    Exit(Exit),
}

/// How a process ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It stopped in order.
    Stopped(String),
    /// It cannot go on; the machine starts it again.
    Failed(String),
}

/// A process.
pub trait Process {
    /// Takes in one input.
    fn take(&mut self, at: At, input: Input) -> Vec<Output>;

    /// The moment of the world at which it wants a tick.
    fn next_tick(&self) -> Option<Duration>;
}
