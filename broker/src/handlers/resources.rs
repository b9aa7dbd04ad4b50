//! Configurable resources as requests name them, and the way of an alteration to the controller (R4.1, R4.2).
//!
//! Must not: judge a key or a value; the controller does, by the one catalogue.

use std::collections::{BTreeMap, BTreeSet};

use metadata::ids::BrokerId;
use metadata::record::ConfigResource;
use millrace_proto::v1;
use millrace_proto::v1::config_alteration::Wish;
use wire::ErrorCode;

use super::{Call, topics};
use crate::errors;
use crate::log_level;

/// A topic, by name.
pub const TOPIC: i8 = 2;
/// A broker, by number; every broker where there is no name.
pub const BROKER: i8 = 4;
/// The loggers of a broker, by number.
pub const LOGGER: i8 = 8;
/// A subscription of client metrics.
pub const CLIENT_METRICS: i8 = 16;
/// A group.
pub const GROUP: i8 = 32;
/// All types that there are.
pub const KNOWN: [i8; 5] = [TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP];

/// How long the answer waits for this broker's own image, where the request names no time.
const VISIBLE_WITHIN_MS: i32 = 10_000;

/// Why something about a resource is refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The code.
    pub code: ErrorCode,
    /// What goes with it.
    pub message: Option<String>,
}

impl Refused {
    /// A refusal that says why.
    pub fn because(code: ErrorCode, message: impl Into<String>) -> Refused {
        Refused {
            code,
            message: Some(message.into()),
        }
    }

    /// The request means nothing.
    pub fn invalid(message: impl Into<String>) -> Refused {
        Refused::because(ErrorCode::INVALID_REQUEST, message)
    }

    /// Code and message of an answer.
    pub fn told(result: Result<(), Refused>) -> (ErrorCode, Option<String>) {
        match result {
            Ok(()) => (ErrorCode::NONE, None),
            Err(refused) => (refused.code, refused.message),
        }
    }
}

/// What a request asks of each key, in its order. No key may be given more than once (R4.10).
pub fn by_key<'a, C, T>(
    configs: &'a [C],
    name: impl Fn(&'a C) -> &'a String,
    read: impl Fn(&'a C) -> Result<T, Refused>,
) -> Result<Vec<(String, T)>, Refused> {
    let mut seen = BTreeSet::new();
    let keyed = configs.iter().map(|config| {
        let key = name(config);
        match seen.insert(key) {
            true => Ok((key.clone(), read(config)?)),
            false => Err(Refused::invalid(format!("{key:?} is given more than once"))),
        }
    });
    keyed.collect()
}

/// Refuses a key that needs a value and has none.
pub fn with_value(key: &str, value: Option<&String>) -> Result<String, Refused> {
    let value = value.cloned();
    value.ok_or_else(|| Refused::invalid(format!("{key:?} has no value")))
}

/// One resource of a request.
pub struct Wanted<'a> {
    /// Its type.
    pub kind: i8,
    /// Its name.
    pub name: &'a str,
    /// What is to change, or why that cannot even be read.
    pub change: Result<Change, Refused>,
}

/// What is to change about one resource.
pub enum Change {
    /// These and no others from now on.
    Replace(Vec<(String, String)>),
    /// The others stay.
    Adjust(Vec<(String, Operation)>),
}

/// What happens to the value of one key.
pub enum Operation {
    /// It becomes this.
    Set(String),
    /// It is not overridden any more.
    Delete,
    /// These are added.
    Append(String),
    /// These are taken out.
    Subtract(String),
}

/// Alters resources; one result each, in the order of the request.
pub async fn alter(call: &Call, wanted: Vec<Wanted<'_>>, validate_only: bool) -> Vec<Result<(), Refused>> {
    let mut times: BTreeMap<(i8, &str), usize> = BTreeMap::new();
    for one in &wanted {
        *times.entry((one.kind, one.name)).or_default() += 1;
    }
    let mut results = Vec::new();
    let mut forwarded = Vec::new();
    for (place, one) in wanted.into_iter().enumerate() {
        let is_repeated = times[&(one.kind, one.name)] > 1;
        let sorted = match is_repeated {
            true => Err(Refused::invalid("the resource is given more than once")),
            false => sort(call, one, validate_only),
        };
        results.push(match sorted {
            Ok(Some(alteration)) => {
                forwarded.push((place, alteration));
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(refused) => Err(refused),
        });
    }
    if forwarded.is_empty() {
        return results;
    }
    let (places, resources): (Vec<usize>, Vec<v1::ConfigAlteration>) = forwarded.into_iter().unzip();
    let answers = forward(call, resources, validate_only).await;
    for (place, answer) in places.into_iter().zip(answers) {
        results[place] = answer;
    }
    results
}

/// What is to be forwarded; nothing where this broker has dealt with it.
fn sort(
    call: &Call,
    wanted: Wanted<'_>,
    validate_only: bool,
) -> Result<Option<v1::ConfigAlteration>, Refused> {
    let resource = match wanted.kind {
        TOPIC if wanted.name.is_empty() => return Err(Refused::invalid("a topic needs a name")),
        TOPIC if !topics::is_valid_name(wanted.name) => {
            let code = ErrorCode::INVALID_TOPIC_EXCEPTION;
            return Err(Refused::because(code, "no topic can have this name"));
        }
        TOPIC => ConfigResource::Topic(wanted.name.to_owned()),
        BROKER if wanted.name.is_empty() => ConfigResource::ClusterDefault,
        BROKER => ConfigResource::Broker(this_broker(call, wanted.name)?),
        LOGGER => {
            this_broker(call, wanted.name)?;
            return loggers(wanted.change?, validate_only).map(|()| None);
        }
        CLIENT_METRICS | GROUP if wanted.name.is_empty() => {
            return Err(Refused::invalid("the resource needs a name"));
        }
        CLIENT_METRICS => ConfigResource::ClientMetrics(wanted.name.to_owned()),
        GROUP => ConfigResource::Group(wanted.name.to_owned()),
        odd => return Err(Refused::invalid(format!("there is no resource type {odd}"))),
    };
    Ok(Some(v1::ConfigAlteration {
        resource: Some((&resource).into()),
        wish: Some(wish(wanted.change?)),
    }))
}

/// A broker is asked of itself: its own values are checked where they will hold.
fn this_broker(call: &Call, name: &str) -> Result<BrokerId, Refused> {
    match name.parse().map(BrokerId) {
        Ok(id) if id == call.node.id => Ok(id),
        Ok(id) => Err(Refused::invalid(format!(
            "this is broker {}, not {id}; ask that one",
            call.node.id
        ))),
        Err(_) => Err(Refused::invalid("a broker's name is its number")),
    }
}

fn wish(change: Change) -> Wish {
    use v1::config_operation::Operation as Sent;
    match change {
        Change::Replace(pairs) => Wish::Replace(v1::ConfigEntries {
            entries: pairs
                .into_iter()
                .map(|(key, value)| v1::ConfigEntry {
                    key,
                    value: Some(value),
                })
                .collect(),
        }),
        Change::Adjust(operations) => Wish::Adjust(v1::ConfigOperations {
            operations: operations
                .into_iter()
                .map(|(key, operation)| v1::ConfigOperation {
                    key,
                    operation: Some(match operation {
                        Operation::Set(value) => Sent::Set(value),
                        Operation::Delete => Sent::Delete(true),
                        Operation::Append(items) => Sent::Append(items),
                        Operation::Subtract(items) => Sent::Subtract(items),
                    }),
                })
                .collect(),
        }),
    }
}

async fn forward(
    call: &Call,
    resources: Vec<v1::ConfigAlteration>,
    validate_only: bool,
) -> Vec<Result<(), Refused>> {
    let count = resources.len();
    let command = v1::AlterConfigsRequest {
        caller: Some(call.caller()),
        resources,
        validate_only,
    };
    let reply = match call.node.forward_timeless(command).await {
        Ok(reply) => reply,
        Err(error) => {
            let code = errors::of_unforwarded(error);
            return vec![Err(Refused::because(code, error.to_string())); count];
        }
    };
    let said = |refusal: &v1::Refusal| Err(Refused::because(errors::of_refusal(refusal), &refusal.message));
    if let Some(refusal) = &reply.refusal {
        return vec![said(refusal); count];
    }
    if !validate_only {
        call.node.until_visible(reply.visible_at, VISIBLE_WITHIN_MS).await;
    }
    let results = reply
        .resources
        .iter()
        .map(|result| result.refused.as_ref().map_or(Ok(()), said));
    let missing = Err(Refused::because(errors::CRASHED, "the controller sent no result"));
    results.chain(std::iter::repeat(missing)).take(count).collect()
}

/// Levels of the loggers of this process, of which there is one. They hold until it ends.
fn loggers(change: Change, validate_only: bool) -> Result<(), Refused> {
    let operations = match change {
        Change::Replace(pairs) => pairs
            .into_iter()
            .map(|(logger, level)| (logger, Operation::Set(level)))
            .collect(),
        Change::Adjust(operations) => operations,
    };
    let odd = |message: String| Refused::because(ErrorCode::INVALID_CONFIG, message);
    let mut wanted = None;
    for (logger, operation) in operations {
        let is_root = logger == log_level::ROOT;
        match operation {
            Operation::Append(_) | Operation::Subtract(_) => {
                return Err(Refused::invalid("a level is no list: nothing can be added to it"));
            }
            _ if !is_root => return Err(odd(format!("there is no logger {logger:?}"))),
            Operation::Delete => return Err(Refused::invalid("the root logger always has a level")),
            Operation::Set(level) => {
                let level = log_level::parse(&level).ok_or_else(|| odd(format!("{level:?} is no level")))?;
                wanted = Some(level);
            }
        }
    }
    match wanted {
        Some(level) if !validate_only => {
            log_level::set(level).map_err(|why| Refused::because(errors::CRASHED, why))
        }
        _ => Ok(()),
    }
}
