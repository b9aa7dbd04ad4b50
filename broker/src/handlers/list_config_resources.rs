//! ListConfigResources: what can be configured, or is, from this broker's image (R4.1).
//!
//! Must not: know a key.

use metadata::record::ConfigResource as Configured;
use wire::ErrorCode;
use wire::messages::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

use super::resources::{BROKER, CLIENT_METRICS, GROUP, KNOWN, LOGGER, TOPIC};
use super::{Call, Refusable};

/// First version that asks for types; before it, subscriptions of client metrics are meant.
const WITH_TYPES: i16 = 1;

/// Answers the request.
pub fn answer(call: &Call, request: &ListConfigResourcesRequest) -> ListConfigResourcesResponse {
    let asked: &[i8] = match request.resource_types.as_slice() {
        _ if call.version.0 < WITH_TYPES => &[CLIENT_METRICS],
        [] => &KNOWN,
        asked => asked,
    };
    if asked.iter().any(|kind| !KNOWN.contains(kind)) {
        return refused(ErrorCode::UNSUPPORTED_VERSION);
    }
    let kinds = KNOWN.iter().filter(|kind| asked.contains(kind));
    let resources = kinds.flat_map(|kind| {
        let names = names(call, *kind).into_iter();
        names.map(|resource_name| ConfigResource {
            resource_name,
            resource_type: *kind,
        })
    });
    ListConfigResourcesResponse {
        config_resources: resources.collect(),
        ..Default::default()
    }
}

fn names(call: &Call, kind: i8) -> Vec<String> {
    let image = &call.image;
    match kind {
        TOPIC => image.topic_names.keys().cloned().collect(),
        BROKER | LOGGER => {
            let alive = image.brokers.iter().filter(|(_, broker)| !broker.fenced);
            alive.map(|(id, _)| id.to_string()).collect()
        }
        kind => {
            let named = image.configs.keys().filter_map(|resource| match resource {
                Configured::Group(name) if kind == GROUP => Some(name.clone()),
                Configured::ClientMetrics(name) if kind == CLIENT_METRICS => Some(name.clone()),
                _ => None,
            });
            named.collect()
        }
    }
}

fn refused(code: ErrorCode) -> ListConfigResourcesResponse {
    ListConfigResourcesResponse {
        error_code: code,
        ..Default::default()
    }
}

impl Refusable for ListConfigResourcesRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<ListConfigResourcesResponse> {
        Some(refused(code))
    }
}
