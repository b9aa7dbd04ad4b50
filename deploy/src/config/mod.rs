//! `millrace config`: what is configured for topics and brokers, and changes to it.

mod get;
mod set;
mod spelling;
mod warnings;

use std::collections::BTreeMap;

use crate::args::{ConfigCommand, Target};
use crate::client::Client;
use crate::cluster::Cluster;
use crate::outcome::Failure;
use crate::topic::Style;

/// Carries out a command on configurations.
///
/// # Errors
/// When the cluster refuses or cannot be asked.
pub async fn run(command: &ConfigCommand, style: Style) -> Result<(), Failure> {
    match command {
        ConfigCommand::Get {
            at,
            target,
            keys,
            all,
        } => {
            let mut cluster = Cluster::connect(&at.bootstrap).await?;
            get::run(&mut cluster, target, keys, *all, style).await
        }
        ConfigCommand::Set {
            at,
            target,
            change,
            validate_only,
        } => {
            let mut cluster = Cluster::connect(&at.bootstrap).await?;
            set::run(&mut cluster, target, change, *validate_only, style).await
        }
    }
}

pub use spelling::with_suggestion;
pub use warnings::of as warnings_of;

/// The number and the name of a resource on the wire.
fn resource(target: &Target) -> (i8, String) {
    const TOPIC: i8 = 2;
    const BROKER: i8 = 4;
    match target {
        Target::Topic(name) => (TOPIC, name.clone()),
        Target::Broker(id) => (BROKER, id.to_string()),
        Target::Brokers => (BROKER, String::new()),
    }
}

/// The only result of an answer about one resource.
fn only<'a, R>(target: &Target, results: &'a [R]) -> Result<&'a R, Failure> {
    let first = results.first();
    first.ok_or_else(|| Failure::Refused(format!("{target}: the answer is empty")))
}

/// The one to ask: a broker speaks for itself only, everybody for the rest.
async fn client_for(cluster: &mut Cluster, target: &Target) -> Result<Client, Failure> {
    cluster.metadata(&[]).await?;
    let known: BTreeMap<_, _> = cluster.brokers().clone();
    match target {
        Target::Broker(id) => cluster.take(*id).await,
        Target::Topic(_) | Target::Brokers => {
            let mut addresses = vec![cluster.any().address().clone()];
            addresses.extend(
                known
                    .into_values()
                    .filter(|one| *one != addresses[0])
                    .collect::<Vec<_>>(),
            );
            Ok(Client::connect(&addresses).await?)
        }
    }
}
