//! What one broker must refuse, and how: the bug cases that need nothing but a plain listener.

use std::time::Duration;

use tests::cases::{admin, fetch, frames, produce};
use tests::cluster::Cluster;
use tests::conformance;

#[test]
fn only_honest_batches_are_stored() {
    let cluster = Cluster::builder().start().unwrap();
    produce::false_counts(&cluster).unwrap();
    produce::broker_only(&cluster).unwrap();
    produce::damage(&cluster).unwrap();
    produce::keyless(&cluster).unwrap();
    produce::acks_values(&cluster).unwrap();
    produce::timestamps(&cluster).unwrap();
    produce::sequences(&cluster).unwrap();
    fetch::limits(&cluster).unwrap();
}

#[test]
fn an_idle_producer_may_go_on() {
    let expiration = Duration::from_secs(1);
    let cluster = Cluster::builder()
        .set("producer.id.expiration.ms", expiration.as_millis())
        .set("producer.id.expiration.check.interval.ms", 200)
        .start()
        .unwrap();
    produce::idle_producer(&cluster, expiration).unwrap();
}

#[test]
fn hostile_bytes_are_answered_or_closed_and_cost_nothing() {
    let cluster = Cluster::builder().start().unwrap();
    frames::future_versions(&cluster).unwrap();
    frames::huge_counts(&cluster).unwrap();
    frames::bad_lengths(&cluster).unwrap();
    frames::idle_connections(&cluster, 300).unwrap();
    admin::names_from_hell(&cluster).unwrap();
}

#[test]
fn greedy_connections_take_no_more_than_they_may() {
    let idle = Duration::from_secs(2);
    let cluster = Cluster::builder()
        .set("max.connections.per.ip", 20)
        .set("connections.max.idle.ms", idle.as_millis())
        .start()
        .unwrap();
    frames::greedy_connections(&cluster, 20, idle).unwrap();
}

#[test]
fn every_answer_decodes_exactly_at_every_version() {
    let cluster = Cluster::builder().start().unwrap();
    let (exact, printed) = conformance::versions(&cluster.bootstrap()).unwrap();
    assert!(exact, "{printed}");
}
