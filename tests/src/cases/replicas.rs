//! What replicas may show and keep: BC-024, epochs, and truncation after a leader was lost.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::expect;
use crate::cluster::{Cluster, NodeId, broker};
use crate::raw::Connection;
use crate::raw::batch::{Batch, stored};
use crate::raw::requests::{FetchLimits, NewTopic, code};
use crate::{ask, wait};

/// BC-024: the watermark never moves while fewer than min.insync.replicas are in sync.
pub fn watermark_below_min_in_sync(cluster: &mut Cluster) -> Result<String> {
    let name = "bc-024";
    let wanted = NewTopic::new(name, 1, 3)
        .on(&[(0, &[1, 2, 3])])
        .with("min.insync.replicas", "2");
    ask::create(&cluster.bootstrap(), wanted)?;
    let first = Batch::of(&[b"committed"]).bytes();
    let mut leader = ask::leader(&cluster.bootstrap(), name, 0)?;
    expect(
        "acks=all",
        leader.produce(name, 0, -1, &first)?.error,
        &[code::NONE],
    )?;

    cluster.kill(broker(2))?;
    cluster.kill(broker(3))?;
    let address = cluster.address(broker(1))?;
    wait::until("broker 1 alone in sync", Duration::from_secs(60), || {
        let partition = &ask::partitions(&address, name)?[0];
        ensure!(partition.leader == 1 && partition.in_sync == [1], "{partition:?}");
        Ok(())
    })?;
    let mut leader = Connection::open(&address)?;
    let five: [&[u8]; 5] = [b"1", b"2", b"3", b"4", b"5"];
    let got = leader.produce(name, 0, 1, &Batch::of(&five).bytes())?;
    expect("acks=1 with one in sync", got.error, &[code::NONE])?;
    for _ in 0..20 {
        let fetched = leader.fetch(name, 0, 1, FetchLimits::default())?;
        ensure!(
            fetched.high_watermark == 1,
            "the watermark is {}",
            fetched.high_watermark
        );
        ensure!(fetched.records.is_empty(), "uncommitted records were served");
        let (_, _, latest) = leader.list_offset(name, 0, -1)?;
        ensure!(latest == 1, "the latest offset is {latest}");
    }
    cluster.start(broker(2))?;
    wait::until("the five appear", Duration::from_secs(60), || {
        let mut leader = ask::leader(&address, name, 0)?;
        let read = stored(&leader.fetch(name, 0, 1, FetchLimits::default())?.records)?;
        ensure!(read.len() == 5, "{} of 5", read.len());
        Ok(())
    })?;
    cluster.start(broker(3))?;
    ask::everything_in_sync(&cluster.bootstrap(), name, Duration::from_secs(60))?;
    Ok("5 records hidden with one in sync, visible with two".to_owned())
}

/// Waits for a leader other than `old`, and gives it with its epoch.
fn successor(address: &str, topic: &str, old: i32) -> Result<(i32, i32)> {
    wait::until("another leader", Duration::from_secs(60), || {
        let partition = &ask::partitions(address, topic)?[0];
        ensure!(partition.leader >= 0 && partition.leader != old, "{partition:?}");
        Ok((partition.leader, partition.leader_epoch))
    })
}

/// Every new leader leads in a new epoch: an old one could not be told from it otherwise.
pub fn a_new_leader_has_a_new_epoch(cluster: &mut Cluster) -> Result<String> {
    let name = "new-epoch";
    ask::create(
        &cluster.bootstrap(),
        NewTopic::new(name, 1, 3).on(&[(0, &[1, 2, 3])]),
    )?;
    let before = ask::partitions(&cluster.bootstrap(), name)?.remove(0);
    cluster.kill(NodeId(before.leader.cast_unsigned()))?;
    let other = before
        .replicas
        .iter()
        .find(|id| **id != before.leader)
        .context("another replica")?;
    let (leader, epoch) = successor(
        &cluster.address(NodeId(other.cast_unsigned()))?,
        name,
        before.leader,
    )?;
    cluster.start(NodeId(before.leader.cast_unsigned()))?;
    ask::everything_in_sync(&cluster.bootstrap(), name, Duration::from_secs(60))?;
    let old = before.leader_epoch;
    ensure!(
        epoch > old,
        "leader {leader} leads in epoch {epoch}, its predecessor in {old}"
    );
    Ok(format!("epoch {old}, then {epoch}"))
}

/// A leader that wrote what nobody else has is killed; when it is back, it holds what the others hold, byte for byte.
pub fn a_diverged_leader_is_cut_back(cluster: &mut Cluster) -> Result<String> {
    let name = "diverged";
    let wanted = NewTopic::new(name, 1, 3)
        .on(&[(0, &[1, 2, 3])])
        .with("min.insync.replicas", "2");
    ask::create(&cluster.bootstrap(), wanted)?;
    let address = cluster.address(broker(1))?;
    let mut leader = ask::leader(&cluster.bootstrap(), name, 0)?;
    let kept = leader.produce(name, 0, -1, &Batch::of(&[b"a", b"b", b"c"]).bytes())?;
    expect("acks=all", kept.error, &[code::NONE])?;

    cluster.stop(broker(2))?;
    cluster.stop(broker(3))?;
    // One batch a record: truncation is by batches, and one too many has to be one that is there.
    let mut alone = Connection::open(&address)?;
    for value in [b"lost 1", b"lost 2", b"lost 3"] {
        expect(
            "acks=1",
            alone.produce(name, 0, 1, &Batch::of(&[value]).bytes())?.error,
            &[code::NONE],
        )?;
    }
    cluster.kill(broker(1))?;
    cluster.cont(broker(2))?;
    cluster.cont(broker(3))?;
    let elsewhere = cluster.address(broker(2))?;
    let (next, _) = successor(&elsewhere, name, 1)?;
    let mut leader = ask::leader(&elsewhere, name, 0)?;
    for value in [b"kept 1", b"kept 2"] {
        expect(
            "acks=all",
            leader.produce(name, 0, -1, &Batch::of(&[value]).bytes())?.error,
            &[code::NONE],
        )?;
    }
    cluster.start(broker(1))?;
    ask::everything_in_sync(&cluster.bootstrap(), name, Duration::from_secs(60))?;

    let segment = |id: NodeId| -> Result<Vec<u8>> {
        let folder = cluster.data(id)?.join(format!("{name}-0"));
        Ok(std::fs::read(folder.join("00000000000000000000.log"))?)
    };
    let wanted = segment(NodeId(next.cast_unsigned()))?;
    for id in cluster.brokers() {
        wait::until(
            &format!("broker {id} holds what the leader holds"),
            Duration::from_secs(20),
            || {
                let held = segment(id)?;
                ensure!(
                    held == wanted,
                    "{} bytes, the leader {}",
                    held.len(),
                    wanted.len()
                );
                Ok(())
            },
        )?;
    }
    Ok(format!("{} bytes, the same on all three", wanted.len()))
}
