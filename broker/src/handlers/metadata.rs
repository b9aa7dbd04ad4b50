//! Metadata: brokers and topics as this broker's image knows them.
//!
//! Must not: mix two images in one answer, or create a topic itself: that is asked of the controller.

use std::collections::BTreeSet;

use metadata::ids::TopicId;
use metadata::image::{Partition, Topic};
use metadata::uuid::Uuid as Id;
use wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use wire::{ErrorCode, Uuid};

use super::topics::{self, KnowsListenerErrors, Leadership};
use super::{Call, Refusable, operations};

/// Answers the request.
pub fn answer(call: &Call, request: &MetadataRequest) -> MetadataResponse {
    let v = call.version.0;
    if let Some(refused) = ids_before_their_version(v, request) {
        return MetadataResponse {
            topics: refused,
            ..frame(call, request)
        };
    }
    let asked = match &request.topics {
        None => None,
        Some(topics) if v == 0 && topics.is_empty() => None,
        Some(topics) => Some(topics),
    };
    let topics = match asked {
        None => call
            .image
            .topic_names
            .iter()
            .filter_map(|(name, _)| known(call, request, name))
            .collect(),
        Some(topics) if topics.iter().any(|topic| !topic.topic_id.is_zero()) => by_id(call, request, topics),
        Some(topics) => by_name(call, request, topics),
    };
    MetadataResponse {
        topics,
        ..frame(call, request)
    }
}

/// Everything but the topics.
fn frame(call: &Call, request: &MetadataRequest) -> MetadataResponse {
    let brokers = call
        .image
        .brokers
        .iter()
        .filter(|(_, broker)| !broker.fenced)
        .filter_map(|(id, broker)| {
            let endpoint = broker.endpoint(&call.listener)?;
            Some(MetadataResponseBroker {
                node_id: id.0,
                host: endpoint.host.clone(),
                port: i32::from(endpoint.port),
                rack: broker.rack.clone(),
            })
        })
        .collect();
    MetadataResponse {
        brokers,
        cluster_id: Some(call.cluster_id().to_owned()),
        controller_id: call.any_live_broker(),
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            operations::CLUSTER
        } else {
            operations::NOT_ASKED
        },
        ..Default::default()
    }
}

/// Versions 10 and 11 have the id's field but may not use it.
fn ids_before_their_version(v: i16, request: &MetadataRequest) -> Option<Vec<MetadataResponseTopic>> {
    let topics = request.topics.as_ref()?;
    let early = (10..=11).contains(&v) && topics.iter().any(|t| t.name.is_none() || !t.topic_id.is_zero());
    early.then(|| {
        topics
            .iter()
            .map(|topic| MetadataResponseTopic {
                error_code: ErrorCode::INVALID_REQUEST,
                name: Some(topic.name.clone().unwrap_or_default()),
                topic_id: topic.topic_id,
                ..Default::default()
            })
            .collect()
    })
}

fn by_id(
    call: &Call,
    request: &MetadataRequest,
    topics: &[MetadataRequestTopic],
) -> Vec<MetadataResponseTopic> {
    let ids: BTreeSet<Uuid> = topics
        .iter()
        .map(|topic| topic.topic_id)
        .filter(|id| !id.is_zero())
        .collect();
    ids.into_iter()
        .map(|id| match call.image.topics.get(&TopicId(Id::from_bytes(id.0))) {
            Some(topic) => described(call, request, topic),
            None => MetadataResponseTopic {
                error_code: ErrorCode::UNKNOWN_TOPIC_ID,
                name: None,
                topic_id: id,
                topic_authorized_operations: operations::NOT_ASKED,
                ..Default::default()
            },
        })
        .collect()
}

fn by_name(
    call: &Call,
    request: &MetadataRequest,
    topics: &[MetadataRequestTopic],
) -> Vec<MetadataResponseTopic> {
    // A null name without an id is a request that means nothing. Kafka's own handler crashes on it.
    if topics.iter().any(|topic| topic.name.is_none()) {
        return refusal(request, call, ErrorCode::UNKNOWN_SERVER_ERROR).topics;
    }
    let names: BTreeSet<&str> = topics.iter().filter_map(|topic| topic.name.as_deref()).collect();
    let mut missing = Vec::new();
    let mut answered: Vec<MetadataResponseTopic> = names
        .iter()
        .filter_map(|name| {
            let found = known(call, request, name);
            if found.is_none() {
                missing.push(*name);
            }
            found
        })
        .collect();
    let create =
        call.node.settings.topics.auto_create && (request.allow_auto_topic_creation || call.version.0 < 4);
    if create {
        let valid = missing.iter().copied().filter(|name| topics::is_valid_name(name));
        call.node.auto_create(call, valid);
    }
    for name in missing {
        let code = if topics::is_valid_name(name) {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else {
            ErrorCode::INVALID_TOPIC_EXCEPTION
        };
        answered.push(MetadataResponseTopic {
            error_code: code,
            name: Some(name.to_owned()),
            is_internal: topics::is_internal(name),
            topic_authorized_operations: topic_operations(request),
            ..Default::default()
        });
    }
    answered
}

fn topic_operations(request: &MetadataRequest) -> i32 {
    if request.include_topic_authorized_operations {
        operations::TOPIC
    } else {
        operations::NOT_ASKED
    }
}

fn known(call: &Call, request: &MetadataRequest, name: &str) -> Option<MetadataResponseTopic> {
    call.image
        .topic_named(name)
        .map(|topic| described(call, request, topic))
}

fn described(call: &Call, request: &MetadataRequest, topic: &Topic) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: ErrorCode::NONE,
        name: Some(topic.name.clone()),
        topic_id: topics::uuid(topic),
        is_internal: topics::is_internal(&topic.name),
        partitions: topic
            .partitions
            .iter()
            .map(|(index, partition)| described_partition(call, index.0, partition))
            .collect(),
        topic_authorized_operations: topic_operations(request),
    }
}

fn described_partition(call: &Call, index: i32, partition: &Partition) -> MetadataResponsePartition {
    let v = call.version.0;
    let knows = if v < 6 {
        KnowsListenerErrors::No
    } else {
        KnowsListenerErrors::Yes
    };
    let leadership = topics::leadership(&call.image, &call.listener, partition);
    let offline = topics::offline_replicas(&call.image, &call.listener, partition);
    let mut code = topics::leadership_code(leadership, knows);
    let (mut replicas, mut in_sync) = (topics::ids(&partition.replicas), topics::ids(&partition.in_sync));
    if v == 0 {
        // Version 0 lists only live nodes and says that some are missing.
        if code == ErrorCode::NONE && !offline.is_empty() {
            code = ErrorCode::REPLICA_NOT_AVAILABLE;
        }
        replicas.retain(|id| !offline.contains(id));
        in_sync.retain(|id| !offline.contains(id));
    }
    MetadataResponsePartition {
        error_code: code,
        partition_index: index,
        leader_id: match leadership {
            Leadership::At(leader) => leader.0,
            Leadership::Nobody | Leadership::Unreachable(_) => -1,
        },
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: replicas,
        isr_nodes: in_sync,
        offline_replicas: offline,
    }
}

fn refusal(request: &MetadataRequest, call: &Call, code: ErrorCode) -> MetadataResponse {
    let topics = request
        .topics
        .iter()
        .flatten()
        .map(|topic| MetadataResponseTopic {
            error_code: code,
            name: Some(topic.name.clone().unwrap_or_default()),
            topic_id: topic.topic_id,
            ..Default::default()
        });
    MetadataResponse {
        topics: topics.collect(),
        error_code: code,
        ..frame(call, request)
    }
}

impl Refusable for MetadataRequest {
    fn refused(&self, call: &Call, code: ErrorCode) -> Option<MetadataResponse> {
        Some(refusal(self, call, code))
    }
}
