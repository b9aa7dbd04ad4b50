//! The end of a run: everything heals, must be well within a bound, and is judged as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use broker_core::group::OFFSETS;
use broker_core::offsets::Offset;
use controller_core::driver::event::Entry;
use metadata::batch::MetadataBatch;
use metadata::ids::{BrokerId, PartitionId};
use metadata::image::Image;
use partition_log::FirstBatch;

use crate::broker::Broker;
use crate::client::{self, Kind};
use crate::fact::Fact;
use crate::message::NodeId;
use crate::network::Weather;
use crate::node::{Input, Wish};
use crate::oracle::{self, History, Partition, Read, Send};
use crate::setup;
use crate::streams::Address;

use super::{Happening, World};

/// Between two looks whether everything is well.
const LOOK: Duration = Duration::from_millis(500);
/// The reader that reads everything in the end.
const LAST_READER: oracle::Reader = oracle::Reader(9999);

impl World {
    pub(super) fn heal(&mut self) {
        self.healed = true;
        self.tell("everything heals".to_owned());
        self.network.mend_all();
        self.network.weather = Weather::FAIR;
        let deliveries = self.streams.resume(self.now, &mut self.network);
        self.put_deliveries(deliveries);
        self.refuse_until = Duration::ZERO;
        self.disks.values().for_each(|disk| disk.set_capacity(None));
        let mut down = Vec::new();
        for (id, slot) in &mut self.controllers {
            if slot.process.is_none() {
                down.push(NodeId::Controller(*id));
            }
        }
        for (id, slot) in &mut self.brokers {
            match &mut slot.process {
                None => down.push(NodeId::Broker(*id)),
                Some(process) => process.disk_penalty = Duration::ZERO,
            }
        }
        for node in down {
            self.agenda.put(self.now, Happening::Restart(node));
        }
        for id in self.rotten.clone() {
            self.agenda.put(self.now, Happening::ReplaceDisk(id));
        }
        let ids: Vec<u32> = self
            .producers
            .keys()
            .chain(self.members.keys())
            .copied()
            .collect();
        for id in ids {
            let to = Address {
                node: NodeId::Client(id),
                boot: 0,
            };
            self.agenda.put(
                self.now + Duration::from_secs(2),
                Happening::Input(to, Input::Wish(Wish::Settle)),
            );
        }
        self.agenda
            .put(self.now + Duration::from_secs(3), Happening::Look);
    }

    pub(super) fn look(&mut self) {
        let missing = self.missing();
        match missing {
            None => self.finish(),
            Some(_) if self.now < self.plan.safety + self.plan.converge_max => {
                self.agenda.put(self.now + LOOK, Happening::Look);
            }
            Some(missing) => self.broken("convergence after healing", missing),
        }
    }

    /// What is not well yet.
    fn missing(&self) -> Option<String> {
        let Some(active) = self.active() else {
            return Some("no controller is active".to_owned());
        };
        let image = self.controllers[&active].process.as_ref()?.image();
        if let Some((id, _)) = self.controllers.iter().find(|(_, slot)| {
            slot.process
                .as_ref()
                .is_none_or(|p| p.image().next_offset.0 + 20 < image.next_offset.0)
        }) {
            return Some(format!("controller {id} is behind or down"));
        }
        for (id, slot) in &self.brokers {
            let Some(process) = &slot.process else {
                return Some(format!("broker {id} is down"));
            };
            let held = image.brokers.get(&BrokerId(*id));
            if held.is_none_or(|held| held.fenced || Some(held.epoch) != process.epoch()) {
                return Some(format!("broker {id} is fenced: {:?}", process.phase()));
            }
        }
        if let Some(id) = self.rotten.first() {
            return Some(format!("the disk of broker {id} is damaged"));
        }
        let mut places = (0..self.plan.topics.len()).chain(setup::offsets_place(&self.plan));
        if let Some(place) = places.find(|place| !self.topics_created.contains(place)) {
            return Some(format!("topic {place} is not created"));
        }
        for topic in image.topics.values() {
            for (index, state) in &topic.partitions {
                let partition = PartitionId {
                    topic: topic.id,
                    index: *index,
                };
                let name = format!("{}-{index}", topic.name);
                let Some(leader) = state.leader else {
                    return Some(format!("{name} has no leader: {state:?}"));
                };
                if state.in_sync.len() != state.replicas.len() {
                    return Some(format!("{name} has too few in sync: {state:?}"));
                }
                if let Some(lag) = self.lag(partition, leader, &state.replicas) {
                    return Some(format!("{name}: {lag}"));
                }
            }
        }
        for (id, slot) in &self.brokers {
            let hosted = slot.process.iter().flat_map(Broker::hosted);
            for (partition, ..) in hosted {
                let state = image.partition(partition);
                if state.is_none_or(|state| !state.replicas.contains(&BrokerId(*id))) {
                    return Some(format!("broker {id} still holds {partition}"));
                }
            }
        }
        if let Some(behind) = self.reader_behind(image).or_else(|| self.group_behind()) {
            return Some(behind);
        }
        let open = self
            .producers
            .iter()
            .find(|(_, slot)| slot.process.as_ref().is_some_and(|p| !p.is_settled()));
        open.map(|(id, _)| format!("client {id} has batches without an outcome"))
    }

    /// A consumer that has not read on to the end.
    fn reader_behind(&self, image: &Image) -> Option<String> {
        for (id, slot) in &self.readers {
            let reader = slot.process.as_ref()?;
            for partition in self.live_partitions() {
                let leader = image.partition(partition)?.leader?;
                let process = self.brokers.get(&leader.0)?.process.as_ref()?;
                let (_, _, log) = process.hosted().find(|(id, ..)| *id == partition)?;
                let (next, end) = (reader.next(partition), log.bounds().high_watermark);
                if next.0 < end.0 {
                    return Some(format!("client {id} has read {partition} up to {next} of {end}"));
                }
            }
        }
        None
    }

    /// A group whose members do not share all partitions among them, or have not read back how far it has come.
    fn group_behind(&self) -> Option<String> {
        let mut shared: BTreeMap<&str, Vec<PartitionId>> = BTreeMap::new();
        for (id, slot) in &self.members {
            let member = slot.process.as_ref()?;
            let Some(assigned) = member.settled() else {
                return Some(format!("client {id} is not settled in its group"));
            };
            shared.entry(member.group()).or_default().extend(assigned);
        }
        let all: BTreeSet<PartitionId> = self.live_partitions().into_iter().collect();
        let uneven = shared.into_iter().find(|(_, partitions)| {
            partitions.len() != all.len() || !partitions.iter().all(|partition| all.contains(partition))
        });
        uneven.map(|(group, partitions)| format!("{group} works at {partitions:?}"))
    }

    fn lag(&self, partition: PartitionId, leader: BrokerId, replicas: &[BrokerId]) -> Option<String> {
        let bounds = |broker: &BrokerId| {
            let process = self.brokers.get(&broker.0)?.process.as_ref()?;
            let (_, _, log) = process.hosted().find(|(id, ..)| *id == partition)?;
            Some(log.bounds())
        };
        let Some(lead) = bounds(&leader) else {
            return Some(format!("broker {leader} has no log"));
        };
        if lead.high_watermark != lead.log_end {
            return Some(format!(
                "the leader's watermark is {} of {}",
                lead.high_watermark, lead.log_end
            ));
        }
        let behind = replicas.iter().find(|replica| {
            bounds(replica)
                .is_none_or(|held| held.log_end != lead.log_end || held.high_watermark != lead.log_end)
        });
        behind.map(|replica| format!("broker {replica} is behind: {:?}", bounds(replica)))
    }

    fn finish(&mut self) {
        let Some(active) = self.active() else { return };
        let Some(image) = self.controllers[&active]
            .process
            .as_ref()
            .map(|p| Arc::clone(p.image()))
        else {
            return;
        };
        let replayed = match self.replayed(&image) {
            Ok(replayed) => Arc::new(replayed),
            Err(why) => return self.broken("replay of the log is the image [R5.50]", why),
        };
        let live: BTreeSet<BrokerId> = image
            .brokers
            .iter()
            .filter(|(_, broker)| broker.is_active())
            .map(|(id, _)| *id)
            .collect();
        self.judge(&Fact::Converged {
            live,
            image,
            replayed,
        });
        let [history, of_deleted] = self.histories();
        let verdict = oracle::check(&history);
        let of_deleted = oracle::check(&of_deleted);
        self.tally.acknowledged = verdict.acknowledged + of_deleted.acknowledged;
        let anomalies: Vec<String> = verdict
            .anomalies
            .iter()
            .chain(&of_deleted.anomalies)
            .filter(|anomaly| anomaly.class != oracle::Class::ProvesNothing)
            .map(|anomaly| format!("{:?} × {}: {}", anomaly.class, anomaly.count, anomaly.witness))
            .collect();
        if !anomalies.is_empty() {
            self.broken("the oracle", anomalies.join("; "));
        }
        self.digest.note(format!("{verdict}{of_deleted}").as_bytes());
        self.verdict = Some(verdict);
        self.done = true;
    }

    /// The committed log replayed from nothing, up to where an image is.
    fn replayed(&self, upto: &Image) -> Result<Image, String> {
        let mut image = Image::default();
        for entry in self.quorum.committed() {
            let Entry::Batch(bytes) = &entry.entry else {
                continue;
            };
            if upto.next_offset <= image.next_offset {
                break;
            }
            let batch = MetadataBatch::decode(bytes).map_err(|error| error.to_string())?;
            image
                .apply(&batch, entry.term)
                .map_err(|error| error.to_string())?;
        }
        Ok(image)
    }

    /// What clients did and saw: of the partitions that are there, and of those that were deleted. Of the latter nobody can
    /// read everything in the end, so nothing can be missed there.
    fn histories(&self) -> [History; 2] {
        let mut numbers = Numbers::default();
        for partition in self.live_partitions() {
            numbers.enter(partition, 0);
        }
        let mut histories = [History::default(), History::default()];
        for (id, slot) in &self.producers {
            let Some(producer) = &slot.process else { continue };
            for sent in &producer.sent {
                let (which, partition) = numbers.of(sent.partition);
                let number = id * 1000 + sent.generation;
                if producer.kind() == Kind::Plain {
                    histories[which].plain_producers.insert(number);
                }
                histories[which].sends.push(Send {
                    producer: number,
                    partition,
                    payload: sent.payload.clone(),
                    batch: Some(sent.batch),
                    outcome: sent.outcome,
                });
            }
        }
        let mut read = |reader: oracle::Reader, seen: &client::Seen| {
            let (which, partition) = numbers.of(seen.partition);
            histories[which].reads.push(Read {
                reader,
                partition,
                offset: seen.offset,
                payload: seen.payload.clone(),
            });
        };
        for (id, slot) in &self.readers {
            let seen = slot.process.iter().flat_map(|reader| &reader.seen);
            seen.for_each(|seen| read(oracle::Reader(*id), seen));
        }
        for partition in self.live_partitions() {
            self.whole_log(partition)
                .iter()
                .for_each(|seen| read(LAST_READER, seen));
        }
        histories[0].complete.insert(LAST_READER);
        histories[0].settled = self.readers.keys().map(|id| oracle::Reader(*id)).collect();
        histories
    }

    /// The partitions that clients read and write.
    fn live_partitions(&self) -> Vec<PartitionId> {
        let topics = self.newest.topics.values().filter(|topic| topic.name != OFFSETS);
        let partitions = topics.flat_map(|topic| {
            let topic_id = topic.id;
            topic.partitions.keys().map(move |index| PartitionId {
                topic: topic_id,
                index: *index,
            })
        });
        partitions.collect()
    }

    /// Everything that a consumer can read of a partition at its leader.
    fn whole_log(&self, partition: PartitionId) -> Vec<client::Seen> {
        let mut seen: Vec<client::Seen> = Vec::new();
        let leader = self.newest.partition(partition).and_then(|state| state.leader);
        let process = leader.and_then(|leader| self.brokers.get(&leader.0)?.process.as_ref());
        let hosted = process.and_then(|process| process.hosted().find(|(id, ..)| *id == partition));
        let Some((_, _, log)) = hosted else { return seen };
        let (view, watermark) = (log.view(), log.bounds().high_watermark);
        let mut from = log.log_start();
        while let Ok(Some(slice)) = view.read(from, watermark, u32::MAX, FirstBatch::Whole) {
            let Ok(bytes) = slice.read() else { break };
            let records = client::records(partition, Offset(from.0), bytes.into());
            let Some(last) = records.last() else { break };
            from = partition_log::Offset(last.offset + 1);
            seen.extend(records);
        }
        seen
    }
}

/// Numbers of partitions, and whether they belong to the history of what is there (0) or of what was deleted (1).
#[derive(Default)]
struct Numbers(BTreeMap<PartitionId, (usize, Partition)>);

impl Numbers {
    fn enter(&mut self, partition: PartitionId, which: usize) -> (usize, Partition) {
        let next = Partition(u32::try_from(self.0.len()).expect("few"));
        *self.0.entry(partition).or_insert((which, next))
    }

    fn of(&mut self, partition: PartitionId) -> (usize, Partition) {
        self.enter(partition, 1)
    }
}
