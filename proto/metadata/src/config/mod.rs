//! Configuration: the one catalogue of keys, and what a node or a topic is told by it.
//!
//! Text comes in (a `server.properties`, `key=value` pairs, overrides held in the image), typed values
//! or refusals go out. Nothing here opens a file, looks at the environment or knows who asks.
//!
//! The keys stand in three tables beside this file: `kafka.tsv` (facts of Kafka 4.4), `millrace.tsv`
//! (keys of ours) and `states.tsv` (what Millrace does with each, and a line of documentation). To serve
//! a key, add its line to `states.tsv` in the commit that begins to read it.

mod broker;
mod catalogue;
mod controller;
mod decimal;
mod describe;
mod dynamic;
mod error;
mod listeners;
mod metrics_listener;
mod node;
mod overview;
mod properties;
mod topic;
mod topic_settings;
mod valid;
mod value;
mod voters;

pub use broker::{BrokerSettings, ConnectionLimits, ReplicaFetchSettings, TopicDefaults};
pub use catalogue::{
    Actors, Catalogue, Key, Scope, State, Update, WITHOUT_EFFECT, catalogue, environment_name,
};
pub use controller::{ControllerSettings, ElectionTimeout, SnapshotSettings};
pub use decimal::Decimal;
pub use describe::{
    Effective, Layer, Layers, Source, Synonym, broker_value, describe_broker, describe_cluster_default,
    describe_topic,
};
pub use dynamic::validate_override;
pub use error::{ConfigError, Problem, Warning};
pub use listeners::{AdvertisedAddress, BrokerListener, Endpoint};
pub use metrics_listener::MetricsListener;
pub use node::{NodeConfig, Origin, Role};
pub use overview::overview;
pub use properties::{PropertiesError, parse_properties, render_property};
pub use topic::{TopicConfigRefusal, validate_topic};
pub use topic_settings::{CleanupPolicy, Compression, TimestampType, TopicSettings};
pub use valid::{Case, Valid};
pub use value::{Value, ValueType};
pub use voters::{ControllerAddress, NodeId, Voter};

#[cfg(test)]
mod tests;
