//! JoinGroup (G-6 to G-20). The answer may take as long as a rebalance does.
//!
//! Must not: know the members of a group.

use broker_core::group::{Join, JoinAbilities, Joined, MemberId, NotJoined, Protocol, Reply, Request};
use metadata::uuid::Uuid;
use wire::ErrorCode;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};

use super::{Call, Refusable, groups};
use crate::errors;

/// First version in which a newcomer is told its id before it joins.
const TWO_STEPS_FROM: i16 = 4;
/// First version in which a leader may be told to keep the assignment.
const SKIPS_FROM: i16 = 9;
/// First version with a rebalance timeout of its own.
const REBALANCE_TIMEOUT_FROM: i16 = 1;
/// First version in which "no protocol" is null.
const NULL_PROTOCOL_FROM: i16 = 7;

/// Answers the request.
pub async fn answer(call: Call, request: JoinGroupRequest) -> JoinGroupResponse {
    let group = request.group_id.clone();
    // A coordinator that is not asked hands no id back.
    match groups::ask(&call, &group, Request::Join(join(&call, request))).await {
        Ok(Reply::Join(Ok(joined))) => accepted(joined),
        Ok(Reply::Join(Err(NotJoined { why, member }))) => refused(&call, errors::of_group(why), &member),
        Ok(_) => refused(&call, groups::mismatch(), &MemberId::default()),
        Err(code) => refused(&call, code, &MemberId::default()),
    }
}

fn join(call: &Call, request: JoinGroupRequest) -> Join {
    let mut bits = [0; 16];
    call.node.entropy.fill(&mut bits);
    let version = call.version.0;
    Join {
        group: request.group_id.into(),
        member: request.member_id.into(),
        instance: request.group_instance_id.map(Into::into),
        client: groups::client(call),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if REBALANCE_TIMEOUT_FROM <= version {
            request.rebalance_timeout_ms
        } else {
            request.session_timeout_ms
        },
        protocol_type: request.protocol_type,
        protocols: request
            .protocols
            .into_iter()
            .map(|protocol| Protocol {
                name: protocol.name,
                metadata: groups::kept(&protocol.metadata),
            })
            .collect(),
        abilities: JoinAbilities {
            joins_in_two_steps: TWO_STEPS_FROM <= version,
            can_skip_assignment: SKIPS_FROM <= version,
        },
        unique: dashed(Uuid::from_random_bits(u128::from_be_bytes(bits))),
    }
}

/// An id as `8-4-4-4-12` hexadecimal digits, as member ids have always ended (G-9).
fn dashed(id: Uuid) -> String {
    let digits = format!("{:032x}", id.0);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &digits[range]);
    parts.join("-")
}

fn accepted(joined: Joined) -> JoinGroupResponse {
    JoinGroupResponse {
        generation_id: joined.generation.0,
        protocol_type: Some(joined.protocol_type),
        protocol_name: Some(joined.protocol),
        leader: joined.leader.as_str().to_owned(),
        skip_assignment: joined.skip_assignment,
        member_id: joined.member.as_str().to_owned(),
        members: joined
            .members
            .into_iter()
            .map(|member| JoinGroupResponseMember {
                member_id: member.member.as_str().to_owned(),
                group_instance_id: member.instance.map(|instance| instance.as_str().to_owned()),
                metadata: member.metadata,
            })
            .collect(),
        ..Default::default()
    }
}

fn refused(call: &Call, error_code: ErrorCode, member: &MemberId) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code,
        generation_id: -1,
        protocol_type: None,
        protocol_name: (call.version.0 < NULL_PROTOCOL_FROM).then(String::new),
        member_id: member.as_str().to_owned(),
        ..Default::default()
    }
}

impl Refusable for JoinGroupRequest {
    fn refused(&self, call: &Call, code: ErrorCode) -> Option<JoinGroupResponse> {
        Some(refused(call, code, &self.member_id.as_str().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_part_has_the_shape_that_clients_know() {
        let id = dashed(Uuid::from_random_bits(u128::MAX));
        assert_eq!(id.len(), 36);
        assert_eq!(&id[13..15], "-4");
    }
}
