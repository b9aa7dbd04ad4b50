//! A member of a consumer group: it finds its coordinator, joins, gets its part of the partitions, reads back how far the
//! group has come there, and commits how far it has come itself.
//!
//! It does not read records: how far it has come is a number that grows.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_core::group::{
    Client, Generation, Heartbeat, Join, JoinAbilities, Joined, Leave, MemberId, NotJoined, Protocol,
    Refusal, Reply, Request, Stability, Sync, Unanswered,
};
use bytes::Bytes;
use metadata::ids::{BrokerId, PartitionId};

use super::Links;
use crate::chance::Chance;
use crate::message::{ClientAnswer, ClientAsk, GroupAsk, NodeId, StreamKey, Word};
use crate::node::{At, Input, Output, Process, Wish};

/// An answer that does not come within this is given up, and its connection closed: others would wait behind it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(300);
/// How long a rebalance may wait for a member, in ms.
const REBALANCE_TIMEOUT_MS: i32 = 2_000;
/// Partitions of one commit, at most.
const COMMIT_MAX: usize = 3;

/// What all members of a run have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// How long a member may be silent, in ms.
    pub session_timeout_ms: i32,
    /// Between two commits.
    pub commit_interval: Duration,
    /// Of a thousand commits so many are followed by something else: a leave, a long silence, a look back.
    pub restless_per_mille: u64,
}

/// Where a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// It wants to be in the next generation.
    Joining,
    /// It is; the leader knows who gets what.
    Syncing(Vec<(MemberId, Bytes)>),
    /// It has its part, and reads back how far the group has come.
    Fetching,
    /// It commits.
    Working,
}

struct Asked {
    number: u64,
    key: StreamKey,
    since: Duration,
}

/// A member.
pub struct Member {
    me: u32,
    group: String,
    links: Links,
    chance: Chance,
    habits: Habits,
    stage: Stage,
    contact: BrokerId,
    coordinator: Option<BrokerId>,
    member: MemberId,
    generation: Generation,
    is_leader: bool,
    /// The partitions that there were when it, as the leader, assigned them.
    known: Vec<PartitionId>,
    assigned: Vec<PartitionId>,
    positions: BTreeMap<PartitionId, i64>,
    asked: Option<Asked>,
    pause_until: Duration,
    next_beat: Duration,
    next_commit: Duration,
    commits: u64,
    settling: bool,
    /// After everything had healed it has read back what is committed.
    has_settled: bool,
    looked_at: Duration,
}

impl Member {
    /// A member of this group.
    #[must_use]
    pub fn new(me: u32, group: &str, brokers: Vec<BrokerId>, habits: Habits, seed: u64) -> Self {
        let mut links = Links::new(
            NodeId::Client(me),
            brokers,
            Chance::of(seed, &format!("links {me}")),
        );
        Self {
            me,
            group: group.to_owned(),
            contact: links.any_broker(),
            links,
            chance: Chance::of(seed, &format!("member {me}")),
            habits,
            stage: Stage::Joining,
            coordinator: None,
            member: MemberId::default(),
            generation: Generation(-1),
            is_leader: false,
            known: Vec::new(),
            assigned: Vec::new(),
            positions: BTreeMap::new(),
            asked: None,
            pause_until: Duration::ZERO,
            next_beat: Duration::ZERO,
            next_commit: Duration::ZERO,
            commits: 0,
            settling: false,
            has_settled: false,
            looked_at: Duration::ZERO,
        }
    }

    /// Its group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// What it works at, once it has read back how far the group has come since everything healed.
    #[must_use]
    pub fn settled(&self) -> Option<&[PartitionId]> {
        self.has_settled.then_some(self.assigned.as_slice())
    }

    fn pump(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.looked_at = now;
        self.links.refresh(now, out);
        self.give_up_late(now, out);
        if self.asked.is_some() || now < self.pause_until {
            return;
        }
        let Some(coordinator) = self.coordinator else {
            let ask = ClientAsk::Coordinator(self.group.clone());
            return self.send(now, self.contact, ask, out);
        };
        let ask = match &self.stage {
            Stage::Joining => GroupAsk::Join(Box::new(self.join())),
            Stage::Syncing(parts) => {
                let (member, assignments) = (self.member.clone(), parts.clone());
                GroupAsk::Member(Request::Sync(Sync {
                    group: self.group.as_str().into(),
                    member,
                    instance: None,
                    generation: self.generation,
                    protocol_type: None,
                    protocol: None,
                    assignments,
                }))
            }
            Stage::Fetching => self.fetch(),
            Stage::Working => match self.work(now) {
                Some(ask) => ask,
                None => return,
            },
        };
        let ask = ClientAsk::Group(self.group.clone(), Box::new(ask));
        self.send(now, coordinator, ask, out);
    }

    fn send(&mut self, now: Duration, to: BrokerId, ask: ClientAsk, out: &mut Vec<Output>) {
        if let Some(key) = self.links.to(to, out) {
            let number = self.links.send(key, ask, out);
            let since = now;
            self.asked = Some(Asked { number, key, since });
        }
    }

    fn join(&self) -> Join {
        Join {
            group: self.group.as_str().into(),
            member: self.member.clone(),
            instance: None,
            client: Client {
                id: format!("client-{}", self.me),
                host: "/sim".to_owned(),
            },
            session_timeout_ms: self.habits.session_timeout_ms,
            rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
            protocol_type: "consumer".to_owned(),
            protocols: vec![Protocol {
                name: "in-turn".to_owned(),
                metadata: Bytes::new(),
            }],
            abilities: JoinAbilities {
                joins_in_two_steps: true,
                can_skip_assignment: true,
            },
            unique: String::new(),
        }
    }

    fn fetch(&mut self) -> GroupAsk {
        let stability = match self.chance.per_mille(500) {
            true => Stability::AfterPendingWrites,
            false => Stability::Any,
        };
        GroupAsk::Fetch(self.assigned.clone(), stability)
    }

    /// What a member does that has its part.
    fn work(&mut self, now: Duration) -> Option<GroupAsk> {
        let is_there = |partition: &PartitionId| self.links.places.contains_key(partition);
        if self.is_leader && !self.links.places.keys().eq(&self.known) {
            // As clients do when there are other partitions than those that were given out.
            self.stage = Stage::Joining;
            return Some(GroupAsk::Join(Box::new(self.join())));
        }
        if self.next_beat <= now {
            self.next_beat = now + HEARTBEAT;
            return Some(GroupAsk::Member(Request::Heartbeat(Heartbeat {
                group: self.group.as_str().into(),
                member: self.member.clone(),
                instance: None,
                generation: self.generation,
            })));
        }
        if self.settling {
            if self.has_settled {
                return None;
            }
            self.stage = Stage::Fetching;
            return Some(self.fetch());
        }
        if now < self.next_commit {
            return None;
        }
        let there: Vec<PartitionId> = self.assigned.iter().copied().filter(is_there).collect();
        let interval = self.habits.commit_interval;
        self.next_commit = now + self.chance.span(interval / 2, interval * 2);
        if self.chance.per_mille(self.habits.restless_per_mille) {
            return self.something_else(now);
        }
        let first = usize::try_from(self.chance.below(there.len() as u64)).unwrap_or(0);
        let mut offsets = Vec::new();
        for partition in there.iter().cycle().skip(first).take(there.len().min(COMMIT_MAX)) {
            let position = self.positions.entry(*partition).or_default();
            *position += i64::try_from(self.chance.between(1, 9)).unwrap_or(1);
            self.commits += 1;
            offsets.push((*partition, *position, format!("{}/{}", self.me, self.commits)));
        }
        (!offsets.is_empty()).then(|| GroupAsk::Commit {
            member: self.member.clone(),
            generation: self.generation.0,
            offsets,
        })
    }

    fn something_else(&mut self, now: Duration) -> Option<GroupAsk> {
        match self.chance.below(3) {
            0 => {
                let member = std::mem::take(&mut self.member);
                self.stage = Stage::Joining;
                Some(GroupAsk::Member(Request::Leave(Leave {
                    group: self.group.as_str().into(),
                    members: vec![(member, None)],
                })))
            }
            1 => {
                let silent = self
                    .chance
                    .span(Duration::from_millis(500), Duration::from_secs(4));
                self.pause_until = now + silent;
                None
            }
            _ => {
                self.stage = Stage::Fetching;
                Some(self.fetch())
            }
        }
    }

    fn give_up_late(&mut self, now: Duration, out: &mut Vec<Output>) {
        if let Some(asked) = &self.asked
            && asked.since + PATIENCE <= now
        {
            let key = asked.key;
            out.push(Output::Close(key));
            self.lost(now, key);
        }
    }

    /// A connection is over.
    fn lost(&mut self, now: Duration, key: StreamKey) {
        self.links.closed(now, key);
        self.contact = self.links.any_broker();
        if self.asked.take_if(|asked| asked.key == key).is_some() {
            self.coordinator = None;
            // What came of a sync is not known: it is asked for again, and answered again.
            self.pause(now);
        } else if self.asked.is_none() {
            self.coordinator = None;
            self.pause(now);
        }
    }

    fn pause(&mut self, now: Duration) {
        let pause = self
            .chance
            .span(Duration::from_millis(20), Duration::from_millis(150));
        self.pause_until = self.pause_until.max(now + pause);
    }

    fn answered(&mut self, now: Duration, answer: ClientAnswer) {
        match answer {
            ClientAnswer::Coordinator(found) => {
                self.coordinator = found;
                if found.is_none() {
                    self.contact = self.links.any_broker();
                    self.pause(now);
                }
            }
            ClientAnswer::Group(Err(why)) => {
                if why != Unanswered::Loading {
                    self.coordinator = None;
                    self.contact = self.links.any_broker();
                }
                self.pause(now);
            }
            ClientAnswer::Group(Ok(reply)) => self.told(now, reply),
            ClientAnswer::Offsets(offsets) => {
                self.positions = offsets
                    .into_iter()
                    .filter_map(|(partition, offset)| Some((partition, offset?)))
                    .collect();
                self.stage = Stage::Working;
                self.has_settled = self.settling;
            }
            _ => {}
        }
    }

    fn told(&mut self, now: Duration, reply: Reply) {
        let refused = match reply {
            Reply::Join(Ok(joined)) => return self.joined(joined),
            Reply::Join(Err(NotJoined {
                why: Refusal::MemberIdRequired,
                member,
            })) => {
                self.member = member;
                return;
            }
            Reply::Join(Err(NotJoined { why, .. })) => Some(why),
            Reply::Sync(Ok(synced)) => {
                self.assigned = parts_of(&synced.assignment);
                self.stage = Stage::Fetching;
                return;
            }
            Reply::Sync(Err(why)) | Reply::Heartbeat(Err(why)) | Reply::Commit(Err(why)) => Some(why),
            _ => None,
        };
        let Some(why) = refused else { return };
        match why {
            Refusal::WriteElsewhere | Refusal::WriteUnavailable => self.coordinator = None,
            Refusal::UnknownMember | Refusal::FencedInstance => {
                self.member = MemberId::default();
                self.rejoin();
            }
            _ => self.rejoin(),
        }
        self.pause(now);
    }

    fn rejoin(&mut self) {
        self.stage = Stage::Joining;
        self.has_settled = false;
    }

    fn joined(&mut self, joined: Joined) {
        self.is_leader = joined.leader == joined.member;
        self.member = joined.member;
        self.generation = joined.generation;
        self.has_settled = false;
        let mut parts = Vec::new();
        if self.is_leader {
            self.known = self.links.places.keys().copied().collect();
            let count = joined.members.len();
            for (turn, member) in joined.members.into_iter().enumerate() {
                let part = self.known.iter().skip(turn).step_by(count.max(1));
                parts.push((member.member, part_to(part)));
            }
        }
        self.stage = Stage::Syncing(parts);
    }
}

/// What a member is given, in bytes that only members read.
fn part_to<'a>(partitions: impl Iterator<Item = &'a PartitionId>) -> Bytes {
    let mut bytes = Vec::new();
    for partition in partitions {
        bytes.extend(partition.topic.0.to_bytes());
        bytes.extend(partition.index.0.to_be_bytes());
    }
    bytes.into()
}

fn parts_of(bytes: &[u8]) -> Vec<PartitionId> {
    let part = |bytes: &[u8]| {
        let (topic, index) = bytes.split_first_chunk::<16>()?;
        Some(PartitionId {
            topic: metadata::ids::TopicId(metadata::uuid::Uuid::from_bytes(*topic)),
            index: metadata::ids::PartitionIndex(i32::from_be_bytes(index.try_into().ok()?)),
        })
    };
    bytes.chunks(20).filter_map(part).collect()
}

impl Process for Member {
    fn take(&mut self, at: At, input: Input) -> Vec<Output> {
        let (mut out, now) = (Vec::new(), at.world);
        match input {
            Input::StreamReady(key) => self.links.ready(key),
            Input::StreamClosed(key, _) => self.lost(now, key),
            Input::Heard(_, Word::Answer(_, ClientAnswer::Located(upto, places))) => {
                self.links.located(upto, places);
            }
            Input::Heard(_, Word::Answer(number, answer))
                if self.asked.take_if(|asked| asked.number == number).is_some() =>
            {
                self.answered(now, answer);
            }
            Input::Wish(Wish::Settle) => self.settling = true,
            _ => {}
        }
        self.pump(now, &mut out);
        out
    }

    fn next_tick(&self) -> Option<Duration> {
        let mut moments = vec![self.links.refresh_at];
        if let Some(asked) = &self.asked {
            moments.push(asked.since + PATIENCE);
        } else {
            let next_commit = if self.settling {
                Duration::MAX
            } else {
                self.next_commit
            };
            let own = [self.pause_until, self.next_beat, next_commit];
            let own = own.into_iter().map(|moment| moment.max(self.pause_until));
            // What was due at the last look waits for something else.
            moments.extend(own.filter(|moment| self.looked_at < *moment && *moment < Duration::MAX));
        }
        moments.into_iter().min()
    }
}
