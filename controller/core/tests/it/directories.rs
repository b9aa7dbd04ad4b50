//! Where replicas lie on brokers with several log directories (R3.80, R3.82).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controller_core::command::{
    Assignment, Command, CreatePartitions, CreateTopics, MorePartitions, NewTopic, Reply,
};
use controller_core::departure::{self, Stop};
use metadata::ids::{BrokerId, DirectoryId, PartitionId};
use metadata::image::Image;
use metadata::record::{PartitionChanged, Record};
use metadata::uuid::Uuid;

use crate::world::{World, settings};

/// Directory `n` of broker `id`.
fn directory(id: i32, n: u128) -> DirectoryId {
    DirectoryId(Uuid(u128::try_from(id).unwrap() * 1000 + n))
}

fn three_of(id: i32) -> Vec<DirectoryId> {
    (1..=3).map(|n| directory(id, n)).collect()
}

/// Brokers 1 to 3 in service, with three directories each.
fn world() -> World {
    let mut world = World::new(settings(&[]));
    for id in 1..=3 {
        let mut command = world.registration(BrokerId(id));
        command.directories = three_of(id);
        world.register(command).unwrap();
        world.beat(world.heartbeat(BrokerId(id))).unwrap();
    }
    world
}

fn create(world: &mut World, topics: Vec<NewTopic>) {
    let command = Command::CreateTopics(CreateTopics {
        topics,
        validate_only: false,
        timeout_ms: 1000,
        entropy: 7,
    });
    let Ok(Reply::TopicsCreated(made)) = world.ask(command) else {
        panic!("topics are created");
    };
    assert!(made.iter().all(|topic| topic.result.is_ok()), "{made:?}");
}

/// A topic with so many partitions on all three brokers.
fn topic(name: &str, partitions: i32) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        partitions: Some(partitions),
        replication_factor: Some(3),
        ..NewTopic::default()
    }
}

fn on_broker_1(name: &str, partitions: i32) -> NewTopic {
    let alone = |partition| Assignment {
        partition,
        replicas: vec![BrokerId(1)],
    };
    NewTopic {
        name: name.to_owned(),
        assignments: (0..partitions).map(alone).collect(),
        ..NewTopic::default()
    }
}

/// How many replicas of a broker lie in each directory.
fn load(image: &Image, id: i32) -> BTreeMap<DirectoryId, usize> {
    let mut load = BTreeMap::new();
    for partition in image.topics.values().flat_map(|topic| topic.partitions.values()) {
        if let Some(place) = partition.replicas.iter().position(|it| *it == BrokerId(id)) {
            *load.entry(partition.directories[place]).or_default() += 1;
        }
    }
    load
}

fn each(id: i32, counts: [usize; 3]) -> BTreeMap<DirectoryId, usize> {
    three_of(id).into_iter().zip(counts).collect()
}

/// What lies in a directory of broker 1.
fn lying_in(image: &Image, wanted: DirectoryId) -> BTreeSet<PartitionId> {
    let on_1 = image.lookup().assigned_to(BrokerId(1));
    let lies_there = |id: &PartitionId| {
        let partition = image.partition(*id).unwrap();
        let place = partition
            .replicas
            .iter()
            .position(|it| *it == BrokerId(1))
            .unwrap();
        partition.directories[place] == wanted
    };
    on_1.filter(lies_there).collect()
}

fn changes(records: &[Record]) -> BTreeMap<PartitionId, &PartitionChanged> {
    let changes = records.iter().filter_map(|record| match record {
        Record::PartitionChanged(change) => Some((change.partition, change)),
        _ => None,
    });
    changes.collect()
}

#[test]
fn the_topics_of_one_request_are_spread_over_the_directories_together() {
    let mut world = world();
    create(&mut world, vec![topic("a", 1), topic("b", 1), topic("c", 4)]);
    for id in 1..=3 {
        assert_eq!(load(world.image(), id), each(id, [2, 2, 2]));
    }
}

#[test]
fn thousands_of_partitions_of_one_request_are_spread_evenly() {
    let mut world = world();
    create(&mut world, vec![topic("orders", 9_999)]);
    for id in 1..=3 {
        assert_eq!(load(world.image(), id), each(id, [3333, 3333, 3333]));
    }
}

#[test]
fn what_is_there_already_counts_and_of_equals_the_first_registered_is_taken() {
    let mut world = world();
    create(&mut world, vec![on_broker_1("by-hand", 4)]);
    assert_eq!(load(world.image(), 1), each(1, [2, 1, 1]));

    create(&mut world, vec![topic("orders", 2)]);
    assert_eq!(load(world.image(), 1), each(1, [2, 2, 2]));
    let first_two = each(2, [1, 1, 0]).into_iter().filter(|(_, count)| 0 < *count);
    assert_eq!(load(world.image(), 2), first_two.collect());

    let more = |name: &str, count, by_hand: Option<Vec<i32>>| MorePartitions {
        name: name.to_owned(),
        count,
        assignments: by_hand.map(|ids| vec![ids.into_iter().map(BrokerId).collect()]),
    };
    let command = Command::CreatePartitions(CreatePartitions {
        topics: vec![more("orders", 4, None), more("by-hand", 5, Some(vec![1]))],
        validate_only: false,
        timeout_ms: 1000,
        entropy: 7,
    });
    world.ask(command).unwrap();
    assert_eq!(load(world.image(), 1), each(1, [3, 3, 3]));
    assert_eq!(load(world.image(), 2), each(2, [2, 1, 1]));
}

#[test]
fn a_directory_that_fails_takes_along_what_lay_there_and_nothing_else() {
    let mut world = world();
    create(&mut world, vec![topic("orders", 12)]);
    let failed = directory(1, 2);
    let lost = lying_in(world.image(), failed);
    assert_eq!(lost.len(), 4);

    let image = world.image().clone();
    let records = departure::lose_directories(&image, &settings(&[]), BrokerId(1), &[failed]);

    let changes = changes(&records);
    assert_eq!(changes.keys().copied().collect::<BTreeSet<_>>(), lost);
    for (id, change) in changes {
        let in_sync = change.in_sync.as_ref().unwrap();
        assert!(!in_sync.contains(&BrokerId(1)), "{id}: {in_sync:?}");
        let led = image.partition(id).unwrap().leader == Some(BrokerId(1));
        assert_eq!(change.leader.is_some(), led, "{id}");
    }
}

#[test]
fn a_directory_in_the_place_of_another_takes_what_lay_there_and_it_is_not_trusted() {
    let mut world = world();
    create(&mut world, vec![topic("orders", 12)]);
    let image = world.image().clone();
    let (gone, new) = (directory(1, 2), directory(1, 9));
    let lost = lying_in(&image, gone);
    let directories = [directory(1, 1), new, directory(1, 3)];

    let records = departure::restart(&image, &settings(&[]), BrokerId(1), Stop::Clean, &directories);

    let moved: BTreeMap<_, _> = changes(&records)
        .into_iter()
        .filter(|(_, change)| change.directories.is_some())
        .collect();
    assert_eq!(moved.keys().copied().collect::<BTreeSet<_>>(), lost);
    for (id, change) in &moved {
        let place = image.partition(*id).unwrap();
        let place = place.replicas.iter().position(|it| *it == BrokerId(1)).unwrap();
        // The new one holds nothing yet, the others four each: it gets all four.
        assert_eq!(change.directories.as_ref().unwrap()[place], new, "{id}");
        assert!(!change.in_sync.as_ref().unwrap().contains(&BrokerId(1)), "{id}");
    }
}

#[test]
fn a_directory_that_is_gone_is_spread_over_the_others() {
    let mut world = world();
    create(&mut world, vec![topic("orders", 12)]);
    let mut command = world.registration(BrokerId(1));
    command.directories = vec![directory(1, 1), directory(1, 3)];
    world.close(BrokerId(1), controller_core::driver::event::StreamEnd::Goodbye);
    world.register(command).unwrap();
    let half = [(directory(1, 1), 6), (directory(1, 3), 6)];
    assert_eq!(load(world.image(), 1), BTreeMap::from(half));
}

/// Metadata that is older than the rule.
#[test]
fn a_replica_in_no_certain_directory_stays_so() {
    let mut world = world();
    create(&mut world, vec![on_broker_1("orders", 1)]);
    let mut image = world.image().clone();
    let id = image.lookup().assigned_to(BrokerId(1)).next().unwrap();
    let mut topic = (*image.topics[&id.topic]).clone();
    let mut partition = (*topic.partitions[&id.index]).clone();
    partition.directories = vec![DirectoryId::UNASSIGNED];
    topic.partitions.insert(id.index, Arc::new(partition));
    image.topics.insert(id.topic, Arc::new(topic));

    let records = departure::restart(
        &image,
        &settings(&[]),
        BrokerId(1),
        Stop::Clean,
        &[directory(1, 9)],
    );

    let changes = changes(&records);
    assert!(
        changes.values().all(|change| change.directories.is_none()),
        "{changes:?}"
    );
}
