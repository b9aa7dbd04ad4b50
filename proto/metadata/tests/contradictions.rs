//! Records that cannot follow from the state before them, each refused with what it contradicts.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use metadata::ids::*;
use metadata::image::{Image, Partition};
use metadata::record::*;
use metadata::replay::Contradiction;
use metadata::uuid::Uuid;

const TOPIC: TopicId = TopicId(Uuid(7));

fn partition(index: i32) -> PartitionId {
    PartitionId {
        topic: TOPIC,
        index: PartitionIndex(index),
    }
}

fn state() -> Partition {
    Partition {
        replicas: vec![BrokerId(1), BrokerId(2)],
        directories: vec![DirectoryId::UNASSIGNED; 2],
        in_sync: vec![BrokerId(1)],
        eligible: vec![BrokerId(2)],
        last_known_leader: None,
        adding: vec![],
        removing: vec![],
        leader: Some(BrokerId(1)),
        recovery: LeaderRecovery::Recovered,
        leader_epoch: LeaderEpoch(5),
        epoch: PartitionEpoch(10),
    }
}

fn registered(epoch: i64, incarnation: u128) -> Record {
    Record::BrokerRegistered(BrokerRegistered {
        broker: BrokerId(1),
        epoch: BrokerEpoch(epoch),
        registered_at: None,
        incarnation: IncarnationId(Uuid(incarnation)),
        endpoints: vec![],
        features: vec![],
        rack: None,
        directories: vec![],
        fenced: true,
        in_controlled_shutdown: false,
    })
}

/// Broker 1 and one topic with one partition; the next offset is 5.
fn image() -> Image {
    let mut image = Image::default();
    let records = [
        Record::NoOp,
        registered(1, 11),
        Record::TopicCreated {
            topic: TOPIC,
            name: "orders".to_owned(),
        },
        Record::PartitionCreated(PartitionCreated {
            partition: partition(0),
            state: state(),
        }),
        Record::ProducerIdsAllocated {
            broker: BrokerId(1),
            broker_epoch: BrokerEpoch(1),
            next: ProducerId(1000),
        },
    ];
    image.replay_all(&records).unwrap();
    image
}

fn contradiction(record: Record) -> Contradiction {
    let mut image = image();
    let before = image.clone();
    let error = image.replay(&record).unwrap_err();
    assert_eq!(image, before, "the image stays as it was");
    assert_eq!(error.offset, MetadataOffset(5));
    error.contradiction
}

#[test]
fn a_registration_keeps_or_raises_its_epoch_and_never_runs_ahead() {
    let out_of_order = |given: i64| Contradiction::BrokerEpochOutOfOrder {
        broker: BrokerId(1),
        held: Some(BrokerEpoch(1)),
        given: BrokerEpoch(given),
    };
    assert_eq!(
        contradiction(registered(1, 12)),
        out_of_order(1),
        "a new incarnation"
    );
    assert_eq!(
        contradiction(registered(2, 11)),
        out_of_order(2),
        "the same incarnation"
    );
    assert_eq!(
        contradiction(registered(6, 12)),
        out_of_order(6),
        "past its own offset"
    );
    image().replay(&registered(1, 11)).unwrap();
    image().replay(&registered(5, 12)).unwrap();
}

#[test]
fn a_change_of_a_registration_names_the_incarnation() {
    let change = |broker, epoch| {
        Record::BrokerRegistrationChanged(BrokerRegistrationChanged {
            broker: BrokerId(broker),
            epoch: BrokerEpoch(epoch),
            fenced: Some(false),
            in_controlled_shutdown: None,
            directories: None,
        })
    };
    assert_eq!(
        contradiction(change(2, 1)),
        Contradiction::UnknownBroker(BrokerId(2))
    );
    let other = Contradiction::OtherBrokerEpoch {
        broker: BrokerId(1),
        held: BrokerEpoch(1),
        given: BrokerEpoch(3),
    };
    assert_eq!(contradiction(change(1, 3)), other);
}

#[test]
fn names_and_ids_of_topics_are_taken_once() {
    let created = |topic, name: &str| Record::TopicCreated {
        topic,
        name: name.to_owned(),
    };
    let taken = |name: &str| Contradiction::TopicExists(name.to_owned());
    assert_eq!(contradiction(created(TOPIC, "other")), taken("other"));
    assert_eq!(
        contradiction(created(TopicId(Uuid(8)), "orders")),
        taken("orders")
    );
}

#[test]
fn partitions_are_dense_and_known() {
    let created = |index| {
        Record::PartitionCreated(PartitionCreated {
            partition: partition(index),
            state: state(),
        })
    };
    let out_of_order = |given| Contradiction::PartitionOutOfOrder {
        expected: PartitionIndex(1),
        given: PartitionIndex(given),
    };
    assert_eq!(contradiction(created(0)), out_of_order(0));
    assert_eq!(contradiction(created(2)), out_of_order(2));
    let changed = Record::PartitionChanged(PartitionChanged::of(partition(4)));
    assert_eq!(
        contradiction(changed),
        Contradiction::UnknownPartition(partition(4))
    );
}

#[test]
fn a_partition_that_breaks_a_law_is_refused() {
    let law = |change: PartitionChanged| match contradiction(Record::PartitionChanged(change)) {
        Contradiction::UnlawfulPartition { law, .. } => law,
        other => panic!("{other}"),
    };
    let of = || PartitionChanged::of(partition(0));
    let ids = |ids: &[i32]| Some(ids.iter().map(|id| BrokerId(*id)).collect::<Vec<_>>());
    let to = |id| Some(LeaderChange::To(BrokerId(id)));
    assert_eq!(
        law(PartitionChanged {
            leader: to(2),
            ..of()
        }),
        "the leader is in sync"
    );
    assert_eq!(
        law(PartitionChanged {
            in_sync: ids(&[1, 2]),
            ..of()
        }),
        "no replica is in sync and merely eligible"
    );
    assert_eq!(
        law(PartitionChanged {
            in_sync: ids(&[1, 3]),
            ..of()
        }),
        "in-sync replicas are replicas"
    );
    assert_eq!(
        law(PartitionChanged {
            replicas: ids(&[1, 2, 3]),
            ..of()
        }),
        "there is one directory per replica"
    );
    assert_eq!(
        law(PartitionChanged {
            replicas: ids(&[1, 1]),
            ..of()
        }),
        "replicas are distinct"
    );
}

#[test]
fn leaders_count_up_and_so_do_changes() {
    let mut image = image();
    let change = |leader| {
        Record::PartitionChanged(PartitionChanged {
            leader,
            ..PartitionChanged::of(partition(0))
        })
    };
    let epochs = |image: &Image| {
        let held = image.partition(partition(0)).unwrap();
        (held.leader_epoch.0, held.epoch.0)
    };
    image.replay(&change(None)).unwrap();
    assert_eq!(epochs(&image), (5, 11), "a change without a leader");
    image
        .replay(&change(Some(LeaderChange::To(BrokerId(1)))))
        .unwrap();
    assert_eq!(epochs(&image), (6, 12), "the same leader again");
    image.replay(&change(Some(LeaderChange::Nobody))).unwrap();
    assert_eq!(epochs(&image), (7, 13), "nobody");
}

#[test]
fn producer_ids_never_go_back() {
    let allocated = |next| Record::ProducerIdsAllocated {
        broker: BrokerId(1),
        broker_epoch: BrokerEpoch(1),
        next: ProducerId(next),
    };
    let out_of_order = |given| Contradiction::ProducerIdsOutOfOrder {
        held: ProducerId(1000),
        given: ProducerId(given),
    };
    assert_eq!(contradiction(allocated(1000)), out_of_order(1000));
    assert_eq!(contradiction(allocated(5)), out_of_order(5));
}

#[test]
fn a_level_that_this_build_cannot_run_stops_replay() {
    let unsupported = |name: &str, level| Contradiction::UnsupportedFeature {
        name: name.to_owned(),
        level,
    };
    let set = |name: &str, level| Record::FeatureLevelSet {
        name: name.to_owned(),
        level,
    };
    assert_eq!(
        contradiction(set("metadata.version", 34)),
        unsupported("metadata.version", 34)
    );
    assert_eq!(
        contradiction(set("flying.version", 1)),
        unsupported("flying.version", 1)
    );
}

#[test]
fn configuration_of_a_topic_goes_with_it() {
    let mut image = image();
    let resource = ConfigResource::Topic("orders".to_owned());
    let set = Record::ConfigChanged {
        resource: resource.clone(),
        key: "retention.ms".to_owned(),
        value: Some("1".to_owned()),
    };
    image.replay(&set).unwrap();
    assert_eq!(image.config(&resource, "retention.ms"), Some("1"));
    image.replay(&Record::TopicDeleted { topic: TOPIC }).unwrap();
    assert_eq!(image.config(&resource, "retention.ms"), None);
    let error = image.replay(&set).unwrap_err();
    assert_eq!(
        error.contradiction,
        Contradiction::UnknownTopicName("orders".to_owned())
    );
}

#[test]
fn clearing_eligible_replicas_counts_as_a_change_where_there_were_any() {
    let mut image = image();
    image
        .replay(&Record::EligibleReplicasCleared { topic: None })
        .unwrap();
    image
        .replay(&Record::EligibleReplicasCleared { topic: Some(TOPIC) })
        .unwrap();
    let held = image.partition(partition(0)).unwrap();
    assert!(held.eligible.is_empty());
    assert_eq!(held.epoch, PartitionEpoch(11), "once only");
    assert_eq!(held.leader_epoch, LeaderEpoch(5));
}

/// A minimum that was altered while the only broker with the data was stopped in order left its partition without anybody
/// who could lead it, for good.
#[test]
fn a_partition_without_in_sync_replicas_keeps_those_who_may_lead_it() {
    let mut image = image();
    let mut left = PartitionChanged::of(partition(0));
    left.in_sync = Some(vec![]);
    left.leader = Some(LeaderChange::Nobody);
    left.eligible = Some(vec![BrokerId(1), BrokerId(2)]);
    left.last_known_leader = Some(Some(BrokerId(1)));
    image.replay(&Record::PartitionChanged(left)).unwrap();
    let before = image.partition(partition(0)).unwrap().clone();

    image
        .replay(&Record::EligibleReplicasCleared { topic: None })
        .unwrap();

    assert_eq!(image.partition(partition(0)).unwrap(), &before);
}
