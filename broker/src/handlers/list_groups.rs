//! ListGroups (G-57): the groups whose coordinator is this broker; tools ask every broker.
//!
//! Must not: ask other brokers.

use wire::ErrorCode;
use wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

use super::{Call, Refusable};
use crate::errors;

/// The kind of all groups that are coordinated here.
const CLASSIC: &str = "classic";

/// Answers the request.
pub async fn answer(call: Call, request: ListGroupsRequest) -> ListGroupsResponse {
    let listing = call.node.coordinators.list().await;
    let is_wanted = |filter: &[String], word: &str| {
        filter.is_empty()
            || filter
                .iter()
                .any(|wanted| wanted.trim().eq_ignore_ascii_case(word))
    };
    let is_kind_wanted = is_wanted(&request.types_filter, CLASSIC);
    let groups = listing
        .groups
        .into_iter()
        .filter(|group| is_kind_wanted && is_wanted(&request.states_filter, group.state.name()));
    ListGroupsResponse {
        error_code: if listing.is_loading {
            errors::of_unanswered(crate::coordinator::Unanswered::Loading)
        } else {
            ErrorCode::NONE
        },
        groups: groups
            .map(|group| ListedGroup {
                group_id: group.group.as_str().to_owned(),
                protocol_type: group.protocol_type,
                group_state: group.state.name().to_owned(),
                group_type: CLASSIC.to_owned(),
            })
            .collect(),
        ..Default::default()
    }
}

impl Refusable for ListGroupsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<ListGroupsResponse> {
        Some(ListGroupsResponse {
            error_code: code,
            ..Default::default()
        })
    }
}
