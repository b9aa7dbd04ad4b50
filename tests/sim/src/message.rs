//! What nodes say to each other: words on streams (ordered, they break as a whole) and calls (a question, an answer,
//! either of which may be lost, late or repeated).
//!
//! Holds the typed messages of the contracts; bytes are not part of this simulation.

use std::collections::BTreeMap;

use broker_core::fetcher::Fetch;
use broker_core::follow::{Lineage, Piece};
use broker_core::group::{Join, MemberId, Reply, Request, Stability, Unanswered};
use broker_core::offsets::{EpochEnd, HighWatermark, LogEnd, LogStart, Offset};
use bytes::Bytes;
use controller_core::command::{self, Command, Heartbeat, HeartbeatReply, RegisterBroker};
use controller_core::refusal::Refusal;
use metadata::batch::MetadataBatch;
use metadata::ids::{
    BrokerEpoch, BrokerId, ControllerId, LeaderEpoch, MetadataOffset, PartitionId, ProducerId, Term,
};

/// Somebody who takes part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeId {
    /// A controller.
    Controller(i32),
    /// A broker.
    Broker(i32),
    /// A client.
    Client(u32),
}

impl std::fmt::Debug for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Controller(id) => write!(f, "controller {id}"),
            Self::Broker(id) => write!(f, "broker {id}"),
            Self::Client(id) => write!(f, "client {id}"),
        }
    }
}

/// Names a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamKey {
    /// Who opened it.
    pub opener: NodeId,
    /// Its number among the opener's.
    pub number: u64,
}

/// Names a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallKey {
    /// Who asks.
    pub asker: NodeId,
    /// Its number among the asker's.
    pub number: u64,
}

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A broker's session with a controller.
    Session,
    /// A broker follows the metadata from here.
    Follow {
        /// Wanted next.
        next_offset: MetadataOffset,
        /// Term of the last batch held.
        last_term: Term,
    },
    /// A client's connection.
    Client,
}

/// A word on a stream.
#[derive(Clone, Debug)]
pub enum Word {
    /// Broker to controller.
    Register(Box<RegisterBroker>),
    /// Broker to controller.
    Heartbeat(Heartbeat),
    /// Broker to controller: the end of the stream is meant.
    Goodbye,
    /// Controller to broker.
    Registered(BrokerEpoch),
    /// Controller to broker.
    HeartbeatAnswered(HeartbeatReply),
    /// Controller to broker, and who is active.
    Refused(Box<Refusal>, Option<ControllerId>),
    /// Controller to broker: it is not active any more.
    Moved(Option<ControllerId>),
    /// Controller to broker: the first word of following.
    Hello(Lineage),
    /// Controller to broker.
    Snapshot(Box<Piece>),
    /// Controller to broker.
    Batch(std::sync::Arc<MetadataBatch>),
    /// Controller to broker.
    Progress {
        /// Everything below was sent.
        committed_end: MetadataOffset,
        /// In which term.
        term: Term,
        /// Who is active.
        active: Option<ControllerId>,
    },
    /// Client to broker.
    Request(ClientRequest),
    /// Broker to client, in the order of the requests.
    Answer(u64, ClientAnswer),
}

/// What a client asks of a broker.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// Its correlation id.
    pub number: u64,
    /// What.
    pub what: ClientAsk,
}

/// What a client asks of a broker.
#[derive(Clone, Debug)]
pub enum ClientAsk {
    /// Append one batch, acks=all.
    Produce {
        /// Where.
        partition: PartitionId,
        /// One batch.
        batch: Bytes,
    },
    /// Read as a consumer.
    Fetch {
        /// Where.
        partition: PartitionId,
        /// From.
        offset: Offset,
        /// The leader epoch that the client believes in.
        leader_epoch: Option<LeaderEpoch>,
    },
    /// Where do the partitions of every topic live?
    Locate,
    /// A producer id.
    ProducerId,
    /// Who coordinates this group?
    Coordinator(String),
    /// Something for the coordinator of a group.
    Group(String, Box<GroupAsk>),
}

/// What a member asks of its group's coordinator.
#[derive(Clone, Debug)]
pub enum GroupAsk {
    /// To join; the broker adds a text that no other newcomer gets.
    Join(Box<Join>),
    /// Something else about its membership.
    Member(Request),
    /// To remember offsets.
    Commit {
        /// Who.
        member: MemberId,
        /// In which generation.
        generation: i32,
        /// Of which partition, how far, and a name that no other commit has.
        offsets: Vec<(PartitionId, i64, String)>,
    },
    /// What was committed.
    Fetch(Vec<PartitionId>, Stability),
}

/// A broker's answer to a client.
#[derive(Clone, Debug)]
pub enum ClientAnswer {
    /// To a produce.
    Produced(Result<Offset, ClientError>),
    /// To a fetch.
    Fetched(Result<Fetched, ClientError>),
    /// Every partition there is, and how new the metadata is that says so.
    Located(MetadataOffset, BTreeMap<PartitionId, Place>),
    /// To a producer id.
    ProducerId(Option<ProducerId>),
    /// Who coordinates a group, if anybody.
    Coordinator(Option<BrokerId>),
    /// Of a group's coordinator, except for offsets.
    Group(Result<Reply, Unanswered>),
    /// Committed offsets, of partitions that there are.
    Offsets(Vec<(PartitionId, Option<i64>)>),
}

/// Where a partition is, as a broker's metadata says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Who leads, if anybody.
    pub leader: Option<BrokerId>,
    /// In which epoch.
    pub leader_epoch: LeaderEpoch,
    /// Who holds replicas.
    pub replicas: Vec<BrokerId>,
}

/// What a consumer got.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Whole batches.
    pub batches: Bytes,
    /// The watermark.
    pub watermark: HighWatermark,
}

/// Why a client did not get what it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// Ask the leader, or again.
    NotLeader,
    /// The epoch given is over, or not known yet: ask for metadata.
    OtherEpoch,
    /// Not enough replicas in sync, or the like: again later. Nothing was written.
    TryAgain(&'static str),
    /// The outcome is unknown to the broker: it is written, but not replicated yet.
    MayBeWritten,
    /// A sequence is missing before this one.
    OutOfOrderSequence,
    /// The offset lies outside of the log.
    OutOfRange,
    /// It will never be taken.
    Refused(String),
}

/// A question of one node to another.
#[derive(Clone, Debug)]
pub enum Ask {
    /// To a controller, through its command queue.
    Command(Box<Command>),
    /// A follower fetches.
    Fetch {
        /// Who.
        follower: BrokerId,
        /// Which incarnation.
        epoch: Option<BrokerEpoch>,
        /// What.
        fetches: Vec<(PartitionId, Fetch)>,
    },
    /// A follower wants to know where the leader's log ends.
    LogEnd(PartitionId, LeaderEpoch),
    /// A follower wants to know where the leader's log starts.
    LogStart(PartitionId, LeaderEpoch),
}

/// The answer.
#[derive(Clone, Debug)]
pub enum Told {
    /// Of a controller.
    Command(Box<Result<command::Reply, Refusal>>),
    /// Of a leader, to a follower's fetch.
    Fetch(BTreeMap<PartitionId, FollowerAnswer>),
    /// Of a leader.
    LogEnd(Option<LogEnd>),
    /// Of a leader.
    LogStart(Option<LogStart>),
}

/// A leader's answer to a follower, for one partition.
#[derive(Clone, Debug)]
pub enum FollowerAnswer {
    /// Records, perhaps none.
    Records {
        /// Whole batches.
        batches: Bytes,
        /// The leader's watermark.
        watermark: HighWatermark,
        /// The leader's log start.
        log_start: LogStart,
    },
    /// The histories part.
    Diverging(EpochEnd),
    /// An error.
    Failed(broker_core::fetcher::Failure),
}
