//! From records to stored shapes. Nothing can fail here.

use bytes::Bytes;
use prost::Message;

use super::{RecordType, messages};
use crate::ids::{BrokerId, DirectoryId, TopicId};
use crate::record::{
    BrokerRegistered, BrokerRegistrationChanged, ConfigResource, LeaderChange, LeaderRecovery,
    PartitionChanged, PartitionCreated, Record, SecurityProtocol,
};

/// The type of a record and its fields as bytes.
pub(super) fn record(record: &Record) -> (RecordType, Bytes) {
    match record {
        Record::NoOp => (RecordType::NoOp, stored(&messages::Nothing {})),
        Record::BrokerRegistered(it) => (RecordType::BrokerRegistered, stored(&registered(it))),
        Record::BrokerRegistrationChanged(it) => (
            RecordType::BrokerRegistrationChanged,
            stored(&registration_changed(it)),
        ),
        Record::BrokerUnregistered { broker, epoch } => {
            let message = messages::BrokerUnregistered {
                broker: broker.0,
                epoch: epoch.0,
            };
            (RecordType::BrokerUnregistered, stored(&message))
        }
        Record::TopicCreated { topic, name } => {
            let message = messages::TopicCreated {
                topic: topic_id(*topic),
                name: name.clone(),
            };
            (RecordType::TopicCreated, stored(&message))
        }
        Record::TopicDeleted { topic } => {
            let message = messages::TopicDeleted {
                topic: topic_id(*topic),
            };
            (RecordType::TopicDeleted, stored(&message))
        }
        Record::PartitionCreated(it) => (RecordType::PartitionCreated, stored(&partition_created(it))),
        Record::PartitionChanged(it) => (RecordType::PartitionChanged, stored(&partition_changed(it))),
        Record::ConfigChanged { resource, key, value } => (
            RecordType::ConfigChanged,
            stored(&config_changed(resource, key, value.as_ref())),
        ),
        Record::FeatureLevelSet { name, level } => {
            let message = messages::FeatureLevelSet {
                name: name.clone(),
                level: i32::from(*level),
            };
            (RecordType::FeatureLevelSet, stored(&message))
        }
        Record::ProducerIdsAllocated {
            broker,
            broker_epoch,
            next,
        } => {
            let message = messages::ProducerIdsAllocated {
                broker: broker.0,
                broker_epoch: broker_epoch.0,
                next: next.0,
            };
            (RecordType::ProducerIdsAllocated, stored(&message))
        }
        Record::EligibleReplicasCleared { topic } => {
            let message = messages::EligibleReplicasCleared {
                topic: topic.map(topic_id),
            };
            (RecordType::EligibleReplicasCleared, stored(&message))
        }
    }
}

fn stored(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn topic_id(topic: TopicId) -> Bytes {
    Bytes::copy_from_slice(&topic.0.to_bytes())
}

fn directories(ids: &[DirectoryId]) -> Bytes {
    ids.iter().flat_map(|id| id.0.to_bytes()).collect()
}

fn numbers(ids: &[BrokerId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}

fn brokers(ids: &[BrokerId]) -> messages::Brokers {
    messages::Brokers { ids: numbers(ids) }
}

fn recovery(state: LeaderRecovery) -> u32 {
    match state {
        LeaderRecovery::Recovered => 0,
        LeaderRecovery::Recovering => 1,
    }
}

fn security(protocol: SecurityProtocol) -> u32 {
    match protocol {
        SecurityProtocol::Plaintext => 0,
        SecurityProtocol::Ssl => 1,
        SecurityProtocol::SaslPlaintext => 2,
        SecurityProtocol::SaslSsl => 3,
    }
}

fn registered(it: &BrokerRegistered) -> messages::BrokerRegistered {
    let endpoints = it.endpoints.iter().map(|endpoint| messages::Endpoint {
        listener: endpoint.listener.clone(),
        host: endpoint.host.clone(),
        port: u32::from(endpoint.port),
        security: security(endpoint.security),
    });
    let features = it.features.iter().map(|(name, range)| messages::Feature {
        name: name.clone(),
        min: i32::from(range.min),
        max: i32::from(range.max),
    });
    messages::BrokerRegistered {
        broker: it.broker.0,
        epoch: it.epoch.0,
        registered_at: it.registered_at.map(|offset| offset.0),
        incarnation: Bytes::copy_from_slice(&it.incarnation.0.to_bytes()),
        endpoints: endpoints.collect(),
        features: features.collect(),
        rack: it.rack.clone(),
        directories: directories(&it.directories),
        fenced: it.fenced,
        in_controlled_shutdown: it.in_controlled_shutdown,
    }
}

fn registration_changed(it: &BrokerRegistrationChanged) -> messages::BrokerRegistrationChanged {
    messages::BrokerRegistrationChanged {
        broker: it.broker.0,
        epoch: it.epoch.0,
        fenced: it.fenced,
        in_controlled_shutdown: it.in_controlled_shutdown,
        directories: it.directories.as_deref().map(directories),
    }
}

fn partition_created(it: &PartitionCreated) -> messages::PartitionCreated {
    let state = &it.state;
    messages::PartitionCreated {
        topic: topic_id(it.partition.topic),
        index: it.partition.index.0,
        replicas: numbers(&state.replicas),
        directories: directories(&state.directories),
        in_sync: numbers(&state.in_sync),
        eligible: numbers(&state.eligible),
        last_known_leader: state.last_known_leader.map(|broker| broker.0),
        adding: numbers(&state.adding),
        removing: numbers(&state.removing),
        leader: state.leader.map(|broker| broker.0),
        recovery: recovery(state.recovery),
        leader_epoch: state.leader_epoch.0,
        epoch: state.epoch.0,
    }
}

fn partition_changed(it: &PartitionChanged) -> messages::PartitionChanged {
    let leader = it.leader.map(|change| match change {
        LeaderChange::To(broker) => Some(broker.0),
        LeaderChange::Nobody => None,
    });
    messages::PartitionChanged {
        topic: topic_id(it.partition.topic),
        index: it.partition.index.0,
        in_sync: it.in_sync.as_deref().map(brokers),
        leader: leader.map(|id| messages::BrokerOrNobody { id }),
        eligible: it.eligible.as_deref().map(brokers),
        last_known_leader: it.last_known_leader.map(|broker| messages::BrokerOrNobody {
            id: broker.map(|broker| broker.0),
        }),
        replicas: it.replicas.as_deref().map(brokers),
        directories: it.directories.as_deref().map(directories),
        adding: it.adding.as_deref().map(brokers),
        removing: it.removing.as_deref().map(brokers),
        recovery: it.recovery.map(recovery),
    }
}

fn config_changed(resource: &ConfigResource, key: &str, value: Option<&String>) -> messages::ConfigChanged {
    let (kind, name, broker) = match resource {
        ConfigResource::Topic(name) => (2, name.clone(), None),
        ConfigResource::Broker(broker) => (4, String::new(), Some(broker.0)),
        ConfigResource::ClusterDefault => (4, String::new(), None),
        ConfigResource::ClientMetrics(name) => (16, name.clone(), None),
        ConfigResource::Group(name) => (32, name.clone(), None),
    };
    messages::ConfigChanged {
        kind,
        name,
        broker,
        key: key.to_owned(),
        value: value.cloned(),
    }
}
