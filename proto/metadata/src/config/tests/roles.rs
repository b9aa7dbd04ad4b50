//! Settings of the two roles beyond their listeners.

use std::path::PathBuf;
use std::time::Duration;

use super::{broker, controller};
use crate::config::{
    Actors, BrokerSettings, ControllerSettings, Key, Problem, Scope, State, Value, catalogue,
};

type Given<'a> = &'a [(&'a str, &'a str)];

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_broker_has_the_defaults_of_kafka() {
    let settings = BrokerSettings::from_config(&broker(&[]).unwrap()).unwrap();
    assert_eq!(settings.node_id.0, 7);
    assert_eq!(
        (settings.heartbeat_interval, settings.session_timeout),
        (ms(2000), ms(9000))
    );
    assert_eq!(settings.replica_lag_max, ms(30_000));
    assert_eq!(settings.limits.request_bytes_max, 104_857_600);
    assert_eq!(settings.limits.idle, Some(ms(600_000)));
    assert_eq!(settings.topics.partitions, 1);
    assert_eq!(settings.topics.replication_factor, 1);
    assert_eq!(settings.log_dirs, [PathBuf::from("/tmp/kafka-logs")]);
    assert_eq!(settings.listeners[0].bind.port, 9092);
}

#[test]
fn log_dirs_win_over_log_dir_and_the_metadata_has_its_own() {
    let node = broker(&[("log.dir", "/one"), ("log.dirs", "/two,/three")]).unwrap();
    let dirs = BrokerSettings::from_config(&node).unwrap().log_dirs;
    assert_eq!(dirs, [PathBuf::from("/two"), PathBuf::from("/three")]);

    let node = controller(&[("log.dirs", "/two")]).unwrap();
    assert_eq!(
        ControllerSettings::from_config(&node).unwrap().metadata_dir,
        PathBuf::from("/two")
    );
    let node = controller(&[("log.dirs", "/two"), ("metadata.log.dir", "/meta")]).unwrap();
    assert_eq!(
        ControllerSettings::from_config(&node).unwrap().metadata_dir,
        PathBuf::from("/meta")
    );
}

#[test]
fn a_negative_idle_time_is_never() {
    let node = broker(&[("connections.max.idle.ms", "-1")]).unwrap();
    assert_eq!(BrokerSettings::from_config(&node).unwrap().limits.idle, None);
}

#[test]
fn election_timeouts_are_ours_unless_they_are_given() {
    let cases: &[(Given<'_>, u64, u64)] = &[
        (&[], 150, 300),
        (&[("controller.quorum.election.timeout.ms", "1000")], 1000, 2000),
        (&[("controller.quorum.election.timeout.ms", "120")], 120, 300),
        (&[("controller.quorum.fetch.timeout.ms", "2000")], 150, 2000),
        (&[("controller.quorum.fetch.timeout.ms", "240")], 120, 240),
        (
            &[
                ("controller.quorum.election.timeout.ms", "400"),
                ("controller.quorum.fetch.timeout.ms", "900"),
            ],
            400,
            900,
        ),
    ];
    for (given, shortest, longest) in cases {
        let election = ControllerSettings::from_config(&controller(given).unwrap())
            .unwrap()
            .election;
        assert_eq!(
            (election.shortest, election.longest),
            (ms(*shortest), ms(*longest)),
            "{given:?}"
        );
    }
    let upside_down = [
        ("controller.quorum.election.timeout.ms", "900"),
        ("controller.quorum.fetch.timeout.ms", "900"),
    ];
    let errors = ControllerSettings::from_config(&controller(&upside_down).unwrap()).unwrap_err();
    assert_eq!(errors[0].problem, Problem::Conflict);
}

#[test]
fn zero_turns_off_what_repeats() {
    let node = controller(&[
        ("metadata.max.idle.interval.ms", "0"),
        ("metadata.log.max.snapshot.interval.ms", "0"),
    ])
    .unwrap();
    let settings = ControllerSettings::from_config(&node).unwrap();
    assert_eq!((settings.idle_interval, settings.snapshots.age_max), (None, None));
    let settings = ControllerSettings::from_config(&controller(&[]).unwrap()).unwrap();
    assert_eq!(settings.idle_interval, Some(ms(500)));
    assert_eq!(settings.disconnect_grace, ms(1000));
}

#[test]
fn a_file_for_the_other_program_is_refused() {
    let errors = ControllerSettings::from_config(&broker(&[]).unwrap()).unwrap_err();
    assert_eq!(errors.len(), 1, "nothing else in it can be right");
    assert_eq!(
        errors[0].to_string(),
        "process.roles=broker: conflict; controller, since this is millrace-controller"
    );
    let errors = BrokerSettings::from_config(&controller(&[]).unwrap()).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "process.roles=controller: conflict; broker, since this is millrace-broker"
    );
}

/// Other values that a key might be given.
fn others(key: &Key) -> Vec<String> {
    match key.default_value() {
        Value::Boolean(truth) => vec![(!truth).to_string()],
        value => match value.integer() {
            Some(number) => [number / 2, number.saturating_mul(2), number.saturating_add(1), 7]
                .map(|other| other.to_string())
                .to_vec(),
            None => vec![
                "other".to_owned(),
                "/other".to_owned(),
                "127.0.0.1:9464".to_owned(),
            ],
        },
    }
}

/// Whether one of the values changes what a node does.
fn changes<S: PartialEq>(key: &Key, read: impl Fn(Given<'_>) -> Option<S>) -> bool {
    let usual = read(&[]);
    assert!(usual.is_some(), "a node that is told nothing else starts");
    let values = others(key);
    let mut told = values
        .iter()
        .filter_map(|value| read(&[(key.name, value.as_str())]));
    told.any(|settings| Some(settings) != usual)
}

#[test]
fn the_role_of_a_key_names_every_node_that_acts_on_it() {
    let of_broker = |given: Given<'_>| BrokerSettings::from_config(&broker(given).ok()?).ok();
    let of_controller = |given: Given<'_>| ControllerSettings::from_config(&controller(given).ok()?).ok();
    let served = |key: &&Key| key.state == State::Served;
    let (mut brokers, mut controllers) = (0, 0);
    for key in catalogue().keys(Scope::Node).filter(served) {
        let actors = key.actors.unwrap_or_else(|| panic!("{}: no role", key.name));
        if changes(key, of_broker) {
            assert_ne!(actors, Actors::Controllers, "{}: a broker acts on it", key.name);
            brokers += 1;
        }
        if changes(key, of_controller) {
            assert_ne!(actors, Actors::Brokers, "{}: a controller acts on it", key.name);
            controllers += 1;
        }
    }
    assert!(20 < brokers, "{brokers} keys of brokers seen at work");
    assert!(12 < controllers, "{controllers} keys of controllers seen at work");
}

#[test]
fn what_nobody_acts_on_has_no_role() {
    let idle = |key: &&Key| key.state != State::Served;
    for key in catalogue().keys(Scope::Node).filter(idle) {
        assert_eq!(key.actors, None, "{}", key.name);
    }
}
