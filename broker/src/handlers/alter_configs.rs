//! AlterConfigs: the older way, which replaces everything that a resource overrides (R4.15).
//!
//! Must not: judge a key or a value; the controller does.

use wire::ErrorCode;
use wire::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
    AlterableConfig,
};

use super::resources::{self, Change, Refused, Wanted};
use super::{Call, Refusable};

/// Answers the request.
pub async fn answer(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let wanted = request.resources.iter().map(|resource| Wanted {
        kind: resource.resource_type,
        name: &resource.resource_name,
        change: change(resource),
    });
    let results = resources::alter(&call, wanted.collect(), request.validate_only).await;
    let responses = request.resources.iter().zip(results);
    AlterConfigsResponse {
        responses: responses
            .map(|(resource, result)| told(resource, result))
            .collect(),
        ..Default::default()
    }
}

fn change(resource: &AlterConfigsResource) -> Result<Change, Refused> {
    let value = |config: &AlterableConfig| resources::with_value(&config.name, config.value.as_ref());
    resources::by_key(&resource.configs, |config| &config.name, value).map(Change::Replace)
}

fn told(resource: &AlterConfigsResource, result: Result<(), Refused>) -> AlterConfigsResourceResponse {
    let (error_code, error_message) = Refused::told(result);
    AlterConfigsResourceResponse {
        error_code,
        error_message,
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
    }
}

impl Refusable for AlterConfigsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<AlterConfigsResponse> {
        let one = |resource| told(resource, Err(Refused { code, message: None }));
        Some(AlterConfigsResponse {
            responses: self.resources.iter().map(one).collect(),
            ..Default::default()
        })
    }
}
