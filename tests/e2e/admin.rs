//! What an administrator asks for acts while the cluster runs.

use tests::cases::{configs, deletions, elections};
use tests::cluster::Cluster;
use tests::raw::Connection;
use tests::raw::requests::{NewTopic, code};
use tests::{ask, wait};

#[test]
fn configurations_act_while_the_cluster_runs() {
    let cluster = Cluster::builder().start().unwrap();
    configs::act_live(&cluster).unwrap();
    configs::of_brokers_act_live(&cluster).unwrap();
}

#[test]
fn a_topic_gets_more_partitions_and_keeps_those_it_has() {
    let cluster = Cluster::builder().start().unwrap();
    let bootstrap = cluster.bootstrap();
    ask::create(&bootstrap, NewTopic::new("orders", 1, 1)).unwrap();
    let mut connection = Connection::open(&bootstrap).unwrap();
    assert_eq!(connection.grow("orders", 3).unwrap(), code::NONE);
    wait::until_equal("three partitions", std::time::Duration::from_secs(10), 3, || {
        Ok(ask::partitions(&bootstrap, "orders")?.len())
    })
    .unwrap();
    ask::leader(&bootstrap, "orders", 2).unwrap();
    assert_eq!(connection.grow("orders", 3).unwrap(), code::INVALID_PARTITIONS);
    assert_eq!(
        connection.grow("nothing", 3).unwrap(),
        code::UNKNOWN_TOPIC_OR_PARTITION
    );
}

#[test]
fn a_named_topic_gets_the_defaults() {
    let cluster = Cluster::builder()
        .brokers(2)
        .set("num.partitions", 3)
        .set("default.replication.factor", 2)
        .start()
        .unwrap();
    assert_eq!(
        deletions::named_topics(&cluster).unwrap(),
        "3 partitions with 2 replicas"
    );
}

#[test]
fn leadership_goes_where_somebody_wants_it() {
    let mut cluster = Cluster::builder()
        .brokers(3)
        .set("auto.leader.rebalance.enable", false)
        .start()
        .unwrap();
    elections::preferred(&mut cluster).unwrap();
    deletions::everywhere(&mut cluster).unwrap();
}

#[test]
fn an_unclean_election_is_allowed_at_run_time() {
    let mut cluster = Cluster::builder().brokers(3).start().unwrap();
    elections::unclean_at_run_time(&mut cluster).unwrap();
}

#[test]
fn many_changes_of_configuration_kill_no_controller() {
    let mut cluster = Cluster::builder()
        .controllers(3)
        .brokers(3)
        .set("metadata.log.max.record.bytes.between.snapshots", 200_000)
        .start()
        .unwrap();
    configs::busy_configs(&mut cluster, 5, 6).unwrap();
}
