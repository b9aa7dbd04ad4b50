//! Rows of R1.1 that need features, and the epochs of R1.3 to R1.5.

use controller_core::driver::event::StreamEnd;
use controller_core::refusal::Refusal;
use metadata::feature::{self, ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION};
use metadata::ids::{BrokerEpoch, BrokerId, IncarnationId};
use metadata::record::LevelRange;
use metadata::uuid::Uuid;

use crate::world::{World, settings};

fn refused(features: Vec<(String, LevelRange)>) -> Refusal {
    let mut world = World::new(settings(&[]));
    let mut command = world.registration(BrokerId(1));
    command.features = features;
    world.register(command).unwrap_err()
}

fn with(name: &str, min: i16, max: i16) -> Vec<(String, LevelRange)> {
    let mut features = feature::served();
    features.retain(|(served, _)| served != name);
    features.push((name.to_owned(), LevelRange { min, max }));
    features
}

#[test]
fn a_broker_that_cannot_run_a_finalised_level_is_refused() {
    let refusal = refused(with(METADATA_VERSION, 25, 32));
    assert!(
        matches!(refusal, Refusal::UnsupportedVersion { level: 33, .. }),
        "{refusal}"
    );
    let refusal = refused(with(ELIGIBLE_LEADER_REPLICAS, 0, 0));
    assert!(
        matches!(refusal, Refusal::UnsupportedVersion { level: 1, .. }),
        "{refusal}"
    );
    let refusal = refused(with("group.version", 1, 1));
    assert!(
        matches!(refusal, Refusal::UnsupportedVersion { level: 0, .. }),
        "{refusal}"
    );
}

#[test]
fn a_broker_that_does_not_list_what_it_must_is_refused() {
    let mut features = feature::served();
    features.retain(|(name, _)| name != METADATA_VERSION);
    assert!(matches!(refused(features), Refusal::InvalidRegistration { .. }));
    let mut features = feature::served();
    features.retain(|(name, _)| name != ELIGIBLE_LEADER_REPLICAS);
    assert!(matches!(refused(features), Refusal::UnsupportedVersion { .. }));
}

#[test]
fn a_feature_that_is_off_may_be_offered() {
    let mut world = World::new(settings(&[]));
    let mut command = world.registration(BrokerId(1));
    command.features = with("group.version", 0, 1);
    world.register(command).unwrap();
}

#[test]
fn an_epoch_is_the_offset_of_the_decision_and_grows_with_every_process() {
    let mut world = World::new(settings(&[]));
    let expected = BrokerEpoch(world.image().next_offset.0);
    let command = world.registration(BrokerId(1));
    let first = world.register(command).unwrap();
    assert_eq!(first, expected);
    assert_eq!(world.image().brokers[&BrokerId(1)].registered_at.0, first.0);
    world.beat(world.heartbeat(BrokerId(1))).unwrap();
    world.close(BrokerId(1), StreamEnd::Goodbye);
    let command = world.registration(BrokerId(1));
    let second = world.register(command).unwrap();
    assert!(second > first);
}

#[test]
fn the_same_process_keeps_its_epoch_and_its_standing() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    let process = world.processes[&BrokerId(1)].clone();
    let mut command = world.registration(BrokerId(1));
    command.incarnation = process.incarnation;
    command.rack = Some("b".to_owned());
    let before = world.image().brokers[&BrokerId(1)].clone();
    assert_eq!(world.register(command).unwrap(), process.epoch);
    let after = &world.image().brokers[&BrokerId(1)];
    assert_eq!(after.rack.as_deref(), Some("b"));
    assert!(!after.fenced);
    assert_eq!(after.registered_at, before.registered_at);
}

#[test]
fn a_process_that_registered_and_was_not_heard_since_can_be_replaced() {
    let mut world = World::new(settings(&[]));
    let command = world.registration(BrokerId(1));
    world.register(command).unwrap();
    let command = world.registration(BrokerId(1));
    world.register(command).unwrap();
}

#[test]
fn a_fenced_live_process_keeps_its_id() {
    let mut world = World::new(settings(&[]));
    world.start(&[1]);
    let mut heartbeat = world.heartbeat(BrokerId(1));
    heartbeat.want_fence = true;
    world.beat(heartbeat.clone()).unwrap();
    world.beat(heartbeat).unwrap();
    let mut command = world.registration(BrokerId(1));
    command.incarnation = IncarnationId(Uuid(77));
    let refusal = world.register(command).unwrap_err();
    assert!(
        matches!(refusal, Refusal::DuplicateBrokerRegistration { .. }),
        "{refusal}"
    );
}
