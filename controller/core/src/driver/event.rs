//! What the driver is told, and what it wants done. The shell carries bytes and clocks; the rules are the driver's.

use std::sync::Arc;

use bytes::Bytes;
use metadata::batch::{MetadataBatch, Provenance};
use metadata::codec::DecodeError;
use metadata::delta::Delta;
use metadata::ids::{BrokerEpoch, BrokerId, MetadataOffset, Term};
use metadata::image::Image;
use metadata::replay::{Application, ReplayError};

use crate::command::{Command, Reply};
use crate::refusal::Refusal;
use crate::time::Moment;

/// Names a command between the shell and the driver, so that its reply finds the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// Names one session stream of a broker with this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// How far the replicated log got: only compared, never shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition(pub u64);

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// This node leads `term`. Its log reached up to `log_end` when it took the leadership, the blank entry of the
    /// term included if it was there already.
    Led {
        /// The term.
        term: Term,
        /// The last position in the log then.
        log_end: LogPosition,
    },
    /// A quorum acknowledged this leader of `term` at a moment of this node's clock. A sole voter reports itself.
    QuorumAcknowledged {
        /// The term.
        term: Term,
        /// When the acknowledged message was sent, at the latest.
        at: Moment,
    },
    /// This node leads no more. Also sent when another term begins.
    Lost,
    /// An entry of the log was committed. Every entry is told, in order, on every node.
    Applied {
        /// Its position.
        position: LogPosition,
        /// Its term.
        term: Term,
        /// What it carries.
        entry: Entry,
    },
    /// A snapshot took the place of everything below `position`.
    Installed {
        /// The last position that it contains.
        position: LogPosition,
        /// The image in it.
        image: Box<Image>,
    },
    /// The quorum did not take a proposal, and never will.
    Refused {
        /// The term it was bound to.
        term: Term,
        /// Where its batch begins.
        base_offset: MetadataOffset,
    },
    /// Somebody asks.
    Command {
        /// For the reply.
        id: CommandId,
        /// When it reached this process, stamped before any queue (R1.20).
        arrived: Moment,
        /// The session stream it came on, for registrations and heartbeats.
        stream: Option<StreamId>,
        /// Who asks. The wall time is set by the driver.
        provenance: Provenance,
        /// What is asked.
        command: Box<Command>,
    },
    /// A broker's session stream ended.
    StreamClosed {
        /// Which.
        stream: StreamId,
        /// How.
        end: StreamEnd,
    },
    /// Time passed. Due every [`TICK_INTERVAL_MS`] after everything else that was waiting.
    Tick,
}

/// How often the driver wants [`Event::Tick`], in milliseconds.
pub const TICK_INTERVAL_MS: u64 = 50;

/// What an entry of the log carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing of ours: a blank or a membership change.
    Blank,
    /// An encoded batch.
    Batch(Bytes),
}

/// How a session stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The broker took leave: its process stops.
    Goodbye,
    /// The other side vanished.
    Broken,
    /// This side closed it.
    ClosedHere,
}

/// Something to be done, in the order given.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Append this batch to the log, only as leader of `term`. Whatever becomes of it must come back exactly once: as
    /// [`Event::Applied`], or as [`Event::Refused`] when it certainly never will, or with [`Event::Lost`].
    Propose {
        /// The term to be bound to.
        term: Term,
        /// Where the batch begins.
        base_offset: MetadataOffset,
        /// The encoded batch, for [`Entry::Batch`].
        batch: Bytes,
    },
    /// Answer a command.
    Reply {
        /// Which.
        id: CommandId,
        /// How.
        result: Result<Reply, Refusal>,
        /// An image whose `next_offset` is at least this shows the result.
        visible_at: MetadataOffset,
    },
    /// The committed state moved: hand it to whoever follows. Comes for every applied entry.
    Publish(Publication),
    /// This node is the active controller from now on.
    Activated {
        /// The term.
        term: Term,
    },
    /// This node is not active any more: end session streams with the word where to go.
    Deposed {
        /// The term that it was active in.
        term: Term,
    },
    /// A broker was fenced because it is not heard any more; for the log.
    Silent {
        /// Which.
        broker: BrokerId,
        /// Its incarnation.
        epoch: BrokerEpoch,
        /// How long it was silent.
        silent: std::time::Duration,
        /// Why it was given up.
        cause: FenceCause,
    },
    /// A decision failed and its command was refused: count it and log it, it is a defect.
    DecisionFailed {
        /// What was asked.
        command: Box<Command>,
        /// What went wrong.
        message: String,
    },
    /// The log cannot be replayed further: serve reads at the last good offset and call for help.
    Quarantined(Quarantine),
}

/// Why a broker that is not heard any more was fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceCause {
    /// A session timeout passed.
    SessionLapsed,
    /// Its stream broke, and it did not come back in the grace time.
    StreamBroken,
    /// It took leave without being let go.
    TookLeave,
}

/// The committed state after an entry.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The last position applied.
    pub position: LogPosition,
    /// The image there.
    pub image: Arc<Image>,
    /// What the entry brought, if it brought anything.
    pub batch: Option<PublishedBatch>,
}

/// A batch that was committed.
#[derive(Clone, Debug)]
pub struct PublishedBatch {
    /// Its bytes, as in the log.
    pub bytes: Bytes,
    /// What they say.
    pub batch: Arc<MetadataBatch>,
    /// Applied or, on every node alike, skipped.
    pub application: Application,
    /// What it changed; empty when it was skipped.
    pub delta: Arc<Delta>,
}

/// Why a node cannot replay further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Quarantine {
    /// A record contradicts the state.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The bytes are damaged, or of a newer release.
    #[error("the batch at position {position:?} cannot be read: {error}")]
    Decode {
        /// Where.
        position: LogPosition,
        /// Why.
        error: DecodeError,
    },
}
