//! Consumer groups on the smallest cluster.

use std::time::Duration;

use tests::cases::groups;
use tests::cluster::Cluster;
use tests::load::{Load, Plan};
use tests::members::{Kind, Member, Place};
use tests::raw::requests::NewTopic;
use tests::{ask, wait};

fn smallest() -> Cluster {
    let builder = Cluster::builder().set("offsets.topic.replication.factor", 1);
    builder
        .set("group.initial.rebalance.delay.ms", 100)
        .start()
        .unwrap()
}

#[test]
fn a_member_reads_everything_and_its_successor_goes_on_where_it_committed() {
    let cluster = smallest();
    let (bootstrap, folder) = (cluster.bootstrap(), tempfile::tempdir().unwrap());
    ask::create(&bootstrap, NewTopic::new("orders", 2, 1)).unwrap();
    let load = Load::start(Plan::new(&bootstrap, "orders", 2)).unwrap();
    load.wait_for_more(100, Duration::from_secs(20)).unwrap();
    let sent = load.finish().unwrap().sends.len();
    let place = Place {
        bootstrap: &bootstrap,
        topic: "orders",
        group: "readers",
        folder: folder.path(),
    };
    let limit = Duration::from_secs(40);

    let first = Member::start(Kind::Kcat, place, 1).unwrap();
    wait::until("all is read", limit, || {
        let read = first.read()?.len();
        anyhow::ensure!(read == sent, "{read} of {sent}");
        Ok(())
    })
    .unwrap();
    wait::until("all is committed", limit, || {
        let (_, address) = ask::coordinator(&bootstrap, "readers")?;
        let committed = tests::raw::Connection::open(&address)?.committed("readers", "orders", 2)?;
        let sum: i64 = committed.iter().map(|one| one.offset).sum();
        anyhow::ensure!(sum == i64::try_from(sent)?, "{committed:?} of {sent}");
        Ok(())
    })
    .unwrap();
    drop(first);

    let more = Load::start(Plan {
        producer: 1,
        ..Plan::new(&bootstrap, "orders", 2)
    })
    .unwrap();
    more.wait_for_more(100, Duration::from_secs(20)).unwrap();
    more.finish().unwrap();
    let second = Member::start(Kind::Kcat, place, 2).unwrap();
    wait::until("the rest is read", limit, || {
        let read = second.read()?.len();
        anyhow::ensure!(read >= 100, "{read}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_coordinator_that_was_killed_forgets_nothing() {
    let mut cluster = smallest();
    groups::nothing_is_forgotten(&mut cluster, 40, 5).unwrap();
}

#[test]
fn a_commit_comes_back_as_clients_expect_it() {
    groups::told_as_committed(&smallest()).unwrap();
}
