//! DeleteGroups (G-54): only groups without members.
//!
//! Must not: delete a group that somebody may come back to.

use broker_core::group::{Refusal, Reply, Request};
use wire::ErrorCode;
use wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};

use super::{Call, Refusable, groups};
use crate::errors;

/// Answers the request.
pub async fn answer(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse {
    let mut results = Vec::with_capacity(request.groups_names.len());
    for group in groups::each_once(&request.groups_names) {
        results.push(result(group, delete(&call, group).await));
    }
    DeleteGroupsResponse {
        results,
        ..Default::default()
    }
}

async fn delete(call: &Call, group: &str) -> ErrorCode {
    if group.is_empty() {
        return errors::of_group(Refusal::InvalidGroupId);
    }
    match groups::ask(call, group, Request::Delete(group.into())).await {
        Ok(Reply::Delete(result)) => groups::code(result),
        Ok(_) => groups::mismatch(),
        Err(code) => code,
    }
}

fn result(group: &str, error_code: ErrorCode) -> DeletableGroupResult {
    DeletableGroupResult {
        group_id: group.to_owned(),
        error_code,
        ..Default::default()
    }
}

impl Refusable for DeleteGroupsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<DeleteGroupsResponse> {
        Some(DeleteGroupsResponse {
            results: self
                .groups_names
                .iter()
                .map(|group| result(group, code))
                .collect(),
            ..Default::default()
        })
    }
}
