//! Transcripts: a script of what happens, and what the controller makes of it, side by side in one file.
//!
//! Above the line `----` stands the script, below it what must come out. With `MILLRACE_TRANSCRIPTS=write` in the
//! environment the lower part is written instead of compared: read what it says before you keep it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use controller_core::command::{
    AlterConfigs, AlterPartition, Assignment, Command, ConfigAlteration, ConfigOperation, ConfigWish,
    CreatePartitions, CreateTopics, DeleteTopics, ElectLeaders, ElectionKind, InSyncMember, InSyncProposal,
    MorePartitions, NewTopic, Reply, TopicRef,
};
use controller_core::driver::event::{Effect, StreamEnd};
use controller_core::refusal::Refusal;
use metadata::ids::{
    BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, PartitionId, PartitionIndex,
};
use metadata::image::Partition;
use metadata::record::{ConfigResource, LeaderChange, LeaderRecovery, PartitionChanged, Record};
use metadata::uuid::Uuid;

use crate::world::{Quorum, World, settings};

#[test]
fn transcripts_come_out_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let write = std::env::var("MILLRACE_TRANSCRIPTS").is_ok_and(|value| value == "write");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 8, "the transcripts were not found");
    let mut wrong = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (script, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let actual = play(script);
        if write {
            std::fs::write(&file, format!("{}----\n{actual}", script_with_end(script))).unwrap();
        } else if actual != expected {
            writeln!(wrong, "{}: came out as\n{actual}", file.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn script_with_end(script: &str) -> String {
    if script.ends_with('\n') {
        script.to_owned()
    } else {
        format!("{script}\n")
    }
}

fn play(script: &str) -> String {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    let mut player: Option<Player> = None;
    for line in script.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(pair) = line.strip_prefix("file ") {
            keys.push(pair.split_once('=').expect("key=value"));
            continue;
        }
        player.get_or_insert_with(|| Player::new(&keys)).line(line);
    }
    player.expect("a script with at least one line").out
}

/// Words of a line: the verb, what stands alone, and `key=value` pairs.
struct Line<'a> {
    verb: &'a str,
    words: Vec<&'a str>,
    pairs: BTreeMap<&'a str, &'a str>,
}

impl<'a> Line<'a> {
    fn of(text: &'a str) -> Self {
        let mut parts = text.split_whitespace();
        let verb = parts.next().expect("a verb");
        let (pairs, words): (Vec<&str>, Vec<&str>) = parts.partition(|part| part.contains('='));
        let pairs = pairs
            .into_iter()
            .map(|pair| pair.split_once('=').expect("key=value"));
        Self {
            verb,
            words,
            pairs: pairs.collect(),
        }
    }

    fn says(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn broker(&self) -> BrokerId {
        BrokerId(self.words[0].parse().expect("a broker id"))
    }
}

struct Player {
    world: World,
    out: String,
}

impl Player {
    fn new(keys: &[(&str, &str)]) -> Self {
        let mut world = World::new(settings(keys));
        world.take_committed();
        world.take_notices();
        Self {
            world,
            out: String::new(),
        }
    }

    fn line(&mut self, text: &str) {
        let line = Line::of(text);
        let result = self.act(&line);
        let is_quiet = matches!(line.verb, "brokers" | "topic" | "quorum" | "beats" | "lease");
        let records = self.world.take_committed();
        let notices = self.world.take_notices();
        let told: Vec<String> = notices
            .iter()
            .map(notice)
            .chain(
                records
                    .iter()
                    .filter(|record| **record != Record::NoOp)
                    .map(|record| self.record(record)),
            )
            .chain(result)
            .collect();
        let is_waiting = told.iter().any(|line| line == "no answer yet");
        if is_quiet && !is_waiting && !told.iter().any(|line| line.starts_with("refused")) {
            self.world.replies.clear();
            return;
        }
        writeln!(self.out, "{text}").unwrap();
        for line in told {
            writeln!(self.out, "    {line}").unwrap();
        }
    }

    fn act(&mut self, line: &Line<'_>) -> Option<String> {
        match line.verb {
            "brokers" => {
                let ids: Vec<i32> = line.words.iter().map(|id| id.parse().unwrap()).collect();
                self.world.start(&ids);
                None
            }
            "topic" => self.create(line),
            "delete" => self.delete(line),
            "register" => self.register(line),
            "heartbeat" => self.heartbeat(line),
            "alter" => self.alter(line),
            "producer-ids" => {
                let broker = line.broker();
                let epoch = self.world.processes[&broker].epoch;
                self.ask(Command::AllocateProducerIds { broker, epoch })
            }
            "grow" => self.grow(line),
            "configure" => self.configure(line),
            "elect" => self.elect(line),
            "elect-preferred" => self.ask(Command::ElectPreferredLeaders),
            "silence" => {
                self.world.processes.get_mut(&line.broker()).unwrap().beats = false;
                None
            }
            "close" => {
                let end = if line.says("goodbye") {
                    StreamEnd::Goodbye
                } else {
                    StreamEnd::Broken
                };
                self.world.close(line.broker(), end);
                None
            }
            "wait" => {
                let ms: u64 = line.words[0].trim_end_matches("ms").parse().unwrap();
                self.world.pass(Duration::from_millis(ms));
                None
            }
            "stall" => {
                let ms: u64 = line.words[0].trim_end_matches("ms").parse().unwrap();
                self.world.stall(Duration::from_millis(ms));
                None
            }
            "show" => Some(self.show(line.words[0])),
            "where" => Some(self.lies_in(&line.words)),
            "broker" => Some(self.broker(line.broker())),
            _ => self.disturb(line),
        }
    }

    /// What happens to the controller itself.
    fn disturb(&mut self, line: &Line<'_>) -> Option<String> {
        match line.verb {
            "quorum" => {
                self.world.quorum = if line.says("slow") {
                    Quorum::Slow
                } else {
                    Quorum::Prompt
                };
                None
            }
            "lease" => {
                self.world.lease = line.says("on");
                None
            }
            "commit" => {
                self.world.commit();
                self.answers()
            }
            "refuse" => {
                self.world.refuse();
                self.answers()
            }
            "lead" => {
                self.world.lead();
                self.answers()
            }
            "lose" => {
                self.world.lose();
                self.answers()
            }
            other => panic!("no such verb: {other}"),
        }
    }

    /// The answer of a command, or that it is still open.
    fn ask(&mut self, command: Command) -> Option<String> {
        let id = self.world.send(command);
        match self.world.replies.remove(&id) {
            Some(result) => answer(&result),
            None => Some("no answer yet".to_owned()),
        }
    }

    /// Answers that came since.
    fn answers(&mut self) -> Option<String> {
        let replies = std::mem::take(&mut self.world.replies);
        let told: Vec<String> = replies.values().filter_map(answer).collect();
        (!told.is_empty()).then(|| told.join("\n    "))
    }

    fn create(&mut self, line: &Line<'_>) -> Option<String> {
        let mut topic = NewTopic {
            name: line.words[0].to_owned(),
            ..NewTopic::default()
        };
        for (key, value) in &line.pairs {
            match *key {
                "replicas" => {
                    topic.assignments = value
                        .split('/')
                        .zip(0..)
                        .map(|(replicas, partition)| Assignment {
                            partition,
                            replicas: ids(replicas),
                        })
                        .collect();
                }
                "partitions" => topic.partitions = Some(value.parse().unwrap()),
                "factor" => topic.replication_factor = Some(value.parse().unwrap()),
                key => topic.configs.push((key.to_owned(), Some((*value).to_owned()))),
            }
        }
        self.ask(Command::CreateTopics(CreateTopics {
            topics: vec![topic],
            validate_only: false,
            timeout_ms: 1000,
            entropy: 1,
        }))
    }

    fn delete(&mut self, line: &Line<'_>) -> Option<String> {
        let topics = line.words.iter().map(|name| TopicRef::Name((*name).to_owned()));
        self.ask(Command::DeleteTopics(DeleteTopics {
            topics: topics.collect(),
            timeout_ms: 1000,
        }))
    }

    fn grow(&mut self, line: &Line<'_>) -> Option<String> {
        let by_hand = line.pairs.get("replicas");
        self.ask(Command::CreatePartitions(CreatePartitions {
            topics: vec![MorePartitions {
                name: line.words[0].to_owned(),
                count: line.pairs["to"].parse().unwrap(),
                assignments: by_hand.map(|replicas| replicas.split('/').map(ids).collect()),
            }],
            validate_only: line.says("validate-only"),
            timeout_ms: 1000,
            entropy: 1,
        }))
    }

    /// `key=value` sets, `key+=items` and `key-=items` change a list, `-key` deletes; with `replace` nothing else stays.
    fn configure(&mut self, line: &Line<'_>) -> Option<String> {
        let resource = match line.words[0] {
            "all-brokers" => ConfigResource::ClusterDefault,
            name => match name.parse().map(BrokerId) {
                Ok(broker) => ConfigResource::Broker(broker),
                Err(_) => ConfigResource::Topic(name.to_owned()),
            },
        };
        let sets = line.pairs.iter().map(|(key, value)| {
            let value = (*value).to_owned();
            match (key.strip_suffix('+'), key.strip_suffix('-')) {
                (Some(key), _) => (key.to_owned(), ConfigOperation::Append(value)),
                (_, Some(key)) => (key.to_owned(), ConfigOperation::Subtract(value)),
                _ => ((*key).to_owned(), ConfigOperation::Set(value)),
            }
        });
        let deletes = line.words.iter().filter_map(|word| word.strip_prefix('-'));
        let deletes = deletes.map(|key| (key.to_owned(), ConfigOperation::Delete));
        let wish = if line.says("replace") {
            let pairs = line.pairs.iter();
            ConfigWish::Replace(
                pairs
                    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                    .collect(),
            )
        } else {
            ConfigWish::Adjust(sets.chain(deletes).collect())
        };
        self.ask(Command::AlterConfigs(AlterConfigs {
            resources: vec![ConfigAlteration { resource, wish }],
            validate_only: line.says("validate-only"),
        }))
    }

    /// `preferred` or `unclean`, then partitions; none is all of them.
    fn elect(&mut self, line: &Line<'_>) -> Option<String> {
        let kind = match line.words[0] {
            "preferred" => ElectionKind::Preferred,
            "unclean" => ElectionKind::Unclean,
            other => panic!("no such election: {other}"),
        };
        let named = line.words[1..].iter().map(|text| {
            let (topic, index) = text.rsplit_once('-').expect("topic-partition");
            (topic.to_owned(), index.parse().unwrap())
        });
        let named: Vec<(String, i32)> = named.collect();
        self.ask(Command::ElectLeaders(ElectLeaders {
            kind,
            partitions: (!named.is_empty()).then_some(named),
            timeout_ms: 1000,
        }))
    }

    fn register(&mut self, line: &Line<'_>) -> Option<String> {
        let broker = line.broker();
        let mut command = self.world.registration(broker);
        let known = self.world.processes.get(&broker).cloned();
        if line.says("cleanly") {
            command.previous_epoch = known.as_ref().map(|known| known.epoch);
        }
        if line.says("not-heard") {
            command.unserved = known.iter().map(|known| known.incarnation).collect();
        }
        if line.says("again") {
            command.incarnation = known.as_ref().expect("it ran before").incarnation;
        }
        if line.says("elsewhere") {
            command.directories = vec![DirectoryId(self.world.fresh_id())];
        }
        for (key, value) in &line.pairs {
            match *key {
                "cluster" => command.cluster_id = Some((*value).to_owned()),
                "rack" => command.rack = Some((*value).to_owned()),
                "directories" => {
                    let ids = value.split(',').map(|id| DirectoryId(Uuid(id.parse().unwrap())));
                    command.directories = ids.collect();
                }
                other => panic!("no such key: {other}"),
            }
        }
        match self.world.register(command) {
            Ok(_) => None,
            Err(refusal) => Some(refused(&refusal)),
        }
    }

    fn heartbeat(&mut self, line: &Line<'_>) -> Option<String> {
        let mut heartbeat = self.world.heartbeat(line.broker());
        heartbeat.want_fence = line.says("wants-fence");
        heartbeat.want_shutdown = line.says("wants-shutdown");
        for (key, value) in &line.pairs {
            match *key {
                "applied" if *value == "nothing" => heartbeat.applied_end = None,
                "behind" => {
                    let end = heartbeat.applied_end.as_mut().unwrap();
                    end.0 -= value.parse::<i64>().unwrap();
                }
                "epoch" => heartbeat.epoch = BrokerEpoch(value.parse().unwrap()),
                "offline" => {
                    let ids = value.split(',').map(|id| DirectoryId(Uuid(id.parse().unwrap())));
                    heartbeat.offline_directories = ids.collect();
                }
                other => panic!("no such key: {other}"),
            }
        }
        let id = self.world.beat_without_answer(heartbeat);
        match self.world.replies.remove(&id) {
            Some(result) => answer(&result),
            None => Some("no answer yet".to_owned()),
        }
    }

    fn alter(&mut self, line: &Line<'_>) -> Option<String> {
        let id = self.partition_id(line.words[0]);
        let partition = self.world.image().partition(id).cloned();
        let by = line.pairs.get("by").map(|id| BrokerId(id.parse().unwrap()));
        let by = by
            .or(partition.as_ref().and_then(|it| it.leader))
            .expect("somebody asks");
        let number = |key: &str, held: i32| line.pairs.get(key).map_or(held, |it| it.parse().unwrap());
        let held = partition.as_deref();
        let in_sync = line.pairs["in-sync"].split(',').map(|member| {
            let (id, stale) = match member.strip_suffix("@stale") {
                Some(id) => (id, true),
                None => (member, false),
            };
            let broker = BrokerId(id.parse().unwrap());
            let epoch = self.world.processes.get(&broker).map(|it| it.epoch);
            InSyncMember {
                broker,
                epoch: epoch.map(|it| if stale { BrokerEpoch(it.0 - 1) } else { it }),
            }
        });
        let wish = InSyncProposal {
            partition: id,
            leader_epoch: LeaderEpoch(number("leader-epoch", held.map_or(0, |it| it.leader_epoch.0))),
            partition_epoch: PartitionEpoch(number("epoch", held.map_or(0, |it| it.epoch.0))),
            in_sync: in_sync.collect(),
            recovery: if line.says("recovering") {
                LeaderRecovery::Recovering
            } else {
                LeaderRecovery::Recovered
            },
        };
        let held_epoch = self
            .world
            .processes
            .get(&by)
            .map_or(BrokerEpoch(0), |it| it.epoch);
        let epoch = line
            .pairs
            .get("sender-epoch")
            .map(|it| BrokerEpoch(it.parse().unwrap()));
        self.ask(Command::AlterPartition(AlterPartition {
            broker: by,
            epoch: epoch.unwrap_or(held_epoch),
            partitions: vec![wish],
        }))
    }

    fn partition_id(&self, text: &str) -> PartitionId {
        let (name, index) = text.rsplit_once('-').expect("topic-partition");
        let topic = self.world.image().topic_named(name).map(|topic| topic.id);
        PartitionId {
            topic: topic.unwrap_or_default(),
            index: PartitionIndex(index.parse().unwrap()),
        }
    }

    fn named(&self, id: PartitionId) -> String {
        // A deleted topic is not in the last image any more, but in one before.
        let images = self.world.images.iter().rev();
        let topic = images
            .map(|image| image.topics.get(&id.topic))
            .find_map(|topic| topic.cloned());
        format!(
            "{}-{}",
            topic.map_or_else(|| "?".to_owned(), |topic| topic.name.clone()),
            id.index
        )
    }

    fn show(&self, text: &str) -> String {
        match self.world.image().partition(self.partition_id(text)) {
            Some(partition) => state(partition),
            None => "there is none".to_owned(),
        }
    }

    /// The directories of partitions, in the order of their replicas.
    fn lies_in(&self, partitions: &[&str]) -> String {
        let told = partitions.iter().map(|text| {
            let held = self.world.image().partition(self.partition_id(text));
            let names: Vec<String> = held.unwrap().directories.iter().map(directory).collect();
            format!("{text} ({})", names.join(","))
        });
        told.collect::<Vec<_>>().join("\n    ")
    }

    fn broker(&self, id: BrokerId) -> String {
        match self.world.image().brokers.get(&id) {
            None => "not registered".to_owned(),
            Some(broker) => format!(
                "{}{}",
                if broker.fenced { "fenced" } else { "unfenced" },
                if broker.in_controlled_shutdown {
                    " in-controlled-shutdown"
                } else {
                    ""
                }
            ),
        }
    }

    fn record(&self, record: &Record) -> String {
        match record {
            Record::BrokerRegistered(it) => format!("BrokerRegistered {}", it.broker),
            Record::BrokerRegistrationChanged(it) => {
                let mut text = format!("BrokerRegistrationChanged {}", it.broker);
                match it.fenced {
                    Some(true) => text.push_str(" fenced"),
                    Some(false) => text.push_str(" unfenced"),
                    None => {}
                }
                match it.in_controlled_shutdown {
                    Some(true) => text.push_str(" in-controlled-shutdown"),
                    Some(false) => text.push_str(" not-shutting-down"),
                    None => {}
                }
                if let Some(directories) = &it.directories {
                    write!(text, " directories={}", directories.len()).unwrap();
                }
                text
            }
            Record::TopicCreated { name, .. } => format!("TopicCreated {name}"),
            Record::TopicDeleted { topic } => {
                let id = PartitionId {
                    topic: *topic,
                    index: PartitionIndex(0),
                };
                format!("TopicDeleted {}", self.named(id).trim_end_matches("-0"))
            }
            Record::PartitionCreated(it) => {
                format!(
                    "PartitionCreated {} {}",
                    self.named(it.partition),
                    state(&it.state)
                )
            }
            Record::PartitionChanged(it) => format!("PartitionChanged {}", self.changed(it)),
            Record::ConfigChanged { key, value, .. } => format!("ConfigChanged {key}={value:?}"),
            Record::EligibleReplicasCleared { topic } => {
                let name = topic.map(|topic| {
                    self.named(PartitionId {
                        topic,
                        index: PartitionIndex(0),
                    })
                });
                let name = name
                    .as_deref()
                    .map_or("everywhere", |name| name.trim_end_matches("-0"));
                format!("EligibleReplicasCleared {name}")
            }
            Record::ProducerIdsAllocated { next, .. } => format!("ProducerIdsAllocated next={next}"),
            other => format!("{other:?}"),
        }
    }

    fn changed(&self, it: &PartitionChanged) -> String {
        let mut text = self.named(it.partition);
        let mut list = |name: &str, ids: &Option<Vec<BrokerId>>| {
            if let Some(ids) = ids {
                write!(text, " {name}={}", list_of(ids)).unwrap();
            }
        };
        list("in-sync", &it.in_sync);
        list("eligible", &it.eligible);
        list("replicas", &it.replicas);
        if let Some(directories) = &it.directories {
            let names: Vec<String> = directories.iter().map(directory).collect();
            write!(text, " directories=({})", names.join(",")).unwrap();
        }
        match it.leader {
            Some(LeaderChange::To(broker)) => write!(text, " leader={broker}").unwrap(),
            Some(LeaderChange::Nobody) => text.push_str(" leader=nobody"),
            None => {}
        }
        if let Some(known) = it.last_known_leader {
            write!(text, " last-known={}", somebody(known)).unwrap();
        }
        if let Some(recovery) = it.recovery {
            write!(text, " {recovery:?}").unwrap();
        }
        text
    }
}

fn ids(text: &str) -> Vec<BrokerId> {
    text.split(',').map(|id| BrokerId(id.parse().unwrap())).collect()
}

fn list_of(ids: &[BrokerId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!("({})", ids.join(","))
}

fn directory(id: &DirectoryId) -> String {
    match *id {
        DirectoryId::UNASSIGNED => "unassigned".to_owned(),
        DirectoryId::MIGRATING => "none".to_owned(),
        id => id.0.0.to_string(),
    }
}

fn somebody(id: Option<BrokerId>) -> String {
    id.map_or_else(|| "nobody".to_owned(), |id| id.to_string())
}

fn state(partition: &Partition) -> String {
    let mut text = format!(
        "in-sync={} leader={}",
        list_of(&partition.in_sync),
        somebody(partition.leader)
    );
    if !partition.eligible.is_empty() {
        write!(text, " eligible={}", list_of(&partition.eligible)).unwrap();
    }
    if partition.last_known_leader.is_some() {
        write!(text, " last-known={}", somebody(partition.last_known_leader)).unwrap();
    }
    if partition.recovery == LeaderRecovery::Recovering {
        text.push_str(" Recovering");
    }
    write!(text, " epochs={}/{}", partition.leader_epoch, partition.epoch).unwrap();
    text
}

fn refused(refusal: &Refusal) -> String {
    let kind = format!("{refusal:?}");
    let kind = kind.split([' ', '(', '{']).next().unwrap_or_default();
    format!("refused {kind}")
}

fn answer(result: &Result<Reply, Refusal>) -> Option<String> {
    let reply = match result {
        Ok(reply) => reply,
        Err(refusal) => return Some(refused(refusal)),
    };
    match reply {
        Reply::Heartbeat(it) => {
            let mut text = String::from("answer");
            text.push_str(if it.is_fenced { " fenced" } else { " unfenced" });
            text.push_str(if it.is_caught_up { " caught-up" } else { " behind" });
            text.push_str(if it.should_shut_down { " stop" } else { "" });
            Some(text)
        }
        Reply::TopicsCreated(topics) => topics
            .iter()
            .find_map(|it| it.result.as_ref().err().map(refused))
            .or(Some("created".to_owned())),
        Reply::TopicsDeleted(topics) => topics.iter().find_map(|it| it.refused.as_ref().map(refused)),
        Reply::PartitionsAltered(outcomes) => match &outcomes[0].result {
            Ok(standing) => Some(format!(
                "answer in-sync={} leader={} epochs={}/{}",
                list_of(&standing.in_sync),
                somebody(standing.leader),
                standing.leader_epoch,
                standing.epoch
            )),
            Err(refusal) => Some(refused(refusal)),
        },
        Reply::PartitionsCreated(topics) => topics
            .iter()
            .find_map(|it| it.refused.as_ref().map(refused))
            .or(Some("grown".to_owned())),
        Reply::ConfigsAltered(refusals) => refusals
            .iter()
            .find_map(|it| it.as_ref().map(refused))
            .or(Some("configured".to_owned())),
        Reply::LeadersElected(outcomes) => {
            let told = outcomes.iter().map(|it| {
                let result = it.refused.as_ref().map_or("elected".to_owned(), refused);
                format!("{}-{} {result}", it.topic, it.partition)
            });
            let told: Vec<String> = told.collect();
            match told.is_empty() {
                true => Some("answer nothing".to_owned()),
                false => Some(format!("answer {}", told.join(", "))),
            }
        }
        Reply::ProducerIds { first, count } => Some(format!("answer first={first} count={count}")),
        Reply::Registered { .. } | Reply::Done => None,
    }
}

fn notice(effect: &Effect) -> String {
    match effect {
        Effect::Activated { .. } => "activated".to_owned(),
        Effect::Deposed { .. } => "deposed".to_owned(),
        Effect::Silent {
            broker,
            silent,
            cause,
            ..
        } => format!(
            "broker {broker} is given up: {cause:?} after {} ms",
            silent.as_millis()
        ),
        other => format!("{other:?}"),
    }
}
