//! Which broker keeps a group, and a connection to it.

use std::time::Duration;

use host::{Clock, OsClock};
use wire::ErrorCode;
use wire::messages::FindCoordinatorRequest;
use wire::messages::find_coordinator::Coordinator;

use crate::address::Address;
use crate::ask;
use crate::client::Client;
use crate::cluster::Cluster;
use crate::outcome::Failure;
use crate::terminal::tell;

/// How long a coordinator is waited for: its partition may be moving, or its topic being made.
const LIMIT: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(100);

/// After which time it is told what is probably missing: making the topic takes less.
const HINT_AFTER: Duration = Duration::from_secs(2);

const HINT: &str = "groups need the topic __consumer_offsets, which is made once as many brokers live as \
    offsets.topic.replication.factor says (3 unless set); with fewer brokers, start them with a smaller one";

/// A connection to the coordinator of a group.
///
/// # Errors
/// When there is none for half a minute, or the broker refuses.
pub async fn of(cluster: &mut Cluster, group: &str) -> Result<Client, Failure> {
    let clock = OsClock::new();
    let began = clock.now();
    let question = FindCoordinatorRequest {
        key: group.to_owned(),
        key_type: 0,
        coordinator_keys: vec![group.to_owned()],
    };
    let mut hinted = false;
    loop {
        let (version, answer) = cluster.any().ask(4, &question).await?;
        let found = match version.0 {
            4.. => answer.coordinators.into_iter().next().unwrap_or_default(),
            _ => Coordinator {
                key: group.to_owned(),
                node_id: answer.node_id,
                host: answer.host,
                port: answer.port,
                error_code: answer.error_code,
                error_message: answer.error_message,
            },
        };
        let late = LIMIT <= clock.now().since(began);
        if found.error_code.is_retriable() && !late {
            let missing = found.error_code == ErrorCode::COORDINATOR_NOT_AVAILABLE;
            if missing && !hinted && HINT_AFTER <= clock.now().since(began) {
                tell(&format!("no coordinator of {group} yet: {HINT}"));
                hinted = true;
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let what = format!("the coordinator of {group}");
        ask::refuse(found.error_code, found.error_message.as_deref(), &what)?;
        let port = u16::try_from(found.port)
            .map_err(|_| Failure::Refused(format!("{what}: port {}", found.port)))?;
        let address = Address {
            host: found.host,
            port,
        };
        match Client::connect(&[address]).await {
            Ok(client) => return Ok(client),
            // It may have died and be about to be replaced.
            Err(_) if !late => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
}
