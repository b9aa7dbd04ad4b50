//! LeaveGroup (G-23): one member in old versions, a list from 3 on.
//!
//! Must not: know the members of a group.

use broker_core::group::{InstanceId, Leave, MemberId, Reply, Request};
use wire::ErrorCode;
use wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberResponse};

use super::{Call, Refusable, groups};
use crate::errors;

/// First version with a list.
const LISTS_FROM: i16 = 3;

/// Answers the request.
pub async fn answer(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse {
    let members: Vec<(MemberId, Option<InstanceId>)> = if call.version.0 < LISTS_FROM {
        vec![(request.member_id.as_str().into(), None)]
    } else {
        let one = |member: &wire::messages::leave_group::MemberIdentity| {
            let instance = member.group_instance_id.as_deref().map(InstanceId::from);
            (member.member_id.as_str().into(), instance)
        };
        request.members.iter().map(one).collect()
    };
    let leave = Leave {
        group: request.group_id.as_str().into(),
        members,
    };
    let results = match groups::ask(&call, &request.group_id, Request::Leave(leave)).await {
        Ok(Reply::Leave(Ok(results))) => results,
        Ok(Reply::Leave(Err(why))) => return refused(errors::of_group(why)),
        Ok(_) => return refused(groups::mismatch()),
        Err(code) => return refused(code),
    };
    if call.version.0 < LISTS_FROM {
        return refused(results.into_iter().next().map_or(ErrorCode::NONE, groups::code));
    }
    let named = request.members.into_iter().zip(results);
    LeaveGroupResponse {
        members: named
            .map(|(member, result)| MemberResponse {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                error_code: groups::code(result),
            })
            .collect(),
        ..Default::default()
    }
}

fn refused(error_code: ErrorCode) -> LeaveGroupResponse {
    LeaveGroupResponse {
        error_code,
        ..Default::default()
    }
}

impl Refusable for LeaveGroupRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<LeaveGroupResponse> {
        Some(refused(code))
    }
}
