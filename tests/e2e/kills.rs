//! Processes are killed under an idempotent load, and the oracle judges what is left.

use std::time::Duration;

use tests::ask;
use tests::cluster::{Cluster, broker};
use tests::load::{Load, Plan, Tail, read_all};
use tests::oracle::{History, Reader, check};
use tests::raw::requests::NewTopic;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_killed_broker_loses_and_repeats_nothing() {
    let mut cluster = Cluster::builder().controllers(3).brokers(3).start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(
        &bootstrap,
        NewTopic::new("orders", 6, 3).with("min.insync.replicas", "2"),
    )
    .unwrap();
    let tail = Tail::start(&bootstrap, "orders", 6, Reader(1)).unwrap();
    let load = Load::start(Plan::new(&bootstrap, "orders", 6)).unwrap();
    load.wait_for_more(2_000, LIMIT).unwrap();

    cluster.kill(broker(2)).unwrap();
    load.wait_for_more(6_000, LIMIT).unwrap();
    cluster.start(broker(2)).unwrap();
    ask::everything_in_sync(&bootstrap, "orders", LIMIT).unwrap();
    load.wait_for_more(1_000, LIMIT).unwrap();

    let written = load.finish().unwrap();
    let mut reads = tail.finish().unwrap();
    reads.extend(read_all(&bootstrap, "orders", 6, Reader(2), LIMIT).unwrap());
    let history = History {
        sends: written.sends,
        reads,
        complete: [Reader(2)].into(),
        ..History::default()
    };
    let verdict = check(&history);
    assert!(verdict.holds(), "{verdict}\n{:?}", written.errors);
    assert!(verdict.acknowledged >= 9_000, "{verdict}");
}

#[test]
fn a_cluster_that_was_killed_whole_comes_back_with_everything() {
    let mut cluster = Cluster::builder().controllers(3).brokers(3).start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(
        &bootstrap,
        NewTopic::new("orders", 6, 3).with("min.insync.replicas", "2"),
    )
    .unwrap();
    // With several batches in flight, librdkafka begins a new producer epoch when a batch is refused only because the one
    // before it was (a broker that does not lead yet), and sends again what may be in the log already.
    let load = Load::start(Plan {
        settings: vec![("max.in.flight".into(), "1".into())],
        ..Plan::new(&bootstrap, "orders", 6)
    })
    .unwrap();
    load.wait_for_more(4_000, LIMIT).unwrap();

    let everything = [cluster.controllers(), cluster.brokers()].concat();
    cluster.kill_all(&everything).unwrap();
    cluster.start_all().unwrap();
    ask::everything_in_sync(&bootstrap, "orders", LIMIT).unwrap();
    load.wait_for_more(2_000, LIMIT).unwrap();

    let written = load.finish().unwrap();
    let reads = read_all(&bootstrap, "orders", 6, Reader(2), LIMIT).unwrap();
    let history = History {
        sends: written.sends,
        reads,
        complete: [Reader(2)].into(),
        ..History::default()
    };
    let verdict = check(&history);
    assert!(verdict.holds(), "{verdict}\n{:?}", written.errors);
}
