//! A controller on a table: the real driver over a log that does what the test says. Time stands still until told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controller_core::command::{Command, Heartbeat, RegisterBroker, Reply};
use controller_core::driver::Driver;
use controller_core::driver::event::{
    CommandId, Effect, Entry, Event, LogPosition, StreamEnd, StreamId, TICK_INTERVAL_MS,
};
use controller_core::refusal::Refusal;
use controller_core::settings::Settings;
use controller_core::time::{Moment, Now};
use metadata::batch::Provenance;
use metadata::config::{ControllerSettings, NodeConfig};
use metadata::feature;
use metadata::ids::{BrokerEpoch, BrokerId, DirectoryId, IncarnationId, MetadataOffset, Term};
use metadata::image::Image;
use metadata::record::{Endpoint, Record, SecurityProtocol};
use metadata::replay::Application;
use metadata::uuid::Uuid;

/// How often a broker of the test says that it lives.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);

/// The settings of a test, with some keys of the controller's file.
pub fn settings(keys: &[(&str, &str)]) -> Settings {
    let file = "process.roles=controller\nnode.id=101\nlog.dirs=/nowhere\n\
        controller.quorum.voters=101@localhost:9093\nlisteners=CONTROLLER://localhost:9093\n\
        controller.listener.names=CONTROLLER\n";
    let sets: Vec<(String, String)> = keys
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let node = NodeConfig::resolve(Some(file), &[], &sets).unwrap();
    let config = ControllerSettings::from_config(&node).unwrap();
    Settings::from_config("test-cluster".to_owned(), &config, Arc::new(node))
}

/// A broker process as the test plays it.
#[derive(Clone, Debug)]
pub struct Process {
    pub epoch: BrokerEpoch,
    pub incarnation: IncarnationId,
    pub directories: Vec<DirectoryId>,
    pub rack: Option<String>,
    /// Whether it sends heartbeats while time passes.
    pub beats: bool,
    pub stream: Option<StreamId>,
    next_beat: Duration,
}

/// What the log does with proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// Commits at once.
    Prompt,
    /// Keeps them until told.
    Slow,
}

/// The controller and all around it.
pub struct World {
    pub driver: Driver,
    pub processes: BTreeMap<BrokerId, Process>,
    pub quorum: Quorum,
    /// Whether a quorum acknowledges the leader as time passes.
    pub lease: bool,
    /// Proposed, and neither committed nor refused.
    pub proposed: VecDeque<(Term, MetadataOffset, Bytes)>,
    pub term: Term,
    pub replies: BTreeMap<CommandId, Result<Reply, Refusal>>,
    /// Everything that was committed since somebody looked.
    pub committed: Vec<Record>,
    /// Effects other than proposals, replies and publications since somebody looked.
    pub notices: Vec<Effect>,
    now: Duration,
    next_tick: Duration,
    position: u64,
    next_command: u64,
    next_id: u128,
    /// Every image that was published, for laws.
    pub images: Vec<Arc<Image>>,
}

impl World {
    /// An active controller of an empty cluster.
    pub fn new(settings: Settings) -> Self {
        let mut world = Self::follower(settings, Image::default());
        world.lead();
        world
    }

    /// A node that follows, with a state to start from.
    pub fn follower(settings: Settings, image: Image) -> Self {
        // With planted faults compiled in, the laws can show that they catch one.
        #[cfg(feature = "mutants")]
        if let Ok(name) = std::env::var("MILLRACE_MUTANT") {
            assert!(
                controller_core::mutants::select(&name),
                "there is no mutant {name}"
            );
        }
        Self {
            driver: Driver::new(settings, image, LogPosition(0)),
            processes: BTreeMap::new(),
            quorum: Quorum::Prompt,
            lease: true,
            proposed: VecDeque::new(),
            term: Term(0),
            replies: BTreeMap::new(),
            committed: Vec::new(),
            notices: Vec::new(),
            now: Duration::from_secs(1000),
            next_tick: Duration::from_secs(1000),
            position: 0,
            next_command: 0,
            next_id: 0,
            images: Vec::new(),
        }
    }

    pub fn image(&self) -> &Image {
        self.driver.committed()
    }

    pub fn fresh_id(&mut self) -> Uuid {
        self.next_id += 1;
        Uuid(self.next_id + 1000)
    }

    fn step(&mut self, event: Event) {
        let now = Now {
            at: Moment(self.now),
            wall_time_ms: 0,
        };
        for effect in self.driver.step(now, event) {
            match effect {
                Effect::Propose {
                    term,
                    base_offset,
                    batch,
                } => self.proposed.push_back((term, base_offset, batch)),
                Effect::Reply { id, result, .. } => {
                    assert!(self.replies.insert(id, result).is_none(), "one answer a command");
                }
                Effect::Publish(publication) => {
                    self.images.push(Arc::clone(&publication.image));
                    if let Some(published) = publication.batch
                        && published.application == Application::Applied
                    {
                        self.committed.extend(published.batch.records.iter().cloned());
                    }
                }
                notice => self.notices.push(notice),
            }
        }
        if self.quorum == Quorum::Prompt {
            self.commit_all();
        }
    }

    /// Takes the leadership of the next term, and has its blank entry applied.
    pub fn lead(&mut self) {
        self.lead_without_blank();
        self.acknowledge();
        self.blank();
    }

    pub fn lead_without_blank(&mut self) {
        self.term = Term(self.term.0 + 1);
        let log_end = LogPosition(self.position + 1);
        self.step(Event::Led {
            term: self.term,
            log_end,
        });
    }

    pub fn blank(&mut self) {
        self.applied(self.term, Entry::Blank);
    }

    pub fn acknowledge(&mut self) {
        self.step(Event::QuorumAcknowledged {
            term: self.term,
            at: Moment(self.now),
        });
    }

    pub fn lose(&mut self) {
        self.step(Event::Lost);
        self.proposed.clear();
    }

    /// A snapshot takes the place of the log so far.
    pub fn install(&mut self, image: Image) {
        self.position += 100;
        self.step(Event::Installed {
            position: LogPosition(self.position),
            image: Box::new(image),
        });
    }

    pub fn commands_sent(&self) -> u64 {
        self.next_command
    }

    pub fn applied(&mut self, term: Term, entry: Entry) {
        self.position += 1;
        let position = LogPosition(self.position);
        self.step(Event::Applied {
            position,
            term,
            entry,
        });
    }

    /// Commits the oldest proposal.
    pub fn commit(&mut self) -> bool {
        let Some((term, _, bytes)) = self.proposed.pop_front() else {
            return false;
        };
        self.applied(term, Entry::Batch(bytes));
        true
    }

    pub fn commit_all(&mut self) {
        while self.commit() {}
    }

    /// Refuses the oldest proposal.
    pub fn refuse(&mut self) {
        let (term, base_offset, _) = self.proposed.pop_front().expect("something is proposed");
        self.step(Event::Refused { term, base_offset });
    }

    pub fn send(&mut self, command: Command) -> CommandId {
        self.send_on(None, command)
    }

    pub fn send_on(&mut self, stream: Option<StreamId>, command: Command) -> CommandId {
        self.send_as(stream, command, Provenance::default())
    }

    /// A command under the name of a request, as a broker forwards it.
    pub fn send_named(&mut self, request_id: &str, command: Command) -> CommandId {
        let provenance = Provenance {
            request_id: request_id.to_owned(),
            ..Provenance::default()
        };
        self.send_as(None, command, provenance)
    }

    fn send_as(&mut self, stream: Option<StreamId>, command: Command, provenance: Provenance) -> CommandId {
        let id = CommandId(self.next_command);
        self.next_command += 1;
        self.step(Event::Command {
            id,
            arrived: Moment(self.now),
            stream,
            provenance,
            command: Box::new(command),
        });
        id
    }

    /// Sends a command whose answer must come at once.
    pub fn ask(&mut self, command: Command) -> Result<Reply, Refusal> {
        let id = self.send(command);
        self.replies.get(&id).expect("the answer comes at once").clone()
    }

    /// A registration of a new process, with the defaults of the test.
    pub fn registration(&mut self, broker: BrokerId) -> RegisterBroker {
        let known = self.processes.get(&broker);
        let directories = known.map_or_else(
            || vec![DirectoryId(Uuid(u128::try_from(broker.0).unwrap() + 500))],
            |known| known.directories.clone(),
        );
        let rack = known.and_then(|known| known.rack.clone());
        RegisterBroker {
            broker,
            cluster_id: Some("test-cluster".to_owned()),
            incarnation: IncarnationId(self.fresh_id()),
            endpoints: vec![Endpoint {
                listener: "PLAINTEXT".to_owned(),
                host: format!("broker-{broker}"),
                port: 9092,
                security: SecurityProtocol::Plaintext,
            }],
            features: feature::served(),
            rack,
            directories,
            previous_epoch: None,
            unserved: Vec::new(),
        }
    }

    /// Registers a process, on a stream of its own.
    pub fn register(&mut self, command: RegisterBroker) -> Result<BrokerEpoch, Refusal> {
        let stream = StreamId(u64::try_from(self.fresh_id().0).unwrap());
        let (broker, incarnation) = (command.broker, command.incarnation);
        let (directories, rack) = (command.directories.clone(), command.rack.clone());
        let id = self.send_on(Some(stream), Command::RegisterBroker(command));
        let reply = self.replies.get(&id).expect("the answer comes at once").clone()?;
        let Reply::Registered { epoch } = reply else {
            panic!("a registration is answered with an epoch");
        };
        let process = Process {
            epoch,
            incarnation,
            directories,
            rack,
            beats: true,
            stream: Some(stream),
            next_beat: self.now + HEARTBEAT_INTERVAL,
        };
        self.processes.insert(broker, process);
        Ok(epoch)
    }

    /// A heartbeat of a process that has applied everything and wants to serve.
    pub fn heartbeat(&self, broker: BrokerId) -> Heartbeat {
        Heartbeat {
            broker,
            epoch: self.processes[&broker].epoch,
            applied_end: Some(self.image().next_offset),
            want_fence: false,
            want_shutdown: false,
            offline_directories: Vec::new(),
        }
    }

    pub fn beat(&mut self, heartbeat: Heartbeat) -> Result<Reply, Refusal> {
        let id = self.beat_without_answer(heartbeat);
        self.replies.get(&id).expect("the answer comes at once").clone()
    }

    pub fn beat_without_answer(&mut self, heartbeat: Heartbeat) -> CommandId {
        let stream = self.processes[&heartbeat.broker].stream;
        self.send_on(stream, Command::Heartbeat(heartbeat))
    }

    /// Registers brokers and brings them into service.
    pub fn start(&mut self, brokers: &[i32]) {
        for id in brokers {
            let command = self.registration(BrokerId(*id));
            self.register(command).unwrap();
            self.beat(self.heartbeat(BrokerId(*id))).unwrap();
        }
    }

    pub fn close(&mut self, broker: BrokerId, end: StreamEnd) {
        let stream = self.processes.get_mut(&broker).and_then(|it| it.stream.take());
        let stream = stream.expect("the broker has a stream");
        self.step(Event::StreamClosed { stream, end });
    }

    /// Lets time pass: brokers beat, the quorum acknowledges, ticks come when they are due.
    pub fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.next_tick <= end {
            self.now = self.next_tick;
            if self.lease {
                self.acknowledge();
            }
            self.beats_due();
            self.step(Event::Tick);
            self.next_tick = self.now + Duration::from_millis(TICK_INTERVAL_MS);
        }
        self.now = end;
    }

    /// The node does not run for a while: nothing is heard and no tick comes.
    pub fn stall(&mut self, duration: Duration) {
        self.now += duration;
        self.next_tick = self.now;
    }

    fn beats_due(&mut self) {
        let due: Vec<BrokerId> = self
            .processes
            .iter()
            .filter(|(_, process)| process.beats && process.next_beat <= self.now)
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            self.processes.get_mut(&id).unwrap().next_beat = self.now + HEARTBEAT_INTERVAL;
            let mut heartbeat = self.heartbeat(id);
            // A plain life sign: what the broker is stays what it is.
            heartbeat.want_fence = self.image().brokers.get(&id).is_none_or(|broker| broker.fenced);
            self.beat_without_answer(heartbeat);
        }
    }

    pub fn take_committed(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.committed)
    }

    pub fn take_notices(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.notices)
    }
}
