//! What the controllers must survive: BC-027, BC-034.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cluster::Cluster;
use crate::quorum::{active, status};
use crate::raw::Connection;
use crate::raw::requests::{NewTopic, code};
use crate::{ask, wait};

/// How long admin calls may fail in total while the active controller is cut off.
const FAILING_MAX: Duration = Duration::from_secs(8);

/// One attempt to create a topic through a broker.
fn create(address: &str, name: &str) -> Result<()> {
    let mut connection = Connection::open(address)?;
    connection.answers_within(Duration::from_secs(2))?;
    let answer = connection.create_topics(&[NewTopic::new(name, 1, 1)])?;
    let error = answer.first().context("an answer")?.1;
    ensure!(
        error == code::NONE || error == code::TOPIC_ALREADY_EXISTS,
        "error {error}"
    );
    Ok(())
}

/// Waits until every controller has applied the same end, with one of them active.
pub fn settled(cluster: &Cluster, limit: Duration) -> Result<()> {
    wait::until("the controllers agree", limit, || {
        let leader = status(&cluster.address(active(cluster)?)?)?;
        for id in cluster.controllers() {
            let own = status(&cluster.address(id)?)?;
            ensure!(own.term == leader.term, "controller {id} is in term {}", own.term);
            // A no-op is written twice a second, so two answers a moment apart need not be equal.
            let behind = leader.committed_end - own.applied_end;
            ensure!(behind.abs() <= 4, "controller {id} is {behind} behind");
        }
        Ok(())
    })
}

/// BC-027: the active controller is cut off from the other two, but not from the brokers. The cluster must have
/// been started `cuttable`.
pub fn isolated_leader(cluster: &mut Cluster, cut_for: Duration) -> Result<String> {
    let old = active(cluster)?;
    let address = cluster.address(cluster.brokers()[0])?;
    cluster.isolate(old, &cluster.controllers());
    let began = Instant::now();
    let (mut failing, mut made, mut told) = (Duration::ZERO, 0, Vec::new());
    while began.elapsed() < cut_for {
        let asked = Instant::now();
        match create(&address, &format!("bc-027-{made}")) {
            Ok(()) => {
                made += 1;
                wait::pass(Duration::from_millis(100));
            }
            Err(error) => {
                wait::pass(Duration::from_millis(20));
                failing += asked.elapsed();
                told.push(format!(
                    "{} ms: {error:#}",
                    asked.duration_since(began).as_millis()
                ));
            }
        }
    }
    cluster.heal(old, &cluster.controllers());
    ensure!(
        failing < FAILING_MAX,
        "admin calls failed for {:.1} s\n{}",
        failing.as_secs_f64(),
        told.join("\n")
    );
    ensure!(made > 20, "only {made} topics were created");
    settled(cluster, Duration::from_secs(20))?;
    for id in cluster.brokers() {
        let known = Connection::open(&cluster.address(id)?)?.metadata(None)?.topics;
        let kept = known
            .iter()
            .filter(|topic| topic.name.starts_with("bc-027-"))
            .count();
        ensure!(kept >= made, "broker {id} shows {kept} of {made} topics");
    }
    ensure!(
        active(cluster)? != old || cluster.controllers().len() == 1,
        "the isolated one leads again at once"
    );
    Ok(format!(
        "failing for {} ms of {} s, {made} topics kept",
        failing.as_millis(),
        cut_for.as_secs()
    ))
}

/// BC-034: snapshots and purges race with a busy log; then everybody is killed and must come back. The cluster
/// must have a small `metadata.log.max.record.bytes.between.snapshots`.
pub fn purge_races(cluster: &mut Cluster, busy_for: Duration) -> Result<String> {
    let address = cluster.address(cluster.brokers()[0])?;
    let mut connection = Connection::open(&address)?;
    let began = Instant::now();
    let mut changes = 0;
    while began.elapsed() < busy_for {
        let names: Vec<String> = (0..20).map(|n| format!("bc-034-{n}")).collect();
        let topics: Vec<NewTopic> = names.iter().map(|name| NewTopic::new(name, 1, 1)).collect();
        for (name, error, message) in connection.create_topics(&topics)? {
            ensure!(error == code::NONE, "create {name}: {error} {message}");
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (name, error) in connection.delete_topics(&names)? {
            ensure!(error == code::NONE, "delete {name}: {error}");
        }
        changes += 40;
    }
    settled(cluster, Duration::from_secs(20))?;
    let end = status(&cluster.address(active(cluster)?)?)?.committed_end;
    for id in cluster.controllers() {
        ensure!(cluster.runs(id), "controller {id} ended");
    }
    let all = cluster.controllers();
    cluster.kill_all(&all)?;
    for id in all {
        cluster.start(id)?;
    }
    settled(cluster, Duration::from_secs(30))?;
    let after = status(&cluster.address(active(cluster)?)?)?.committed_end;
    ensure!(after >= end, "the log ended at {end} and now at {after}");
    ask::brokers(&address)?;
    Ok(format!(
        "{changes} changes, log end {end}, after the restart {after}"
    ))
}
