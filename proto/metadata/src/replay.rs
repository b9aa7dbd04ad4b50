//! How records change the image. Every node replays the same records with the same result.
//!
//! A record that contradicts the image is an error that says what it contradicts, and the image stays as it was:
//! never skip one, never guess (R0.9). Must not decide anything.

use std::sync::Arc;

use crate::batch::MetadataBatch;
use crate::delta::Touched;
use crate::feature;
use crate::ids::{
    BrokerEpoch, BrokerId, IncarnationId, LeaderEpoch, MetadataOffset, PartitionEpoch, PartitionId,
    PartitionIndex, ProducerId, Term, TopicId,
};
use crate::image::{Broker, Image, Partition, Topic};
use crate::record::{
    BrokerRegistered, BrokerRegistrationChanged, ConfigResource, LeaderChange, PartitionChanged,
    PartitionCreated, Record,
};

/// What became of a batch. Every node comes to the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// Its records are in the image.
    Applied,
    /// It was decided on another state than this one; it consumes no offsets.
    Skipped(Skip),
}

/// Why a batch does not follow from the state before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Its leader was deposed before the batch came into the log.
    OtherTerm {
        /// Term of the entry that carries it.
        entry: Term,
        /// Term it was decided in.
        decided: Term,
    },
    /// A batch before it never came into the log, or came in twice.
    OtherOffset {
        /// The image's next offset.
        held: MetadataOffset,
        /// Where the batch begins.
        given: MetadataOffset,
    },
}

/// A record that cannot follow from the state before it: the log is damaged, or from another release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record at offset {offset} cannot be replayed: {contradiction}: {record:?}")]
pub struct ReplayError {
    /// The record's offset.
    pub offset: MetadataOffset,
    /// The record.
    pub record: Box<Record>,
    /// What it contradicts.
    pub contradiction: Contradiction,
}

/// What a record contradicts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// No such registration.
    #[error("broker {0} is not registered")]
    UnknownBroker(BrokerId),
    /// Names another incarnation than the registered one (R5.70).
    #[error("broker {broker} is registered with epoch {held}, not {given}")]
    OtherBrokerEpoch {
        /// Whose.
        broker: BrokerId,
        /// Registered.
        held: BrokerEpoch,
        /// In the record.
        given: BrokerEpoch,
    },
    /// A new incarnation must have a higher epoch, and none above its own offset (R1.4).
    #[error("broker {broker} cannot go from epoch {held:?} to {given}")]
    BrokerEpochOutOfOrder {
        /// Whose.
        broker: BrokerId,
        /// Registered, if any.
        held: Option<BrokerEpoch>,
        /// In the record.
        given: BrokerEpoch,
    },
    /// No such topic.
    #[error("there is no topic {0}")]
    UnknownTopic(TopicId),
    /// Configuration of a topic that does not exist.
    #[error("there is no topic named {0}")]
    UnknownTopicName(String),
    /// The id or the name is taken.
    #[error("topic {0} exists")]
    TopicExists(String),
    /// No such partition.
    #[error("there is no partition {0}")]
    UnknownPartition(PartitionId),
    /// Indexes are dense.
    #[error("the next partition is {expected}, not {given}")]
    PartitionOutOfOrder {
        /// The next index.
        expected: PartitionIndex,
        /// In the record.
        given: PartitionIndex,
    },
    /// The partition would break a law of partitions.
    #[error("partition {partition}: {law}")]
    UnlawfulPartition {
        /// Which.
        partition: PartitionId,
        /// The law that it would break.
        law: &'static str,
    },
    /// Blocks of producer ids only go up (R4.70).
    #[error("producer ids below {held} are given away, so {given} cannot be next")]
    ProducerIdsOutOfOrder {
        /// First that was never given away.
        held: ProducerId,
        /// In the record.
        given: ProducerId,
    },
    /// A feature level that this build cannot run with (R4.89).
    #[error("feature {name} at level {level} is not supported here")]
    UnsupportedFeature {
        /// The feature.
        name: String,
        /// Its level.
        level: i16,
    },
}

impl Image {
    /// Applies a committed batch that an entry of `entry_term` carried: all of its records, or none when it does not
    /// follow from this state. Every node must skip the same batches, so nothing but the image and the arguments counts.
    ///
    /// # Errors
    /// When a record contradicts the image, which then stays as it was before the batch.
    pub fn apply(&mut self, batch: &MetadataBatch, entry_term: Term) -> Result<Application, ReplayError> {
        self.apply_gathering(batch, entry_term, &mut Touched::default())
    }

    /// As [`Image::apply`], and notes what changed in `touched`.
    ///
    /// # Errors
    /// As [`Image::apply`].
    pub fn apply_gathering(
        &mut self,
        batch: &MetadataBatch,
        entry_term: Term,
        touched: &mut Touched,
    ) -> Result<Application, ReplayError> {
        if let Some(skip) = self.breaks_the_chain(batch, entry_term) {
            return Ok(Application::Skipped(skip));
        }
        let mut next = self.clone();
        for record in &batch.records {
            next.replay_gathering(record, touched)?;
        }
        next.last_term = batch.decided_in_term;
        *self = next;
        Ok(Application::Applied)
    }

    fn breaks_the_chain(&self, batch: &MetadataBatch, entry_term: Term) -> Option<Skip> {
        #[cfg(feature = "mutants")]
        if crate::mutants::skipped_chain_check() {
            return None;
        }
        if batch.decided_in_term != entry_term {
            return Some(Skip::OtherTerm {
                entry: entry_term,
                decided: batch.decided_in_term,
            });
        }
        if batch.base_offset != self.next_offset {
            return Some(Skip::OtherOffset {
                held: self.next_offset,
                given: batch.base_offset,
            });
        }
        None
    }

    /// Replays one record at the image's next offset.
    ///
    /// # Errors
    /// When the record contradicts the image, which then stays as it was.
    pub fn replay(&mut self, record: &Record) -> Result<(), ReplayError> {
        self.replay_gathering(record, &mut Touched::default())
    }

    /// Replays records one after the other.
    ///
    /// # Errors
    /// At the first record that contradicts the image; those before it stay replayed.
    pub fn replay_all<'a>(
        &mut self,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Result<(), ReplayError> {
        records.into_iter().try_for_each(|record| self.replay(record))
    }

    fn replay_gathering(&mut self, record: &Record, touched: &mut Touched) -> Result<(), ReplayError> {
        self.change(record, touched)?;
        self.next_offset = self.next_offset.next();
        Ok(())
    }

    /// Carries out a record without moving the offset, as a dump is loaded.
    pub(crate) fn change(&mut self, record: &Record, touched: &mut Touched) -> Result<(), ReplayError> {
        let offset = self.next_offset;
        self.change_or_contradict(record, touched)
            .map_err(|contradiction| ReplayError {
                offset,
                record: Box::new(record.clone()),
                contradiction,
            })
    }

    fn change_or_contradict(&mut self, record: &Record, touched: &mut Touched) -> Result<(), Contradiction> {
        match record {
            Record::NoOp => Ok(()),
            Record::BrokerRegistered(it) => self.broker_registered(it, touched),
            Record::BrokerRegistrationChanged(it) => self.registration_changed(it, touched),
            Record::BrokerUnregistered { broker, epoch } => {
                self.registered(*broker, *epoch)?;
                self.brokers.remove(broker);
                touched.brokers.insert(*broker);
                Ok(())
            }
            Record::TopicCreated { topic, name } => self.topic_created(*topic, name, touched),
            Record::TopicDeleted { topic } => self.topic_deleted(*topic, touched),
            Record::PartitionCreated(it) => self.partition_created(it, touched),
            Record::PartitionChanged(it) => self.partition_changed(it, touched),
            Record::ConfigChanged { resource, key, value } => {
                self.config_changed(resource, key, value.as_ref(), touched)
            }
            Record::FeatureLevelSet { name, level } => self.feature_level_set(name, *level, touched),
            Record::ProducerIdsAllocated { next, .. } => {
                if *next <= self.next_producer_id {
                    return Err(Contradiction::ProducerIdsOutOfOrder {
                        held: self.next_producer_id,
                        given: *next,
                    });
                }
                self.next_producer_id = *next;
                touched.producer_ids = true;
                Ok(())
            }
            Record::EligibleReplicasCleared { topic } => self.eligible_cleared(*topic, touched),
        }
    }

    fn registered(&self, broker: BrokerId, given: BrokerEpoch) -> Result<&Arc<Broker>, Contradiction> {
        let registration = self
            .brokers
            .get(&broker)
            .ok_or(Contradiction::UnknownBroker(broker))?;
        if registration.epoch != given {
            return Err(Contradiction::OtherBrokerEpoch {
                broker,
                held: registration.epoch,
                given,
            });
        }
        Ok(registration)
    }

    fn broker_registered(
        &mut self,
        it: &BrokerRegistered,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        let held: Option<(BrokerEpoch, IncarnationId)> = self
            .brokers
            .get(&it.broker)
            .map(|broker| (broker.epoch, broker.incarnation));
        let in_order = match held {
            // The same incarnation keeps its epoch (R1.5); another one gets a higher (R1.4).
            Some((epoch, incarnation)) if incarnation == it.incarnation => it.epoch == epoch,
            Some((epoch, _)) => it.epoch > epoch,
            None => true,
        };
        if !in_order || it.epoch.0 > self.next_offset.0 {
            return Err(Contradiction::BrokerEpochOutOfOrder {
                broker: it.broker,
                held: held.map(|(epoch, _)| epoch),
                given: it.epoch,
            });
        }
        let broker = Broker {
            epoch: it.epoch,
            registered_at: it.registered_at.unwrap_or(self.next_offset),
            incarnation: it.incarnation,
            endpoints: it.endpoints.clone(),
            features: it.features.clone(),
            rack: it.rack.clone(),
            directories: it.directories.clone(),
            fenced: it.fenced,
            in_controlled_shutdown: it.in_controlled_shutdown,
        };
        self.brokers.insert(it.broker, Arc::new(broker));
        touched.brokers.insert(it.broker);
        Ok(())
    }

    fn registration_changed(
        &mut self,
        it: &BrokerRegistrationChanged,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        let mut broker = Broker::clone(self.registered(it.broker, it.epoch)?);
        broker.fenced = it.fenced.unwrap_or(broker.fenced);
        broker.in_controlled_shutdown = it.in_controlled_shutdown.unwrap_or(broker.in_controlled_shutdown);
        if let Some(directories) = &it.directories {
            broker.directories.clone_from(directories);
        }
        self.brokers.insert(it.broker, Arc::new(broker));
        touched.brokers.insert(it.broker);
        Ok(())
    }

    fn topic_created(&mut self, id: TopicId, name: &str, touched: &mut Touched) -> Result<(), Contradiction> {
        if self.topics.contains_key(&id) || self.topic_names.contains_key(name) {
            return Err(Contradiction::TopicExists(name.to_owned()));
        }
        let topic = Topic {
            id,
            name: name.to_owned(),
            partitions: imbl::OrdMap::new(),
        };
        self.topics.insert(id, Arc::new(topic));
        self.topic_names.insert(name.to_owned(), id);
        touched.topics.insert(id);
        Ok(())
    }

    fn topic_deleted(&mut self, id: TopicId, touched: &mut Touched) -> Result<(), Contradiction> {
        let topic = self.topics.remove(&id).ok_or(Contradiction::UnknownTopic(id))?;
        for (index, partition) in &topic.partitions {
            let partition_id = PartitionId {
                topic: id,
                index: *index,
            };
            self.lookup.replace(partition_id, Some(partition.as_ref()), None);
        }
        self.topic_names.remove(&topic.name);
        let resource = ConfigResource::Topic(topic.name.clone());
        if self.configs.remove(&resource).is_some() {
            touched.configs.insert(resource);
        }
        touched.topics.insert(id);
        Ok(())
    }

    fn partition_created(
        &mut self,
        it: &PartitionCreated,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        let PartitionId { topic, index } = it.partition;
        let topic = self
            .topics
            .get_mut(&topic)
            .ok_or(Contradiction::UnknownTopic(topic))?;
        let count = i32::try_from(topic.partitions.len()).expect("indexes are i32 and dense");
        if index != PartitionIndex(count) {
            return Err(Contradiction::PartitionOutOfOrder {
                expected: PartitionIndex(count),
                given: index,
            });
        }
        lawful(it.partition, &it.state)?;
        let state = Arc::new(it.state.clone());
        self.lookup.replace(it.partition, None, Some(state.as_ref()));
        Arc::make_mut(topic).partitions.insert(index, state);
        touched.partitions.insert(it.partition);
        Ok(())
    }

    fn partition_changed(
        &mut self,
        it: &PartitionChanged,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        let before = self
            .partition(it.partition)
            .ok_or(Contradiction::UnknownPartition(it.partition))?;
        let after = changed(before, it);
        lawful(it.partition, &after)?;
        self.replace_partition(it.partition, after, touched);
        Ok(())
    }

    fn replace_partition(&mut self, id: PartitionId, after: Partition, touched: &mut Touched) {
        let topic = self
            .topics
            .get_mut(&id.topic)
            .expect("the partition was found in its topic");
        let after = Arc::new(after);
        let before = Arc::make_mut(topic)
            .partitions
            .insert(id.index, Arc::clone(&after));
        self.lookup.replace(id, before.as_deref(), Some(after.as_ref()));
        touched.partitions.insert(id);
    }

    fn config_changed(
        &mut self,
        resource: &ConfigResource,
        key: &str,
        value: Option<&String>,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        if let ConfigResource::Topic(name) = resource
            && !self.topic_names.contains_key(name)
        {
            return Err(Contradiction::UnknownTopicName(name.clone()));
        }
        let mut values = self
            .configs
            .get(resource)
            .map(|values| values.as_ref().clone())
            .unwrap_or_default();
        match value {
            Some(value) => values.insert(key.to_owned(), value.clone()),
            None => values.remove(key),
        };
        if values.is_empty() {
            self.configs.remove(resource);
        } else {
            self.configs.insert(resource.clone(), Arc::new(values));
        }
        touched.configs.insert(resource.clone());
        Ok(())
    }

    fn feature_level_set(
        &mut self,
        name: &str,
        level: i16,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        if !feature::is_supported(name, level) {
            return Err(Contradiction::UnsupportedFeature {
                name: name.to_owned(),
                level,
            });
        }
        if level == 0 {
            self.features.remove(name);
        } else {
            self.features.insert(name.to_owned(), level);
        }
        touched.features.insert(name.to_owned());
        Ok(())
    }

    fn eligible_cleared(
        &mut self,
        topic: Option<TopicId>,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
        if let Some(id) = topic
            && !self.topics.contains_key(&id)
        {
            return Err(Contradiction::UnknownTopic(id));
        }
        let cleared: Vec<(PartitionId, Partition)> = self
            .topics
            .values()
            .filter(|held| topic.is_none_or(|id| id == held.id))
            .flat_map(|held| {
                held.partitions
                    .iter()
                    .map(|(index, state)| (held.id, *index, state))
            })
            .filter(|(_, _, state)| !state.eligible.is_empty() || state.last_known_leader.is_some())
            .map(|(topic, index, state)| {
                let mut after = Partition::clone(state);
                after.eligible.clear();
                after.last_known_leader = None;
                after.epoch = after.epoch.next();
                (PartitionId { topic, index }, after)
            })
            .collect();
        for (id, after) in cleared {
            self.replace_partition(id, after, touched);
        }
        Ok(())
    }
}

/// A partition after a change: one more partition epoch (R3.1), one more leader epoch iff the change names a
/// leader (R3.2).
fn changed(before: &Partition, it: &PartitionChanged) -> Partition {
    let or = |new: &Option<Vec<BrokerId>>, old: &Vec<BrokerId>| new.as_ref().unwrap_or(old).clone();
    let (leader, leader_epoch): (Option<BrokerId>, LeaderEpoch) = match it.leader {
        None => (before.leader, before.leader_epoch),
        Some(LeaderChange::To(broker)) => (Some(broker), before.leader_epoch.next()),
        Some(LeaderChange::Nobody) => (None, before.leader_epoch.next()),
    };
    #[cfg(feature = "mutants")]
    let leader_epoch = match crate::mutants::epoch_not_bumped() {
        true => before.leader_epoch,
        false => leader_epoch,
    };
    let epoch: PartitionEpoch = before.epoch.next();
    Partition {
        replicas: or(&it.replicas, &before.replicas),
        directories: it.directories.as_ref().unwrap_or(&before.directories).clone(),
        in_sync: or(&it.in_sync, &before.in_sync),
        eligible: or(&it.eligible, &before.eligible),
        last_known_leader: it.last_known_leader.unwrap_or(before.last_known_leader),
        adding: or(&it.adding, &before.adding),
        removing: or(&it.removing, &before.removing),
        leader,
        recovery: it.recovery.unwrap_or(before.recovery),
        leader_epoch,
        epoch,
    }
}

/// The laws of partitions. What breaks one was never decided by a sound controller.
fn lawful(id: PartitionId, state: &Partition) -> Result<(), Contradiction> {
    let distinct = |ids: &[BrokerId]| ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id));
    let within = |ids: &[BrokerId]| ids.iter().all(|id| state.replicas.contains(id));
    let laws = [
        (!state.replicas.is_empty(), "it has at least one replica"),
        (distinct(&state.replicas), "replicas are distinct"),
        (distinct(&state.in_sync), "in-sync replicas are distinct"),
        (distinct(&state.eligible), "eligible replicas are distinct"),
        (
            state.directories.len() == state.replicas.len(),
            "there is one directory per replica",
        ),
        (within(&state.in_sync), "in-sync replicas are replicas"),
        (
            within(&state.adding) && within(&state.removing),
            "what is added or removed is a replica",
        ),
        (
            !state.in_sync.iter().any(|id| state.eligible.contains(id)),
            "no replica is in sync and merely eligible",
        ),
        (
            state.leader.is_none_or(|leader| state.in_sync.contains(&leader)),
            "the leader is in sync",
        ),
    ];
    match laws.iter().find(|(holds, _)| !holds) {
        Some((_, law)) => Err(Contradiction::UnlawfulPartition { partition: id, law }),
        None => Ok(()),
    }
}
