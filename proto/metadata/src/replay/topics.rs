//! Topics and partitions, and the laws that every partition keeps.

use std::sync::Arc;

use super::Contradiction;
use crate::delta::Touched;
use crate::ids::{BrokerId, LeaderEpoch, PartitionEpoch, PartitionId, PartitionIndex, TopicId};
use crate::image::{Image, Partition, Topic};
use crate::record::{ConfigResource, LeaderChange, PartitionChanged, PartitionCreated};

impl Image {
    pub(super) fn topic_created(
        &mut self,
        id: TopicId,
        name: &str,
        touched: &mut Touched,
    ) -> Result<(), Contradiction> {
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

    pub(super) fn topic_deleted(&mut self, id: TopicId, touched: &mut Touched) -> Result<(), Contradiction> {
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

    pub(super) fn partition_created(
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

    pub(super) fn partition_changed(
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

    pub(super) fn replace_partition(&mut self, id: PartitionId, after: Partition, touched: &mut Touched) {
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

    pub(super) fn eligible_cleared(
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
            // Nothing is committed where nobody leads: whoever was eligible holds everything still, and is all that
            // tells who does.
            .filter(|(_, _, state)| !state.in_sync.is_empty())
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
