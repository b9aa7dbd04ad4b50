//! DeleteTopics: malformed entries are refused here, the rest is forwarded (R2.40 to R2.43).
//!
//! Must not: decide on a topic; the controller does.

use std::collections::{BTreeMap, BTreeSet};

use metadata::image::Image;
use millrace_proto::v1;
use wire::messages::delete_topics::{DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::{ErrorCode, Uuid};

use super::{Call, Refusable};
use crate::errors;

/// First version that names topics by id.
const WITH_IDS: i16 = 6;
/// First version whose clients know that deletion can be disabled.
const WITH_DISABLED: i16 = 3;

/// One topic as the request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    name: Option<String>,
    id: Uuid,
}

/// Answers the request.
pub async fn answer(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    let asked = asked(&call, &request);
    if !call.node.settings.topics.deletable {
        let code = if call.version.0 < WITH_DISABLED {
            ErrorCode::INVALID_REQUEST
        } else {
            ErrorCode::TOPIC_DELETION_DISABLED
        };
        let responses = asked
            .iter()
            .map(|one| failed(one, code, "deletion of topics is disabled"))
            .collect();
        return DeleteTopicsResponse {
            responses,
            ..Default::default()
        };
    }
    let (mut responses, forwarded) = front_end(&call.image, asked);
    if !forwarded.is_empty() {
        responses.extend(forward(&call, request.timeout_ms, &forwarded).await);
    }
    DeleteTopicsResponse {
        responses,
        ..Default::default()
    }
}

fn asked(call: &Call, request: &DeleteTopicsRequest) -> Vec<Asked> {
    if call.version.0 < WITH_IDS {
        let named = |name: &String| Asked {
            name: Some(name.clone()),
            id: Uuid::ZERO,
        };
        return request.topic_names.iter().map(named).collect();
    }
    request
        .topics
        .iter()
        .map(|topic| Asked {
            name: topic.name.clone(),
            id: topic.topic_id,
        })
        .collect()
}

/// R2.41: neither or both of name and id; the same topic more than once, be it by its name and its id.
fn front_end(image: &Image, asked: Vec<Asked>) -> (Vec<DeletableTopicResult>, Vec<Asked>) {
    let mut refused = Vec::new();
    let mut times: BTreeMap<Asked, usize> = BTreeMap::new();
    for one in asked {
        if one.name.is_some() != one.id.is_zero() {
            refused.push(failed(
                &one,
                ErrorCode::INVALID_REQUEST,
                "a topic is named by its name or by its id",
            ));
        } else {
            *times.entry(one).or_default() += 1;
        }
    }
    let mut forwarded = Vec::new();
    for (one, count) in &times {
        if 1 < *count {
            refused.push(failed(
                one,
                ErrorCode::INVALID_REQUEST,
                "the topic is given more than once",
            ));
        } else {
            forwarded.push(one.clone());
        }
    }
    let by_id: BTreeSet<Uuid> = forwarded
        .iter()
        .map(|one| one.id)
        .filter(|id| !id.is_zero())
        .collect();
    let both: Vec<Asked> = forwarded
        .iter()
        .filter_map(|one| {
            let id = Uuid(image.topic_names.get(one.name.as_ref()?)?.0.to_bytes());
            by_id.contains(&id).then(|| Asked {
                name: one.name.clone(),
                id,
            })
        })
        .collect();
    let twice = both.iter().flat_map(|one| {
        let by_name = Asked {
            id: Uuid::ZERO,
            ..one.clone()
        };
        let by_id = Asked {
            name: None,
            ..one.clone()
        };
        [by_name, by_id]
    });
    let twice: BTreeSet<Asked> = twice.collect();
    forwarded.retain(|other| !twice.contains(other));
    let why = "the topic is given by its name and by its id";
    refused.extend(
        both.iter()
            .map(|one| failed(one, ErrorCode::INVALID_REQUEST, why)),
    );
    (refused, forwarded)
}

async fn forward(call: &Call, timeout_ms: i32, asked: &[Asked]) -> Vec<DeletableTopicResult> {
    let reference = |one: &Asked| v1::TopicRef {
        topic: Some(match &one.name {
            Some(name) => v1::topic_ref::Topic::Name(name.clone()),
            None => v1::topic_ref::Topic::Id(one.id.to_string()),
        }),
    };
    let command = v1::DeleteTopicsRequest {
        caller: Some(call.caller()),
        topics: asked.iter().map(reference).collect(),
        timeout_ms,
    };
    let all = |code: ErrorCode, why: &str| asked.iter().map(|one| failed(one, code, why)).collect();
    let reply = match call.node.forward(command, timeout_ms).await {
        Ok(reply) => reply,
        Err(error) => return all(errors::of_unforwarded(error), &error.to_string()),
    };
    if let Some(refusal) = &reply.refusal {
        return all(errors::of_refusal(refusal), &refusal.message);
    }
    call.node.until_visible(reply.visible_at, timeout_ms).await;
    reply.topics.into_iter().map(outcome).collect()
}

fn outcome(result: v1::DeleteTopicResult) -> DeletableTopicResult {
    let one = Asked {
        name: result.name,
        id: result
            .topic_id
            .and_then(|id| id.parse().ok())
            .unwrap_or(Uuid::ZERO),
    };
    match result.refused {
        Some(refusal) => failed(&one, errors::of_refusal(&refusal), &refusal.message),
        None => DeletableTopicResult {
            name: one.name,
            topic_id: one.id,
            ..Default::default()
        },
    }
}

fn failed(one: &Asked, code: ErrorCode, message: &str) -> DeletableTopicResult {
    DeletableTopicResult {
        name: one.name.clone(),
        topic_id: one.id,
        error_code: code,
        error_message: (code != errors::OUT_OF_TIME).then(|| message.to_owned()),
    }
}

impl Refusable for DeleteTopicsRequest {
    fn refused(&self, call: &Call, code: ErrorCode) -> Option<DeleteTopicsResponse> {
        let responses = asked(call, self)
            .iter()
            .map(|one| failed(one, code, "the request failed"))
            .collect();
        Some(DeleteTopicsResponse {
            responses,
            ..Default::default()
        })
    }
}
