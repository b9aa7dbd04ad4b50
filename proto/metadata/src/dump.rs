//! The image as records, and back: what snapshots are made of.
//!
//! Order: features, brokers, each topic with its partitions and configuration, other configuration, producer ids.
//! Must not depend on how the image came about, so that equal images dump equal records.

use std::collections::BTreeMap;

use crate::delta::Touched;
use crate::ids::{BrokerEpoch, BrokerId, MetadataOffset, PartitionId, ProducerId, Term};
use crate::image::{Broker, Image, Topic};
use crate::record::{BrokerRegistered, ConfigResource, PartitionCreated, Record};
use crate::replay::ReplayError;

/// What a snapshot stands for: its image holds every record below `next_offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpHeader {
    /// The offset that follows the last record contained.
    pub next_offset: MetadataOffset,
    /// The term of the last batch contained.
    pub last_term: Term,
}

impl Image {
    /// What a dump of this image stands for.
    #[must_use]
    pub fn dump_header(&self) -> DumpHeader {
        DumpHeader {
            next_offset: self.next_offset,
            last_term: self.last_term,
        }
    }

    /// The image in a dump.
    ///
    /// # Errors
    /// When the records do not add up to an image.
    pub fn from_dump(
        header: DumpHeader,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Self, ReplayError> {
        let mut image = Self {
            next_offset: header.next_offset,
            last_term: header.last_term,
            ..Self::default()
        };
        let mut touched = Touched::default();
        #[cfg(feature = "mutants")]
        if crate::mutants::snapshot_without_next_offset() {
            image.next_offset = MetadataOffset(0);
            for record in records {
                image.replay(&record)?;
            }
            return Ok(image);
        }
        for record in records {
            image.change(&record, &mut touched)?;
        }
        Ok(image)
    }
}

/// The records that add up to this image.
pub fn dump(image: &Image) -> impl Iterator<Item = Record> + '_ {
    let features = image
        .features
        .iter()
        .map(|(name, level)| Record::FeatureLevelSet {
            name: name.clone(),
            level: *level,
        });
    let brokers = image.brokers.iter().map(|(id, broker)| registered(*id, broker));
    let topics = image
        .topics
        .values()
        .flat_map(|topic| topic_records(image, topic));
    let others = image
        .configs
        .iter()
        .filter(|(resource, _)| !matches!(resource, ConfigResource::Topic(_)))
        .flat_map(|(resource, values)| config_records(resource, values));
    // To whom the last block went is not part of the image, and nothing reads it.
    let producer_ids = (image.next_producer_id > ProducerId(0)).then_some(Record::ProducerIdsAllocated {
        broker: BrokerId(0),
        broker_epoch: BrokerEpoch(0),
        next: image.next_producer_id,
    });
    features
        .chain(brokers)
        .chain(topics)
        .chain(others)
        .chain(producer_ids)
}

fn registered(id: BrokerId, broker: &Broker) -> Record {
    Record::BrokerRegistered(BrokerRegistered {
        broker: id,
        epoch: broker.epoch,
        registered_at: Some(broker.registered_at),
        incarnation: broker.incarnation,
        endpoints: broker.endpoints.clone(),
        features: broker.features.clone(),
        rack: broker.rack.clone(),
        directories: broker.directories.clone(),
        fenced: broker.fenced,
        in_controlled_shutdown: broker.in_controlled_shutdown,
    })
}

fn topic_records<'a>(image: &'a Image, topic: &'a Topic) -> impl Iterator<Item = Record> + 'a {
    let created = Record::TopicCreated {
        topic: topic.id,
        name: topic.name.clone(),
    };
    let partitions = topic.partitions.iter().map(|(index, state)| {
        Record::PartitionCreated(PartitionCreated {
            partition: PartitionId {
                topic: topic.id,
                index: *index,
            },
            state: state.as_ref().clone(),
        })
    });
    let resource = ConfigResource::Topic(topic.name.clone());
    let configs = image.configs.get_key_value(&resource);
    let configs = configs
        .into_iter()
        .flat_map(|(resource, values)| config_records(resource, values));
    std::iter::once(created).chain(partitions).chain(configs)
}

fn config_records<'a>(
    resource: &'a ConfigResource,
    values: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = Record> + 'a {
    values.iter().map(|(key, value)| Record::ConfigChanged {
        resource: resource.clone(),
        key: key.clone(),
        value: Some(value.clone()),
    })
}
