//! CreatePartitions: forwarded (R2.30, R2.31).
//!
//! Must not: decide on a topic; the controller does.

use millrace_proto::v1;
use wire::ErrorCode;
use wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

use super::{Call, Refusable};
use crate::errors;

/// Answers the request.
pub async fn answer(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse {
    let command = v1::CreatePartitionsRequest {
        caller: Some(call.caller()),
        topics: request.topics.iter().map(more_partitions).collect(),
        validate_only: request.validate_only,
        timeout_ms: request.timeout_ms,
    };
    let reply = match call.node.forward(command, request.timeout_ms).await {
        Ok(reply) => reply,
        Err(error) => return all(&request, errors::of_unforwarded(error), &error.to_string()),
    };
    if let Some(refusal) = &reply.refusal {
        return all(&request, errors::of_refusal(refusal), &refusal.message);
    }
    if !request.validate_only {
        call.node
            .until_visible(reply.visible_at, request.timeout_ms)
            .await;
    }
    let results = reply.topics.into_iter().map(|topic| match &topic.refused {
        None => CreatePartitionsTopicResult {
            name: topic.name,
            ..Default::default()
        },
        Some(refusal) => failed(&topic.name, errors::of_refusal(refusal), &refusal.message),
    });
    CreatePartitionsResponse {
        results: results.collect(),
        ..Default::default()
    }
}

fn more_partitions(topic: &CreatePartitionsTopic) -> v1::MorePartitions {
    let by_hand = topic.assignments.as_ref().map(|assignments| v1::ManualReplicas {
        partitions: assignments
            .iter()
            .map(|assignment| v1::Replicas {
                brokers: assignment.broker_ids.clone(),
            })
            .collect(),
    });
    v1::MorePartitions {
        name: topic.name.clone(),
        count: topic.count,
        assignments: by_hand,
    }
}

fn failed(name: &str, code: ErrorCode, message: &str) -> CreatePartitionsTopicResult {
    // Out of time, and of a topic that does not exist, Kafka says nothing more (R0.4).
    let is_plain = [errors::OUT_OF_TIME, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION].contains(&code);
    CreatePartitionsTopicResult {
        name: name.to_owned(),
        error_code: code,
        error_message: (!is_plain).then(|| message.to_owned()),
    }
}

fn all(request: &CreatePartitionsRequest, code: ErrorCode, message: &str) -> CreatePartitionsResponse {
    let results = request
        .topics
        .iter()
        .map(|topic| failed(&topic.name, code, message));
    CreatePartitionsResponse {
        results: results.collect(),
        ..Default::default()
    }
}

impl Refusable for CreatePartitionsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<CreatePartitionsResponse> {
        Some(all(self, code, "the request failed"))
    }
}
