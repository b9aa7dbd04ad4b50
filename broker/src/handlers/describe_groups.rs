//! DescribeGroups (G-58): classic groups; what is unknown is "Dead" in old versions, an error from 6 on.
//!
//! Must not: read what members say of themselves.

use broker_core::group::{Described, DescribedMember, Reply, Request};
use wire::ErrorCode;
use wire::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

use super::{Call, Refusable, groups, operations};

/// First version that says that a group is not there.
const KNOWS_MISSING_GROUPS: i16 = 6;

/// Answers the request.
pub async fn answer(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse {
    let mut described = Vec::with_capacity(request.groups.len());
    for group in &request.groups {
        described.push(one(&call, &request, group).await);
    }
    DescribeGroupsResponse {
        groups: described,
        ..Default::default()
    }
}

async fn one(call: &Call, request: &DescribeGroupsRequest, group: &str) -> DescribedGroup {
    let operations = if request.include_authorized_operations {
        operations::GROUP
    } else {
        operations::NOT_ASKED
    };
    match groups::ask(call, group, Request::Describe(group.into())).await {
        Ok(Reply::Describe(Some(found))) => DescribedGroup {
            authorized_operations: operations,
            ..shown(group, found)
        },
        Ok(Reply::Describe(None)) if KNOWS_MISSING_GROUPS <= call.version.0 => DescribedGroup {
            error_message: Some(format!("group {group} not found")),
            group_state: "Dead".to_owned(),
            ..failed(group, ErrorCode::GROUP_ID_NOT_FOUND)
        },
        Ok(Reply::Describe(None)) => DescribedGroup {
            group_state: "Dead".to_owned(),
            authorized_operations: operations,
            ..failed(group, ErrorCode::NONE)
        },
        Ok(_) => failed(group, groups::mismatch()),
        Err(code) => failed(group, code),
    }
}

fn shown(group: &str, found: Described) -> DescribedGroup {
    let member = |member: DescribedMember| DescribedGroupMember {
        member_id: member.member.as_str().to_owned(),
        group_instance_id: member.instance.map(|instance| instance.as_str().to_owned()),
        client_id: member.client.id,
        client_host: member.client.host,
        member_metadata: member.metadata,
        member_assignment: member.assignment,
    };
    DescribedGroup {
        group_id: group.to_owned(),
        group_state: found.state.name().to_owned(),
        protocol_type: found.protocol_type,
        protocol_data: found.protocol,
        members: found.members.into_iter().map(member).collect(),
        ..Default::default()
    }
}

fn failed(group: &str, error_code: ErrorCode) -> DescribedGroup {
    DescribedGroup {
        error_code,
        group_id: group.to_owned(),
        ..Default::default()
    }
}

impl Refusable for DescribeGroupsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<DescribeGroupsResponse> {
        Some(DescribeGroupsResponse {
            groups: self.groups.iter().map(|group| failed(group, code)).collect(),
            ..Default::default()
        })
    }
}
