//! Files, variables and `--set` laid over each other, and each kind of error.

use proptest::prelude::*;

use super::{broker, controller, pairs};
use crate::config::{
    BrokerSettings, NodeConfig, NodeId, Origin, Problem, Role, Scope, State, Value, ValueType, Warning,
    catalogue,
};

#[test]
fn the_command_line_wins_over_the_environment_and_both_over_the_file() {
    let file = "process.roles=broker\nnode.id=1\nnum.partitions=2\nbroker.rack=file\nfetch.max.bytes=2000\n";
    let env = pairs(&[
        ("MILLRACE_CONF_NUM_PARTITIONS", "3"),
        ("MILLRACE_CONF_BROKER_RACK", "env"),
        ("PATH", "/bin"),
    ]);
    let sets = pairs(&[("num.partitions", "4")]);

    let node = NodeConfig::resolve(Some(file), &env, &sets).unwrap();

    assert_eq!(node.integer("num.partitions"), 4);
    assert_eq!(node.origin("num.partitions"), Some(Origin::CommandLine));
    assert_eq!(node.text("broker.rack").as_deref(), Some("env"));
    assert_eq!(node.origin("broker.rack"), Some(Origin::Environment));
    assert_eq!(node.integer("fetch.max.bytes"), 2000);
    assert_eq!(node.origin("fetch.max.bytes"), Some(Origin::File));
    assert_eq!((node.role(), node.node_id()), (Role::Broker, NodeId(1)));
}

#[test]
fn of_a_key_given_twice_the_last_value_counts() {
    let node = broker(&[("num.partitions", "3"), ("num.partitions", "5")]).unwrap();
    assert_eq!(node.integer("num.partitions"), 5);
}

#[test]
fn an_error_is_one_line_with_key_value_and_what_is_allowed() {
    let cases = [
        (
            "num.partitions",
            "0",
            Problem::OutOfRange,
            "num.partitions=0: not allowed; a whole number of 1 or more",
        ),
        (
            "num.partitions",
            "many",
            Problem::WrongType,
            "num.partitions=many: wrong type; a whole number of 1 or more",
        ),
        (
            "compression.type",
            "lz5",
            Problem::OutOfRange,
            "compression.type=lz5: not allowed; one of uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "num.partition",
            "1",
            Problem::UnknownKey,
            "num.partition=1: unknown key; perhaps num.partitions is meant",
        ),
        (
            "zookeeper.connect",
            "a\nb",
            Problem::UnknownKey,
            "zookeeper.connect=a\\nb: unknown key; neither Kafka nor Millrace knows it; `millrace keys` lists the keys",
        ),
        (
            "authorizer.class.name",
            "org.Any",
            Problem::Protection,
            "authorizer.class.name=org.Any: refused; it promises something that Millrace does not give yet; \
             only empty is allowed",
        ),
        (
            "auto.create.topics.enable",
            "yes",
            Problem::WrongType,
            "auto.create.topics.enable=yes: wrong type; true or false",
        ),
        (
            "log.cleaner.min.cleanable.ratio",
            "1.01",
            Problem::OutOfRange,
            "log.cleaner.min.cleanable.ratio=1.01: not allowed; a number from 0.0 to 1.0",
        ),
    ];
    expect_lines(&cases);
}

#[test]
fn keys_that_are_at_odds_are_refused_by_the_one_to_mend() {
    let cases = [
        (
            "process.roles",
            "broker,controller",
            Problem::Conflict,
            "process.roles=broker,controller: conflict; one role: broker and controller are separate programs and \
             run as separate processes",
        ),
        (
            "process.roles",
            "conductor",
            Problem::OutOfRange,
            "process.roles=conductor: not allowed; broker or controller",
        ),
        (
            "broker.id",
            "8",
            Problem::Conflict,
            "broker.id=8: conflict; the same number as node.id, or nothing",
        ),
    ];
    expect_lines(&cases);
}

/// Each key with its value is one error of this kind and this line.
fn expect_lines(cases: &[(&str, &str, Problem, &str)]) {
    for &(key, value, problem, line) in cases {
        let errors = broker(&[(key, value)]).unwrap_err();
        assert_eq!(errors.len(), 1, "{key}={value}: {errors:?}");
        assert_eq!(errors[0].problem, problem, "{key}={value}");
        assert_eq!(errors[0].to_string(), line);
    }
}

#[test]
fn who_the_node_is_must_be_said() {
    let errors = NodeConfig::resolve(None, &[], &[]).unwrap_err();
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "process.roles: missing; broker or controller must be given",
            "node.id: missing; a whole number of 0 or more must be given",
        ]
    );
}

#[test]
fn a_wrong_node_id_is_not_also_missing() {
    let errors = NodeConfig::resolve(Some("process.roles=broker\nnode.id=-3\n"), &[], &[]).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].problem, Problem::OutOfRange);
}

#[test]
fn the_older_name_of_the_node_id_is_enough() {
    let node = NodeConfig::resolve(Some("process.roles=broker\nbroker.id=5\n"), &[], &[]).unwrap();
    assert_eq!(node.node_id(), NodeId(5));
}

#[test]
fn a_variable_that_names_no_key_is_an_error() {
    let env = pairs(&[("MILLRACE_CONF_NODE_IDD", "1")]);
    let errors = NodeConfig::resolve(Some("process.roles=broker\nnode.id=1\n"), &env, &[]).unwrap_err();
    assert_eq!(
        (errors[0].key.as_str(), errors[0].problem),
        ("MILLRACE_CONF_NODE_IDD", Problem::UnknownKey)
    );
}

#[test]
fn a_broken_escape_names_its_line() {
    let errors = NodeConfig::resolve(Some("process.roles=broker\nnode.id=\\u12\n"), &[], &[]).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "line 2: unreadable; \\u needs four hexadecimal digits"
    );
}

/// A value of the key's type that is not its default, and allowed.
fn another_value(key: &crate::config::Key) -> String {
    let candidates: &[&str] = match key.value_type {
        ValueType::Boolean => &["true", "false"],
        ValueType::Int | ValueType::Short | ValueType::Long => {
            &["1", "2", "3", "7", "300", "6000", "30001", "600001", "9000000"]
        }
        ValueType::Double => &["0.25"],
        ValueType::List => &["compact", "uniform", "classic", "mine"],
        _ => &[
            "mine",
            "SSL",
            "required",
            "RS256",
            "ES256",
            "UPGRADE",
            "zstd",
            "LogAppendTime",
        ],
    };
    let fits = |text: &&&str| key.read(text).is_ok_and(|value| value != key.default_value());
    let found = candidates
        .iter()
        .find(fits)
        .unwrap_or_else(|| panic!("no other value for {}", key.name));
    (*found).to_owned()
}

#[test]
fn every_key_without_effect_is_taken_with_one_warning() {
    for key in catalogue()
        .keys(Scope::Node)
        .filter(|key| key.state == State::WithoutEffect)
    {
        let node = broker(&[(key.name, &another_value(key))]).unwrap();
        assert_eq!(
            node.warnings(),
            [Warning {
                key: key.name.to_owned()
            }]
        );
        let line = format!("{} is known to Kafka but has no effect here", key.name);
        assert_eq!(node.warnings()[0].to_string(), line);
    }
}

#[test]
fn every_protection_is_refused_but_at_the_value_that_promises_nothing() {
    for key in catalogue()
        .keys(Scope::Node)
        .filter(|key| key.state == State::Protection)
    {
        let errors = broker(&[(key.name, &another_value(key))]).unwrap_err();
        assert_eq!(
            (errors.len(), errors[0].problem),
            (1, Problem::Protection),
            "{errors:?}"
        );
        if let Some(harmless) = key.harmless {
            let node = broker(&[(key.name, harmless)]).unwrap();
            assert_eq!(node.warnings(), [], "{}", key.name);
        }
    }
}

#[test]
fn no_secret_is_shown_in_an_error() {
    let errors = broker(&[
        ("ssl.keystore.password", "hunter2"),
        ("sasl.jaas.config", "hunter2"),
    ])
    .unwrap_err();
    let text: String = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 2);
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn keys_of_one_listener_are_warned_about_or_refused_like_the_key_itself() {
    let node = broker(&[("listener.name.plaintext.max.connections", "3")]).unwrap();
    assert_eq!(
        node.warnings(),
        [Warning {
            key: "listener.name.plaintext.max.connections".to_owned()
        }]
    );
    for protected in [
        "listener.name.x.ssl.keystore.location",
        "listener.name.x.scram-sha-256.sasl.jaas.config",
    ] {
        assert_eq!(
            broker(&[(protected, "v")]).unwrap_err()[0].problem,
            Problem::Protection
        );
    }
    assert_eq!(
        broker(&[("listener.name.x.nonsense", "v")]).unwrap_err()[0].problem,
        Problem::UnknownKey
    );
}

#[test]
fn numbers_truths_and_lists_are_read_as_kafka_reads_them() {
    let node = broker(&[
        ("num.partitions", " +7 "),
        ("auto.create.topics.enable", "FALSE"),
        ("log.cleanup.policy", "delete , compact,delete"),
    ])
    .unwrap();
    assert_eq!(node.integer("num.partitions"), 7);
    assert!(!node.truth("auto.create.topics.enable"));
    assert_eq!(node.list("log.cleanup.policy"), ["delete", "compact"]);
}

#[test]
fn a_typical_file_of_kafka_serves_a_broker() {
    let file = "\
        # The identity of this node\nprocess.roles=broker\nnode.id=4\ncontroller.quorum.voters=1@ctl-1:9093,2@ctl-2:9093\n\
        listeners=PLAINTEXT://:9092\ninter.broker.listener.name=PLAINTEXT\nadvertised.listeners=PLAINTEXT://kafka-4:9092\n\
        controller.listener.names=CONTROLLER\n\
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL\n\
        num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\nsocket.receive.buffer.bytes=102400\n\
        socket.request.max.bytes=104857600\nlog.dirs=/var/lib/kafka\nnum.partitions=1\nnum.recovery.threads.per.data.dir=1\n\
        offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\nlog.retention.hours=168\n\
        log.segment.bytes=1073741824\nlog.retention.check.interval.ms=300000\n";
    let node = NodeConfig::resolve(Some(file), &[], &[]).unwrap();
    let settings = BrokerSettings::from_config(&node).unwrap();
    assert_eq!(settings.controllers.len(), 2);
    assert_eq!(settings.listeners[0].bind.host, None);
}

#[test]
fn a_bare_node_has_every_default() {
    let node = NodeConfig::bare(Role::Controller, NodeId(3));
    assert_eq!(node.integer("broker.session.timeout.ms"), 9000);
    assert_eq!(node.value("log.retention.ms"), Value::Absent);
    assert_eq!(node.given().count(), 0);
}

#[test]
fn both_roles_start_from_the_least_that_must_be_said() {
    assert_eq!(broker(&[]).unwrap().warnings(), []);
    assert_eq!(controller(&[]).unwrap().warnings(), []);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>(), key in any::<String>(), value in any::<String>()) {
        let _ = NodeConfig::resolve(Some(&text), &[(format!("MILLRACE_CONF_{key}"), value.clone())], &[(key, value)]);
    }

    #[test]
    fn no_value_of_any_key_makes_the_settings_panic(
        index in any::<prop::sample::Index>(),
        value in "[-+0-9a-zA-Z.,:/@\\[\\]*_ ]{0,24}",
    ) {
        let keys: Vec<&str> = catalogue().keys(Scope::Node).map(|key| key.name).collect();
        let given = [(*index.get(&keys), value.as_str())];
        if let Ok(node) = broker(&given) {
            let _ = BrokerSettings::from_config(&node);
        }
        if let Ok(node) = controller(&given) {
            let _ = crate::config::ControllerSettings::from_config(&node);
        }
    }
}
