//! Tests of the configuration layer, by subject.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod defaults;
mod describe;
mod dynamic;
mod listeners;
mod properties;
mod recorded;
mod resolve;
mod roles;
mod topics;

use super::{ConfigError, NodeConfig};

/// The configuration of a broker that says no more than it must, and `extra`, given with `--set`.
fn broker(extra: &[(&str, &str)]) -> Result<NodeConfig, Vec<ConfigError>> {
    let file = "process.roles=broker\nnode.id=7\ncontroller.quorum.voters=1@127.0.0.1:19091\n";
    NodeConfig::resolve(Some(file), &[], &pairs(extra))
}

/// The configuration of a controller that says no more than it must, and `extra`, given with `--set`.
fn controller(extra: &[(&str, &str)]) -> Result<NodeConfig, Vec<ConfigError>> {
    let file = "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:19091,2@127.0.0.1:19092\n\
                controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:19091\n";
    NodeConfig::resolve(Some(file), &[], &pairs(extra))
}

fn pairs(given: &[(&str, &str)]) -> Vec<(String, String)> {
    given
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}
