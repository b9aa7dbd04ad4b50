//! The world of a run: every process, every link, every disk, and the one order in which things happen.
//!
//! Must not: know what processes decide. It delivers, breaks, heals, and tells the judges.

mod configuring;
mod ending;
mod faulting;
mod outputs;
mod rot;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use controller_core::settings::Settings;
use host::{SimDisk, WallMs};
use metadata::ids::{BrokerId, ControllerId, MetadataOffset, Term};
use metadata::image::Image;

use crate::agenda::Agenda;
use crate::broker::Broker;
use crate::chance::Chance;
use crate::client::{Kind, Member, Producer, Reader};
use crate::controller::Controller;
use crate::digest::Digest;
use crate::invariants::{self, Invariant};
use crate::marks::{Mark, Marks};
use crate::message::{CallKey, NodeId, StreamKey, Told};
use crate::network::Network;
use crate::node::{At, Input, Process, QuorumTold};
use crate::plan::Plan;
use crate::quorum::{self, Quorum};
use crate::setup;
use crate::streams::{Address, Delivery, Streams};

/// More events than any honest run needs: a run that goes on is a failure, not a wait.
const EVENTS_MAX: u64 = 2_000_000;

/// The wall clock at the beginning, in milliseconds since 1970.
const WALL_BEGIN_MS: i64 = 1_800_000_000_000;

/// Something that is to happen.
enum Happening {
    Input(Address, Input),
    Stream(Delivery),
    Answer(CallKey, Told),
    CallPatience(CallKey),
    StreamPatience(StreamKey),
    Tick(Address),
    Resume(Address),
    QuorumRound,
    Propose(Address, Term, MetadataOffset, bytes::Bytes),
    Fault(usize),
    FaultOver(usize),
    Restart(NodeId),
    Stop(i32),
    CreateTopic(usize),
    ReplaceDisk(i32),
    Heal,
    Look,
}

/// One node's place in the world.
struct Slot<P> {
    boot: u32,
    process: Option<P>,
    paused_until: Duration,
    /// What came while it stood still, in order.
    stalled: VecDeque<Input>,
    /// The earliest tick that is put down.
    tick_at: Option<Duration>,
    wall_offset_ms: i64,
}

/// What is wrong with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Duration,
    /// What was broken.
    pub what: String,
    /// How.
    pub how: String,
}

/// What a run was like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Things that happened.
    pub events: u64,
    /// Faults that were done.
    pub faults: u64,
    /// Records that were acknowledged.
    pub acknowledged: usize,
    /// Digest of everything that happened.
    pub hash: u64,
}

/// A whole cluster and its surroundings.
pub struct World {
    plan: Plan,
    now: Duration,
    agenda: Agenda<Happening>,
    chance: Chance,
    network: Network,
    quorum: Quorum,
    controllers: BTreeMap<i32, Slot<Controller>>,
    snapshots: BTreeMap<i32, (Image, u64)>,
    brokers: BTreeMap<i32, Slot<Broker>>,
    disks: BTreeMap<i32, SimDisk>,
    producers: BTreeMap<u32, Slot<Producer>>,
    readers: BTreeMap<u32, Slot<Reader>>,
    members: BTreeMap<u32, Slot<Member>>,
    streams: Streams,
    calls: BTreeSet<CallKey>,
    settings: Settings,
    invariants: Vec<Box<dyn Invariant>>,
    refuse_until: Duration,
    /// Brokers that lost what they had not synced, or everything, and are not back in every in-sync set: with their process number then.
    tainted: BTreeMap<i32, u32>,
    /// Brokers that were killed, or ended for want of room, and are not back in every in-sync set.
    killed: BTreeMap<i32, u32>,
    /// Brokers whose disk is full.
    full: BTreeSet<i32>,
    /// The lowest `min.insync.replicas` under which anything may have been acknowledged.
    min_in_sync: usize,
    /// Brokers whose disk has damaged a record, and was not replaced since.
    rotten: BTreeSet<i32>,
    stopping: BTreeSet<i32>,
    topics_created: BTreeSet<usize>,
    /// Which broker wrote each commit of an offset.
    offsets_by: BTreeMap<String, BrokerId>,
    /// The newest committed image.
    newest: Arc<Image>,
    healed: bool,
    done: bool,
    verdict: Option<crate::oracle::Verdict>,
    violation: Option<Violation>,
    digest: Digest,
    tally: Tally,
    /// Rare branches that were reached.
    pub marks: Marks,
    story: Vec<(Duration, String)>,
}

impl World {
    /// The world of a plan, before anything happens.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let seed = plan.seed;
        let ids: Vec<i32> = (0..plan.topology.controllers)
            .map(setup::controller_number)
            .collect();
        let mut world = Self {
            now: Duration::ZERO,
            agenda: Agenda::default(),
            chance: Chance::of(seed, "world"),
            network: Network::new(Chance::of(seed, "network"), plan.weather),
            quorum: Quorum::new(Chance::of(seed, "quorum"), ids.iter().copied()),
            controllers: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            brokers: BTreeMap::new(),
            disks: BTreeMap::new(),
            producers: BTreeMap::new(),
            readers: BTreeMap::new(),
            members: BTreeMap::new(),
            streams: Streams::default(),
            calls: BTreeSet::new(),
            settings: setup::controller_settings(&plan),
            invariants: invariants::all(),
            refuse_until: Duration::ZERO,
            tainted: BTreeMap::new(),
            killed: BTreeMap::new(),
            full: BTreeSet::new(),
            rotten: BTreeSet::new(),
            min_in_sync: plan.min_in_sync,
            stopping: BTreeSet::new(),
            topics_created: BTreeSet::new(),
            offsets_by: BTreeMap::new(),
            newest: Arc::default(),
            healed: false,
            done: false,
            verdict: None,
            violation: None,
            digest: Digest::default(),
            tally: Tally::default(),
            marks: Marks::default(),
            story: Vec::new(),
            plan,
        };
        world.populate(&ids);
        world
    }

    fn populate(&mut self, controllers: &[i32]) {
        for id in controllers {
            self.controllers.insert(*id, Slot::empty());
            let at = self.jitter();
            self.agenda.put(at, Happening::Restart(NodeId::Controller(*id)));
        }
        for number in 0..self.plan.topology.brokers {
            let id = setup::broker_number(number);
            self.brokers.insert(id, Slot::empty());
            self.disks.insert(id, SimDisk::new());
            let at = self.jitter();
            self.agenda.put(at, Happening::Restart(NodeId::Broker(id)));
        }
        let brokers: Vec<_> = self.brokers.keys().map(|id| BrokerId(*id)).collect();
        let (seed, interval) = (self.plan.seed, self.plan.produce_interval);
        let kinds = [
            (Kind::Idempotent, self.plan.idempotent),
            (Kind::Plain, self.plan.plain),
        ];
        let kinds = kinds
            .into_iter()
            .flat_map(|(kind, count)| std::iter::repeat_n(kind, count));
        for (id, kind) in (0..).zip(kinds) {
            let producer = Producer::new(id, kind, brokers.clone(), interval, seed);
            self.producers.insert(id, Slot::of(producer));
        }
        for id in 0..u32::try_from(self.plan.readers).expect("few") {
            let stray = self.plan.stray_reads_per_mille;
            let reader = Reader::new(100 + id, brokers.clone(), stray, seed);
            self.readers.insert(100 + id, Slot::of(reader));
        }
        let groups = self.plan.groups.iter().flat_map(|groups| {
            let groups_of = groups.members.iter().enumerate();
            let members = groups_of.flat_map(|(group, count)| std::iter::repeat_n(group, *count));
            members.map(move |group| (group, groups.habits))
        });
        for (id, (group, habits)) in (200..).zip(groups) {
            let member = Member::new(id, &format!("group-{group}"), brokers.clone(), habits, seed);
            self.members.insert(id, Slot::of(member));
        }
        let others = self.readers.keys().chain(self.members.keys());
        let clients: Vec<u32> = self.producers.keys().chain(others).copied().collect();
        for id in clients {
            let address = Address {
                node: NodeId::Client(id),
                boot: 0,
            };
            self.agenda.put(Duration::from_secs(1), Happening::Tick(address));
        }
        self.agenda.put(Duration::ZERO, Happening::QuorumRound);
        for topic in (0..self.plan.topics.len()).chain(setup::offsets_place(&self.plan)) {
            self.agenda
                .put(Duration::from_millis(1200), Happening::CreateTopic(topic));
        }
        for (place, fault) in self.plan.faults.clone().into_iter().enumerate() {
            self.agenda.put(fault.at, Happening::Fault(place));
        }
        self.agenda.put(self.plan.safety, Happening::Heal);
    }

    fn jitter(&mut self) -> Duration {
        self.chance.span(Duration::ZERO, Duration::from_millis(100))
    }

    /// Lets everything happen until the end, or until something is broken.
    pub fn run(&mut self) {
        while !self.done && self.violation.is_none() {
            let Some(at) = self.agenda.next_at() else { return };
            self.now = at;
            while let Some((_, happening)) = self.agenda.take_due(at) {
                self.tally.events += 1;
                self.digest.note(&self.now.as_nanos().to_le_bytes());
                self.happen(happening);
                if EVENTS_MAX < self.tally.events {
                    self.broken("the run ends", format!("{EVENTS_MAX} events and no end"));
                }
                if self.done || self.violation.is_some() {
                    break;
                }
            }
        }
        self.tally.hash = self.digest.value();
    }

    /// What the run was like.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What is wrong, if anything.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// What the oracle said at the end.
    #[must_use]
    pub fn verdict(&self) -> Option<&crate::oracle::Verdict> {
        self.verdict.as_ref()
    }

    /// The moment.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The last things worth telling, oldest first.
    #[must_use]
    pub fn story(&self, lines: usize) -> Vec<String> {
        let from = self.story.len().saturating_sub(lines);
        let line = |(at, what): &(Duration, String)| format!("{:>9.3}s  {what}", at.as_secs_f64());
        self.story[from..].iter().map(line).collect()
    }

    fn tell(&mut self, what: String) {
        self.digest.note(what.as_bytes());
        self.story.push((self.now, what));
    }

    fn broken(&mut self, what: &str, how: String) {
        if self.violation.is_none() {
            self.tell(format!("BROKEN: {what}: {how}"));
            self.violation = Some(Violation {
                at: self.now,
                what: what.to_owned(),
                how,
            });
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Input(to, input) => self.give(to, input),
            Happening::Stream(delivery) => self.arrive(delivery),
            Happening::Answer(call, told) => {
                if self.calls.remove(&call) {
                    self.give_current(call.asker, Input::Answered(call, Some(told)));
                }
            }
            Happening::CallPatience(call) => {
                if self.calls.remove(&call) {
                    self.give_current(call.asker, Input::Answered(call, None));
                }
            }
            Happening::StreamPatience(key) => {
                let deliveries = self.streams.lose_patience(key, self.now);
                self.put_deliveries(deliveries);
            }
            Happening::Tick(to) => {
                self.ticked(to);
                self.give(to, Input::Tick);
            }
            Happening::Resume(to) => self.resume(to),
            Happening::QuorumRound => self.quorum_round(),
            Happening::Propose(by, term, base, batch) => self.propose(by, term, base, batch),
            Happening::Fault(place) => self.fault(place),
            Happening::FaultOver(place) => self.fault_over(place),
            Happening::Restart(node) => self.start(node),
            Happening::Stop(broker) => {
                if !self.healed && self.stop(broker) {
                    self.tell(format!("broker {broker} is asked to stop"));
                }
            }
            Happening::CreateTopic(topic) => self.create_topic(topic),
            Happening::ReplaceDisk(broker) => self.replace_disk(broker),
            Happening::Heal => self.heal(),
            Happening::Look => self.look(),
        }
    }

    fn ticked(&mut self, to: Address) {
        let now = self.now;
        let tick_at = match to.node {
            NodeId::Controller(id) => self.controllers.get_mut(&id).map(|slot| &mut slot.tick_at),
            NodeId::Broker(id) => self.brokers.get_mut(&id).map(|slot| &mut slot.tick_at),
            NodeId::Client(id) => {
                let producer = self.producers.get_mut(&id).map(|slot| &mut slot.tick_at);
                producer
                    .or_else(|| self.readers.get_mut(&id).map(|slot| &mut slot.tick_at))
                    .or_else(|| self.members.get_mut(&id).map(|slot| &mut slot.tick_at))
            }
        };
        if let Some(tick_at) = tick_at
            && tick_at.is_some_and(|at| at <= now)
        {
            *tick_at = None;
        }
    }

    fn quorum_round(&mut self) {
        let (network, controllers, now) = (&self.network, &self.controllers, self.now);
        let runs = |id: &i32| controllers.get(id).is_some_and(|slot| slot.paused_until <= now);
        let reach = |from, to| {
            runs(&from) && runs(&to) && network.reaches(NodeId::Controller(from), NodeId::Controller(to))
        };
        let told = self.quorum.round(self.now, &reach, &mut self.marks);
        self.tell_controllers(told);
        self.agenda.put(self.quorum.next_round(), Happening::QuorumRound);
    }

    fn tell_controllers(&mut self, told: Vec<(i32, quorum::Told)>) {
        for (id, told) in told {
            let Some(slot) = self.controllers.get(&id) else {
                continue;
            };
            let to = Address {
                node: NodeId::Controller(id),
                boot: slot.boot,
            };
            let told = match told {
                quorum::Told::Led(term, end) => {
                    self.tell(format!("controller {id} leads the quorum in term {term}"));
                    QuorumTold::Led(term, end)
                }
                quorum::Told::Acknowledged(term, at) => QuorumTold::Acknowledged(term, at),
                quorum::Told::Lost => QuorumTold::Lost,
                quorum::Told::Committed(position, entry) => {
                    QuorumTold::Committed(position, entry.term, entry.entry)
                }
            };
            self.agenda
                .put(self.now, Happening::Input(to, Input::Quorum(told)));
        }
    }

    fn propose(&mut self, by: Address, term: Term, base: MetadataOffset, batch: bytes::Bytes) {
        let NodeId::Controller(id) = by.node else { return };
        if self
            .controllers
            .get(&id)
            .is_none_or(|slot| slot.boot != by.boot || slot.process.is_none())
        {
            return;
        }
        let refused = self.now < self.refuse_until
            || !self.healed && self.chance.per_mille(self.plan.refused_per_mille)
            || !self.quorum.propose(id, term, batch);
        if refused {
            self.marks.reached(Mark::ProposalRefused);
            let at = self.now + self.chance.span(Duration::ZERO, Duration::from_millis(20));
            self.agenda.put(
                at,
                Happening::Input(by, Input::Quorum(QuorumTold::Refused(term, base))),
            );
        }
    }

    fn put_deliveries(&mut self, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            self.agenda.put(delivery.at, Happening::Stream(delivery));
        }
    }

    fn start(&mut self, node: NodeId) {
        match node {
            NodeId::Controller(id) => self.start_controller(id),
            NodeId::Broker(id) => self.start_broker(id),
            NodeId::Client(_) => {}
        }
    }

    fn start_controller(&mut self, id: i32) {
        let (now, settings, feed) = (self.now, self.settings.clone(), self.plan.feed);
        let (image, position) = self.snapshots.get(&id).cloned().unwrap_or_default();
        let Some(slot) = self.controllers.get_mut(&id) else {
            return;
        };
        if slot.process.is_some() {
            return;
        }
        slot.boot += 1;
        if position > 0 {
            self.marks.reached(Mark::SnapshotInstalled);
        }
        let process = Controller::start(ControllerId(id), settings, image, position, feed, now);
        slot.process = Some(process);
        slot.stalled.clear();
        slot.tick_at = None;
        let to = Address {
            node: NodeId::Controller(id),
            boot: slot.boot,
        };
        self.quorum.start(id, position, now);
        self.agenda.put(now, Happening::Tick(to));
        self.tell(format!(
            "controller {id} starts, with a snapshot up to {position}"
        ));
    }

    fn start_broker(&mut self, id: i32) {
        let config = setup::broker_config(&self.plan, id);
        let disk = self.disks[&id].clone();
        let now = self.now;
        let Some(slot) = self.brokers.get_mut(&id) else {
            return;
        };
        if slot.process.is_some() {
            return;
        }
        slot.boot += 1;
        let boot = slot.boot;
        let chance = Chance::of(self.plan.seed, &format!("broker {id} process {boot}"));
        disk.set_wall(WallMs(WALL_BEGIN_MS));
        match Broker::start(config, disk, boot, now, chance) {
            Ok(process) => {
                slot.process = Some(process);
                slot.stalled.clear();
                slot.tick_at = None;
                let to = Address {
                    node: NodeId::Broker(id),
                    boot,
                };
                self.agenda.put(now, Happening::Tick(to));
                self.tell(format!("broker {id} starts as process {boot}"));
            }
            Err(error) => {
                self.tell(format!("broker {id} cannot start: {error}"));
                self.agenda.put(
                    now + Duration::from_secs(1),
                    Happening::Restart(NodeId::Broker(id)),
                );
            }
        }
    }

    fn at(&self, wall_offset_ms: i64) -> At {
        let elapsed = i64::try_from(self.now.as_millis()).unwrap_or(i64::MAX);
        At {
            world: self.now,
            wall_ms: WALL_BEGIN_MS + elapsed + wall_offset_ms,
            leader: self.quorum.leader().map(ControllerId),
        }
    }

    /// Gives an input to the process of a node that runs now.
    fn give_current(&mut self, node: NodeId, input: Input) {
        let boot = match node {
            NodeId::Controller(id) => self.controllers.get(&id).map(|slot| slot.boot),
            NodeId::Broker(id) => self.brokers.get(&id).map(|slot| slot.boot),
            NodeId::Client(_) => Some(0),
        };
        if let Some(boot) = boot {
            self.give(Address { node, boot }, input);
        }
    }

    /// Gives an input to a process, if it is still there; one that stands still gets it later.
    fn give(&mut self, to: Address, input: Input) {
        let now = self.now;
        let taken = match to.node {
            NodeId::Controller(id) => take(self.controllers.get_mut(&id), to.boot, now, input),
            NodeId::Broker(id) => take(self.brokers.get_mut(&id), to.boot, now, input),
            NodeId::Client(id) if self.producers.contains_key(&id) => {
                take(self.producers.get_mut(&id), to.boot, now, input)
            }
            NodeId::Client(id) if self.members.contains_key(&id) => {
                take(self.members.get_mut(&id), to.boot, now, input)
            }
            NodeId::Client(id) => take(self.readers.get_mut(&id), to.boot, now, input),
        };
        match taken {
            Taken::Gone(input) => self.nobody_there(input),
            Taken::Stalled(None) => {}
            Taken::Stalled(Some(until)) => self.agenda.put(until, Happening::Resume(to)),
            Taken::There(wall_offset_ms, input) => self.let_take(to, wall_offset_ms, input),
        }
    }

    /// A process that stood still goes on with what came meanwhile, unless it was stopped again.
    fn resume(&mut self, to: Address) {
        let (paused_until, stalled) = match to.node {
            NodeId::Controller(id) => resumed(self.controllers.get_mut(&id), to.boot, self.now),
            NodeId::Broker(id) => resumed(self.brokers.get_mut(&id), to.boot, self.now),
            NodeId::Client(_) => return,
        };
        if self.now < paused_until {
            return self.agenda.put(paused_until, Happening::Resume(to));
        }
        for input in stalled {
            self.give(to, input);
        }
    }

    fn let_take(&mut self, to: Address, wall_offset_ms: i64, input: Input) {
        let at = self.at(wall_offset_ms);
        let (outputs, next) = match to.node {
            NodeId::Controller(id) => step(self.controllers.get_mut(&id), at, input),
            NodeId::Broker(id) => step(self.brokers.get_mut(&id), at, input),
            NodeId::Client(id) if self.producers.contains_key(&id) => {
                step(self.producers.get_mut(&id), at, input)
            }
            NodeId::Client(id) if self.members.contains_key(&id) => {
                step(self.members.get_mut(&id), at, input)
            }
            NodeId::Client(id) => step(self.readers.get_mut(&id), at, input),
        };
        if let Some(next) = next {
            self.agenda.put(next, Happening::Tick(to));
        }
        for output in outputs {
            self.carry(to, output);
        }
    }

    /// A question to nobody is refused at once.
    fn nobody_there(&mut self, input: Input) {
        if let Input::Asked(call, _) = input {
            let at = self.now + self.network.delay();
            self.agenda.put(at, Happening::CallPatience(call));
        }
    }
}

impl<P> Slot<P> {
    fn empty() -> Self {
        Self {
            boot: 0,
            process: None,
            paused_until: Duration::ZERO,
            stalled: VecDeque::new(),
            tick_at: None,
            wall_offset_ms: 0,
        }
    }

    fn of(process: P) -> Self {
        Self {
            process: Some(process),
            ..Self::empty()
        }
    }
}

enum Taken {
    Gone(Input),
    /// It waits in line; a moment if it is the first.
    Stalled(Option<Duration>),
    There(i64, Input),
}

fn take<P>(slot: Option<&mut Slot<P>>, boot: u32, now: Duration, input: Input) -> Taken {
    match slot {
        Some(slot) if slot.boot == boot && slot.process.is_some() => {
            if slot.paused_until <= now && slot.stalled.is_empty() {
                return Taken::There(slot.wall_offset_ms, input);
            }
            let is_first = slot.stalled.is_empty();
            slot.stalled.push_back(input);
            Taken::Stalled(is_first.then_some(slot.paused_until))
        }
        _ => Taken::Gone(input),
    }
}

/// Until when a process stands still, and what waits for it once that is over.
fn resumed<P>(slot: Option<&mut Slot<P>>, boot: u32, now: Duration) -> (Duration, VecDeque<Input>) {
    match slot {
        Some(slot) if slot.boot == boot && slot.paused_until <= now => {
            (slot.paused_until, std::mem::take(&mut slot.stalled))
        }
        Some(slot) if slot.boot == boot => (slot.paused_until, VecDeque::new()),
        _ => (Duration::ZERO, VecDeque::new()),
    }
}

/// Lets a process take an input; gives what it wants carried, and a tick to be put down.
fn step<P: Process>(
    slot: Option<&mut Slot<P>>,
    at: At,
    input: Input,
) -> (Vec<crate::node::Output>, Option<Duration>) {
    let Some(slot) = slot else {
        return (Vec::new(), None);
    };
    let Some(process) = &mut slot.process else {
        return (Vec::new(), None);
    };
    let outputs = process.take(at, input);
    // A tick that is due already must not stop the time.
    let wanted = process
        .next_tick()
        .map(|next| next.max(at.world + Duration::from_micros(100)));
    let tick = wanted.filter(|wanted| slot.tick_at.is_none_or(|put_down| *wanted < put_down));
    if tick.is_some() {
        slot.tick_at = tick;
    }
    (outputs, tick)
}
