//! Laws over random histories: brokers come and go, topics are made and deleted, the quorum refuses and changes.

use std::collections::BTreeSet;
use std::time::Duration;

use controller_core::command::{
    AlterPartition, Command, CreateTopics, DeleteTopics, InSyncMember, InSyncProposal, NewTopic, TopicRef,
};
use controller_core::decision::{View, decide};
use controller_core::driver::event::{Effect, StreamEnd};
use controller_core::time::Moment;
use metadata::ids::{BrokerId, DirectoryId, PartitionId};
use metadata::image::Image;
use metadata::record::{LeaderRecovery, Record};
use proptest::prelude::*;

use crate::world::{Quorum, World, settings};

#[derive(Clone, Copy, Debug)]
struct Choice {
    kind: u8,
    a: u8,
    b: u8,
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let choice = (any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(kind, a, b)| Choice { kind, a, b });
    proptest::collection::vec(choice, 1..80)
}

fn broker(a: u8) -> BrokerId {
    BrokerId(i32::from(a % 4) + 1)
}

/// A command that makes some sense now.
fn command(world: &mut World, choice: Choice) -> Option<Command> {
    let Choice { kind, a, b } = choice;
    let id = broker(a);
    Some(match kind % 12 {
        0 | 1 => {
            let mut command = world.registration(id);
            if b.is_multiple_of(2) {
                command.previous_epoch = world.processes.get(&id).map(|it| it.epoch);
            }
            // Another disk in the place of one, or of all; one more; one less.
            match b % 16 {
                1 | 2 => command.directories = vec![DirectoryId(world.fresh_id())],
                3 | 4 => command.directories.push(DirectoryId(world.fresh_id())),
                5 | 6 => command.directories[0] = DirectoryId(world.fresh_id()),
                7 | 8 if command.directories.len() > 1 => drop(command.directories.remove(0)),
                _ => {}
            }
            Command::RegisterBroker(command)
        }
        2..=6 => {
            world.processes.get(&id)?;
            let mut heartbeat = world.heartbeat(id);
            heartbeat.want_fence = b & 3 == 3;
            heartbeat.want_shutdown = b & 12 == 12;
            if b & 112 == 112 {
                heartbeat.offline_directories = world.processes[&id].directories.clone();
            }
            Command::Heartbeat(heartbeat)
        }
        7 => Command::CreateTopics(CreateTopics {
            topics: vec![NewTopic {
                name: format!("topic-{}", a % 4),
                partitions: Some(i32::from(b % 3) + 1),
                replication_factor: Some(i32::from(a % 3) + 1),
                configs: vec![
                    ("min.insync.replicas".to_owned(), Some((b % 3 + 1).to_string())),
                    (
                        "unclean.leader.election.enable".to_owned(),
                        Some((b > 200).to_string()),
                    ),
                ],
                ..NewTopic::default()
            }],
            validate_only: b == 0,
            timeout_ms: 1000,
            entropy: u128::from(a) << 8 | u128::from(b),
        }),
        8 => Command::DeleteTopics(DeleteTopics {
            topics: vec![TopicRef::Name(format!("topic-{}", a % 4))],
            timeout_ms: 1000,
        }),
        9 | 10 => alter(world, a, b)?,
        _ => Command::ElectPreferredLeaders,
    })
}

fn alter(world: &World, a: u8, b: u8) -> Option<Command> {
    let image = world.image();
    let partitions: Vec<(PartitionId, BrokerId)> = (1..5)
        .map(BrokerId)
        .flat_map(|id| image.lookup().led_by(id).map(move |at| (at, id)))
        .collect();
    let (id, leader) = *partitions.get(usize::from(a).checked_rem(partitions.len())?)?;
    let held = image.partition(id)?;
    let chosen = held
        .replicas
        .iter()
        .enumerate()
        .filter(|(at, _)| b & (1 << at) != 0);
    let mut in_sync: Vec<BrokerId> = chosen.map(|(_, id)| *id).collect();
    if !in_sync.contains(&leader) {
        in_sync.push(leader);
    }
    let member = |broker| InSyncMember {
        broker,
        epoch: world.processes.get(&broker).map(|it| it.epoch),
    };
    Some(Command::AlterPartition(AlterPartition {
        broker: leader,
        epoch: image.brokers.get(&leader)?.epoch,
        partitions: vec![InSyncProposal {
            partition: id,
            leader_epoch: held.leader_epoch,
            partition_epoch: held.epoch,
            in_sync: in_sync.into_iter().map(member).collect(),
            recovery: LeaderRecovery::Recovered,
        }],
    }))
}

/// Something that happens to the controller and not by a command.
fn disturb(world: &mut World, choice: Choice) {
    match choice.kind % 8 {
        0 => world.quorum = Quorum::Slow,
        1 => {
            world.quorum = Quorum::Prompt;
            world.commit_all();
        }
        2 if !world.proposed.is_empty() => world.refuse(),
        3 => {
            world.commit();
        }
        4 => {
            world.lose();
            world.lead();
        }
        5 => {
            let id = broker(choice.a);
            if world.processes.get(&id).is_some_and(|it| it.stream.is_some()) {
                let end = if choice.b.is_multiple_of(2) {
                    StreamEnd::Broken
                } else {
                    StreamEnd::Goodbye
                };
                world.close(id, end);
            }
        }
        _ => world.pass(Duration::from_millis(u64::from(choice.b) * 20)),
    }
}

/// Registrations go through the world, so that it knows the epochs; everything else is sent as it is.
fn act(world: &mut World, command: Command) {
    match command {
        Command::RegisterBroker(command) if world.quorum == Quorum::Prompt => {
            let id = command.broker;
            if world.register(command).is_ok() {
                world.processes.get_mut(&id).unwrap().beats = false;
            }
        }
        Command::RegisterBroker(_) => {}
        other => {
            world.send(other);
        }
    }
}

fn play(choices: &[Choice], mut check: impl FnMut(&mut World, &Command)) -> World {
    let mut world = World::new(settings(&[]));
    world.start(&[1, 2, 3]);
    for choice in choices {
        if choice.kind >= 200 {
            disturb(&mut world, *choice);
        } else if let Some(command) = command(&mut world, *choice) {
            check(&mut world, &command);
            act(&mut world, command);
        }
    }
    world.quorum = Quorum::Prompt;
    world.commit_all();
    world
}

/// What must hold in every published state, with eligible replicas on.
fn sound(image: &Image) {
    for topic in image.topics.values() {
        for partition in topic.partitions.values() {
            for id in &partition.in_sync {
                let fenced = image.brokers.get(id).is_none_or(|broker| broker.fenced);
                assert!(!fenced, "no fenced broker is in sync: {partition:?}");
            }
            if let Some(leader) = partition.leader {
                let shutting_down = image.brokers[&leader].in_controlled_shutdown;
                assert!(!shutting_down, "nobody leads while shutting down: {partition:?}");
            }
            let overlap = partition.in_sync.iter().any(|id| partition.eligible.contains(id));
            assert!(!overlap);
            assert!(
                partition
                    .eligible
                    .iter()
                    .all(|id| partition.replicas.contains(id))
            );
            // One whose directory failed may still be listed by a leader that does not know it yet.
            let could_lead = |id: &BrokerId| !image.brokers[id].directories.is_empty();
            let is_stuck = partition.leader.is_none() && partition.in_sync.iter().any(could_lead);
            assert!(!is_stuck, "what has somebody in sync has a leader: {partition:?}");
            let keeps = partition.last_known_leader.is_none() || partition.leader.is_none();
            assert!(keeps, "the last known leader is kept only while there is none");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_published_state_is_sound(choices in choices()) {
        let world = play(&choices, |_, _| {});
        world.images.iter().for_each(|image| sound(image));
        prop_assert!(world.driver.quarantine().is_none());
        let failed = |it: &Effect| matches!(it, Effect::DecisionFailed { .. });
        prop_assert!(!world.notices.iter().any(failed));
    }

    #[test]
    fn deciding_twice_on_one_state_gives_the_same_and_what_was_decided_replays(choices in choices()) {
        let settings = settings(&[]);
        play(&choices, |world, command| {
            let view = View {
                image: world.driver.committed(),
                liveness: world.driver.liveness(),
                settings: &settings,
                now: Moment(Duration::from_secs(2000)),
            };
            let first = decide(&view, command);
            assert_eq!(first, decide(&view, command));
            if let Ok(decision) = first {
                let mut after = world.image().clone();
                after.replay_all(&decision.records).unwrap();
                if decision.unity == controller_core::decision::Unity::Splittable {
                    let mut prefix = world.image().clone();
                    for record in &decision.records {
                        prefix.replay(record).unwrap();
                    }
                }
            }
        });
    }

    #[test]
    fn epochs_only_grow(choices in choices()) {
        let world = play(&choices, |_, _| {});
        for pair in world.images.windows(2) {
            let (before, after) = (&pair[0], &pair[1]);
            prop_assert!(before.next_offset <= after.next_offset);
            for (id, broker) in &before.brokers {
                prop_assert!(after.brokers[id].epoch >= broker.epoch);
            }
            for topic in before.topics.values() {
                for (index, was) in &topic.partitions {
                    let at = PartitionId { topic: topic.id, index: *index };
                    let Some(is) = after.partition(at) else { continue };
                    prop_assert!(is.leader_epoch >= was.leader_epoch && is.epoch >= was.epoch);
                    if is.leader != was.leader {
                        prop_assert!(is.leader_epoch > was.leader_epoch, "another leader has another epoch");
                    }
                    if is != was {
                        prop_assert!(is.epoch > was.epoch, "every change counts");
                    }
                }
            }
        }
    }

    #[test]
    fn after_a_registration_no_replica_is_where_its_broker_has_no_directory(choices in choices()) {
        let settings = settings(&[]);
        play(&choices, |world, command| {
            let Command::RegisterBroker(command) = command else { return };
            let view = View {
                image: world.driver.committed(),
                liveness: world.driver.liveness(),
                settings: &settings,
                now: Moment(Duration::from_secs(2000)),
            };
            let Ok(decision) = decide(&view, &Command::RegisterBroker(command.clone())) else { return };
            assert!(matches!(decision.records.last(), Some(Record::BrokerRegistered(_))), "registered last");
            let mut after = world.image().clone();
            after.replay_all(&decision.records).unwrap();
            let registered = &after.brokers[&command.broker].directories;
            for id in after.lookup().assigned_to(command.broker) {
                let (was, is) = (world.image().partition(id).unwrap(), after.partition(id).unwrap());
                let at = is.replicas.iter().position(|it| *it == command.broker).unwrap();
                let place = is.directories[at];
                assert!(place.is_reserved() || registered.contains(&place), "{is:?}");
                if place != was.directories[at] {
                    assert!(!is.in_sync.contains(&command.broker) && !is.eligible.contains(&command.broker));
                    assert_eq!(is.epoch, was.epoch.next(), "one change a partition");
                }
            }
        });
    }

    #[test]
    fn every_command_has_exactly_one_answer_once_all_is_settled(choices in choices()) {
        let mut world = play(&choices, |_, _| {});
        world.lose();
        let answered: BTreeSet<u64> = world.replies.keys().map(|id| id.0).collect();
        prop_assert_eq!(answered.len(), usize::try_from(world.commands_sent()).unwrap());
    }

    #[test]
    fn a_leader_is_never_elected_cleanly_without_the_committed_data(choices in choices()) {
        let world = play(&choices, |_, _| {});
        for pair in world.images.windows(2) {
            for topic in pair[0].topics.values() {
                for (index, was) in &topic.partitions {
                    let at = PartitionId { topic: topic.id, index: *index };
                    let Some(is) = pair[1].partition(at) else { continue };
                    let Some(leader) = is.leader else { continue };
                    let trusted = was.in_sync.contains(&leader) || was.eligible.contains(&leader);
                    prop_assert!(trusted || is.recovery == LeaderRecovery::Recovering, "{:?} -> {:?}", was, is);
                }
            }
        }
    }
}
