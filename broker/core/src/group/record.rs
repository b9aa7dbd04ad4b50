//! What a group leaves behind, as typed records: the shell writes them in Kafka's formats.

use bytes::Bytes;
use metadata::ids::TopicId;

use super::names::{Generation, GroupId, InstanceId, MemberId, TopicName};

/// One record of a partition of `__consumer_offsets`. A value of `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A group with its members.
    Group {
        /// Which one.
        group: GroupId,
        /// What it is.
        value: Option<GroupValue>,
    },
    /// A committed offset.
    Offset {
        /// Whose.
        group: GroupId,
        /// Of which topic.
        topic: TopicName,
        /// Of which partition.
        partition: i32,
        /// What was committed.
        value: Option<OffsetValue>,
    },
}

/// A classic group at the end of a rebalance, or without members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupValue {
    /// What kind of clients; empty while there was none.
    pub protocol_type: String,
    /// Its generation.
    pub generation: Generation,
    /// The protocol that the members agreed on.
    pub protocol: Option<String>,
    /// Who leads.
    pub leader: Option<MemberId>,
    /// Since when it is in this state, in ms since 1970.
    pub since_ms: Option<i64>,
    /// Who belongs to it.
    pub members: Vec<MemberValue>,
}

/// A member of a classic group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberValue {
    /// Its name.
    pub member: MemberId,
    /// Its own name, if it is static.
    pub instance: Option<InstanceId>,
    /// What its client calls itself.
    pub client_id: String,
    /// Where it is.
    pub client_host: String,
    /// How long a rebalance may wait for it, in ms.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent, in ms.
    pub session_timeout_ms: i32,
    /// What it said of itself for the protocol that was agreed on.
    pub subscription: Bytes,
    /// What the leader gave it.
    pub assignment: Bytes,
}

/// A committed offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetValue {
    /// The next record to be read.
    pub offset: i64,
    /// Epoch of the leader that the last one was read from.
    pub leader_epoch: Option<i32>,
    /// The client's own words.
    pub metadata: String,
    /// When it was committed, in ms since 1970.
    pub committed_ms: i64,
    /// When it shall go, where the client said so, in ms since 1970.
    pub expires_ms: Option<i64>,
    /// The topic, so that another one of its name does not inherit it.
    pub topic: Option<TopicId>,
}
