//! The bug cases that a plain listener and the APIs served can show.

use std::time::Duration;

use anyhow::Result;

use crate::cases::{admin, fetch, frames, names, produce, quorum, replicas, rolls};
use crate::cluster::{Cluster, broker};
use crate::conformance;
use crate::show::Board;

/// A case that one running cluster can show.
type Case = (&'static str, fn(&mut Cluster) -> Result<String>);

const ONE_BROKER: &[Case] = &[
    ("case BC-056 false counts", |cluster| {
        produce::false_counts(cluster)
    }),
    ("case BC-057 only brokers may", |cluster| {
        produce::broker_only(cluster)
    }),
    ("case BC-058 damaged bytes", |cluster| produce::damage(cluster)),
    ("case BC-060 acks values", |cluster| produce::acks_values(cluster)),
    ("case BC-061 timestamps", |cluster| produce::timestamps(cluster)),
    ("case sequences", |cluster| produce::sequences(cluster)),
    ("case BC-074 every version decodes", every_version),
    ("case BC-075 future versions", |cluster| {
        frames::future_versions(cluster)
    }),
    ("case BC-078 fetch limits", |cluster| fetch::limits(cluster)),
    ("case BC-149 huge counts", |cluster| frames::huge_counts(cluster)),
    ("case BC-154 names from hell", |cluster| {
        admin::names_from_hell(cluster)
    }),
];

const THREE_BROKERS: &[Case] = &[
    ("case BC-002 quick restart", |cluster| {
        rolls::quick_restart(cluster, broker(1))
    }),
    ("case BC-009 busy metadata", |cluster| {
        rolls::busy_metadata(cluster, broker(2))
    }),
    ("case BC-013 complete at once", |cluster| {
        rolls::complete_from_the_first_answer(cluster, 2)
    }),
    (
        "case BC-024 watermark and min ISR",
        replicas::watermark_below_min_in_sync,
    ),
    ("case BC-060 too few in sync", produce::too_few_in_sync),
];

fn every_version(cluster: &mut Cluster) -> Result<String> {
    let (exact, printed) = conformance::versions(&cluster.bootstrap())?;
    anyhow::ensure!(exact, "{printed}");
    Ok(printed.lines().last().unwrap_or_default().to_owned())
}

/// Starts one cluster for several cases; where it does not start, each of them says so.
fn together(board: &mut Board, cases: &[Case], start: impl FnOnce() -> Result<Cluster>) {
    let wanted: Vec<&Case> = cases.iter().filter(|(what, _)| board.wants(what)).collect();
    if wanted.is_empty() {
        return;
    }
    match start() {
        Ok(mut cluster) => {
            for (what, case) in wanted {
                board.row(what, || case(&mut cluster));
            }
            board.row(&format!("{} and the logs", wanted_name(cases)), move || {
                judged(cluster)
            });
        }
        Err(error) => wanted.iter().for_each(|(what, _)| {
            let reason = format!("{error:#}");
            board.row(what, || anyhow::bail!("no cluster: {reason}"));
        }),
    }
}

fn wanted_name(cases: &[Case]) -> &'static str {
    cases[0].0
}

/// Ends a cluster; a line of level ERROR or a panic in any log is a breach.
pub fn judged(cluster: Cluster) -> Result<String> {
    let nodes = cluster.brokers().len() + cluster.controllers().len();
    drop(cluster);
    Ok(format!("{nodes} nodes, no alarm"))
}

/// One row each.
pub fn rows(board: &mut Board) {
    together(board, ONE_BROKER, || Cluster::builder().start());
    together(board, THREE_BROKERS, || {
        Cluster::builder().controllers(3).brokers(3).start()
    });
    board.row("case BC-027 isolated leader", || {
        let mut cluster = Cluster::builder().controllers(3).brokers(3).cuttable().start()?;
        quorum::isolated_leader(&mut cluster, Duration::from_secs(20))
    });
    board.row("case BC-034 purge races", || {
        let small = "metadata.log.max.record.bytes.between.snapshots";
        let mut cluster = Cluster::builder()
            .controllers(3)
            .brokers(1)
            .set(small, 20_000)
            .start()?;
        quorum::purge_races(&mut cluster, Duration::from_secs(40))
    });
    board.row("case BC-048 new addresses", || {
        let mut cluster = Cluster::builder().controllers(3).brokers(3).named().start()?;
        names::new_addresses(&mut cluster)
    });
    board.row("case BC-049 names come late", || {
        let mut cluster = Cluster::builder().controllers(3).brokers(3).named().prepare()?;
        names::names_come_late(&mut cluster, Duration::from_secs(20))
    });
    board.row("case BC-063 idle producer", || {
        let expiration = Duration::from_secs(3);
        let keys = Cluster::builder().set("producer.id.expiration.ms", expiration.as_millis());
        let cluster = keys
            .set("producer.id.expiration.check.interval.ms", 500)
            .start()?;
        produce::idle_producer(&cluster, expiration)
    });
}
