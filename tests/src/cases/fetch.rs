//! Limits of a fetch: BC-078.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::expect;
use crate::ask;
use crate::cluster::Cluster;
use crate::raw::Connection;
use crate::raw::batch::{Batch, stored};
use crate::raw::requests::{FetchLimits, NewTopic, code};

/// Bytes of a record that is larger than the limits.
const LARGE: usize = 500 << 10;

/// BC-078: request limits that wrap, or that are smaller than one batch.
pub fn limits(cluster: &Cluster) -> Result<String> {
    let name = "bc-078";
    let places: [(i32, &[i32]); 3] = [(0, &[1]), (1, &[1]), (2, &[1])];
    ask::create(&cluster.bootstrap(), NewTopic::new(name, 3, 1).on(&places))?;
    let mut leader = ask::leader(&cluster.bootstrap(), name, 0)?;
    let large = vec![b'x'; LARGE];
    for index in 0..3 {
        let got = leader.produce(name, index, -1, &Batch::of(&[&large]).bytes())?;
        expect("a large record", got.error, &[code::NONE])?;
    }
    let usual = FetchLimits::default();
    for (max_bytes, partition_max_bytes) in
        [(0, 0), (1, 1), (i32::MAX, 1), (1, i32::MAX), (i32::MAX, i32::MAX)]
    {
        let limits = FetchLimits {
            max_bytes,
            partition_max_bytes,
            ..usual
        };
        let got = leader.fetch(name, 0, 0, limits)?;
        expect("a small limit", got.error, &[code::NONE])?;
        let read = stored(&got.records)?;
        ensure!(
            read.len() == 1 && read[0].value.len() == LARGE,
            "{limits:?}: {} records",
            read.len()
        );
    }
    let three = [(name, 0, 0), (name, 1, 0), (name, 2, 0)];
    let got = leader.fetch_many(
        &three,
        FetchLimits {
            max_bytes: 1000,
            ..usual
        },
    )?;
    let filled = got.iter().filter(|part| !part.records.is_empty()).count();
    ensure!(
        filled == 1,
        "{filled} partitions were served from a budget of one batch"
    );
    // A negative limit may be refused or taken for nothing; the broker has to live.
    let mut hostile = ask::leader(&cluster.bootstrap(), name, 0)?;
    let _ = hostile.fetch(
        name,
        0,
        0,
        FetchLimits {
            max_bytes: -1,
            partition_max_bytes: -1,
            ..usual
        },
    );
    let waited = longest_wait(&mut leader, name)?;
    Ok(format!(
        "one whole batch each time; waited {} ms of 500",
        waited.as_millis()
    ))
}

/// More bytes are asked for than may come: the wait ends when it has to, and not before.
fn longest_wait(leader: &mut Connection, name: &str) -> Result<Duration> {
    let usual = FetchLimits::default();
    let began = Instant::now();
    let waiting = FetchLimits {
        min_bytes: i32::MAX,
        max_bytes: 1 << 20,
        wait_ms: 500,
        ..usual
    };
    leader.fetch(name, 0, 1, waiting)?;
    let waited = began.elapsed();
    ensure!(
        waited >= Duration::from_millis(400),
        "min_bytes over max_bytes was answered after {waited:?}"
    );
    ensure!(
        waited < Duration::from_secs(5),
        "it waited {waited:?} with a limit of 500 ms"
    );
    Ok(waited)
}
