//! What goes wrong, and how it ends again.

use std::sync::Arc;
use std::time::Duration;

use controller_core::command::{Command, DeleteTopics, TopicRef};
use host::SimDisk;
use metadata::dump::dump;
use metadata::ids::BrokerId;
use metadata::image::Image;

use crate::fact::Fact;
use crate::marks::Mark;
use crate::message::{Ask, CallKey, NodeId};
use crate::node::Input;
use crate::plan::{Fault, FaultKind};
use crate::setup;
use crate::streams::Address;

use super::{Happening, World};

/// The operator, who is no node.
const OPERATOR: NodeId = NodeId::Client(999);

impl World {
    pub(super) fn fault(&mut self, place: usize) {
        if self.healed {
            return;
        }
        let fault = self.plan.faults[place];
        if let Some(what) = self.begin_fault(fault) {
            self.tally.faults += 1;
            self.tell(format!("fault {place}: {what}"));
            self.agenda
                .put(self.now + fault.lasts, Happening::FaultOver(place));
        }
    }

    /// Does a fault; says what was done, if anything.
    fn begin_fault(&mut self, fault: Fault) -> Option<String> {
        let broker = self.broker_of(fault.dice);
        let node = self.node_of(fault.dice);
        match fault.kind {
            FaultKind::Crash => self
                .kill(node, fault.lasts)
                .then(|| format!("{node:?} is killed")),
            FaultKind::PowerLoss => self.lose_power(broker, fault),
            FaultKind::Wipe => self.wipe(broker, fault),
            FaultKind::CleanStop => self
                .stop(broker)
                .then(|| format!("broker {broker} is asked to stop")),
            FaultKind::Pause => {
                self.pause(node, self.now + fault.lasts);
                Some(format!("{node:?} stands still for {:?}", fault.lasts))
            }
            FaultKind::ClockJump => {
                let jump = i64::try_from(fault.dice % 2_400_000).ok()? - 1_200_000;
                self.jump(node, jump);
                Some(format!("the wall clock of {node:?} jumps by {jump} ms"))
            }
            FaultKind::CutOneWay
            | FaultKind::Isolate
            | FaultKind::CutControllers
            | FaultKind::CutBrokers
            | FaultKind::LapseLease => {
                let links = self.links_of(fault);
                links.iter().for_each(|(from, to)| self.network.cut(*from, *to));
                (!links.is_empty()).then(|| format!("{} for {:?}: {links:?}", fault.kind.name(), fault.lasts))
            }
            FaultKind::HandOver => self.hand_over(),
            FaultKind::RestartInPlace => {
                let leader = self.quorum.leader()?;
                let told = self.quorum.restart_in_place(leader, self.now);
                self.tell_controllers(told);
                Some(format!(
                    "the quorum core of controller {leader} is rebuilt in place"
                ))
            }
            FaultKind::RefuseProposals => {
                self.refuse_until = self.now + fault.lasts.min(Duration::from_secs(2));
                Some("proposals are refused".to_owned())
            }
            FaultKind::SlowDisk => {
                let penalty = Duration::from_millis(5 + fault.dice % 100);
                let process = self.brokers.get_mut(&broker)?.process.as_mut()?;
                process.disk_penalty = penalty;
                Some(format!("the disk of broker {broker} is slow by {penalty:?}"))
            }
            FaultKind::FullDisk => {
                // A broker that cannot write may end, which is a kill to a controller.
                if !self.may_kill(broker) {
                    return None;
                }
                self.full.insert(broker);
                self.disks[&broker].set_capacity(Some(0));
                Some(format!("the disk of broker {broker} is full"))
            }
            FaultKind::Roll => Some(self.roll()),
            FaultKind::DeleteTopic => self.delete_topic(fault),
            FaultKind::BitRot => self.rot(broker, fault),
            FaultKind::AlterConfigs => self.alter_configs(fault),
        }
    }

    fn roll(&mut self) -> String {
        let brokers: Vec<i32> = self.brokers.keys().copied().collect();
        for (turn, id) in (0..).zip(brokers) {
            self.agenda
                .put(self.now + Duration::from_secs(3) * turn, Happening::Stop(id));
        }
        "all brokers are rolled".to_owned()
    }

    fn hand_over(&mut self) -> Option<String> {
        let network = &self.network;
        let reach = |from, to| network.reaches(NodeId::Controller(from), NodeId::Controller(to));
        let told = self.quorum.hand_over(self.now, &reach);
        let moved = !told.is_empty();
        self.tell_controllers(told);
        moved.then(|| "the quorum's leader hands over".to_owned())
    }

    pub(super) fn fault_over(&mut self, place: usize) {
        let fault = self.plan.faults[place];
        let broker = self.broker_of(fault.dice);
        match fault.kind {
            FaultKind::CutOneWay
            | FaultKind::Isolate
            | FaultKind::CutControllers
            | FaultKind::CutBrokers
            | FaultKind::LapseLease => {
                for (from, to) in self.links_of(fault) {
                    self.network.mend(from, to);
                }
                let deliveries = self.streams.resume(self.now, &mut self.network);
                self.put_deliveries(deliveries);
            }
            FaultKind::SlowDisk => {
                if let Some(process) = self
                    .brokers
                    .get_mut(&broker)
                    .and_then(|slot| slot.process.as_mut())
                {
                    process.disk_penalty = Duration::ZERO;
                }
            }
            FaultKind::FullDisk => {
                self.full.remove(&broker);
                self.disks[&broker].set_capacity(None);
            }
            _ => return,
        }
        self.tell(format!("fault {place} is over"));
    }

    fn broker_of(&self, dice: u64) -> i32 {
        let ids: Vec<i32> = self.brokers.keys().copied().collect();
        ids[usize::try_from((dice >> 8) % ids.len() as u64).expect("few")]
    }

    /// A controller in one of three cases, else a broker.
    fn node_of(&self, dice: u64) -> NodeId {
        if !dice.is_multiple_of(3) {
            return NodeId::Broker(self.broker_of(dice));
        }
        let ids: Vec<i32> = self.controllers.keys().copied().collect();
        NodeId::Controller(ids[usize::try_from((dice >> 8) % ids.len() as u64).expect("few")])
    }

    fn nodes(&self) -> Vec<NodeId> {
        let controllers = self.controllers.keys().map(|id| NodeId::Controller(*id));
        controllers
            .chain(self.brokers.keys().map(|id| NodeId::Broker(*id)))
            .collect()
    }

    /// The links that a fault cuts, one way each.
    fn links_of(&self, fault: Fault) -> Vec<(NodeId, NodeId)> {
        let (nodes, node) = (self.nodes(), self.node_of(fault.dice));
        let broker = NodeId::Broker(self.broker_of(fault.dice));
        let both = |one: NodeId, others: Vec<NodeId>| -> Vec<(NodeId, NodeId)> {
            let others = others.into_iter().filter(|other| *other != one);
            others.flat_map(|other| [(one, other), (other, one)]).collect()
        };
        let pick = |of: &[NodeId]| of[usize::try_from((fault.dice >> 24) % of.len() as u64).expect("few")];
        let controllers = || {
            self.controllers
                .keys()
                .map(|id| NodeId::Controller(*id))
                .collect::<Vec<_>>()
        };
        match fault.kind {
            FaultKind::CutOneWay => {
                let other = pick(&nodes);
                if other == node {
                    Vec::new()
                } else {
                    vec![(node, other)]
                }
            }
            FaultKind::Isolate => both(node, nodes),
            FaultKind::CutControllers => both(broker, controllers()),
            FaultKind::CutBrokers => {
                let brokers: Vec<NodeId> = self.brokers.keys().map(|id| NodeId::Broker(*id)).collect();
                both(broker, vec![pick(&brokers)])
            }
            // Any controller: the one that leads at the beginning may not lead at the end.
            FaultKind::LapseLease => both(pick(&controllers()), controllers()),
            _ => Vec::new(),
        }
    }

    /// Kills a process; it comes back after a while.
    pub(super) fn crash(&mut self, node: NodeId, lasts: Duration) -> bool {
        let boot = match node {
            NodeId::Controller(id) => {
                let Some(slot) = self.controllers.get_mut(&id) else {
                    return false;
                };
                let Some(process) = slot.process.take() else {
                    return false;
                };
                let image = process.image();
                let dumped = Image::from_dump(image.dump_header(), dump(image));
                if self.chance.per_mille(700)
                    && let Ok(dumped) = dumped
                {
                    self.snapshots.insert(id, (dumped, process.applied()));
                }
                self.quorum.stop(id);
                self.controllers[&id].boot
            }
            NodeId::Broker(id) => {
                let Some(slot) = self.brokers.get_mut(&id) else {
                    return false;
                };
                if slot.process.take().is_none() {
                    return false;
                }
                slot.boot
            }
            NodeId::Client(_) => return false,
        };
        let noticed = self.chance.span(Duration::ZERO, Duration::from_millis(5));
        let deliveries = self
            .streams
            .lose_process(Address { node, boot }, self.now, noticed);
        self.put_deliveries(deliveries);
        self.agenda.put(self.now + lasts, Happening::Restart(node));
        true
    }

    fn kill(&mut self, node: NodeId, lasts: Duration) -> bool {
        let NodeId::Broker(id) = node else {
            return self.crash(node, lasts);
        };
        if !self.may_kill(id) || !self.crash(node, lasts) {
            return false;
        }
        self.killed.insert(id, self.brokers[&id].boot);
        true
    }

    /// Whether one more broker may lose what only it has written: the promise covers fewer than
    /// `min.insync.replicas` of them, and nobody but a member of the in-sync set, an eligible replica or the last known
    /// leader can lead, so the last of these must keep what it has.
    pub(super) fn may_taint(&self, broker: i32) -> bool {
        let others = self.tainted.keys().filter(|id| **id != broker).count();
        let me = BrokerId(broker);
        let mut states = self
            .newest
            .topics
            .values()
            .flat_map(|topic| topic.partitions.values());
        let is_needed = states.any(|state| {
            let may_lead = state.in_sync.iter().chain(&state.eligible);
            state.replicas.contains(&me) && may_lead.filter(|other| **other != me).count() == 0
        });
        let mut may_be_killed = self.killed.keys().chain(&self.full);
        others + 1 < self.min_in_sync && !is_needed && may_be_killed.all(|id| *id == broker)
    }

    /// Whether a broker may be killed: a controller cannot tell a kill from a power loss, and would give the place of
    /// one that kept everything to one that did not.
    fn may_kill(&self, broker: i32) -> bool {
        self.tainted.keys().all(|id| *id == broker)
    }

    fn lose_power(&mut self, broker: i32, fault: Fault) -> Option<String> {
        // Where each batch is synced before its answer, a broker keeps with its power gone what a killed one keeps.
        let as_a_kill = self.plan.flush_every_batch;
        if !as_a_kill && self.may_taint(broker) && self.crash(NodeId::Broker(broker), fault.lasts) {
            self.tainted.insert(broker, self.brokers[&broker].boot);
        } else if !self.kill(NodeId::Broker(broker), fault.lasts) {
            return None;
        } else if !as_a_kill {
            return Some(format!("broker {broker} is killed"));
        }
        self.disks[&broker].crash(fault.dice);
        Some(format!("broker {broker} loses power"))
    }

    fn wipe(&mut self, broker: i32, fault: Fault) -> Option<String> {
        if !self.may_taint(broker) || !self.crash(NodeId::Broker(broker), fault.lasts) {
            return None;
        }
        self.empty_disk(broker);
        Some(format!("broker {broker} gets an empty disk"))
    }

    /// Puts an empty disk into a broker that does not run.
    pub(super) fn empty_disk(&mut self, broker: i32) {
        self.tainted.insert(broker, self.brokers[&broker].boot);
        self.disks.insert(broker, SimDisk::new());
        self.marks.reached(Mark::DiskWiped);
        if self.rotten.remove(&broker) {
            let broker = BrokerId(broker);
            self.judge(&Fact::DiskReplaced { broker });
        }
    }

    pub(super) fn stop(&mut self, broker: i32) -> bool {
        let up = self
            .brokers
            .get(&broker)
            .is_some_and(|slot| slot.process.is_some());
        if up && self.stopping.insert(broker) {
            self.give_current(NodeId::Broker(broker), Input::Stop);
            return true;
        }
        false
    }

    fn pause(&mut self, node: NodeId, until: Duration) {
        match node {
            NodeId::Controller(id) => {
                if let Some(slot) = self.controllers.get_mut(&id) {
                    slot.paused_until = slot.paused_until.max(until);
                }
            }
            NodeId::Broker(id) => {
                if let Some(slot) = self.brokers.get_mut(&id) {
                    slot.paused_until = slot.paused_until.max(until);
                }
            }
            NodeId::Client(_) => {}
        }
    }

    fn jump(&mut self, node: NodeId, by_ms: i64) {
        match node {
            NodeId::Controller(id) => {
                if let Some(slot) = self.controllers.get_mut(&id) {
                    slot.wall_offset_ms += by_ms;
                }
            }
            NodeId::Broker(id) => {
                if let Some(slot) = self.brokers.get_mut(&id) {
                    slot.wall_offset_ms += by_ms;
                }
            }
            NodeId::Client(_) => {}
        }
    }

    /// An operator creates a topic, again and again until it is there.
    pub(super) fn create_topic(&mut self, place: usize) {
        let name = setup::topic_name(&self.plan, place);
        let active = self.active();
        let image = active
            .and_then(|id| self.controllers[&id].process.as_ref())
            .map(|p| Arc::clone(p.image()));
        let Some((active, image)) = active.zip(image) else {
            return self.agenda.put(
                self.now + Duration::from_millis(300),
                Happening::CreateTopic(place),
            );
        };
        if image.topic_named(&name).is_some() {
            self.topics_created.insert(place);
            return;
        }
        let usable = image.brokers.values().filter(|broker| broker.is_active()).count();
        if self.plan.replication <= usable {
            let request = setup::topic(&self.plan, place, self.chance.wide_bits());
            self.wish(active, Command::CreateTopics(request));
        }
        self.agenda.put(
            self.now + Duration::from_millis(300),
            Happening::CreateTopic(place),
        );
    }

    /// The operator asks a controller, and does not wait for the answer.
    pub(super) fn wish(&mut self, controller: i32, command: Command) {
        let call = CallKey {
            asker: OPERATOR,
            number: self.tally.events,
        };
        let ask = Ask::Command(Box::new(command));
        self.give_current(NodeId::Controller(controller), Input::Asked(call, ask));
    }

    /// An operator deletes a topic, once, and creates one of its name after a while.
    fn delete_topic(&mut self, fault: Fault) -> Option<String> {
        let places = self.plan.topics.len() as u64;
        let place = usize::try_from((fault.dice >> 8) % places).expect("few");
        let active = self.active()?;
        if !self.topics_created.remove(&place) {
            return None;
        }
        let name = format!("topic-{place}");
        let command = Command::DeleteTopics(DeleteTopics {
            topics: vec![TopicRef::Name(name.clone())],
            timeout_ms: 5000,
        });
        self.wish(active, command);
        self.agenda
            .put(self.now + fault.lasts, Happening::CreateTopic(place));
        Some(format!("{name} is deleted"))
    }

    /// The active controller of the highest term.
    pub(super) fn active(&self) -> Option<i32> {
        let active = self.controllers.iter().filter_map(|(id, slot)| {
            let term = slot.process.as_ref()?.active_in()?;
            Some((term, *id))
        });
        active.max().map(|(_, id)| id)
    }

    /// Takes note of what concerns the world itself.
    pub(super) fn notice(&mut self, fact: &Fact) {
        let image = match fact {
            Fact::Committed { image, .. } => image,
            Fact::OffsetAppended { by, commit, .. } => {
                self.offsets_by.insert(commit.clone(), by.broker);
                return;
            }
            Fact::OffsetTold {
                by,
                commit: Some(commit),
                ..
            } => {
                if self
                    .offsets_by
                    .get(commit)
                    .is_some_and(|other| *other != by.broker)
                {
                    self.marks.reached(Mark::OffsetReadBackElsewhere);
                }
                return;
            }
            _ => return,
        };
        if image.next_offset <= self.newest.next_offset {
            return;
        }
        let before = std::mem::replace(&mut self.newest, Arc::clone(image));
        self.tally_tainted(image);
        if before
            .topics
            .keys()
            .any(|topic| !image.topics.contains_key(topic))
        {
            self.marks.reached(Mark::TopicDeleted);
        }
        if setup::min_in_sync_altered(&before, image) {
            self.marks.reached(Mark::MinInSyncAltered);
        }
        for topic in image.topics.values() {
            for (index, state) in &topic.partitions {
                if state.leader.is_none() {
                    self.marks.reached(Mark::Leaderless);
                }
                let was = before
                    .topics
                    .get(&topic.id)
                    .and_then(|topic| topic.partitions.get(index));
                if let (Some(was), Some(leader)) = (was, state.leader)
                    && was.eligible.contains(&leader)
                {
                    self.marks.reached(Mark::ElectedFromEligible);
                }
            }
        }
    }

    /// A broker that lost data is whole again once its new process is in every in-sync set.
    fn tally_tainted(&mut self, image: &Image) {
        let brokers = &self.brokers;
        let is_missing = |id: &i32, boot: &mut u32| {
            let broker = metadata::ids::BrokerId(*id);
            let Some(slot) = brokers.get(id).filter(|slot| *boot < slot.boot) else {
                return true;
            };
            let Some(process) = &slot.process else { return true };
            let registered = image.brokers.get(&broker);
            let is_present =
                registered.is_some_and(|held| Some(held.epoch) == process.epoch() && !held.fenced);
            let mut states = image.topics.values().flat_map(|topic| topic.partitions.values());
            let in_sync =
                states.all(|state| !state.replicas.contains(&broker) || state.in_sync.contains(&broker));
            !(is_present && in_sync)
        };
        let rotten = &self.rotten;
        self.tainted
            .retain(|id, boot| rotten.contains(id) || is_missing(id, boot));
        self.killed.retain(is_missing);
    }
}
