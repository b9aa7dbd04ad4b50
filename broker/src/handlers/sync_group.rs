//! SyncGroup (G-21). The answer waits for the leader's assignment.
//!
//! Must not: read an assignment.

use broker_core::group::{Generation, Refusal, Reply, Request, Sync};
use wire::ErrorCode;
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::{Call, Refusable, groups};
use crate::errors;

/// First version that must name the protocol.
const NAMES_PROTOCOL_FROM: i16 = 5;

/// Answers the request.
pub async fn answer(call: Call, request: SyncGroupRequest) -> SyncGroupResponse {
    let names_protocol = NAMES_PROTOCOL_FROM <= call.version.0;
    if names_protocol && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return refused(errors::of_group(Refusal::InconsistentProtocol));
    }
    let group = request.group_id.clone();
    match groups::ask(&call, &group, Request::Sync(sync(request))).await {
        Ok(Reply::Sync(Ok(synced))) => SyncGroupResponse {
            protocol_type: Some(synced.protocol_type),
            protocol_name: Some(synced.protocol),
            assignment: synced.assignment,
            ..Default::default()
        },
        Ok(Reply::Sync(Err(why))) => refused(errors::of_group(why)),
        Ok(_) => refused(groups::mismatch()),
        Err(code) => refused(code),
    }
}

fn sync(request: SyncGroupRequest) -> Sync {
    Sync {
        group: request.group_id.into(),
        member: request.member_id.into(),
        instance: request.group_instance_id.map(Into::into),
        generation: Generation(request.generation_id),
        protocol_type: request.protocol_type,
        protocol: request.protocol_name,
        assignments: request
            .assignments
            .into_iter()
            .map(|part| (part.member_id.into(), groups::kept(&part.assignment)))
            .collect(),
    }
}

fn refused(error_code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code,
        ..Default::default()
    }
}

impl Refusable for SyncGroupRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<SyncGroupResponse> {
        Some(refused(code))
    }
}
