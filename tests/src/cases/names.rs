//! Names that come late or move: BC-048, BC-049. The clusters must have been prepared `named`.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::quorum::settled;
use crate::cluster::{Cluster, broker, controller};
use crate::raw::requests::NewTopic;
use crate::{ask, wait};

/// BC-048: a broker and a controller come back at new addresses; only their names stay.
pub fn new_addresses(cluster: &mut Cluster) -> Result<String> {
    let name = "bc-048";
    let elsewhere = cluster.address(broker(1))?;
    ask::create(
        &elsewhere,
        NewTopic::new(name, 3, 3).with("min.insync.replicas", "2"),
    )?;
    cluster.kill(broker(2))?;
    cluster.kill(controller(2))?;
    cluster.move_to(broker(2), "127.0.0.12")?;
    cluster.move_to(controller(2), "127.0.0.112")?;
    let began = Instant::now();
    cluster.start(broker(2))?;
    cluster.start(controller(2))?;
    ask::everything_in_sync(&elsewhere, name, Duration::from_secs(10))?;
    settled(cluster, Duration::from_secs(10))?;
    let took = began.elapsed();
    ensure!(took < Duration::from_secs(10), "it took {took:?}");
    for id in [cluster.brokers(), cluster.controllers()].concat() {
        ensure!(cluster.runs(id), "node {id} ended");
    }
    Ok(format!(
        "in sync and caught up {} ms after the move",
        took.as_millis()
    ))
}

/// BC-049: nodes start while no controller's name resolves. The cluster must only have been prepared.
pub fn names_come_late(cluster: &mut Cluster, late: Duration) -> Result<String> {
    let (brokers, controllers) = (cluster.brokers(), cluster.controllers());
    controllers.iter().try_for_each(|id| cluster.unresolve(*id))?;
    for id in brokers.iter().chain(&controllers) {
        cluster.start(*id)?;
    }
    let began = Instant::now();
    while began.elapsed() < late {
        for id in brokers.iter().chain(&controllers) {
            ensure!(cluster.runs(*id), "node {id} ended while names were missing");
        }
        wait::pass(Duration::from_millis(100));
    }
    controllers.iter().try_for_each(|id| cluster.resolve(*id))?;
    let began = Instant::now();
    wait::until("a quorum", Duration::from_secs(5), || {
        crate::quorum::active(cluster)
    })?;
    let quorum = began.elapsed();
    cluster.wait_until_serving()?;
    let serving = began.elapsed();
    Ok(format!(
        "quorum {} ms and brokers {} ms after the names",
        quorum.as_millis(),
        serving.as_millis()
    ))
}
