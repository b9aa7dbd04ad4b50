//! What replicas may show: BC-024.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::expect;
use crate::cluster::{Cluster, broker};
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
    let mut leader = crate::raw::Connection::open(&address)?;
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
