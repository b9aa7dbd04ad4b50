//! AlterConfigs: the older way, which replaces everything that a resource overrides (R4.15).
//!
//! Must not: judge a key or a value; the controller does.

use std::collections::BTreeSet;

use wire::ErrorCode;
use wire::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
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
    let mut keys = BTreeSet::new();
    let mut pairs = Vec::new();
    for config in &resource.configs {
        if !keys.insert(&config.name) {
            return Err(Refused::invalid(format!(
                "{:?} is given more than once",
                config.name
            )));
        }
        let value = config.value.clone();
        let value = value.ok_or_else(|| Refused::invalid(format!("{:?} has no value", config.name)))?;
        pairs.push((config.name.clone(), value));
    }
    Ok(Change::Replace(pairs))
}

fn told(resource: &AlterConfigsResource, result: Result<(), Refused>) -> AlterConfigsResourceResponse {
    let refused = result.err();
    AlterConfigsResourceResponse {
        error_code: refused.as_ref().map_or(ErrorCode::NONE, |refused| refused.code),
        error_message: refused.and_then(|refused| refused.message),
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
