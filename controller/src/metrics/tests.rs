//! Each number changes when what it counts happens.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use host::{SimClock, WallMs};
use metadata::ids::Term;
use metadata::ids::{BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, PartitionIndex, TopicId};
use metadata::image::{Image, Topic};
use metadata::record::LeaderRecovery;
use metadata::uuid::Uuid;
use observe::{NotReady, Watched};
use tokio::sync::watch;

use super::*;
use crate::services::testing::desk;
use crate::space::Space;

fn metrics() -> Arc<ControllerMetrics> {
    ControllerMetrics::new(Arc::new(SimClock::new(WallMs(1_000))))
}

fn value(metrics: &ControllerMetrics, series: &str) -> Option<f64> {
    let text = metrics.metrics.text().unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    line.parse().ok()
}

/// Led by 1, with 1 and 2 in sync, 3 eligible and 4 neither.
fn partition() -> Partition {
    Partition {
        replicas: [1, 2, 3, 4].map(BrokerId).to_vec(),
        directories: vec![DirectoryId::UNASSIGNED; 4],
        in_sync: [1, 2].map(BrokerId).to_vec(),
        eligible: vec![BrokerId(3)],
        last_known_leader: None,
        adding: Vec::new(),
        removing: Vec::new(),
        leader: Some(BrokerId(1)),
        recovery: LeaderRecovery::Recovered,
        leader_epoch: LeaderEpoch(5),
        epoch: PartitionEpoch(9),
    }
}

/// A cluster with this partition and nothing else.
fn image(partition: Partition) -> Image {
    let mut topic = Topic {
        id: TopicId(Uuid(1)),
        name: "orders".to_owned(),
        partitions: Default::default(),
    };
    topic.partitions.insert(PartitionIndex(0), Arc::new(partition));
    let mut image = Image::default();
    image.topics.insert(topic.id, Arc::new(topic));
    image
}

/// The batch in which the partition gets another leader.
fn led_by(leader: i32) -> Delta {
    let after = Partition {
        leader: Some(BrokerId(leader)),
        leader_epoch: LeaderEpoch(6),
        ..partition()
    };
    Delta::between(&image(partition()), &image(after))
}

#[test]
fn elections_are_told_apart_by_what_the_new_leader_held() {
    let metrics = metrics();
    let counts = || {
        let of = |name: &str| {
            value(
                &metrics,
                &format!("kafka_controller_controllerstats_{name}_total"),
            )
        };
        (
            of("electionfromeligibleleaderreplicas"),
            of("uncleanleaderelections"),
        )
    };
    metrics.applied(&led_by(2));
    assert_eq!(counts(), (Some(0.0), Some(0.0)), "in sync");
    metrics.applied(&led_by(3));
    assert_eq!(counts(), (Some(1.0), Some(0.0)), "eligible");
    metrics.applied(&led_by(4));
    assert_eq!(counts(), (Some(1.0), Some(1.0)), "neither");
}

#[test]
fn what_the_driver_does_is_counted() {
    let metrics = metrics();
    metrics.new_active.inc();
    metrics.commands.inc_by(2);
    metrics.errors.inc_by(3);
    metrics.silent_brokers.inc_by(4);
    metrics.queue_time.record(Duration::from_millis(5));
    metrics.processing_time.record(Duration::from_millis(6));

    let of = |name: &str| value(&metrics, &format!("kafka_controller_{name}"));
    assert_eq!(of("kafkacontroller_newactivecontrollerscount_total"), Some(1.0));
    assert_eq!(
        of("kafkacontroller_eventqueueoperationsstartedcount_total"),
        Some(2.0)
    );
    assert_eq!(of("kafkacontroller_metadataerrorcount_total"), Some(3.0));
    assert_eq!(
        of("kafkacontroller_timedoutbrokerheartbeatcount_total"),
        Some(4.0)
    );
    assert_eq!(of("controllereventmanager_eventqueuetimems_sum"), Some(5.0));
    assert_eq!(
        of("controllereventmanager_eventqueueprocessingtimems_sum"),
        Some(6.0)
    );
}

#[test]
fn a_controller_that_still_opens_its_log_is_not_ready() {
    let clock = Arc::new(SimClock::new(WallMs(1_000)));
    let watch = Watch::new(metrics(), clock, None);
    let why = "starting: the metadata log is being opened";
    assert_eq!(watch.ready(), Err(NotReady(why.into())));
}

/// It refused every new topic and was ready all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_whose_disk_has_no_room_is_not_ready_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (_leading, active) = watch::channel(Some(Term(1)));
    let (room, space) = watch::channel(Space::Enough);
    let desk = Arc::new(desk(dir.path(), active, space).await);
    let metrics = metrics();
    gauges(&metrics, &desk);
    let watch = Watch::new(metrics.clone(), Arc::new(SimClock::new(WallMs(1_000))), None);
    watch.works(&desk);
    let state = || value(&metrics, "millrace_controller_metadata_disk_state");
    let refused = |why: &str| Err(NotReady(format!("leader: the disk of the metadata log is {why}")));

    assert_eq!((watch.ready(), state()), (Ok(()), Some(0.0)));
    room.send_replace(Space::Scarce);
    let scarce = refused("almost full: no topic, partition or broker is added");
    assert_eq!((watch.ready(), state()), (scarce, Some(1.0)));
    room.send_replace(Space::Exhausted);
    assert_eq!(
        (watch.ready(), state()),
        (refused("full: nothing is decided"), Some(2.0))
    );
}
