//! Heartbeat of a member (G-22).
//!
//! Must not: decide who is alive.

use broker_core::group::{Generation, Heartbeat, Reply, Request};
use wire::ErrorCode;
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};

use super::{Call, Refusable, groups};

/// Answers the request.
pub async fn answer(call: Call, request: HeartbeatRequest) -> HeartbeatResponse {
    let group = request.group_id.clone();
    let heartbeat = Heartbeat {
        group: request.group_id.into(),
        member: request.member_id.into(),
        instance: request.group_instance_id.map(Into::into),
        generation: Generation(request.generation_id),
    };
    refused(
        match groups::ask(&call, &group, Request::Heartbeat(heartbeat)).await {
            Ok(Reply::Heartbeat(result)) => groups::code(result),
            Ok(_) => groups::mismatch(),
            Err(code) => code,
        },
    )
}

fn refused(error_code: ErrorCode) -> HeartbeatResponse {
    HeartbeatResponse {
        error_code,
        ..Default::default()
    }
}

impl Refusable for HeartbeatRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<HeartbeatResponse> {
        Some(refused(code))
    }
}
