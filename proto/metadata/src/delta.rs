//! What changed between two images, with the values before and after where a reader needs both.
//!
//! A broker acts on this instead of comparing whole images. Must not interpret what the changes mean.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::ordmap::DiffItem;

use crate::dump::DumpHeader;
use crate::ids::{BrokerId, PartitionId, ProducerId, TopicId};
use crate::image::{Broker, Image, Partition, Topic};
use crate::record::ConfigResource;

/// The names of what replay changed, gathered while it runs. A name may be noted although nothing came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    pub(crate) brokers: BTreeSet<BrokerId>,
    /// Created or deleted; changed partitions stand below.
    pub(crate) topics: BTreeSet<TopicId>,
    pub(crate) partitions: BTreeSet<PartitionId>,
    pub(crate) configs: BTreeSet<ConfigResource>,
    pub(crate) features: BTreeSet<String>,
    pub(crate) producer_ids: bool,
}

/// What leads from one image to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// What the image stands for after the change.
    pub to: DumpHeader,
    /// Registrations that are new, different or gone (`None`).
    pub brokers: BTreeMap<BrokerId, Option<Arc<Broker>>>,
    /// Topics that are new, with all their partitions.
    pub topics_created: BTreeMap<TopicId, Arc<Topic>>,
    /// Topics that are gone, as they last were.
    pub topics_deleted: BTreeMap<TopicId, Arc<Topic>>,
    /// Partitions that are new or different, those of new topics included.
    pub partitions: BTreeMap<PartitionId, PartitionDelta>,
    /// Configuration that is different, whole per resource; gone is `None`.
    pub configs: BTreeMap<ConfigResource, Option<Arc<BTreeMap<String, String>>>>,
    /// Feature levels that are different, 0 when the feature is off now.
    pub features: BTreeMap<String, i16>,
    /// Set when producer ids were given away.
    pub next_producer_id: Option<ProducerId>,
}

/// A partition before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDelta {
    /// `None` when it is new.
    pub before: Option<Arc<Partition>>,
    /// As it is now.
    pub after: Arc<Partition>,
}

impl Delta {
    /// What leads from `before` to `after`, found by comparing them.
    #[must_use]
    pub fn between(before: &Image, after: &Image) -> Self {
        let mut touched = Touched {
            producer_ids: true,
            ..Touched::default()
        };
        touched.brokers = changed_keys(before.brokers.diff(&after.brokers));
        touched.configs = changed_keys(before.configs.diff(&after.configs));
        touched.features = changed_keys(before.features.diff(&after.features));
        for item in before.topics.diff(&after.topics) {
            match item {
                DiffItem::Add(id, _) | DiffItem::Remove(id, _) => {
                    touched.topics.insert(*id);
                }
                DiffItem::Update { old, new } => {
                    let indexes = changed_keys(old.1.partitions.diff(&new.1.partitions));
                    let topic = *old.0;
                    let ids = indexes.into_iter().map(|index| PartitionId { topic, index });
                    touched.partitions.extend(ids);
                }
            }
        }
        Self::gathered(&touched, before, after)
    }

    /// What leads from `before` to `after`, where replay noted all that it changed in between.
    #[must_use]
    pub fn gathered(touched: &Touched, before: &Image, after: &Image) -> Self {
        let mut delta = Self {
            to: after.dump_header(),
            brokers: values(&touched.brokers, &before.brokers, &after.brokers),
            topics_created: BTreeMap::new(),
            topics_deleted: BTreeMap::new(),
            partitions: BTreeMap::new(),
            configs: values(&touched.configs, &before.configs, &after.configs),
            features: values(&touched.features, &before.features, &after.features)
                .into_iter()
                .map(|(name, level)| (name, level.unwrap_or(0)))
                .collect(),
            next_producer_id: (touched.producer_ids && before.next_producer_id != after.next_producer_id)
                .then_some(after.next_producer_id),
        };
        for id in &touched.topics {
            match (before.topics.get(id), after.topics.get(id)) {
                (None, Some(topic)) => {
                    delta.topics_created.insert(*id, Arc::clone(topic));
                    let all = topic.partitions.keys().map(|index| PartitionId {
                        topic: *id,
                        index: *index,
                    });
                    all.for_each(|partition| delta.note_partition(partition, before, after));
                }
                (Some(topic), None) => {
                    delta.topics_deleted.insert(*id, Arc::clone(topic));
                }
                _ => {}
            }
        }
        for id in &touched.partitions {
            delta.note_partition(*id, before, after);
        }
        delta
    }

    fn note_partition(&mut self, id: PartitionId, before: &Image, after: &Image) {
        let Some(now) = after.partition(id) else {
            return;
        };
        let was = before.partition(id);
        if was != Some(now) {
            let change = PartitionDelta {
                before: was.map(Arc::clone),
                after: Arc::clone(now),
            };
            self.partitions.insert(id, change);
        }
    }

    /// True when the images differ in nothing but how far they got.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.brokers.is_empty()
            && self.topics_created.is_empty()
            && self.topics_deleted.is_empty()
            && self.partitions.is_empty()
            && self.configs.is_empty()
            && self.features.is_empty()
            && self.next_producer_id.is_none()
    }

    /// Makes the image that this delta starts from into the one that it leads to.
    pub fn apply(&self, image: &mut Image) {
        put(&mut image.brokers, &self.brokers);
        put(&mut image.configs, &self.configs);
        for (name, level) in &self.features {
            match level {
                0 => image.features.remove(name),
                _ => image.features.insert(name.clone(), *level),
            };
        }
        for (id, topic) in &self.topics_deleted {
            image.topics.remove(id);
            image.topic_names.remove(&topic.name);
            for (index, partition) in &topic.partitions {
                let partition_id = PartitionId {
                    topic: *id,
                    index: *index,
                };
                image.lookup.replace(partition_id, Some(partition.as_ref()), None);
            }
        }
        for (id, topic) in &self.topics_created {
            image.topics.insert(*id, Arc::clone(topic));
            image.topic_names.insert(topic.name.clone(), *id);
        }
        for (id, PartitionDelta { before, after }) in &self.partitions {
            if let Some(topic) = image.topics.get_mut(&id.topic) {
                Arc::make_mut(topic)
                    .partitions
                    .insert(id.index, Arc::clone(after));
            }
            image.lookup.replace(*id, before.as_deref(), Some(after.as_ref()));
        }
        image.next_producer_id = self.next_producer_id.unwrap_or(image.next_producer_id);
        image.next_offset = self.to.next_offset;
        image.last_term = self.to.last_term;
    }
}

fn changed_keys<'a, K: Ord + Clone + 'a, V: 'a>(
    items: impl Iterator<Item = DiffItem<'a, 'a, K, V>>,
) -> BTreeSet<K> {
    items
        .map(|item| match item {
            DiffItem::Add(key, _) | DiffItem::Remove(key, _) => key.clone(),
            DiffItem::Update { new, .. } => new.0.clone(),
        })
        .collect()
}

fn values<K: Ord + Clone, V: Clone + PartialEq>(
    keys: &BTreeSet<K>,
    before: &imbl::OrdMap<K, V>,
    after: &imbl::OrdMap<K, V>,
) -> BTreeMap<K, Option<V>> {
    keys.iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| (key.clone(), after.get(key).cloned()))
        .collect()
}

fn put<K: Ord + Clone, V: Clone>(map: &mut imbl::OrdMap<K, V>, changes: &BTreeMap<K, Option<V>>) {
    for (key, value) in changes {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}
