//! Listeners and voters: what is refused, and which key the line names (BC-055).

use super::{broker, controller};
use crate::config::{BrokerSettings, ConfigError, ControllerSettings, Problem};

fn refused_broker(extra: &[(&str, &str)]) -> Vec<ConfigError> {
    let node = broker(extra).unwrap();
    BrokerSettings::from_config(&node).unwrap_err()
}

fn refused_controller(extra: &[(&str, &str)]) -> Vec<ConfigError> {
    let node = controller(extra).unwrap();
    ControllerSettings::from_config(&node).unwrap_err()
}

fn only(errors: &[ConfigError]) -> (&str, Problem) {
    assert_eq!(errors.len(), 1, "{errors:?}");
    (errors[0].key.as_str(), errors[0].problem)
}

#[test]
fn a_broker_has_its_listeners_with_what_they_tell_others() {
    let node = broker(&[
        (
            "listeners",
            "PLAINTEXT://127.0.0.1:9092,inside://[::1]:0,SECRET://:9094",
        ),
        (
            "advertised.listeners",
            "PLAINTEXT://broker.example:19092,INSIDE://:0",
        ),
        (
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,SECRET:PLAINTEXT,OUTSIDE:SSL",
        ),
        ("inter.broker.listener.name", "inside"),
    ])
    .unwrap();

    let settings = BrokerSettings::from_config(&node).unwrap();

    assert_eq!(settings.inter_broker_listener, "INSIDE");
    let [plain, inside, secret] = &settings.listeners[..] else {
        panic!("{:?}", settings.listeners)
    };
    let told = plain.advertised.as_ref().unwrap();
    assert_eq!(
        (told.host.as_deref(), told.port),
        (Some("broker.example"), Some(19092))
    );
    assert_eq!((inside.bind.host.as_deref(), inside.bind.port), (Some("::1"), 0));
    let told = inside.advertised.as_ref().unwrap();
    assert_eq!((told.host.as_deref(), told.port), (None, None));
    assert_eq!(
        (secret.bind.host.as_deref(), secret.advertised.as_ref()),
        (None, None)
    );
}

#[test]
fn what_nobody_can_dial_is_never_told() {
    for given in [
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092"),
        ("listeners", "PLAINTEXT://0.0.0.0:9092"),
        ("listeners", "PLAINTEXT://[::]:9092"),
    ] {
        assert_eq!(
            only(&refused_broker(&[given])),
            ("advertised.listeners", Problem::Conflict),
            "{given:?}"
        );
    }
}

#[test]
fn broken_listeners_are_refused_by_their_key() {
    let cases = [
        ("listeners", "127.0.0.1:9092", Problem::WrongType),
        ("listeners", "PLAINTEXT://127.0.0.1", Problem::WrongType),
        ("listeners", "PLAINTEXT://127.0.0.1:99999", Problem::WrongType),
        ("listeners", "PLAINTEXT://::1:9092", Problem::WrongType),
        ("listeners", "://x:9092", Problem::WrongType),
        (
            "listeners",
            "PLAINTEXT://:9092,PLAINTEXT://:9093",
            Problem::Conflict,
        ),
        (
            "listeners",
            "PLAINTEXT://:9092,plaintext://:9093",
            Problem::Conflict,
        ),
        (
            "listeners",
            "SASL_SSL://:9093,PLAINTEXT://:9092",
            Problem::Protection,
        ),
        ("listeners", "OTHER://:9093,PLAINTEXT://:9092", Problem::Conflict),
        (
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,X:TLS",
            Problem::OutOfRange,
        ),
        (
            "advertised.listeners",
            "PLAINTEXT://a:1,OTHER://b:2",
            Problem::Conflict,
        ),
        ("inter.broker.listener.name", "OTHER", Problem::Conflict),
        ("controller.listener.names", "PLAINTEXT", Problem::Conflict),
        ("controller.quorum.voters", "127.0.0.1:19091", Problem::WrongType),
        ("controller.quorum.voters", "1@127.0.0.1", Problem::WrongType),
        ("controller.quorum.voters", "1@127.0.0.1:0", Problem::WrongType),
        ("controller.quorum.voters", "-1@127.0.0.1:5", Problem::WrongType),
        ("controller.quorum.voters", "1@0.0.0.0:5", Problem::Conflict),
        ("controller.quorum.voters", "1@a:5,1@b:5", Problem::Conflict),
        ("controller.quorum.voters", "1@a:5,2@a:5", Problem::Conflict),
        ("controller.quorum.voters", "7@a:5", Problem::Conflict),
        ("cluster.id", "a b", Problem::OutOfRange),
        ("broker.heartbeat.interval.ms", "9000", Problem::Conflict),
        ("replica.fetch.wait.max.ms", "0", Problem::OutOfRange),
        ("replica.socket.timeout.ms", "400", Problem::Conflict),
        ("default.replication.factor", "0", Problem::OutOfRange),
        ("default.replication.factor", "40000", Problem::OutOfRange),
    ];
    for (key, value, problem) in cases {
        assert_eq!(
            only(&refused_broker(&[(key, value)])),
            (key, problem),
            "{key}={value}"
        );
    }
}

#[test]
fn one_port_serves_two_listeners_only_as_two_families_of_addresses() {
    let map = (
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT",
    );
    let clash = ("listeners", "PLAINTEXT://127.0.0.1:9092,SIX://127.0.0.2:9092");
    assert_eq!(
        only(&refused_broker(&[map, clash])),
        ("listeners", Problem::Conflict)
    );
    let pair = ("listeners", "PLAINTEXT://127.0.0.1:9092,SIX://[::1]:9092");
    BrokerSettings::from_config(&broker(&[map, pair]).unwrap()).unwrap();
}

#[test]
fn the_inter_broker_listener_is_named_once() {
    let both = [
        ("inter.broker.listener.name", "PLAINTEXT"),
        ("security.inter.broker.protocol", "PLAINTEXT"),
    ];
    assert_eq!(
        only(&refused_broker(&both)),
        ("inter.broker.listener.name", Problem::Conflict)
    );
}

#[test]
fn a_broker_finds_the_controllers_by_voters_or_by_bootstrap_servers() {
    let node = broker(&[
        ("controller.quorum.voters", ""),
        ("controller.quorum.bootstrap.servers", "a:1, [::1]:2"),
    ])
    .unwrap();
    let found = BrokerSettings::from_config(&node).unwrap().controllers;
    let seen: Vec<_> = found
        .iter()
        .map(|at| (at.id, at.host.as_str(), at.port))
        .collect();
    assert_eq!(seen, [(None, "a", 1), (None, "::1", 2)]);

    let neither = refused_broker(&[("controller.quorum.voters", "")]);
    assert_eq!(only(&neither), ("controller.quorum.voters", Problem::Missing));
}

#[test]
fn a_controller_is_among_its_voters_and_has_only_its_own_listeners() {
    let cases = [
        ("controller.quorum.voters", "2@127.0.0.1:19092", Problem::Conflict),
        ("controller.quorum.voters", "", Problem::Missing),
        ("listeners", "PLAINTEXT://127.0.0.1:9092", Problem::Conflict),
        ("controller.listener.names", "OTHER", Problem::Conflict),
        ("controller.quorum.election.timeout.ms", "20", Problem::OutOfRange),
    ];
    for (key, value, problem) in cases {
        let errors = refused_controller(&[(key, value)]);
        assert_eq!(errors[0].problem, problem, "{key}={value}: {errors:?}");
    }
    let settings = ControllerSettings::from_config(&controller(&[]).unwrap()).unwrap();
    assert_eq!(
        settings.voters.iter().map(|voter| voter.id.0).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(settings.listeners[0].name, "CONTROLLER");
}
