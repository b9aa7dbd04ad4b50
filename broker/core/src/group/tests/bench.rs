//! A shard with a log beside it that takes everything when it is told to, and a clock that goes when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use metadata::ids::TopicId;

use crate::group::{
    Client, Commit, CommittedOffset, Described, Effect, Event, Fetch, FetchTopic, Generation, Heartbeat,
    Join, JoinAbilities, Joined, Leave, NotJoined, Outcome, Protocol, Record, Refusal, Reply, ReplyId,
    Request, Settings, Shard, Stability, Stamp, Sync, WriteId,
};
use crate::time::Moment;

pub const GROUP: &str = "g";
pub const TOPIC: &str = "t";

/// The newest version of JoinGroup.
pub const NEW: JoinAbilities = JoinAbilities {
    joins_in_two_steps: true,
    can_skip_assignment: true,
};
/// One that joins at once and cannot keep an assignment.
pub const OLD: JoinAbilities = JoinAbilities {
    joins_in_two_steps: false,
    can_skip_assignment: false,
};

pub fn settings() -> Settings {
    Settings {
        initial_rebalance_delay: Duration::from_secs(3),
        session_timeout_ms_min: 6_000,
        session_timeout_ms_max: 1_800_000,
        members_max: 10,
        offset_metadata_units_max: 8,
    }
}

pub struct Bench {
    pub shard: Shard,
    now: Moment,
    next: u64,
    answers: BTreeMap<ReplyId, Reply>,
    /// Asked for and not settled.
    pub pending: Vec<(WriteId, Vec<Record>)>,
    /// Committed.
    pub log: Vec<Record>,
}

impl Bench {
    pub fn new(settings: Settings) -> Bench {
        Bench {
            shard: Shard::new(settings),
            now: Moment::START,
            next: 0,
            answers: BTreeMap::new(),
            pending: Vec::new(),
            log: Vec::new(),
        }
    }

    /// A shard that has read this log, some time later.
    pub fn successor(&self) -> Bench {
        let mut bench = Bench::new(settings());
        bench.now = self.now;
        for record in &self.log {
            bench.shard.replay(record.clone());
        }
        bench.shard.begin(bench.stamp());
        bench
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            now: self.now,
            wall_ms: i64::try_from(self.now.since_start().as_millis()).unwrap(),
        }
    }

    fn step(&mut self, event: Event) {
        for effect in self.shard.step(event, self.stamp()) {
            match effect {
                Effect::Append { write, records } => self.pending.push((write, records)),
                Effect::Reply { to, reply } => {
                    assert!(
                        self.answers.insert(to, reply).is_none(),
                        "{to:?} is answered once"
                    );
                }
            }
        }
    }

    pub fn ask(&mut self, request: Request) -> ReplyId {
        let to = ReplyId(self.next);
        self.next += 1;
        self.step(Event::Asked(to, request));
        to
    }

    /// The log takes everything that waits.
    pub fn written(&mut self) {
        while !self.pending.is_empty() {
            let (write, records) = self.pending.remove(0);
            self.log.extend(records);
            self.step(Event::Written(write, Outcome::Committed));
        }
    }

    /// What became of the write at this place.
    pub fn outcome(&mut self, place: usize, outcome: Outcome) {
        let (write, records) = self.pending[place].clone();
        if outcome != Outcome::Overdue {
            self.pending.remove(place);
        }
        if outcome == Outcome::Committed {
            self.log.extend(records);
        }
        self.step(Event::Written(write, outcome));
    }

    /// Time passes; every timer fires when it is due.
    pub fn pass(&mut self, seconds: u64) {
        let until = self.now.after(Duration::from_secs(seconds));
        while let Some(due) = self.shard.next_tick().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.step(Event::Tick);
        }
        self.now = until;
    }

    pub fn topics_deleted(&mut self, topics: BTreeSet<metadata::ids::TopicId>) {
        self.step(Event::TopicsDeleted(topics));
    }

    /// The answer, if there is one.
    pub fn answer(&self, to: ReplyId) -> Option<&Reply> {
        self.answers.get(&to)
    }

    pub fn joined(&self, to: ReplyId) -> &Joined {
        match self.answer(to) {
            Some(Reply::Join(Ok(joined))) => joined,
            other => panic!("{other:?}"),
        }
    }

    pub fn not_joined(&self, to: ReplyId) -> (Refusal, &str) {
        match self.answer(to) {
            Some(Reply::Join(Err(NotJoined { why, member }))) => (*why, member.as_str()),
            other => panic!("{other:?}"),
        }
    }

    /// Joins with the id that the first answer gives.
    pub fn enter(&mut self, name: &str) -> (ReplyId, String) {
        let first = self.ask(Request::Join(join(name, "")));
        let (why, member) = self.not_joined(first);
        assert_eq!(why, Refusal::MemberIdRequired);
        let member = member.to_owned();
        (self.ask(Request::Join(join(name, &member))), member)
    }

    /// A stable group of one.
    pub fn stable(&mut self, name: &str) -> String {
        let (to, member) = self.enter(name);
        self.pass(3);
        let generation = self.joined(to).generation;
        self.ask(Request::Sync(sync(&member, generation, &[(&member, "all")])));
        self.written();
        member
    }

    /// A stable group of two in generation 2: leader, follower.
    pub fn pair(&mut self) -> (String, String) {
        let leader = self.stable("a");
        let (to, follower) = self.enter("b");
        self.ask(Request::Join(join("a", &leader)));
        let generation = self.joined(to).generation;
        self.ask(Request::Sync(sync(&follower, generation, &[])));
        let parts = [(leader.as_str(), "one"), (follower.as_str(), "two")];
        self.ask(Request::Sync(sync(&leader, generation, &parts)));
        self.written();
        (leader, follower)
    }

    pub fn beat(&mut self, member: &str, generation: i32) -> Result<(), Refusal> {
        let to = self.ask(Request::Heartbeat(Heartbeat {
            group: GROUP.into(),
            member: member.into(),
            instance: None,
            generation: Generation(generation),
        }));
        match self.answer(to) {
            Some(Reply::Heartbeat(result)) => *result,
            other => panic!("{other:?}"),
        }
    }

    pub fn described(&mut self) -> Option<Described> {
        let to = self.ask(Request::Describe(GROUP.into()));
        match self.answer(to) {
            Some(Reply::Describe(described)) => described.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// The state's name; "Dead" if there is no group.
    pub fn state(&mut self) -> &'static str {
        self.described()
            .map_or("Dead", |described| described.state.name())
    }

    pub fn fetched(&mut self, partition: i32) -> Option<i64> {
        self.fetched_of(None, partition)
    }

    /// As [`Self::fetched`], of the topic that has the name now, if any.
    pub fn fetched_of(&mut self, topic: Option<TopicId>, partition: i32) -> Option<i64> {
        let mut asked = fetch(partition, Stability::Any);
        asked.topics.as_mut().unwrap()[0].id = topic;
        let to = self.ask(Request::Fetch(asked));
        self.offset_in(to).unwrap()
    }

    /// The one offset in an answer, if there is an answer.
    pub fn offset_in(&self, to: ReplyId) -> Option<Option<i64>> {
        match self.answer(to)? {
            Reply::Fetch(topics) => Some(topics[0].partitions[0].1.as_ref().map(|value| value.offset)),
            other => panic!("{other:?}"),
        }
    }

    pub fn left(&mut self, members: &[&str]) -> Vec<Result<(), Refusal>> {
        let to = self.ask(Request::Leave(Leave {
            group: GROUP.into(),
            members: members.iter().map(|member| ((*member).into(), None)).collect(),
        }));
        self.written();
        match self.answer(to) {
            Some(Reply::Leave(Ok(results))) => results.clone(),
            other => panic!("{other:?}"),
        }
    }
}

/// A client of the newest version.
pub fn join(name: &str, member: &str) -> Join {
    Join {
        group: GROUP.into(),
        member: member.into(),
        instance: None,
        client: Client {
            id: name.to_owned(),
            host: "/h".to_owned(),
        },
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol("range", name)],
        abilities: NEW,
        unique: format!("of-{name}"),
    }
}

pub fn protocol(name: &str, metadata: &str) -> Protocol {
    Protocol {
        name: name.to_owned(),
        metadata: Bytes::copy_from_slice(metadata.as_bytes()),
    }
}

pub fn sync(member: &str, generation: Generation, parts: &[(&str, &str)]) -> Sync {
    Sync {
        group: GROUP.into(),
        member: member.into(),
        instance: None,
        generation,
        protocol_type: None,
        protocol: None,
        assignments: parts
            .iter()
            .map(|(member, part)| ((*member).into(), Bytes::copy_from_slice(part.as_bytes())))
            .collect(),
    }
}

/// A commit from outside of a group.
pub fn commit(partition: i32, offset: i64) -> Commit {
    Commit {
        group: GROUP.into(),
        member: "".into(),
        instance: None,
        generation: Generation(-1),
        stranger: Refusal::IllegalGeneration,
        retention: None,
        offsets: vec![CommittedOffset {
            topic: TOPIC.into(),
            topic_id: None,
            partition,
            offset,
            leader_epoch: None,
            metadata: String::new(),
        }],
    }
}

pub fn fetch(partition: i32, stability: Stability) -> Fetch {
    Fetch {
        group: GROUP.into(),
        topics: Some(vec![FetchTopic {
            name: TOPIC.into(),
            id: None,
            partitions: vec![partition],
        }]),
        stability,
    }
}
