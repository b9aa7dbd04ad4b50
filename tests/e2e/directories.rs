//! Brokers with several log directories: what happens to one of them is nothing that one directory could not survive.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::binaries::binary;
use tests::cluster::{Cluster, broker};
use tests::raw::Connection;
use tests::raw::batch::{Batch, stored};
use tests::raw::requests::{FetchLimits, NewTopic};
use tests::{ask, wait, watch};

const LIMIT: Duration = Duration::from_secs(30);
/// Long before a session lapses or a shutdown is given up: the controller must know what to do.
const AT_ONCE: Duration = Duration::from_secs(5);
const PARTITIONS: i32 = 6;
/// Records that are acknowledged in each partition.
const RECORDS: usize = 3;

/// `orders`, with every partition on all three brokers and led by broker 1.
fn orders() -> NewTopic {
    let everywhere: Vec<(i32, &[i32])> = (0..PARTITIONS).map(|index| (index, &[1, 2, 3][..])).collect();
    NewTopic::new("orders", PARTITIONS, 3)
        .on(&everywhere)
        .with("min.insync.replicas", "1")
}

/// One more record in a partition, acknowledged by all replicas in sync.
fn produce(bootstrap: &str, index: i32) {
    let batch = Batch::of(&[b"one record"]).bytes();
    wait::until("it is acknowledged", LIMIT, || {
        let produced = ask::leader(bootstrap, "orders", index)?.produce("orders", index, -1, &batch)?;
        anyhow::ensure!(produced.error == 0, "{produced:?}");
        Ok(())
    })
    .unwrap();
}

/// The leader of a partition gives a consumer everything that was acknowledged.
fn assert_readable(bootstrap: &str, index: i32, records: usize) {
    // A new leader may learn a moment later how far its records are committed.
    wait::until_equal("everything is readable", LIMIT, records, || {
        let mut leader = ask::leader(bootstrap, "orders", index)?;
        let fetched = leader.fetch("orders", index, 0, FetchLimits::default())?;
        anyhow::ensure!(fetched.error == 0, "orders-{index}: error {}", fetched.error);
        Ok(stored(&fetched.records)?.len())
    })
    .unwrap();
}

/// The partitions of `orders` that lie in a directory.
fn lying_in(directory: &Path) -> BTreeSet<i32> {
    let names = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let indexes = names.filter_map(|name| name.strip_prefix("orders-")?.parse().ok());
    indexes.collect()
}

/// `orders` on a cluster of three brokers, with records in every partition.
fn filled(bootstrap: &str) {
    ask::create(bootstrap, orders()).unwrap();
    for _ in 0..RECORDS {
        (0..PARTITIONS).for_each(|index| produce(bootstrap, index));
    }
}

#[test]
fn a_directory_that_fails_while_a_broker_runs_costs_it_what_lay_there_and_nothing_else() {
    let mut cluster = Cluster::builder()
        .controllers(3)
        .brokers(3)
        .directories(3)
        // Written often, so the failure is seen soon.
        .set("replica.high.watermark.checkpoint.interval.ms", 200)
        .start()
        .unwrap();
    let bootstrap = cluster.bootstrap();
    filled(&bootstrap);
    let directories = cluster.directories(broker(1)).unwrap();
    let held: Vec<BTreeSet<i32>> = directories.iter().map(|it| lying_in(it)).collect();
    assert!(held.iter().all(|indexes| indexes.len() == 2), "{held:?}");
    cluster.expect_in_logs("the disk failed");
    cluster.expect_in_logs("a log directory is offline");

    fs::rename(&directories[1], cluster.folder().join("pulled out")).unwrap();

    let lost = &held[1];
    wait::until("others lead what lay there", AT_ONCE, || {
        for partition in ask::partitions(&bootstrap, "orders")? {
            let is_lost = lost.contains(&partition.index);
            let is_kept = partition.leader == 1 && partition.in_sync == [1, 2, 3];
            let is_elsewhere = [2, 3].contains(&partition.leader) && partition.in_sync == [2, 3];
            anyhow::ensure!(if is_lost { is_elsewhere } else { is_kept }, "{partition:?}");
        }
        Ok(())
    })
    .unwrap();
    for index in 0..PARTITIONS {
        produce(&bootstrap, index);
        assert_readable(&bootstrap, index, RECORDS + 1);
    }
    let mut status = Command::new(binary("millrace").unwrap());
    let status = status
        .args(["status", "--check"])
        .env("MILLRACE_BOOTSTRAP", &bootstrap);
    let status = status.output().unwrap();
    let told = [&status.stdout[..], &status.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    assert!(!status.status.success(), "{told}");
    assert!(told.contains("without a leader 0"), "{told}");
    let offline = format!("{} is offline", directories[1].display());
    assert!(told.contains(&offline), "{told}");

    // What is new goes where it can be kept.
    ask::create(&bootstrap, NewTopic::new("later", 4, 3)).unwrap();
    let scrape = watch::scrape(&cluster.watched_at(broker(1)).unwrap())
        .unwrap()
        .body;
    let offline = watch::value(&scrape, "kafka_server_replicamanager_offlinereplicacount").unwrap();
    assert!((offline - 2.0).abs() < 0.5, "{offline} replicas are offline");
}

#[test]
fn a_broker_whose_every_directory_fails_ends_and_what_it_led_moves_at_once() {
    let mut cluster = Cluster::builder()
        .brokers(3)
        .directories(2)
        .set("replica.high.watermark.checkpoint.interval.ms", 200)
        .start()
        .unwrap();
    let bootstrap = cluster.bootstrap();
    filled(&bootstrap);
    cluster.expect_in_logs("the disk failed");
    cluster.expect_in_logs("log directory is offline");

    for (place, directory) in cluster.directories(broker(1)).unwrap().iter().enumerate() {
        fs::rename(directory, cluster.folder().join(format!("pulled out {place}"))).unwrap();
    }

    let status = cluster.wait_for_end(broker(1)).unwrap();
    assert_eq!(status.code(), Some(1));
    let others = cluster.address(broker(2)).unwrap();
    wait::until("others lead everything", AT_ONCE, || {
        for partition in ask::partitions(&others, "orders")? {
            let is_elsewhere = [2, 3].contains(&partition.leader) && partition.in_sync == [2, 3];
            anyhow::ensure!(is_elsewhere, "{partition:?}");
        }
        Ok(())
    })
    .unwrap();
    for index in 0..PARTITIONS {
        produce(&others, index);
        assert_readable(&others, index, RECORDS + 1);
    }
}

/// Only broker 1 was in sync when it stopped, so it is the last known leader: of what it still has, and of nothing else.
#[test]
fn a_broker_back_with_an_empty_directory_leads_nothing_that_lay_there() {
    let mut cluster = Cluster::builder()
        .controllers(3)
        .brokers(3)
        .directories(3)
        .start()
        .unwrap();
    let bootstrap = cluster.bootstrap();
    filled(&bootstrap);
    for last in [2, 3, 1] {
        let status = cluster.term(broker(last)).unwrap();
        assert!(status.success(), "{status}");
    }
    let exchanged = cluster.directories(broker(1)).unwrap().remove(1);
    let lost = lying_in(&exchanged);
    assert_eq!(lost.len(), 2);
    fs::rename(&exchanged, cluster.folder().join("exchanged")).unwrap();
    fs::create_dir(&exchanged).unwrap();

    cluster.start(broker(1)).unwrap();
    cluster.wait_until_serving().unwrap();
    let alone = cluster.address(broker(1)).unwrap();
    let leaders = |bootstrap: &str| -> anyhow::Result<BTreeSet<(i32, i32)>> {
        let partitions = ask::partitions(bootstrap, "orders")?.into_iter();
        Ok(partitions.map(|it| (it.index, it.leader)).collect())
    };
    let wanted = (0..PARTITIONS).map(|index| (index, if lost.contains(&index) { -1 } else { 1 }));
    let wanted: BTreeSet<(i32, i32)> = wanted.collect();
    wait::until_equal("it leads what it has", LIMIT, wanted.clone(), || leaders(&alone)).unwrap();
    cluster.start(broker(2)).unwrap();
    cluster.start(broker(3)).unwrap();
    cluster.wait_until_serving().unwrap();
    assert_eq!(leaders(&bootstrap).unwrap(), wanted);

    // Nobody but an operator knows that the others have everything.
    cluster.term(broker(1)).unwrap();
    let left = cluster.address(broker(2)).unwrap();
    for index in &lost {
        let elected = wait::until("a leader is elected", LIMIT, || {
            let code = Connection::open(&left)?.elect(1, "orders", *index)?;
            anyhow::ensure!(code == 0, "error {code}");
            Ok(())
        });
        elected.unwrap();
    }
    cluster.start(broker(1)).unwrap();
    cluster.wait_until_serving().unwrap();
    ask::everything_in_sync(&bootstrap, "orders", LIMIT).unwrap();
    for index in 0..PARTITIONS {
        assert_readable(&bootstrap, index, RECORDS);
    }
    assert_eq!(lying_in(&exchanged), lost, "the empty one held the fewest");
}

/// Where a directory fails, others take over what the controller knows to lie there: a log that an operator has moved
/// is not among it.
#[test]
fn a_log_that_was_moved_to_another_directory_is_served_and_told() {
    let mut cluster = Cluster::builder().directories(2).start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new("orders", 2, 1)).unwrap();
    produce(&bootstrap, 0);
    cluster.term(broker(1)).unwrap();
    let directories = cluster.directories(broker(1)).unwrap();
    let from = usize::from(!lying_in(&directories[0]).contains(&0));
    let (from, to) = (&directories[from], &directories[1 - from]);
    fs::rename(from.join("orders-0"), to.join("orders-0")).unwrap();

    cluster.start(broker(1)).unwrap();
    cluster.wait_until_serving().unwrap();

    assert_readable(&bootstrap, 0, 1);
    let log = cluster.log(broker(1)).unwrap();
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("lies in another directory"))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("WARN") && told[0].contains("orders-0"),
        "{told:?}"
    );
    assert!(
        told[0].contains(&format!("assigned={}", from.display())),
        "{told:?}"
    );
    // It may come back without the directory in which the log lies, and with an empty one for the controller's sake.
    cluster.term(broker(1)).unwrap();
    for directory in &directories {
        let mark = fs::read_to_string(directory.join(".kafka_cleanshutdown")).unwrap();
        assert_eq!(mark, "{\"version\":0,\"brokerEpoch\":-1}");
    }
}
