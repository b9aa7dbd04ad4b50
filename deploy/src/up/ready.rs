//! When a cluster serves: every broker answers for itself and says of itself that it is not fenced.

use std::cell::RefCell;
use std::time::Duration;

use tokio::time::{interval, sleep};

use super::plan::{Node, Plan, Role};
use crate::ask;
use crate::client::Client;
use crate::terminal::tell;

/// How often a broker is asked.
const PAUSE: Duration = Duration::from_millis(50);

/// How often a person is told what is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Comes back when every broker of the plan serves. Recovery of much data may take its time, so there is no limit; a
/// line every ten seconds says what is waited for.
pub async fn all_serve(plan: &Plan) {
    let mut patience = interval(PATIENCE);
    patience.tick().await;
    for broker in plan.nodes.iter().filter(|node| node.role == Role::Broker) {
        let reason = RefCell::new("not asked yet".to_owned());
        let serving = async {
            while let Err(why) = serves(broker).await {
                reason.replace(why);
                sleep(PAUSE).await;
            }
        };
        tokio::pin!(serving);
        let mut waited = Duration::ZERO;
        loop {
            tokio::select! {
                () = &mut serving => break,
                _ = patience.tick() => waited += PATIENCE,
            }
            tell(&format!(
                "still waiting for {} after {} s ({}); its log is {}",
                broker.name(),
                waited.as_secs(),
                reason.borrow(),
                broker.log_path().display()
            ));
        }
        tell(&format!("{} serves at {}", broker.name(), broker.address));
    }
}

async fn serves(broker: &Node) -> Result<(), String> {
    let text = |failure: &dyn std::fmt::Display| failure.to_string();
    let address = std::slice::from_ref(&broker.address);
    let mut client = Client::connect(address).await.map_err(|error| text(&error))?;
    let cluster = ask::cluster(&mut client)
        .await
        .map_err(|failure| text(&failure))?;
    match cluster.brokers.iter().find(|known| known.id == broker.id) {
        None => Err("it is not registered yet".to_owned()),
        Some(known) if known.fenced => Err("it is fenced".to_owned()),
        Some(_) => Ok(()),
    }
}
