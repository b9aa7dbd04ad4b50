//! From stored shapes to records. Everything that a field cannot hold is refused, by name.

use bytes::Bytes;
use prost::Message;

use super::{DecodeError, RecordType, malformed, messages};
use crate::ids::{
    BrokerEpoch, BrokerId, DirectoryId, IncarnationId, LeaderEpoch, MetadataOffset, PartitionEpoch,
    PartitionId, PartitionIndex, ProducerId, TopicId,
};
use crate::image::Partition;
use crate::record::{
    BrokerRegistered, BrokerRegistrationChanged, ConfigResource, Endpoint, LeaderChange, LeaderRecovery,
    LevelRange, PartitionChanged, PartitionCreated, Record, SecurityProtocol,
};
use crate::uuid::Uuid;

/// The record of this type in these bytes.
pub(super) fn record(kind: RecordType, bytes: &Bytes) -> Result<Record, DecodeError> {
    let fields = Fields { kind };
    Ok(match kind {
        RecordType::NoOp => {
            read::<messages::Nothing>(bytes)?;
            Record::NoOp
        }
        RecordType::BrokerRegistered => Record::BrokerRegistered(fields.registered(read(bytes)?)?),
        RecordType::BrokerRegistrationChanged => {
            Record::BrokerRegistrationChanged(fields.registration_changed(read(bytes)?)?)
        }
        RecordType::BrokerUnregistered => {
            let it: messages::BrokerUnregistered = read(bytes)?;
            Record::BrokerUnregistered {
                broker: fields.broker("broker", it.broker)?,
                epoch: BrokerEpoch(fields.whole("epoch", it.epoch)?),
            }
        }
        RecordType::TopicCreated => {
            let it: messages::TopicCreated = read(bytes)?;
            Record::TopicCreated {
                topic: fields.topic(&it.topic)?,
                name: it.name,
            }
        }
        RecordType::TopicDeleted => {
            let it: messages::TopicDeleted = read(bytes)?;
            Record::TopicDeleted {
                topic: fields.topic(&it.topic)?,
            }
        }
        RecordType::PartitionCreated => Record::PartitionCreated(fields.partition_created(&read(bytes)?)?),
        RecordType::PartitionChanged => Record::PartitionChanged(fields.partition_changed(read(bytes)?)?),
        RecordType::ConfigChanged => fields.config_changed(read(bytes)?)?,
        RecordType::FeatureLevelSet => {
            let it: messages::FeatureLevelSet = read(bytes)?;
            Record::FeatureLevelSet {
                name: it.name,
                level: fields.level("level", it.level)?,
            }
        }
        RecordType::ProducerIdsAllocated => {
            let it: messages::ProducerIdsAllocated = read(bytes)?;
            Record::ProducerIdsAllocated {
                broker: fields.broker("broker", it.broker)?,
                broker_epoch: BrokerEpoch(fields.whole("broker_epoch", it.broker_epoch)?),
                next: ProducerId(fields.whole("next", it.next)?),
            }
        }
        RecordType::EligibleReplicasCleared => {
            let it: messages::EligibleReplicasCleared = read(bytes)?;
            Record::EligibleReplicasCleared {
                topic: it.topic.map(|topic| fields.topic(&topic)).transpose()?,
            }
        }
    })
}

fn read<M: Message + Default>(bytes: &Bytes) -> Result<M, DecodeError> {
    M::decode(bytes.as_ref()).map_err(malformed)
}

/// Readers of fields, which name the record type when they refuse.
#[derive(Clone, Copy)]
struct Fields {
    kind: RecordType,
}

impl Fields {
    fn invalid(self, field: &'static str) -> DecodeError {
        DecodeError::InvalidField {
            record_type: self.kind.number(),
            field,
        }
    }

    fn whole(self, field: &'static str, number: i64) -> Result<i64, DecodeError> {
        (number >= 0).then_some(number).ok_or(self.invalid(field))
    }

    fn count(self, field: &'static str, number: i32) -> Result<i32, DecodeError> {
        (number >= 0).then_some(number).ok_or(self.invalid(field))
    }

    fn level(self, field: &'static str, number: i32) -> Result<i16, DecodeError> {
        i16::try_from(number)
            .ok()
            .filter(|level| *level >= 0)
            .ok_or(self.invalid(field))
    }

    fn broker(self, field: &'static str, number: i32) -> Result<BrokerId, DecodeError> {
        self.count(field, number).map(BrokerId)
    }

    fn brokers(self, field: &'static str, numbers: Vec<i32>) -> Result<Vec<BrokerId>, DecodeError> {
        numbers
            .into_iter()
            .map(|number| self.broker(field, number))
            .collect()
    }

    fn listed(
        self,
        field: &'static str,
        list: Option<messages::Brokers>,
    ) -> Result<Option<Vec<BrokerId>>, DecodeError> {
        list.map(|list| self.brokers(field, list.ids)).transpose()
    }

    fn uuid(self, field: &'static str, bytes: &[u8]) -> Result<Uuid, DecodeError> {
        let bytes = <[u8; 16]>::try_from(bytes).map_err(|_| self.invalid(field))?;
        Ok(Uuid::from_bytes(bytes))
    }

    fn topic(self, bytes: &[u8]) -> Result<TopicId, DecodeError> {
        self.uuid("topic", bytes).map(TopicId)
    }

    fn partition(self, topic: &[u8], index: i32) -> Result<PartitionId, DecodeError> {
        Ok(PartitionId {
            topic: self.topic(topic)?,
            index: PartitionIndex(self.count("index", index)?),
        })
    }

    fn directories(self, bytes: &[u8]) -> Result<Vec<DirectoryId>, DecodeError> {
        let (ids, rest) = bytes.as_chunks::<16>();
        if !rest.is_empty() {
            return Err(self.invalid("directories"));
        }
        Ok(ids.iter().map(|id| DirectoryId(Uuid::from_bytes(*id))).collect())
    }

    fn recovery(self, number: u32) -> Result<LeaderRecovery, DecodeError> {
        match number {
            0 => Ok(LeaderRecovery::Recovered),
            1 => Ok(LeaderRecovery::Recovering),
            _ => Err(self.invalid("recovery")),
        }
    }

    fn security(self, number: u32) -> Result<SecurityProtocol, DecodeError> {
        match number {
            0 => Ok(SecurityProtocol::Plaintext),
            1 => Ok(SecurityProtocol::Ssl),
            2 => Ok(SecurityProtocol::SaslPlaintext),
            3 => Ok(SecurityProtocol::SaslSsl),
            _ => Err(self.invalid("security")),
        }
    }

    fn endpoint(self, it: messages::Endpoint) -> Result<Endpoint, DecodeError> {
        Ok(Endpoint {
            listener: it.listener,
            host: it.host,
            port: u16::try_from(it.port).map_err(|_| self.invalid("port"))?,
            security: self.security(it.security)?,
        })
    }

    fn feature(self, it: messages::Feature) -> Result<(String, LevelRange), DecodeError> {
        let range = LevelRange {
            min: self.level("features", it.min)?,
            max: self.level("features", it.max)?,
        };
        Ok((it.name, range))
    }

    fn registered(self, it: messages::BrokerRegistered) -> Result<BrokerRegistered, DecodeError> {
        let registered_at = it.registered_at.map(|at| self.whole("registered_at", at));
        let endpoints = it.endpoints.into_iter().map(|endpoint| self.endpoint(endpoint));
        let features = it.features.into_iter().map(|feature| self.feature(feature));
        Ok(BrokerRegistered {
            broker: self.broker("broker", it.broker)?,
            epoch: BrokerEpoch(self.whole("epoch", it.epoch)?),
            registered_at: registered_at.transpose()?.map(MetadataOffset),
            incarnation: IncarnationId(self.uuid("incarnation", &it.incarnation)?),
            endpoints: endpoints.collect::<Result<_, _>>()?,
            features: features.collect::<Result<_, _>>()?,
            rack: it.rack,
            directories: self.directories(&it.directories)?,
            fenced: it.fenced,
            in_controlled_shutdown: it.in_controlled_shutdown,
        })
    }

    fn registration_changed(
        self,
        it: messages::BrokerRegistrationChanged,
    ) -> Result<BrokerRegistrationChanged, DecodeError> {
        let directories = it.directories.map(|bytes| self.directories(&bytes));
        Ok(BrokerRegistrationChanged {
            broker: self.broker("broker", it.broker)?,
            epoch: BrokerEpoch(self.whole("epoch", it.epoch)?),
            fenced: it.fenced,
            in_controlled_shutdown: it.in_controlled_shutdown,
            directories: directories.transpose()?,
        })
    }

    fn partition_created(self, it: &messages::PartitionCreated) -> Result<PartitionCreated, DecodeError> {
        let optional = |field, id: Option<i32>| id.map(|id| self.broker(field, id)).transpose();
        Ok(PartitionCreated {
            partition: self.partition(&it.topic, it.index)?,
            state: Partition {
                replicas: self.brokers("replicas", it.replicas.clone())?,
                directories: self.directories(&it.directories)?,
                in_sync: self.brokers("in_sync", it.in_sync.clone())?,
                eligible: self.brokers("eligible", it.eligible.clone())?,
                last_known_leader: optional("last_known_leader", it.last_known_leader)?,
                adding: self.brokers("adding", it.adding.clone())?,
                removing: self.brokers("removing", it.removing.clone())?,
                leader: optional("leader", it.leader)?,
                recovery: self.recovery(it.recovery)?,
                leader_epoch: LeaderEpoch(self.count("leader_epoch", it.leader_epoch)?),
                epoch: PartitionEpoch(self.count("epoch", it.epoch)?),
            },
        })
    }

    fn partition_changed(self, it: messages::PartitionChanged) -> Result<PartitionChanged, DecodeError> {
        let somebody = |field, it: Option<messages::BrokerOrNobody>| {
            it.map(|it| it.id.map(|id| self.broker(field, id)).transpose())
                .transpose()
        };
        let leader = somebody("leader", it.leader)?;
        let directories = it.directories.map(|bytes| self.directories(&bytes));
        Ok(PartitionChanged {
            partition: self.partition(&it.topic, it.index)?,
            in_sync: self.listed("in_sync", it.in_sync)?,
            leader: leader.map(|leader| leader.map_or(LeaderChange::Nobody, LeaderChange::To)),
            eligible: self.listed("eligible", it.eligible)?,
            last_known_leader: somebody("last_known_leader", it.last_known_leader)?,
            replicas: self.listed("replicas", it.replicas)?,
            directories: directories.transpose()?,
            adding: self.listed("adding", it.adding)?,
            removing: self.listed("removing", it.removing)?,
            recovery: it.recovery.map(|number| self.recovery(number)).transpose()?,
        })
    }

    fn config_changed(self, it: messages::ConfigChanged) -> Result<Record, DecodeError> {
        let resource = match (it.kind, it.broker) {
            (2, None) => ConfigResource::Topic(it.name),
            (4, Some(broker)) => ConfigResource::Broker(self.broker("broker", broker)?),
            (4, None) => ConfigResource::ClusterDefault,
            (16, None) => ConfigResource::ClientMetrics(it.name),
            (32, None) => ConfigResource::Group(it.name),
            _ => return Err(self.invalid("resource")),
        };
        Ok(Record::ConfigChanged {
            resource,
            key: it.key,
            value: it.value,
        })
    }
}
