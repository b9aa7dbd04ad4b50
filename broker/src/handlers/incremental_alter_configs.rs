//! IncrementalAlterConfigs: what is not named stays as it is (R4.10).
//!
//! Must not: judge a key or a value; the controller does.

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
    resources::by_key(&resource.configs, |config| &config.name, operation).map(Change::Adjust)
}

fn operation(config: &AlterableConfig) -> Result<Operation, Refused> {
    let value = || resources::with_value(&config.name, config.value.as_ref());
    match config.config_operation {
        // What a deletion is given is not looked at (R4.3).
        DELETE => Ok(Operation::Delete),
        SET => value().map(Operation::Set),
        APPEND => value().map(Operation::Append),
        SUBTRACT => value().map(Operation::Subtract),
        odd => Err(Refused::invalid(format!("there is no operation {odd}"))),
    }
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

impl Refusable for IncrementalAlterConfigsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<IncrementalAlterConfigsResponse> {
        let one = |resource| told(resource, Err(Refused { code, message: None }));
        Some(IncrementalAlterConfigsResponse {
            responses: self.resources.iter().map(one).collect(),
            ..Default::default()
        })
    }
}
