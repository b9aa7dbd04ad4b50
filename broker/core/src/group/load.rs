//! From records to groups: what a new leader reads, and what a committed write changes.

use std::collections::BTreeMap;

use super::names::{GroupId, MemberId, Stamp};
use super::record::{GroupValue, MemberValue, Record};
use super::request::{Client, Protocol};
use super::shard::Shard;
use super::state::{Group, Member, State};
use crate::mutants::{Mutant, is_selected};

impl Shard {
    /// Takes in a record from the log, before anybody is served. Records come in the order of the log.
    pub fn replay(&mut self, record: Record) {
        match record {
            Record::Offset { .. } if is_selected(Mutant::OffsetsNotLoaded) => {}
            Record::Offset { .. } => self.replay_offset(record, 0),
            Record::Group { group, value: None } => {
                let kept = self
                    .groups
                    .get_mut(&group)
                    .map(|held| std::mem::take(&mut held.offsets));
                self.groups.remove(&group);
                if let Some(offsets) = kept.filter(|offsets| !offsets.is_empty()) {
                    let mut simple = Group::new(group.clone(), 0);
                    simple.offsets = offsets;
                    simple.is_written = true;
                    self.groups.insert(group, simple);
                }
            }
            Record::Group {
                group,
                value: Some(value),
            } => {
                let offsets = self.groups.remove(&group).map(|held| held.offsets);
                let restored = restored(group.clone(), value, offsets.unwrap_or_default());
                self.groups.insert(group, restored);
            }
        }
    }

    /// Everything is read, and the leader begins to serve: members have a whole session to come back (G-24).
    pub fn begin(&mut self, at: Stamp) {
        let mut out = Vec::new();
        let mut work = self.around.work(&mut out, at);
        for group in self.groups.values() {
            for member in group.members.keys() {
                group.heard(&mut work, member);
            }
        }
    }

    /// A record that was written here is committed. What it says of membership is known already.
    pub(super) fn committed(&mut self, record: Record, at: Stamp) {
        match record {
            Record::Offset { .. } => self.replay_offset(record, at.wall_ms),
            Record::Group {
                group,
                value: Some(_),
            } => {
                if let Some(held) = self.groups.get_mut(&group) {
                    held.is_written = true;
                }
            }
            Record::Group { group, value: None } => {
                let Some(held) = self.groups.get_mut(&group) else {
                    return;
                };
                // Somebody may have joined since, or come with offsets.
                held.is_written = !held.offsets.is_empty();
                if held.state == State::Empty && held.offsets.is_empty() {
                    self.groups.remove(&group);
                }
            }
        }
    }

    fn replay_offset(&mut self, record: Record, wall_ms: i64) {
        let Record::Offset {
            group,
            topic,
            partition,
            value,
        } = record
        else {
            return;
        };
        match value {
            Some(value) => {
                let held = self.groups.entry(group.clone());
                let held = held.or_insert_with(|| Group::new(group, wall_ms));
                held.is_written = true;
                held.offsets.insert((topic, partition), value);
            }
            None => {
                if let Some(held) = self.groups.get_mut(&group) {
                    held.offsets.remove(&(topic, partition));
                }
            }
        }
    }
}

fn restored(
    id: GroupId,
    value: GroupValue,
    offsets: BTreeMap<(super::TopicName, i32), super::OffsetValue>,
) -> Group {
    let mut group = Group::new(id, value.since_ms.unwrap_or(0));
    group.state = if value.members.is_empty() {
        State::Empty
    } else {
        State::Stable
    };
    let protocol = value.protocol.clone().unwrap_or_default();
    for member in value.members {
        if let Some(instance) = &member.instance {
            group.instances.insert(instance.clone(), member.member.clone());
        }
        group
            .members
            .insert(member.member.clone(), restored_member(member, &protocol));
    }
    group.protocol_type = value.protocol_type;
    group.protocol = value.protocol;
    group.generation = value.generation;
    let is_here = |leader: &MemberId| group.members.contains_key(leader);
    group.leader = value
        .leader
        .filter(is_here)
        .or_else(|| group.members.keys().next().cloned());
    group.is_written = true;
    group.offsets = offsets;
    group
}

fn restored_member(value: MemberValue, protocol: &str) -> Member {
    Member {
        id: value.member,
        instance: value.instance,
        client: Client {
            id: value.client_id,
            host: value.client_host,
        },
        session_timeout_ms: value.session_timeout_ms,
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        // Only the words for the protocol that was agreed on are written.
        protocols: vec![Protocol {
            name: protocol.to_owned(),
            metadata: value.subscription,
        }],
        assignment: value.assignment,
        joining: None,
        syncing: None,
        is_new: false,
    }
}
