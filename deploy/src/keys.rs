//! `millrace keys`: the catalogue of configuration keys, as a page or as JSON.

use metadata::config::{Actors, Key, Scope, State, catalogue, overview};
use serde::Serialize;

use crate::terminal::{say, say_json};
use crate::topic::Style;

#[derive(Debug, Serialize)]
struct KeyView {
    key: &'static str,
    of: &'static str,
    state: &'static str,
    /// Which nodes act on it; absent where none does, and for topics.
    role: Option<&'static str>,
    /// Absent where there is none, or where a value must be given.
    default: Option<String>,
    allowed: String,
    documentation: &'static str,
}

/// Prints the catalogue.
pub fn run(style: Style) {
    match style {
        Style::Text => say(overview().trim_end()),
        Style::Json => {
            let keys = [Scope::Node, Scope::Topic]
                .into_iter()
                .flat_map(|scope| catalogue().keys(scope));
            say_json(&keys.map(view).collect::<Vec<_>>());
        }
    }
}

fn view(key: &Key) -> KeyView {
    KeyView {
        key: key.name,
        of: match key.scope {
            Scope::Node => "node",
            Scope::Topic => "topic",
        },
        state: match key.state {
            State::Served => "served",
            State::WithoutEffect => "without effect",
            State::Protection => "refused",
        },
        role: key.actors.map(Actors::word),
        default: key.default_value().text(),
        allowed: key.valid.sentence(key.value_type),
        documentation: key.documentation(),
    }
}
