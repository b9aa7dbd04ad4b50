//! The way into the driver: commands and ended session streams, each stamped when it reached this process.
//!
//! Must not decide, and must not hold a command back: order of arrival is order of the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use controller_core::command::{Command, Reply};
use controller_core::driver::event::{StreamEnd, StreamId};
use controller_core::refusal::Refusal;
use controller_core::time::Moment;
use host::Clock;
use metadata::batch::Provenance;
use metadata::ids::{MetadataOffset, Term};
use tokio::sync::{mpsc, oneshot, watch};

use crate::space::Space;

/// Commands that may wait. A broker has few at a time; beyond this the callers wait at the door.
const WAITING_MAX: usize = 4_096;

/// What came of a command.
#[derive(Debug)]
pub struct Answer {
    /// The reply, or why not.
    pub result: Result<Reply, Refusal>,
    /// An image whose `next_offset` is at least this shows the result.
    pub visible_at: MetadataOffset,
}

/// Something for the driver.
pub enum Input {
    /// A command.
    Command {
        /// When it reached this process.
        arrived: Moment,
        /// The session stream it came on.
        stream: Option<StreamId>,
        /// Who asks.
        provenance: Provenance,
        /// What is asked.
        command: Box<Command>,
        /// Where the answer goes.
        answer: oneshot::Sender<Answer>,
    },
    /// A session stream ended.
    StreamClosed {
        /// Which.
        stream: StreamId,
        /// How.
        end: StreamEnd,
    },
}

/// Hands things to the driver.
#[derive(Clone)]
pub struct Inbox {
    inputs: mpsc::Sender<Input>,
    clock: Arc<dyn Clock>,
    streams: Arc<AtomicU64>,
    active: watch::Receiver<Option<Term>>,
    open: watch::Sender<bool>,
    space: watch::Receiver<Space>,
}

/// An answer on its way.
pub struct Pending(Way);

enum Way {
    Driver(oneshot::Receiver<Answer>),
    Refused(Refusal),
}

impl Pending {
    /// Waits for it. A driver that is not there, or ends meanwhile, is not active.
    pub async fn answer(self) -> Answer {
        let refused = |refusal| Answer {
            result: Err(refusal),
            visible_at: MetadataOffset(0),
        };
        match self.0 {
            Way::Driver(receiver) => receiver.await.unwrap_or_else(|_| refused(Refusal::NotActive)),
            Way::Refused(refusal) => refused(refusal),
        }
    }
}

impl Inbox {
    /// An inbox, and the end that the driver reads.
    #[must_use]
    pub fn new(
        clock: Arc<dyn Clock>,
        active: watch::Receiver<Option<Term>>,
        space: watch::Receiver<Space>,
    ) -> (Inbox, mpsc::Receiver<Input>) {
        let (inputs, queue) = mpsc::channel(WAITING_MAX);
        let inbox = Inbox {
            inputs,
            clock,
            streams: Arc::new(AtomicU64::new(0)),
            active,
            open: watch::Sender::new(true),
            space,
        };
        (inbox, queue)
    }

    /// The moment now, for stamps.
    #[must_use]
    pub fn moment(&self) -> Moment {
        moment(self.clock.as_ref())
    }

    /// Queues a command that reached this process at `arrived`.
    pub async fn hand_in(
        &self,
        command: Command,
        provenance: Provenance,
        stream: Option<StreamId>,
        arrived: Moment,
    ) -> Pending {
        if !*self.open.borrow() {
            return Pending(Way::Refused(Refusal::NotActive));
        }
        if self.space() != Space::Enough && grows(&command) {
            let why = "the disk of the metadata log is almost full, so nothing new is taken on";
            return Pending(Way::Refused(Refusal::Unavailable(why.into())));
        }
        let (answer, receiver) = oneshot::channel();
        let input = Input::Command {
            arrived,
            stream,
            provenance,
            command: Box::new(command),
            answer,
        };
        match self.inputs.send(input).await {
            Ok(()) => Pending(Way::Driver(receiver)),
            Err(_) => Pending(Way::Refused(Refusal::NotActive)),
        }
    }

    /// Tells that a session stream ended.
    pub async fn stream_closed(&self, stream: StreamId, end: StreamEnd) {
        // A driver that has ended keeps no sessions.
        let _ = self.inputs.send(Input::StreamClosed { stream, end }).await;
    }

    /// A name for a new session stream.
    #[must_use]
    pub fn new_stream(&self) -> StreamId {
        StreamId(self.streams.fetch_add(1, Ordering::Relaxed))
    }

    /// The term in which this node is active, if it is. A copy: who looked twice while the driver changes it would keep
    /// the driver waiting, and wait for the driver.
    #[must_use]
    pub fn active(&self) -> Option<Term> {
        *self.active.borrow()
    }

    /// The room on the disk of the metadata log.
    #[must_use]
    pub fn space(&self) -> Space {
        *self.space.borrow()
    }

    /// The term in which this node is active, as it changes.
    #[must_use]
    pub fn watch_active(&self) -> watch::Receiver<Option<Term>> {
        self.active.clone()
    }

    /// Takes no more commands: this node is about to leave.
    pub fn close(&self) {
        self.open.send_replace(false);
    }

    /// Turns false when this node is about to leave.
    #[must_use]
    pub fn open(&self) -> watch::Receiver<bool> {
        self.open.subscribe()
    }
}

/// Whether a command asks for more metadata. What keeps a cluster alive on a full disk must not be refused with it.
fn grows(command: &Command) -> bool {
    matches!(
        command,
        Command::CreateTopics(_)
            | Command::CreatePartitions(_)
            | Command::RegisterBroker(_)
            | Command::AllocateProducerIds { .. }
    )
}

/// The clock's reading as the core takes it.
#[must_use]
pub fn moment(clock: &dyn Clock) -> Moment {
    Moment(Duration::from_nanos(clock.now().0))
}
