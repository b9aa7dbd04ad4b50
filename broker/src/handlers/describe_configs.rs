//! DescribeConfigs: topics, this broker, and the default of all brokers, from the one catalogue (D-8, R4.20 to R4.23).
//!
//! Must not: know a key.

use std::collections::{BTreeMap, BTreeSet};

use metadata::config::{
    Effective, Layer, Layers, Source, ValueType, describe_broker, describe_cluster_default, describe_topic,
};
use metadata::ids::BrokerId;
use metadata::record::ConfigResource;
use wire::ErrorCode;
use wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};

use super::resources::{BROKER, KNOWN, LOGGER, Refused, TOPIC};
use super::{Call, Refusable, topics};
use crate::{errors, log_level};

/// Where a logger's level comes from, in the answer.
const LOGGER_SOURCE: i8 = 6;

/// So often one resource is described in one answer. A few bytes that name it again must not cost what describing it
/// costs, ten thousand times.
const REPEATED_MAX: usize = 16;

/// Answers the request, off the threads that serve sockets: all topics of a large cluster take their time.
pub async fn answer(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse {
    let kept = request.clone();
    let answering = tokio::task::spawn_blocking(move || describe(&call, &request)).await;
    answering.unwrap_or_else(|_| refusal(&kept, errors::CRASHED))
}

fn describe(call: &Call, request: &DescribeConfigsRequest) -> DescribeConfigsResponse {
    // A type that does not exist spoils the whole request.
    let unknown = |resource: &DescribeConfigsResource| !KNOWN.contains(&resource.resource_type);
    if let Some(odd) = request.resources.iter().find(|resource| unknown(resource)) {
        let message = format!("there is no resource type {}", odd.resource_type);
        let results = request
            .resources
            .iter()
            .map(|resource| failed(resource, Refused::invalid(message.as_str())))
            .collect();
        return DescribeConfigsResponse {
            results,
            ..Default::default()
        };
    }
    let mut named: BTreeMap<(i8, String), usize> = BTreeMap::new();
    let mut described_again = |resource: &DescribeConfigsResource| {
        let times = named
            .entry((resource.resource_type, resource.resource_name.clone()))
            .or_default();
        *times += 1;
        if REPEATED_MAX < *times {
            let why = format!("the resource is given more than {REPEATED_MAX} times");
            return Err(Refused::invalid(why));
        }
        described(call, resource)
    };
    let results = request
        .resources
        .iter()
        .map(|resource| match described_again(resource) {
            Ok(_) if resource.resource_type == LOGGER => loggers(resource),
            Ok(configs) => DescribeConfigsResult {
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                configs: chosen(configs, resource.configuration_keys.as_deref())
                    .map(|config| shown(config, request))
                    .collect(),
                ..Default::default()
            },
            Err(refused) => failed(resource, refused),
        })
        .collect();
    DescribeConfigsResponse {
        results,
        ..Default::default()
    }
}

fn described(call: &Call, resource: &DescribeConfigsResource) -> Result<Vec<Effective>, Refused> {
    let overrides = |resource: &ConfigResource| call.image.configs.get(resource).map(AsRef::as_ref);
    let own = overrides(&ConfigResource::Broker(call.node.id));
    let cluster: Option<&BTreeMap<String, String>> = overrides(&ConfigResource::ClusterDefault);
    let name = resource.resource_name.as_str();
    match resource.resource_type {
        TOPIC => {
            if !topics::is_valid_name(name) {
                let message = Some("no topic can have this name".to_owned());
                return Err(Refused {
                    code: ErrorCode::INVALID_TOPIC_EXCEPTION,
                    message,
                });
            }
            if call.image.topic_named(name).is_none() {
                return Err(Refused {
                    code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    message: None,
                });
            }
            let topic = overrides(&ConfigResource::Topic(name.to_owned()));
            let layers = Layers {
                topic: &topic,
                node_dynamic: &own,
                cluster: &cluster,
                node: &call.node.config,
            };
            Ok(describe_topic(&layers))
        }
        BROKER if name.is_empty() => Ok(describe_cluster_default(&cluster as &dyn Layer)),
        BROKER => match name.parse().map(BrokerId) {
            Ok(id) if id == call.node.id => Ok(describe_broker(&call.node.config, &own, &cluster)),
            Ok(id) => Err(Refused::invalid(format!(
                "this is broker {}, not {id}; ask that one",
                call.node.id
            ))),
            Err(_) => Err(Refused::invalid("a broker's name is its number")),
        },
        LOGGER if name == call.node.id.to_string() => Ok(Vec::new()),
        LOGGER => Err(Refused::invalid(format!(
            "this is broker {}; a broker's loggers are asked of itself",
            call.node.id
        ))),
        other => Err(Refused::invalid(format!(
            "resources of type {other} are not served yet"
        ))),
    }
}

/// The one level that this process logs at, under Kafka's name for it.
fn loggers(resource: &DescribeConfigsResource) -> DescribeConfigsResult {
    let root = DescribeConfigsResourceResult {
        name: log_level::ROOT.to_owned(),
        value: Some(log_level::current()),
        config_source: LOGGER_SOURCE,
        ..Default::default()
    };
    let keys = resource.configuration_keys.as_deref().unwrap_or_default();
    let is_asked = keys.is_empty() || keys.contains(&root.name);
    DescribeConfigsResult {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        configs: if is_asked { vec![root] } else { Vec::new() },
        ..Default::default()
    }
}

/// Those with the names asked for; all when none is asked for.
fn chosen(configs: Vec<Effective>, keys: Option<&[String]>) -> impl Iterator<Item = Effective> {
    let keys: Option<BTreeSet<String>> = keys
        .filter(|keys| !keys.is_empty())
        .map(|keys| keys.iter().cloned().collect());
    configs
        .into_iter()
        .filter(move |config| keys.as_ref().is_none_or(|keys| keys.contains(&config.name)))
}

fn shown(config: Effective, request: &DescribeConfigsRequest) -> DescribeConfigsResourceResult {
    let synonym = |synonym: metadata::config::Synonym| DescribeConfigsSynonym {
        name: synonym.name,
        value: synonym.value,
        source: synonym.source.code(),
    };
    DescribeConfigsResourceResult {
        synonyms: if request.include_synonyms {
            config.synonyms.into_iter().map(synonym).collect()
        } else {
            Vec::new()
        },
        documentation: request
            .include_documentation
            .then(|| config.documentation.to_owned()),
        name: config.name,
        value: config.value,
        read_only: config.read_only,
        config_source: Source::code(config.source),
        is_sensitive: config.sensitive,
        config_type: config.value_type.map_or(0, ValueType::code),
    }
}

fn failed(resource: &DescribeConfigsResource, refused: Refused) -> DescribeConfigsResult {
    DescribeConfigsResult {
        error_code: refused.code,
        error_message: refused.message,
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        ..Default::default()
    }
}

fn refusal(request: &DescribeConfigsRequest, code: ErrorCode) -> DescribeConfigsResponse {
    let one = |resource| failed(resource, Refused { code, message: None });
    DescribeConfigsResponse {
        results: request.resources.iter().map(one).collect(),
        ..Default::default()
    }
}

impl Refusable for DescribeConfigsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<DescribeConfigsResponse> {
        Some(refusal(self, code))
    }
}
