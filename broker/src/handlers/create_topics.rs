//! CreateTopics: what this broker can refuse by itself is refused here, the rest is forwarded (R2.1 to R2.10).
//!
//! Must not: decide on a topic; the controller does.

use std::collections::BTreeMap;

use metadata::config::{Layer, Layers, describe_topic};
use metadata::record::ConfigResource;
use millrace_proto::v1;
use wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
use wire::{ErrorCode, Uuid};

use super::{Call, Refusable};
use crate::errors;

/// The one name that is never a topic, even though its letters are fine.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// Answers the request.
pub async fn answer(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse {
    let (refused, forwarded) = front_end(&request.topics);
    let mut topics = refused;
    if !forwarded.is_empty() {
        topics.extend(forward(&call, &request, &forwarded).await);
    }
    CreateTopicsResponse {
        topics,
        ..Default::default()
    }
}

/// R2.1: a name given more than once is refused once, however often it stands there.
fn front_end(topics: &[CreatableTopic]) -> (Vec<CreatableTopicResult>, Vec<&CreatableTopic>) {
    let mut by_name: BTreeMap<&str, Vec<&CreatableTopic>> = BTreeMap::new();
    for topic in topics {
        by_name.entry(&topic.name).or_default().push(topic);
    }
    let (mut refused, mut forwarded) = (Vec::new(), Vec::new());
    for (name, given) in by_name {
        match given.as_slice() {
            [_] if name == METADATA_TOPIC => {
                refused.push(failed(
                    name,
                    ErrorCode::INVALID_REQUEST,
                    "the metadata log is not a topic",
                ));
            }
            [one] => forwarded.push(*one),
            _ => refused.push(failed(
                name,
                ErrorCode::INVALID_REQUEST,
                "the name is given more than once",
            )),
        }
    }
    (refused, forwarded)
}

async fn forward(
    call: &Call,
    request: &CreateTopicsRequest,
    topics: &[&CreatableTopic],
) -> Vec<CreatableTopicResult> {
    let command = v1::CreateTopicsRequest {
        caller: Some(call.caller()),
        topics: topics.iter().map(|topic| new_topic(topic)).collect(),
        validate_only: request.validate_only,
        timeout_ms: request.timeout_ms,
    };
    let all = |code: ErrorCode, why: &str| {
        topics
            .iter()
            .map(|topic| failed(&topic.name, code, why))
            .collect()
    };
    let reply = match call.node.forward(command, request.timeout_ms).await {
        Ok(reply) => reply,
        Err(error) => return all(errors::of_unforwarded(error), &error.to_string()),
    };
    if let Some(refusal) = &reply.refusal {
        return all(errors::of_refusal(refusal), &refusal.message);
    }
    if !request.validate_only {
        call.node
            .until_visible(reply.visible_at, request.timeout_ms)
            .await;
    }
    let given: BTreeMap<&str, &CreatableTopic> =
        topics.iter().map(|topic| (topic.name.as_str(), *topic)).collect();
    reply
        .topics
        .into_iter()
        .map(|result| outcome(call, &given, result))
        .collect()
}

fn new_topic(topic: &CreatableTopic) -> v1::NewTopic {
    // −1 is "the default"; every other number is the controller's to judge.
    let unless_default = |number: i32| (number != -1).then_some(number);
    v1::NewTopic {
        name: topic.name.clone(),
        partitions: unless_default(topic.num_partitions),
        replication_factor: unless_default(i32::from(topic.replication_factor)),
        assignments: topic
            .assignments
            .iter()
            .map(|assignment| v1::ReplicaAssignment {
                partition: assignment.partition_index,
                replicas: assignment.broker_ids.clone(),
            })
            .collect(),
        configs: topic
            .configs
            .iter()
            .map(|config| v1::ConfigEntry {
                key: config.name.clone(),
                value: config.value.clone(),
            })
            .collect(),
    }
}

fn outcome(
    call: &Call,
    given: &BTreeMap<&str, &CreatableTopic>,
    result: v1::NewTopicResult,
) -> CreatableTopicResult {
    use v1::new_topic_result::Result as Outcome;
    match result.result {
        Some(Outcome::Made(made)) => CreatableTopicResult {
            topic_id: made.topic_id.parse().unwrap_or(Uuid::ZERO),
            num_partitions: made.partitions,
            replication_factor: i16::try_from(made.replication_factor).unwrap_or(i16::MAX),
            configs: Some(configs(call, given.get(result.name.as_str()).copied())),
            name: result.name,
            ..Default::default()
        },
        Some(Outcome::Refused(refusal)) => {
            failed(&result.name, errors::of_refusal(&refusal), &refusal.message)
        }
        None => failed(&result.name, errors::CRASHED, "the controller sent no result"),
    }
}

/// What holds for the new topic (R2.8): from the request, since the answer may be given before the image has it.
fn configs(call: &Call, topic: Option<&CreatableTopic>) -> Vec<CreatableTopicConfigs> {
    let given = topic.into_iter().flat_map(|topic| &topic.configs);
    let overrides: BTreeMap<String, String> = given
        .filter_map(|config| Some((config.name.clone(), config.value.clone()?)))
        .collect();
    let dynamic = |resource| call.image.configs.get(&resource).map(AsRef::as_ref);
    let (node_dynamic, cluster) = (
        dynamic(ConfigResource::Broker(call.node.id)),
        dynamic(ConfigResource::ClusterDefault),
    );
    let layers = Layers {
        topic: &overrides as &dyn Layer,
        node_dynamic: &node_dynamic,
        cluster: &cluster,
        node: &call.node.config,
    };
    describe_topic(&layers)
        .into_iter()
        .map(|config| CreatableTopicConfigs {
            name: config.name,
            value: config.written,
            read_only: config.read_only,
            config_source: config.source.code(),
            is_sensitive: config.sensitive,
        })
        .collect()
}

fn failed(name: &str, code: ErrorCode, message: &str) -> CreatableTopicResult {
    CreatableTopicResult {
        name: name.to_owned(),
        error_code: code,
        // Out of time, Kafka says nothing more (R0.4).
        error_message: (code != errors::OUT_OF_TIME).then(|| message.to_owned()),
        configs: Some(Vec::new()),
        ..Default::default()
    }
}

impl Refusable for CreateTopicsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<CreateTopicsResponse> {
        let topics = self
            .topics
            .iter()
            .map(|topic| failed(&topic.name, code, "the request failed"))
            .collect();
        Some(CreateTopicsResponse {
            topics,
            ..Default::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_given_three_times_is_refused_once() {
        let topic = |name: &str| CreatableTopic {
            name: name.into(),
            ..Default::default()
        };
        let topics = [
            topic("thrice"),
            topic("once"),
            topic("thrice"),
            topic("thrice"),
            topic(METADATA_TOPIC),
        ];

        let (refused, forwarded) = front_end(&topics);

        let refused: Vec<_> = refused.iter().map(|t| (t.name.as_str(), t.error_code)).collect();
        assert_eq!(
            refused,
            [
                (METADATA_TOPIC, ErrorCode::INVALID_REQUEST),
                ("thrice", ErrorCode::INVALID_REQUEST)
            ]
        );
        assert_eq!(forwarded.len(), 1);
        assert_eq!(forwarded[0].name, "once");
    }
}
