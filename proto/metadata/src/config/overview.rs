//! The catalogue as a page to read: `deploy/CONFIG.md`. A test keeps the page and the catalogue equal.

use std::fmt::Write as _;

use super::catalogue::{Key, Scope, State, catalogue};
use super::value::Value;

const HEAD: &str = "# Configuration keys

`millrace keys` prints this page from the catalogue that the binaries carry; a test keeps the two equal.

A node reads `--config server.properties` in Kafka's format, then variables of the environment, then `--set key=value`;
the later wins. The variable of a key is `MILLRACE_CONF_` and the key in capitals, with `_` for each dot:
`MILLRACE_CONF_NODE_ID` is `node.id`. No key has `_` or `-` in it, so the name is never ambiguous; keys of a single
listener (`listener.name.…`) have no variable.

An unknown key, a value of a wrong type or out of range, and a protection that is not given yet end the start with exit
code 2 and one line: key, value, what is allowed. A key without effect earns one warning.

The role says which nodes act on a key; given to the others, it does nothing.
";

/// The page, in Markdown.
pub fn overview() -> String {
    let mut page = HEAD.to_owned();
    for (scope, whose) in [(Scope::Node, "nodes"), (Scope::Topic, "topics")] {
        let keys: Vec<&Key> = catalogue().keys(scope).collect();
        served(&mut page, whose, &keys);
        protections(&mut page, whose, &keys);
        without_effect(&mut page, whose, &keys);
    }
    page
}

fn served(page: &mut String, whose: &str, keys: &[&Key]) {
    let rows = keys.iter().filter(|key| key.state == State::Served);
    // A topic belongs to no node.
    let (role, rule) = match whose {
        "nodes" => (" role |", " --- |"),
        _ => ("", ""),
    };
    line(
        page,
        &format!(
            "\n## Served, of {whose}\n\n| key |{role} default | allowed | what it is for |\n| --- |{rule} --- | --- | --- |"
        ),
    );
    for key in rows {
        let default = match &key.default {
            None => "must be given".to_owned(),
            Some(Value::Absent) => "none".to_owned(),
            Some(value) => shown(value),
        };
        let allowed = key.valid.sentence(key.value_type);
        let role = key
            .actors
            .map_or_else(String::new, |actors| format!(" {} |", actors.word()));
        line(
            page,
            &format!(
                "| `{}` |{role} {default} | {allowed} | {} |",
                key.name, key.purpose
            ),
        );
    }
}

fn protections(page: &mut String, whose: &str, keys: &[&Key]) {
    let rows = keys.iter().filter(|key| key.state == State::Protection);
    line(
        page,
        &format!(
            "\n## Refused, of {whose}: what they promise is not given yet\n\n| key | allowed only as |\n| --- | --- |"
        ),
    );
    for key in rows {
        let allowed = match key.harmless {
            None => "not at all".to_owned(),
            Some("") => "empty".to_owned(),
            Some(text) => format!("`{text}`"),
        };
        line(page, &format!("| `{}` | {allowed} |", key.name));
    }
}

fn without_effect(page: &mut String, whose: &str, keys: &[&Key]) {
    let rows = keys
        .iter()
        .filter(|key| key.state == State::WithoutEffect && !key.internal);
    line(
        page,
        &format!("\n## Accepted without effect, of {whose}\n\n| key | Kafka's default |\n| --- | --- |"),
    );
    for key in rows {
        let default = key.default.as_ref().map_or_else(String::new, shown);
        line(page, &format!("| `{}` | {default} |", key.name));
    }
}

fn shown(value: &Value) -> String {
    match value.text() {
        None => "none".to_owned(),
        Some(text) if text.is_empty() => "empty".to_owned(),
        Some(text) => format!("`{text}`"),
    }
}

fn line(page: &mut String, text: &str) {
    writeln!(page, "{text}").expect("writing to a string cannot fail");
}
