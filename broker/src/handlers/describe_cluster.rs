//! DescribeCluster: the brokers as this broker's image knows them (D-2, R5.46).
//!
//! Must not: ask a controller.

use wire::ErrorCode;
use wire::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

use super::{Call, Refusable, operations};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Answers the request.
pub fn answer(call: &Call, request: &DescribeClusterRequest) -> DescribeClusterResponse {
    match request.endpoint_type {
        BROKERS => {}
        CONTROLLERS => return refusal(request, call, ErrorCode::MISMATCHED_ENDPOINT_TYPE),
        _ => return refusal(request, call, ErrorCode::UNSUPPORTED_ENDPOINT_TYPE),
    }
    let brokers = call
        .image
        .brokers
        .iter()
        .filter(|(_, broker)| !broker.fenced || request.include_fenced_brokers)
        .filter_map(|(id, broker)| {
            let endpoint = broker.endpoint(&call.listener)?;
            Some(DescribeClusterBroker {
                broker_id: id.0,
                host: endpoint.host.clone(),
                port: i32::from(endpoint.port),
                rack: broker.rack.clone(),
                is_fenced: broker.fenced,
            })
        })
        .collect();
    DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: call.cluster_id().to_owned(),
        controller_id: call.any_live_broker(),
        brokers,
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            operations::CLUSTER
        } else {
            operations::NOT_ASKED
        },
        ..Default::default()
    }
}

fn refusal(request: &DescribeClusterRequest, call: &Call, code: ErrorCode) -> DescribeClusterResponse {
    let message = match code {
        ErrorCode::MISMATCHED_ENDPOINT_TYPE => {
            "this is a broker's listener; ask for endpoint type 1".to_owned()
        }
        ErrorCode::UNSUPPORTED_ENDPOINT_TYPE => {
            format!("there is no endpoint type {}", request.endpoint_type)
        }
        other => other.to_string(),
    };
    let _ = call;
    DescribeClusterResponse {
        error_code: code,
        error_message: Some(message),
        ..Default::default()
    }
}

impl Refusable for DescribeClusterRequest {
    fn refused(&self, call: &Call, code: ErrorCode) -> Option<DescribeClusterResponse> {
        Some(refusal(self, call, code))
    }
}
