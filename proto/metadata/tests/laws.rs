//! Laws of the image over random histories: what is dumped comes back, batches may be cut anywhere, a delta leads
//! from one image to the other, and every state on the way is sound.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;

use metadata::batch::{MetadataBatch, Provenance};
use metadata::delta::{Delta, Touched};
use metadata::dump::dump;
use metadata::feature;
use metadata::ids::*;
use metadata::image::{Image, Partition};
use metadata::record::*;
use metadata::replay::{Application, Skip};
use metadata::uuid::Uuid;
use proptest::prelude::*;

/// One step of a history: small numbers that the present image turns into a record that fits.
#[derive(Clone, Copy, Debug)]
struct Choice {
    kind: u8,
    a: u8,
    b: u8,
    c: u8,
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let choice = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>());
    let choice = choice.prop_map(|(kind, a, b, c)| Choice { kind, a, b, c });
    proptest::collection::vec(choice, 1..120)
}

fn pick<T: Copy>(items: &[T], by: u8) -> Option<T> {
    items.get(usize::from(by).checked_rem(items.len())?).copied()
}

/// A record that fits the image.
fn record(image: &Image, choice: Choice) -> Record {
    let Choice { kind, a, b, c } = choice;
    let brokers: Vec<BrokerId> = image.brokers.keys().copied().collect();
    let topics: Vec<TopicId> = image.topics.keys().copied().collect();
    let made = match kind % 16 {
        0 | 1 => Some(registered(image, BrokerId(i32::from(a % 5)), b)),
        2 | 3 => pick(&brokers, a).map(|broker| standing(image, broker, b)),
        4 => pick(&brokers, a)
            .filter(|_| c.is_multiple_of(4))
            .map(|broker| Record::BrokerUnregistered {
                broker,
                epoch: image.brokers[&broker].epoch,
            }),
        5 => Some(topic_created(image, a)),
        6 => pick(&topics, a)
            .filter(|_| c.is_multiple_of(4))
            .map(|topic| Record::TopicDeleted { topic }),
        7 | 8 => pick(&topics, a).map(|topic| partition_created(image, topic, b, c)),
        9..=11 => pick(&topics, a).and_then(|topic| partition_changed(image, topic, b, c)),
        12 => Some(config_changed(image, &topics, a, b, c)),
        13 => Some(feature_level(a, b)),
        14 => Some(Record::ProducerIdsAllocated {
            broker: BrokerId(1),
            broker_epoch: BrokerEpoch(0),
            next: ProducerId(image.next_producer_id.0 + i64::from(a) + 1),
        }),
        _ => Some(Record::EligibleReplicasCleared {
            topic: pick(&topics, a).filter(|_| b.is_multiple_of(2)),
        }),
    };
    made.unwrap_or(Record::NoOp)
}

fn registered(image: &Image, broker: BrokerId, b: u8) -> Record {
    let held = image.brokers.get(&broker);
    let (epoch, incarnation) = match held {
        Some(held) if b.is_multiple_of(3) => (held.epoch, held.incarnation),
        _ => (
            BrokerEpoch(image.next_offset.0),
            IncarnationId(Uuid(u128::try_from(image.next_offset.0).unwrap() + 1)),
        ),
    };
    Record::BrokerRegistered(BrokerRegistered {
        broker,
        epoch,
        registered_at: held
            .filter(|held| held.epoch == epoch)
            .map(|held| held.registered_at),
        incarnation,
        endpoints: vec![],
        features: feature::served(),
        rack: b.is_multiple_of(2).then(|| "a".to_owned()),
        directories: vec![DirectoryId(Uuid(500 + u128::from(b)))],
        fenced: true,
        in_controlled_shutdown: false,
    })
}

fn standing(image: &Image, broker: BrokerId, b: u8) -> Record {
    let bit = |at: u8| b & (1 << at) != 0;
    Record::BrokerRegistrationChanged(BrokerRegistrationChanged {
        broker,
        epoch: image.brokers[&broker].epoch,
        fenced: bit(0).then_some(bit(1)),
        in_controlled_shutdown: bit(2).then_some(bit(3)),
        directories: bit(4).then(|| vec![DirectoryId(Uuid(900))]),
    })
}

fn topic_created(image: &Image, a: u8) -> Record {
    let name = format!("topic-{}", a % 6);
    if image.topic_names.contains_key(&name) {
        return Record::NoOp;
    }
    Record::TopicCreated {
        topic: TopicId(Uuid(
            u128::try_from(image.next_offset.0).unwrap() << 64 | u128::from(a),
        )),
        name,
    }
}

fn subset(of: &[BrokerId], bits: u8) -> Vec<BrokerId> {
    let chosen = of.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0);
    chosen.map(|(_, id)| *id).collect()
}

fn partition_created(image: &Image, topic: TopicId, b: u8, c: u8) -> Record {
    let all: Vec<BrokerId> = (0..5).map(BrokerId).collect();
    let replicas = subset(&all, b | 1);
    let in_sync = subset(&replicas, c);
    Record::PartitionCreated(PartitionCreated {
        partition: PartitionId {
            topic,
            index: PartitionIndex(i32::try_from(image.topics[&topic].partitions.len()).unwrap()),
        },
        state: Partition {
            directories: vec![DirectoryId::UNASSIGNED; replicas.len()],
            leader: in_sync.first().copied(),
            in_sync,
            replicas,
            eligible: vec![],
            last_known_leader: None,
            adding: vec![],
            removing: vec![],
            recovery: LeaderRecovery::Recovered,
            leader_epoch: LeaderEpoch(0),
            epoch: PartitionEpoch(0),
        },
    })
}

fn partition_changed(image: &Image, topic: TopicId, b: u8, c: u8) -> Option<Record> {
    let partitions = &image.topics[&topic].partitions;
    let indexes: Vec<PartitionIndex> = partitions.keys().copied().collect();
    let index = pick(&indexes, b)?;
    let held = &partitions[&index];
    let in_sync = subset(&held.replicas, c);
    let others: Vec<BrokerId> = held
        .replicas
        .iter()
        .copied()
        .filter(|id| !in_sync.contains(id))
        .collect();
    let leader = pick(&in_sync, b >> 4);
    Some(Record::PartitionChanged(PartitionChanged {
        leader: Some(leader.map_or(LeaderChange::Nobody, LeaderChange::To)),
        eligible: Some(subset(&others, b)),
        last_known_leader: leader.is_none().then_some(held.leader),
        in_sync: Some(in_sync),
        recovery: c.is_multiple_of(7).then_some(LeaderRecovery::Recovering),
        ..PartitionChanged::of(PartitionId { topic, index })
    }))
}

fn config_changed(image: &Image, topics: &[TopicId], a: u8, b: u8, c: u8) -> Record {
    let topic = pick(topics, a).map(|id| ConfigResource::Topic(image.topics[&id].name.clone()));
    let resource = match b % 5 {
        0 => ConfigResource::ClusterDefault,
        1 => ConfigResource::Broker(BrokerId(1)),
        2 => ConfigResource::Group("g".to_owned()),
        _ => topic.unwrap_or(ConfigResource::ClientMetrics("m".to_owned())),
    };
    Record::ConfigChanged {
        resource,
        key: format!("key-{}", c % 3),
        value: (!c.is_multiple_of(4)).then(|| c.to_string()),
    }
}

fn feature_level(a: u8, b: u8) -> Record {
    let (name, level) = match a % 2 {
        0 => (
            feature::METADATA_VERSION,
            feature::METADATA_VERSION_MIN + i16::from(b % 9),
        ),
        _ => (feature::ELIGIBLE_LEADER_REPLICAS, i16::from(b % 2)),
    };
    Record::FeatureLevelSet {
        name: name.to_owned(),
        level,
    }
}

/// A history, and the image after each record.
fn history(choices: &[Choice]) -> (Vec<Record>, Vec<Image>) {
    let mut image = Image::default();
    let mut records = Vec::new();
    let mut images = vec![image.clone()];
    for choice in choices {
        let record = record(&image, *choice);
        image.replay(&record).unwrap();
        records.push(record);
        images.push(image.clone());
    }
    (records, images)
}

fn batches(records: &[Record], cuts: &[u8], term: Term) -> Vec<MetadataBatch> {
    let mut batches = Vec::new();
    let mut rest = records;
    let mut base = 0;
    let mut cuts = cuts.iter().cycle();
    while !rest.is_empty() {
        let size = usize::from(*cuts.next().unwrap() % 9 + 1).min(rest.len());
        batches.push(MetadataBatch {
            decided_in_term: term,
            base_offset: MetadataOffset(base),
            provenance: Provenance::default(),
            records: rest[..size].to_vec(),
        });
        base += i64::try_from(size).unwrap();
        rest = &rest[size..];
    }
    batches
}

/// What must hold in every image.
fn sound(image: &Image) {
    let mut led = BTreeSet::new();
    let mut leaderless = BTreeSet::new();
    for (id, topic) in &image.topics {
        assert_eq!(
            image.topic_names.get(&topic.name),
            Some(id),
            "names lead to topics"
        );
        for (position, (index, partition)) in (0..).zip(&topic.partitions) {
            assert_eq!(index.0, position, "partitions are dense");
            let overlap = partition.in_sync.iter().any(|id| partition.eligible.contains(id));
            assert!(!overlap, "nobody is in sync and merely eligible");
            let leads = partition
                .leader
                .is_none_or(|leader| partition.in_sync.contains(&leader));
            assert!(leads, "the leader is in sync");
            let at = PartitionId {
                topic: *id,
                index: *index,
            };
            match partition.leader {
                Some(leader) => led.insert((leader, at)),
                None => leaderless.insert((BrokerId(0), at)),
            };
            for broker in (0..5).map(BrokerId) {
                let lookup = image.lookup();
                let holds = |list: &[BrokerId]| list.contains(&broker);
                assert_eq!(
                    lookup.in_sync_on(broker).any(|it| it == at),
                    holds(&partition.in_sync)
                );
                assert_eq!(
                    lookup.eligible_on(broker).any(|it| it == at),
                    holds(&partition.eligible)
                );
                assert_eq!(
                    lookup.assigned_to(broker).any(|it| it == at),
                    holds(&partition.replicas)
                );
            }
        }
    }
    assert_eq!(image.topic_names.len(), image.topics.len());
    let listed = (0..5)
        .map(BrokerId)
        .flat_map(|id| image.lookup().led_by(id).map(move |at| (id, at)));
    assert_eq!(listed.collect::<BTreeSet<_>>(), led, "leaders are listed");
    let listed: BTreeSet<_> = image.lookup().leaderless().map(|at| (BrokerId(0), at)).collect();
    assert_eq!(listed, leaderless, "what has no leader is listed");
    assert_eq!(image.lookup().leaderless_count(), leaderless.len());
}

proptest! {
    #[test]
    fn what_is_dumped_comes_back(choices in choices()) {
        let (_, images) = history(&choices);
        let image = images.last().unwrap();
        let again = Image::from_dump(image.dump_header(), dump(image)).unwrap();
        prop_assert_eq!(&again, image);
        prop_assert!(dump(&again).eq(dump(image)));
    }

    #[test]
    fn batches_may_be_cut_anywhere(choices in choices(), cuts in proptest::collection::vec(any::<u8>(), 1..8)) {
        let (records, images) = history(&choices);
        let mut image = Image::default();
        for batch in batches(&records, &cuts, Term(4)) {
            let decoded = MetadataBatch::decode(&batch.encode()).unwrap();
            prop_assert_eq!(image.apply(&decoded, Term(4)).unwrap(), Application::Applied);
        }
        let mut expected = images.last().unwrap().clone();
        expected.last_term = Term(4);
        prop_assert_eq!(image, expected);
    }

    #[test]
    fn a_delta_leads_from_one_image_to_the_other(choices in choices(), from in any::<u8>()) {
        let (_, images) = history(&choices);
        let before = &images[usize::from(from) % images.len()];
        let after = images.last().unwrap();
        let delta = Delta::between(before, after);
        let mut image = before.clone();
        delta.apply(&mut image);
        prop_assert_eq!(&image, after);
        prop_assert!(Delta::between(after, after).is_empty());
    }

    #[test]
    fn a_delta_gathered_while_applying_is_the_one_found_by_comparing(choices in choices()) {
        let (records, _) = history(&choices);
        let before = Image::default();
        let mut after = before.clone();
        let mut touched = Touched::default();
        for batch in batches(&records, &[7], Term(1)) {
            after.apply_gathering(&batch, Term(1), &mut touched).unwrap();
        }
        prop_assert_eq!(Delta::gathered(&touched, &before, &after), Delta::between(&before, &after));
    }

    #[test]
    fn every_state_on_the_way_is_sound(choices in choices()) {
        let (_, images) = history(&choices);
        images.iter().for_each(sound);
    }

    #[test]
    fn a_batch_that_does_not_follow_is_skipped_and_changes_nothing(
        choices in choices(),
        shift in prop_oneof![-3_i64..0, 1_i64..4],
    ) {
        let (_, images) = history(&choices);
        let before = images.last().unwrap();
        let mut batch = batches(&[Record::NoOp], &[1], Term(2)).remove(0);
        batch.base_offset = MetadataOffset(before.next_offset.0 + shift);
        let mut image = before.clone();
        let expected = Skip::OtherOffset { held: before.next_offset, given: batch.base_offset };
        prop_assert_eq!(image.apply(&batch, Term(2)).unwrap(), Application::Skipped(expected));
        batch.base_offset = before.next_offset;
        let expected = Skip::OtherTerm { entry: Term(3), decided: Term(2) };
        prop_assert_eq!(image.apply(&batch, Term(3)).unwrap(), Application::Skipped(expected));
        prop_assert_eq!(&image, before);
    }

    #[test]
    fn a_batch_with_a_contradiction_changes_nothing(choices in choices()) {
        let (_, images) = history(&choices);
        let before = images.last().unwrap();
        // No history draws this id.
        let unknown = Record::TopicDeleted { topic: TopicId(Uuid(u128::MAX)) };
        let mut batch = batches(&[Record::NoOp, unknown.clone()], &[8], Term(2)).remove(0);
        batch.base_offset = before.next_offset;
        let mut image = before.clone();
        let error = image.apply(&batch, Term(2)).unwrap_err();
        prop_assert_eq!(error.offset, before.next_offset.next());
        prop_assert_eq!(*error.record, unknown);
        prop_assert_eq!(&image, before);
    }
}
