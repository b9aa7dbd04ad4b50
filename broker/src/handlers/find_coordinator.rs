//! FindCoordinator: the leader of the partition that a group belongs to. Transactions and share groups have
//! no coordinator yet, and the answer says so.
//!
//! Must not: name a node that would not answer.

use wire::ErrorCode;
use wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

use super::topics::{self, Leadership};
use super::{Call, Refusable};
use crate::coordinator;

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
            error_code: found.error_code,
            error_message: found.error_message,
            node_id: found.node_id,
            host: found.host,
            port: found.port,
            ..Default::default()
        };
    }
    let coordinators = request
        .coordinator_keys
        .iter()
        .map(|key| find(call, request.key_type, key));
    FindCoordinatorResponse {
        coordinators: coordinators.collect(),
        ..Default::default()
    }
}

fn find(call: &Call, key_type: i8, key: &str) -> Coordinator {
    match key_type {
        GROUP => of_group(call, key),
        SHARE if call.version.0 < 6 => invalid(key, ""),
        SHARE if !is_share_key(key) => invalid(key, "a share coordinator's key is group:topicId:partition"),
        TRANSACTION | SHARE => unavailable(call, key, "no such coordinator runs in this cluster yet"),
        other => invalid(key, &format!("no coordinator has type {other}")),
    }
}

/// The leader of the group's partition; the topic is made when it is first needed (G-1).
fn of_group(call: &Call, key: &str) -> Coordinator {
    let Some((_, partition)) = coordinator::place_of(&call.image, key) else {
        call.node.auto_create(call, [coordinator::OFFSETS]);
        return unavailable(call, key, "the topic of the group coordinators is being created");
    };
    let Leadership::At(leader) = topics::leadership(&call.image, &call.listener, partition) else {
        return unavailable(call, key, "nobody coordinates this group at the moment");
    };
    let broker = call.image.brokers.get(&leader);
    let Some(endpoint) = broker.and_then(|broker| broker.endpoint(&call.listener)) else {
        return unavailable(call, key, "the group's coordinator is not reachable from here");
    };
    Coordinator {
        key: key.to_owned(),
        node_id: leader.0,
        host: endpoint.host.clone(),
        port: i32::from(endpoint.port),
        // A text in versions 1 to 3, an empty one from 4 on.
        error_message: Some(if call.version.0 < BATCHED_FROM { "NONE" } else { "" }.to_owned()),
        ..Default::default()
    }
}

fn unavailable(call: &Call, key: &str, why: &str) -> Coordinator {
    let message = if call.version.0 < BATCHED_FROM { why } else { "" };
    failed(key, ErrorCode::COORDINATOR_NOT_AVAILABLE, message)
}

fn invalid(key: &str, message: &str) -> Coordinator {
    failed(key, ErrorCode::INVALID_REQUEST, message)
}

fn failed(key: &str, error_code: ErrorCode, message: &str) -> Coordinator {
    Coordinator {
        key: key.to_owned(),
        node_id: -1,
        port: -1,
        error_code,
        error_message: Some(message.to_owned()),
        ..Default::default()
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
    let coordinators = request.coordinator_keys.iter().map(|key| failed(key, code, ""));
    FindCoordinatorResponse {
        coordinators: coordinators.collect(),
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
