//! Records that an administrator deletes, and topics that come to be by being named.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::expect;
use crate::cluster::{Cluster, broker};
use crate::raw::Connection;
use crate::raw::batch::Batch;
use crate::raw::requests::{FetchLimits, NewTopic, code};
use crate::{ask, wait};

/// Deleted records are gone at every replica when the answer comes, and stay so when another replica leads.
pub fn everywhere(cluster: &mut Cluster) -> Result<String> {
    let (topic, bootstrap) = ("deleted", cluster.bootstrap());
    ask::create(&bootstrap, NewTopic::new(topic, 1, 3).on(&[(0, &[1, 2, 3])]))?;
    let mut leader = ask::leader(&bootstrap, topic, 0)?;
    for record in [b"0", b"1", b"2", b"3", b"4"] {
        let produced = leader.produce(topic, 0, -1, &Batch::of(&[record]).bytes())?;
        expect("a record", produced.error, &[code::NONE])?;
    }
    ensure!(
        leader.delete_records(topic, 0, 3)? == (code::NONE, 3),
        "not deleted up to 3"
    );
    ensure!(
        leader.delete_records(topic, 0, 1)? == (code::NONE, 3),
        "the start went back"
    );
    ensure!(
        leader.delete_records(topic, 0, 6)? == (code::OFFSET_OUT_OF_RANGE, -1),
        "what is not there was deleted"
    );
    let old = leader.fetch(topic, 0, 2, FetchLimits::default())?;
    expect("a deleted record", old.error, &[code::OFFSET_OUT_OF_RANGE])?;
    let mut follower = Connection::open(&cluster.address(broker(2))?)?;
    let elsewhere = follower.delete_records(topic, 0, 4)?;
    expect(
        "asked of a follower",
        elsewhere.0,
        &[code::NOT_LEADER_OR_FOLLOWER],
    )?;

    cluster.kill(broker(1))?;
    let address = cluster.address(broker(2))?;
    wait::until("another leader", Duration::from_secs(30), || {
        let leader = ask::partitions(&address, topic)?[0].leader;
        ensure!([2, 3].contains(&leader), "led by {leader}");
        Ok(())
    })?;
    let (_, _, earliest) = ask::leader(&address, topic, 0)?.list_offset(topic, 0, -2)?;
    ensure!(earliest == 3, "the log starts at {earliest} after a failover");
    cluster.start(broker(1))?;
    ask::everything_in_sync(&bootstrap, topic, Duration::from_secs(60))?;
    Ok("records below 3 are gone at the leader and at its successor".to_owned())
}

/// A topic that a client names comes to be, with the defaults; one that may not be named so does not.
pub fn named_topics(cluster: &Cluster) -> Result<String> {
    let address = cluster.address(broker(1))?;
    let mut connection = Connection::open(&address)?;
    let first = connection.name_topic("named")?;
    expect("the first answer", first, &[code::UNKNOWN_TOPIC_OR_PARTITION, 5])?;
    wait::until_equal("the topic", Duration::from_secs(30), code::NONE, || {
        connection.name_topic("named")
    })?;
    ask::everything_in_sync(&cluster.bootstrap(), "named", Duration::from_secs(30))?;
    expect(
        "no name",
        connection.name_topic("a b")?,
        &[code::INVALID_TOPIC_EXCEPTION],
    )?;
    let partitions = ask::partitions(&address, "named")?;
    Ok(format!(
        "{} partitions with {} replicas",
        partitions.len(),
        partitions[0].replicas.len()
    ))
}
