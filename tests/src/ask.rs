//! Questions to a cluster, each a fresh connection: who is there, who leads, who is in sync.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::raw::Connection;
use crate::raw::requests::{Metadata, NewTopic, Partition, code};
use crate::wait;

/// The ids of the brokers that `address` lists, sorted.
pub fn brokers(address: &str) -> Result<Vec<i32>> {
    let connection = &mut Connection::open(address)?;
    connection.answers_within(Duration::from_secs(2))?;
    Ok(connection
        .metadata(Some(&[]))?
        .brokers
        .into_iter()
        .map(|(id, _)| id)
        .collect())
}

/// Metadata of one topic from the first of `bootstrap` that answers.
pub fn metadata(bootstrap: &str, topic: &str) -> Result<Metadata> {
    let mut last = anyhow::anyhow!("no address in {bootstrap}");
    for address in bootstrap.split(',') {
        let answer = Connection::open(address).and_then(|mut connection| {
            connection.answers_within(Duration::from_secs(2))?;
            connection.metadata(Some(&[topic]))
        });
        match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The partitions of a topic.
pub fn partitions(bootstrap: &str, topic: &str) -> Result<Vec<Partition>> {
    let topics = metadata(bootstrap, topic)?.topics;
    let found = topics
        .into_iter()
        .next()
        .context("the topic is not in the answer")?;
    ensure!(found.error == code::NONE, "{topic}: error {}", found.error);
    ensure!(!found.partitions.is_empty(), "{topic} has no partitions");
    Ok(found.partitions)
}

/// The address of the leader of a partition.
pub fn leader_address(bootstrap: &str, topic: &str, index: i32) -> Result<String> {
    let answer = metadata(bootstrap, topic)?;
    let partitions = answer
        .topics
        .first()
        .context("the topic is not in the answer")?
        .partitions
        .iter();
    let leader = partitions
        .clone()
        .find(|partition| partition.index == index)
        .context("no partition")?
        .leader;
    let found = answer.brokers.into_iter().find(|(id, _)| *id == leader);
    Ok(found.with_context(|| format!("leader {leader} is not listed"))?.1)
}

/// A connection to the leader of a partition, once there is one that answers as such: a broker can be named
/// leader a little before it is one.
pub fn leader(bootstrap: &str, topic: &str, index: i32) -> Result<Connection> {
    wait::until(
        &format!("a leader of {topic}-{index}"),
        Duration::from_secs(30),
        || {
            let mut connection = Connection::open(&leader_address(bootstrap, topic, index)?)?;
            let (error, ..) = connection.list_offset(topic, index, -2)?;
            ensure!(error == code::NONE, "the leader answers with error {error}");
            Ok(connection)
        },
    )
}

/// A producer id and its epoch, once the cluster gives them out.
pub fn producer_id(address: &str) -> Result<(i64, i16)> {
    wait::until("a producer id", Duration::from_secs(20), || {
        Connection::open(address)?.producer_id()
    })
}

/// Creates a topic, and waits until every partition has a leader and all its replicas in sync.
pub fn create(bootstrap: &str, topic: NewTopic) -> Result<()> {
    let name = topic.name.clone();
    let address = bootstrap.split(',').next().context("an address")?;
    let answers = Connection::open(address)?.create_topics(&[topic])?;
    let (_, error, message) = answers.first().context("no answer for the topic")?;
    ensure!(*error == code::NONE, "create {name}: error {error} {message}");
    everything_in_sync(bootstrap, &name, Duration::from_secs(30))
}

/// Waits until every broker shows every partition of a topic with a leader and all its replicas in sync.
pub fn everything_in_sync(bootstrap: &str, topic: &str, limit: Duration) -> Result<()> {
    for address in bootstrap.split(',') {
        wait::until(&format!("all of {topic} in sync, by {address}"), limit, || {
            let partitions = partitions(address, topic)?;
            let behind = partitions
                .iter()
                .find(|p| p.leader < 0 || p.in_sync.len() < p.replicas.len());
            ensure!(behind.is_none(), "{behind:?}");
            Ok(())
        })?;
    }
    Ok(())
}

/// The node that coordinates a group, as any broker that answers says.
pub fn coordinator(bootstrap: &str, group: &str) -> Result<(i32, String)> {
    let mut last = anyhow::anyhow!("no address in {bootstrap:?}");
    for address in bootstrap.split(',') {
        match Connection::open(address).and_then(|mut connection| connection.find_coordinator(group)) {
            Ok(found) => return Ok(found),
            Err(error) => last = error,
        }
    }
    Err(last)
}
