//! IncrementalAlterConfigs: what is not named stays as it is (R4.10).
//!
//! Must not: judge a key or a value; the controller does.

use std::collections::BTreeSet;

use wire::ErrorCode;
use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

use super::resources::{self, Change, Operation, Refused, Wanted};
use super::{Call, Refusable};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// Answers the request.
pub async fn answer(call: Call, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse {
    let wanted = request.resources.iter().map(|resource| Wanted {
        kind: resource.resource_type,
        name: &resource.resource_name,
        change: change(resource),
    });
    let results = resources::alter(&call, wanted.collect(), request.validate_only).await;
    let responses = request.resources.iter().zip(results);
    IncrementalAlterConfigsResponse {
        responses: responses
            .map(|(resource, result)| told(resource, result))
            .collect(),
        ..Default::default()
    }
}

fn change(resource: &AlterConfigsResource) -> Result<Change, Refused> {
    let mut keys = BTreeSet::new();
    let mut operations = Vec::new();
    for config in &resource.configs {
        if !keys.insert(&config.name) {
            return Err(Refused::invalid(format!(
                "{:?} is given more than once",
                config.name
            )));
        }
        operations.push((config.name.clone(), operation(config)?));
    }
    Ok(Change::Adjust(operations))
}

fn operation(config: &AlterableConfig) -> Result<Operation, Refused> {
    let without = || Refused::invalid(format!("{:?} has no value", config.name));
    let value = config.value.clone();
    match config.config_operation {
        // What a deletion is given is not looked at (R4.3).
        DELETE => Ok(Operation::Delete),
        SET => value.map(Operation::Set).ok_or_else(without),
        APPEND => value.map(Operation::Append).ok_or_else(without),
        SUBTRACT => value.map(Operation::Subtract).ok_or_else(without),
        odd => Err(Refused::invalid(format!("there is no operation {odd}"))),
    }
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

impl Refusable for IncrementalAlterConfigsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<IncrementalAlterConfigsResponse> {
        let one = |resource| told(resource, Err(Refused { code, message: None }));
        Some(IncrementalAlterConfigsResponse {
            responses: self.resources.iter().map(one).collect(),
            ..Default::default()
        })
    }
}
