//! The catalogue against the facts: every default is read, allowed, and written back as it stands.

use std::collections::BTreeSet;

use crate::config::{Scope, State, Update, Value, ValueType, catalogue, environment_name, overview};

const FACTS: &str = include_str!("../kafka.tsv");

/// The rows of the table, split again by hand, so that a mistake of the reader shows.
fn facts() -> Vec<Vec<&'static str>> {
    let rows = FACTS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("scope"));
    rows.map(|line| line.split('\t').collect()).collect()
}

/// Defaults of ours where Kafka's would break a promise.
const OURS: [(&str, &str); 2] = [
    ("controller.quorum.election.timeout.ms", "150"),
    ("controller.quorum.fetch.timeout.ms", "300"),
];

#[test]
fn every_default_is_that_of_the_facts() {
    let mut differing = Vec::new();
    for row in facts() {
        let scope = if row[0] == "broker" {
            Scope::Node
        } else {
            Scope::Topic
        };
        let key = catalogue().find(scope, row[1]).unwrap();
        let held = match &key.default {
            None => "required".to_owned(),
            Some(Value::Absent) => "null".to_owned(),
            Some(value) => value
                .text()
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| "\"\"".to_owned()),
        };
        let ours = OURS.iter().find(|(name, _)| *name == row[1]);
        if held != ours.map_or(row[3], |(_, default)| default) {
            differing.push(format!("{} {}: {held}, not {}", row[0], row[1], row[3]));
        }
    }
    assert_eq!(differing, Vec::<String>::new());
}

#[test]
fn every_key_of_the_facts_is_known_and_none_is_lost() {
    let rows = facts();
    assert_eq!(
        rows.len(),
        420,
        "the facts of Kafka 4.4: 382 keys of a node, 38 of a topic"
    );
    let of_millrace = [
        "allow.everyone.if.no.acl.found",
        "broker.session.disconnect.grace.ms",
        "cluster.id",
        "metrics.listener",
        "super.users",
    ];
    let known = catalogue().keys(Scope::Node).count() + catalogue().keys(Scope::Topic).count();
    assert_eq!(known, rows.len() + of_millrace.len());
}

#[test]
fn every_default_but_of_the_voters_is_allowed_by_its_own_rule() {
    let allowed_empty = ["controller.quorum.voters", "controller.quorum.bootstrap.servers"];
    for scope in [Scope::Node, Scope::Topic] {
        for key in catalogue()
            .keys(scope)
            .filter(|key| !allowed_empty.contains(&key.name))
        {
            assert!(
                key.valid.allows(&key.default_value()),
                "{} refuses its own default",
                key.name
            );
        }
    }
}

#[test]
fn every_key_has_an_environment_variable_of_its_own() {
    let names: BTreeSet<String> = catalogue()
        .keys(Scope::Node)
        .map(|key| environment_name(key.name))
        .collect();
    assert_eq!(names.len(), catalogue().keys(Scope::Node).count());
    assert_eq!(environment_name("node.id"), "MILLRACE_CONF_NODE_ID");
}

#[test]
fn synonyms_name_keys_of_a_node() {
    for scope in [Scope::Node, Scope::Topic] {
        for key in catalogue().keys(scope) {
            for (name, _) in &key.synonyms {
                assert!(
                    catalogue().find(Scope::Node, name).is_some(),
                    "{} names {name}",
                    key.name
                );
            }
        }
    }
}

#[test]
fn secrets_are_those_of_type_password() {
    for key in catalogue().keys(Scope::Node) {
        assert_eq!(
            key.sensitive,
            key.value_type == ValueType::Password,
            "{}",
            key.name
        );
    }
}

#[test]
fn what_is_served_or_refused_says_what_it_is_for() {
    for scope in [Scope::Node, Scope::Topic] {
        for key in catalogue().keys(scope) {
            let explained = !key.purpose.is_empty();
            assert_eq!(explained, key.state != State::WithoutEffect, "{}", key.name);
        }
    }
}

#[test]
fn a_node_can_be_given_what_can_be_changed_only_while_it_runs_nowhere() {
    for key in catalogue()
        .keys(Scope::Node)
        .filter(|key| key.update == Update::OnlyDynamic)
    {
        assert_eq!(key.state, State::Protection, "{}", key.name);
    }
}

#[test]
fn the_page_of_keys_is_current() {
    let page = include_str!("../../../../../deploy/CONFIG.md");
    assert!(
        page == overview(),
        "deploy/CONFIG.md is not what `millrace keys` prints"
    );
}
