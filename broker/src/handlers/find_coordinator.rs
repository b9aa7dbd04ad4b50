//! FindCoordinator: no coordinator runs here yet, and the answer says so.
//!
//! Must not: create an internal topic, or name a node that would not answer.

use wire::ErrorCode;
use wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

use super::{Call, Refusable};

/// Groups.
const GROUP: i8 = 0;
/// Transactional ids.
const TRANSACTION: i8 = 1;
/// Share group state partitions, from version 6 on.
const SHARE: i8 = 2;

/// Where the keys of a request stand, and how errors go out.
const BATCHED_FROM: i16 = 4;

/// Answers the request.
pub fn answer(call: &Call, request: &FindCoordinatorRequest) -> FindCoordinatorResponse {
    if call.version.0 < BATCHED_FROM {
        let found = find(call, request.key_type, &request.key);
        return FindCoordinatorResponse {
            error_code: found.code,
            error_message: found.message,
            node_id: -1,
            port: -1,
            ..Default::default()
        };
    }
    let coordinators = request
        .coordinator_keys
        .iter()
        .map(|key| {
            let found = find(call, request.key_type, key);
            Coordinator {
                key: key.clone(),
                node_id: -1,
                port: -1,
                error_code: found.code,
                error_message: found.message,
                ..Default::default()
            }
        })
        .collect();
    FindCoordinatorResponse {
        coordinators,
        ..Default::default()
    }
}

struct Found {
    code: ErrorCode,
    message: Option<String>,
}

fn find(call: &Call, key_type: i8, key: &str) -> Found {
    match key_type {
        SHARE if call.version.0 < 6 => Found::invalid(""),
        SHARE if !is_share_key(key) => Found::invalid("a share coordinator's key is group:topicId:partition"),
        GROUP | TRANSACTION | SHARE => Found::none(call),
        other => Found::invalid(&format!("no coordinator has type {other}")),
    }
}

impl Found {
    fn none(call: &Call) -> Found {
        // A text in versions 1 to 3, an empty one from 4 on.
        let message = if call.version.0 < BATCHED_FROM {
            "no coordinator runs in this cluster yet"
        } else {
            ""
        };
        Found {
            code: ErrorCode::COORDINATOR_NOT_AVAILABLE,
            message: Some(message.to_owned()),
        }
    }

    fn invalid(message: &str) -> Found {
        Found {
            code: ErrorCode::INVALID_REQUEST,
            message: Some(message.to_owned()),
        }
    }
}

/// `group:topicId:partition`, where the group may contain colons: the last two parts are split off.
fn is_share_key(key: &str) -> bool {
    let mut parts = key.rsplitn(3, ':');
    let partition = parts.next().is_some_and(|text| text.parse::<i32>().is_ok());
    let topic = parts
        .next()
        .is_some_and(|text| text.parse::<wire::Uuid>().is_ok());
    partition && topic && parts.next().is_some_and(|group| !group.is_empty())
}

fn refusal(request: &FindCoordinatorRequest, call: &Call, code: ErrorCode) -> FindCoordinatorResponse {
    if call.version.0 < BATCHED_FROM {
        return FindCoordinatorResponse {
            error_code: code,
            node_id: -1,
            port: -1,
            ..Default::default()
        };
    }
    let coordinators = request
        .coordinator_keys
        .iter()
        .map(|key| Coordinator {
            key: key.clone(),
            node_id: -1,
            port: -1,
            error_code: code,
            error_message: Some(String::new()),
            ..Default::default()
        })
        .collect();
    FindCoordinatorResponse {
        coordinators,
        ..Default::default()
    }
}

impl Refusable for FindCoordinatorRequest {
    fn refused(&self, call: &Call, code: ErrorCode) -> Option<FindCoordinatorResponse> {
        Some(refusal(self, call, code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_key_may_have_colons_in_its_group() {
        assert!(is_share_key("a:b:AAAAAAAAAAAAAAAAAAAAAA:-1"));
        assert!(!is_share_key("a:AAAAAAAAAAAAAAAAAAAAAA"));
        assert!(!is_share_key("a:short:0"));
        assert!(!is_share_key("a:AAAAAAAAAAAAAAAAAAAAAA:x"));
    }
}
