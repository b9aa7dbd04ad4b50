//! What a shard is asked and what it answers: Kafka's requests without their wire form.

use std::time::Duration;

use bytes::Bytes;
use metadata::ids::TopicId;

use super::names::{Generation, GroupId, InstanceId, MemberId, TopicName};
use super::record::OffsetValue;
use super::state::State;

/// A question to a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Become a member, or stay one in the next generation.
    Join(Join),
    /// Hand in, or fetch, the assignment of a generation.
    Sync(Sync),
    /// Still there.
    Heartbeat(Heartbeat),
    /// Leave for good.
    Leave(Leave),
    /// Remember offsets.
    Commit(Commit),
    /// Give offsets back.
    Fetch(Fetch),
    /// What is this group?
    Describe(GroupId),
    /// Which groups are there?
    List,
    /// Forget a group that is empty.
    Delete(GroupId),
}

/// A protocol that a member knows, and what it says of itself for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Its name.
    pub name: String,
    /// Bytes that only clients read (G-26).
    pub metadata: Bytes,
}

/// Who a client is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// What it calls itself.
    pub id: String,
    /// Where it is.
    pub host: String,
}

/// What JoinGroup versions differ in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinAbilities {
    /// A newcomer is told its id first and joins with it then (from 4 on, KIP-394).
    pub joins_in_two_steps: bool,
    /// A leader can be told that nothing is to be assigned (from 9 on).
    pub can_skip_assignment: bool,
}

/// JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Which group.
    pub group: GroupId,
    /// Who; empty for a newcomer.
    pub member: MemberId,
    /// Its own name, if it is static.
    pub instance: Option<InstanceId>,
    /// Its client.
    pub client: Client,
    /// How long it may be silent, in ms as the client said.
    pub session_timeout_ms: i32,
    /// How long a rebalance may wait for it, in ms as the client said; not checked (G-6).
    pub rebalance_timeout_ms: i32,
    /// What kind of client.
    pub protocol_type: String,
    /// What it can do, best first.
    pub protocols: Vec<Protocol>,
    /// What its version can do.
    pub abilities: JoinAbilities,
    /// A text that no other newcomer gets, for its id.
    pub unique: String,
}

/// SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    /// Which group.
    pub group: GroupId,
    /// Who.
    pub member: MemberId,
    /// Its own name, if it is static.
    pub instance: Option<InstanceId>,
    /// In which generation.
    pub generation: Generation,
    /// What kind of client, where the version says so.
    pub protocol_type: Option<String>,
    /// Which protocol was agreed on, where the version says so.
    pub protocol: Option<String>,
    /// Who gets what; only the leader's counts.
    pub assignments: Vec<(MemberId, Bytes)>,
}

/// Heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Which group.
    pub group: GroupId,
    /// Who.
    pub member: MemberId,
    /// Its own name, if it is static.
    pub instance: Option<InstanceId>,
    /// In which generation.
    pub generation: Generation,
}

/// LeaveGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Which group.
    pub group: GroupId,
    /// Who; a static one may be named by its own name alone.
    pub members: Vec<(MemberId, Option<InstanceId>)>,
}

/// OffsetCommit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Which group.
    pub group: GroupId,
    /// Who; empty outside of a group.
    pub member: MemberId,
    /// Its own name, if it is static.
    pub instance: Option<InstanceId>,
    /// In which generation; below 0 outside of a group.
    pub generation: Generation,
    /// What is refused where there is no such group: a version's own code (G-44).
    pub stranger: Refusal,
    /// How long the offsets shall be kept, where the client says so.
    pub retention: Option<Duration>,
    /// What to remember.
    pub offsets: Vec<CommittedOffset>,
}

/// One offset of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// Which topic.
    pub topic: TopicName,
    /// The same, if it is known.
    pub topic_id: Option<TopicId>,
    /// Which partition.
    pub partition: i32,
    /// The next record to be read.
    pub offset: i64,
    /// Epoch of the leader that the last one was read from.
    pub leader_epoch: Option<i32>,
    /// The client's own words.
    pub metadata: String,
}

/// What a fetch of offsets may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// What is committed now.
    Any,
    /// The same, after everything that is being written (G-2, G-51).
    AfterPendingWrites,
}

/// OffsetFetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Which group.
    pub group: GroupId,
    /// Of what; everything if nothing is said.
    pub topics: Option<Vec<FetchTopic>>,
    /// What it may see.
    pub stability: Stability,
}

/// A topic whose offsets are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopic {
    /// Its name.
    pub name: TopicName,
    /// The topic that has this name now.
    pub id: Option<TopicId>,
    /// Which of its partitions.
    pub partitions: Vec<i32>,
}

/// A topic's committed offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedTopic {
    /// Its name.
    pub name: TopicName,
    /// Partition and what is committed, in the order asked, or in that of the partitions.
    pub partitions: Vec<(i32, Option<OffsetValue>)>,
}

/// Why a shard does not do what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// The group's name is empty (G-6).
    #[error("the group has no name")]
    InvalidGroupId,
    /// Outside of `group.min.session.timeout.ms` and `group.max.session.timeout.ms` (G-6).
    #[error("the session timeout is outside of its limits")]
    InvalidSessionTimeout,
    /// The group has no such member (G-7, G-13).
    #[error("no such member")]
    UnknownMember,
    /// The static member has a newer id (G-12, G-13).
    #[error("another member has taken the instance over")]
    FencedInstance,
    /// Not the group's generation.
    #[error("another generation")]
    IllegalGeneration,
    /// The group is being rebalanced: join again.
    #[error("the group is being rebalanced")]
    RebalanceInProgress,
    /// Nothing that all members can do (G-10).
    #[error("no protocol in common")]
    InconsistentProtocol,
    /// `group.max.size` (G-11).
    #[error("the group is full")]
    GroupFull,
    /// Join again with the id that comes with this (G-8).
    #[error("join with the id that is given")]
    MemberIdRequired,
    /// There is no such group.
    #[error("no such group")]
    GroupNotFound,
    /// It has members.
    #[error("the group has members")]
    NonEmptyGroup,
    /// `offset.metadata.max.bytes` (G-47).
    #[error("the metadata is too long")]
    MetadataTooLarge,
    /// What follows from it cannot be written now.
    #[error("it cannot be written now")]
    WriteUnavailable,
    /// What follows from it cannot be written here: another broker leads.
    #[error("another broker leads")]
    WriteElsewhere,
    /// What follows from it can never be written.
    #[error("it cannot be written")]
    WriteImpossible,
}

/// A member of the next generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The generation.
    pub generation: Generation,
    /// What kind of clients.
    pub protocol_type: String,
    /// The protocol that all agreed on.
    pub protocol: String,
    /// Who assigns.
    pub leader: MemberId,
    /// Who was asked for.
    pub member: MemberId,
    /// Whether the leader keeps the assignment that there is.
    pub skip_assignment: bool,
    /// All members, for the leader.
    pub members: Vec<JoinedMember>,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its name.
    pub member: MemberId,
    /// Its own name.
    pub instance: Option<InstanceId>,
    /// What it says of itself for the protocol.
    pub metadata: Bytes,
}

/// Not a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJoined {
    /// Why.
    pub why: Refusal,
    /// The id that the answer carries.
    pub member: MemberId,
}

/// A member's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// What kind of clients.
    pub protocol_type: String,
    /// The protocol.
    pub protocol: String,
    /// What the leader gave it.
    pub assignment: Bytes,
}

/// A group as administrators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its state.
    pub state: State,
    /// What kind of clients.
    pub protocol_type: String,
    /// The protocol, while it is stable.
    pub protocol: String,
    /// Its members.
    pub members: Vec<DescribedMember>,
}

/// A member as administrators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// Its name.
    pub member: MemberId,
    /// Its own name.
    pub instance: Option<InstanceId>,
    /// Its client.
    pub client: Client,
    /// What it says of itself, while the group is stable.
    pub metadata: Bytes,
    /// What it was given.
    pub assignment: Bytes,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub group: GroupId,
    /// What kind of clients.
    pub protocol_type: String,
    /// Its state.
    pub state: State,
}

/// What a shard answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a join.
    Join(Result<Joined, NotJoined>),
    /// To a sync.
    Sync(Result<Synced, Refusal>),
    /// To a heartbeat.
    Heartbeat(Result<(), Refusal>),
    /// To a leave: one result for each member, in their order.
    Leave(Result<Vec<Result<(), Refusal>>, Refusal>),
    /// To a commit: one result for each offset, in their order.
    Commit(Result<Vec<Result<(), Refusal>>, Refusal>),
    /// To a fetch.
    Fetch(Vec<FetchedTopic>),
    /// To a description; nothing if there is no such group.
    Describe(Option<Described>),
    /// To a list.
    List(Vec<Listed>),
    /// To a deletion.
    Delete(Result<(), Refusal>),
}

impl Reply {
    /// The same answer after what follows from it could not be written. What needs no write stays as it is.
    #[must_use]
    pub(super) fn unwritten(self, why: Refusal) -> Self {
        match self {
            Self::Join(Ok(joined)) => Self::Join(Err(NotJoined {
                why,
                member: joined.member,
            })),
            Self::Sync(_) => Self::Sync(Err(why)),
            Self::Leave(_) => Self::Leave(Err(why)),
            Self::Commit(_) => Self::Commit(Err(why)),
            Self::Delete(_) => Self::Delete(Err(why)),
            kept @ (Self::Join(Err(_))
            | Self::Heartbeat(_)
            | Self::Fetch(_)
            | Self::Describe(_)
            | Self::List(_)) => kept,
        }
    }
}
