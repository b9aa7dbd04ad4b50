//! A classic group: its members and where it stands.
//!
//! ```text
//!            join                 all joined, or time over
//!   Empty ─────────► Preparing ──────────────────────────► Completing
//!     ▲                ▲  │                                    │ the leader's assignment is written
//!     │ nobody is left │  │  join, leave, silence              ▼
//!     └────────────────┼──┘◄──────────────────────────────── Stable
//!                      └──────────────────────────────────────┘
//! ```
//! A group that is gone is no state: it is not in the shard.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use super::names::{Generation, GroupId, InstanceId, MemberId, ReplyId, TopicName};
use super::record::{GroupValue, MemberValue, OffsetValue, Record};
use super::request::{Client, JoinedMember, Protocol, Refusal};

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No members; offsets at most.
    Empty,
    /// Members are joining the next generation.
    Preparing,
    /// All have joined; the leader's assignment is awaited.
    Completing,
    /// All have their part, or can have it.
    Stable,
}

impl State {
    /// Kafka's name (G-5).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Preparing => "PreparingRebalance",
            Self::Completing => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub id: MemberId,
    pub instance: Option<InstanceId>,
    pub client: Client,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    /// Best first, each name once.
    pub protocols: Vec<Protocol>,
    pub assignment: Bytes,
    /// The join that is not answered yet.
    pub joining: Option<ReplyId>,
    /// The sync that is not answered yet.
    pub syncing: Option<ReplyId>,
    /// It has never been told its generation. It cannot send heartbeats then, and waiting does not excuse its silence.
    pub is_new: bool,
}

impl Member {
    /// How long it may be silent.
    pub fn session_timeout(&self) -> Duration {
        millis(self.session_timeout_ms)
    }

    /// What it says of itself for a protocol.
    pub fn metadata(&self, protocol: &str) -> Bytes {
        let known = self.protocols.iter().find(|known| known.name == protocol);
        known.map(|known| known.metadata.clone()).unwrap_or_default()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.protocols.iter().map(|protocol| protocol.name.as_str())
    }
}

/// The time before a group's first generation in which others may still come (G-17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// How long this part of it is.
    pub part: Duration,
    /// What may follow.
    pub left: Duration,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub id: GroupId,
    pub state: State,
    pub since_ms: i64,
    pub protocol_type: String,
    pub protocol: Option<String>,
    pub generation: Generation,
    pub leader: Option<MemberId>,
    pub members: BTreeMap<MemberId, Member>,
    /// Static members by their own names.
    pub instances: BTreeMap<InstanceId, MemberId>,
    /// Ids that were handed out and have not joined yet (G-8).
    pub pending: BTreeSet<MemberId>,
    /// Members of this generation that have not asked for their assignment.
    pub unsynced: BTreeSet<MemberId>,
    /// Set while the first generation is prepared.
    pub window: Option<Window>,
    /// Somebody new has joined in this part of the window.
    pub has_newcomers: bool,
    /// Something of it is committed: administrators may see it (G-2).
    pub is_written: bool,
    pub offsets: BTreeMap<(TopicName, i32), OffsetValue>,
}

impl Group {
    /// A group that nobody has joined.
    pub fn new(id: GroupId, since_ms: i64) -> Self {
        Self {
            id,
            state: State::Empty,
            since_ms,
            protocol_type: String::new(),
            protocol: None,
            generation: Generation(0),
            leader: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending: BTreeSet::new(),
            unsynced: BTreeSet::new(),
            window: None,
            has_newcomers: false,
            is_written: false,
            offsets: BTreeMap::new(),
        }
    }

    /// Whether there is nothing to keep.
    pub fn is_blank(&self) -> bool {
        self.members.is_empty() && self.pending.is_empty() && self.offsets.is_empty() && !self.is_written
    }

    /// The member, if this is who it says it is (G-13).
    pub fn member(&self, member: &MemberId, instance: Option<&InstanceId>) -> Result<&Member, Refusal> {
        if let Some(instance) = instance {
            match self.instances.get(instance) {
                None => return Err(Refusal::UnknownMember),
                Some(known) if known != member => return Err(Refusal::FencedInstance),
                Some(_) => {}
            }
        }
        self.members.get(member).ok_or(Refusal::UnknownMember)
    }

    /// Whether this member leads.
    pub fn is_led_by(&self, member: &MemberId) -> bool {
        self.leader.as_ref() == Some(member)
    }

    /// The longest that a member wants to be waited for.
    pub fn rebalance_timeout(&self) -> Duration {
        let longest = self
            .members
            .values()
            .map(|member| member.rebalance_timeout_ms)
            .max();
        millis(longest.unwrap_or(0))
    }

    /// How many wait for the next generation.
    pub fn joining_count(&self) -> usize {
        self.members
            .values()
            .filter(|member| member.joining.is_some())
            .count()
    }

    /// Whether nobody is waited for.
    pub fn all_have_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    /// Whether somebody who can only do this may join (G-10).
    pub fn suits(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if protocol_type.is_empty() || protocols.is_empty() {
            return false;
        }
        self.state == State::Empty
            || (self.protocol_type == protocol_type
                && (self.members.is_empty()
                    || !self
                        .known_to_all(protocols.iter().map(|protocol| protocol.name.as_str()).collect())
                        .is_empty()))
    }

    /// Those of the names that every member has. A list may have hundreds of thousands: looking each up in the list of
    /// every member would stop all groups of the lane for minutes.
    fn known_to_all<'a>(&'a self, mut names: BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        for member in self.members.values() {
            if names.is_empty() {
                break;
            }
            names = member.names().filter(|name| names.contains(name)).collect();
        }
        names
    }

    /// The protocol with the most votes: each member votes for its first one that all know (G-19). Between equals, the
    /// first in the leader's list.
    pub fn elected_protocol(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        let first = self.members.values().next()?;
        let common = self.known_to_all(first.names().collect());
        for member in self.members.values() {
            if let Some(name) = member.names().find(|name| common.contains(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        let leader = self.leader.as_ref().and_then(|leader| self.members.get(leader));
        let preferred = leader.into_iter().flat_map(|leader| &leader.protocols);
        let mut winners = preferred.filter(|protocol| votes.get(protocol.name.as_str()) == Some(&most));
        let winner = winners.next().map(|protocol| protocol.name.clone());
        winner.or_else(|| {
            let mut others = votes.iter().filter(|(_, count)| **count == most);
            others.next().map(|(name, _)| (*name).to_owned())
        })
    }

    /// All members as their leader sees them.
    pub fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let seen = |member: &Member| JoinedMember {
            member: member.id.clone(),
            instance: member.instance.clone(),
            metadata: member.metadata(protocol),
        };
        self.members.values().map(seen).collect()
    }

    /// Goes over into another state.
    pub fn enter(&mut self, state: State, wall_ms: i64) {
        self.state = state;
        self.since_ms = wall_ms;
    }

    /// The group as it is written when it is new: nobody has joined, whoever waits.
    pub fn first_record(&self) -> Record {
        Record::Group {
            group: self.id.clone(),
            value: Some(GroupValue {
                since_ms: Some(self.since_ms),
                ..GroupValue::default()
            }),
        }
    }

    /// The group as it is written; a member's part is what `assigned` says.
    pub fn record(&self, assigned: impl Fn(&Member) -> Bytes) -> Record {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let member = |member: &Member| MemberValue {
            member: member.id.clone(),
            instance: member.instance.clone(),
            client_id: member.client.id.clone(),
            client_host: member.client.host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(protocol),
            assignment: assigned(member),
        };
        Record::Group {
            group: self.id.clone(),
            value: Some(GroupValue {
                protocol_type: self.protocol_type.clone(),
                generation: self.generation,
                protocol: self.protocol.clone(),
                leader: self.leader.clone(),
                since_ms: Some(self.since_ms),
                members: self.members.values().map(member).collect(),
            }),
        }
    }
}

/// A time that a client gave; below zero is none.
pub(super) fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
