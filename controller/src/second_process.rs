//! Two processes under one controller id: the second must end, and say why.
//!
//! The others reach a controller at the address in `controller.quorum.voters`. Whoever listens there is alone under its
//! id; whoever does not must ask who answers. Must not judge by the directory alone: a first start has none yet.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metadata::config::ControllerSettings;
use metadata::ids::ControllerId;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::quorum::{self, Addressing};

/// How often a controller that is not where the others look for it makes sure that nobody else is there.
const INTERVAL: Duration = Duration::from_secs(2);

/// This process is the second one with its id: another answers where everybody looks for this controller.
#[derive(Clone, Debug)]
pub struct SecondProcess {
    id: ControllerId,
    address: String,
    directory: String,
}

impl fmt::Display for SecondProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            address,
            directory,
        } = self;
        write!(
            f,
            "node.id={id}: another process is controller {id} at {address}, the address in controller.quorum.voters, \
             with directory {directory}; a second one must not run. Give this one its own node.id, or stop the other"
        )
    }
}

/// Where the others look for this controller, unless that is one of its listeners: then nobody else can be there.
pub async fn known_elsewhere(settings: &ControllerSettings, listeners: &[TcpListener]) -> Option<String> {
    let known = settings
        .voters
        .iter()
        .find(|voter| voter.id == settings.node_id)?;
    let mut addresses = tokio::net::lookup_host((known.host.as_str(), known.port))
        .await
        .ok()
        .into_iter()
        .flatten();
    let is_own =
        |address: SocketAddr| (listeners.iter()).any(|own| own.local_addr().is_ok_and(|own| own == address));
    (!addresses.any(is_own)).then(|| format!("{}:{}", known.host, known.port))
}

/// The process that answers as this controller, if it is another one: it has another directory than `own`.
pub async fn second_process(id: ControllerId, address: &str, own: Option<&str>) -> Option<SecondProcess> {
    let directory = quorum::who_answers(id, address).await?;
    (own != Some(directory.as_str())).then(|| SecondProcess {
        id,
        address: address.to_owned(),
        directory,
    })
}

/// Ends this node when another process turns up as this controller.
pub async fn stay_the_only_one(
    addressing: Arc<Addressing>,
    address: String,
    ending: mpsc::UnboundedSender<String>,
) {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        let own = Some(addressing.directory());
        if let Some(second) = second_process(addressing.controller_id(), &address, own).await {
            // A node that stops in order listens no more.
            let _ = ending.send(second.to_string());
            return;
        }
    }
}
