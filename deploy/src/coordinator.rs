//! Which broker keeps a group, a connection to it, and questions to it.

use std::time::Duration;

use host::{Clock, OsClock};
use wire::messages::FindCoordinatorRequest;
use wire::messages::find_coordinator::Coordinator;
use wire::{ApiVersion, ErrorCode, Request};

use crate::address::Address;
use crate::ask;
use crate::client::Client;
use crate::cluster::Cluster;
use crate::outcome::Failure;
use crate::shortage;
use crate::waiting::{Waiting, told};

/// How long a coordinator is waited for: its partition may be moving, or its topic being made.
const LIMIT: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(100);

/// Where coordinators keep what they know.
const OFFSETS: &str = "__consumer_offsets";

const NO_OFFSETS: &str = "groups need the topic __consumer_offsets, which is made once as many brokers live as \
    offsets.topic.replication.factor says (3 unless set); with fewer brokers, start them with a smaller one";

/// What a coordinator answered.
#[derive(Debug)]
pub struct Answered<R> {
    /// In this version.
    pub version: ApiVersion,
    /// Whatever it is.
    pub answer: R,
    /// Where it is.
    pub coordinator: Address,
}

/// Whether the coordinator is another one now, or not ready yet.
pub const fn is_moving(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NOT_COORDINATOR
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
    )
}

/// Asks the coordinator of a group, in the newest version up to `newest`. One that says by the `code` of its answer that it
/// has moved, or still reads its log, is asked again for half a minute; then that is the answer.
///
/// # Errors
/// When there is none for half a minute, or it does not answer.
pub async fn ask<R: Request>(
    cluster: &mut Cluster,
    group: &str,
    newest: i16,
    question: &R,
    code: impl Fn(ApiVersion, &R::Response) -> ErrorCode,
) -> Result<Answered<R::Response>, Failure> {
    let clock = OsClock::new();
    let began = clock.now();
    let mut waiting = Waiting::begin();
    loop {
        let mut client = of(cluster, group).await?;
        let (version, answer) = client.ask(newest, question).await?;
        let code = code(version, &answer);
        if !is_moving(code) || LIMIT <= clock.now().since(began) {
            return Ok(Answered {
                version,
                answer,
                coordinator: client.address().clone(),
            });
        }
        if waiting.is_due() {
            let why = trouble(cluster, group, code).await;
            told(&format!(
                "the coordinator of {group} at {}: {why}",
                client.address()
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// An error of a coordinator with what is probably behind it: a coordinator serves as long as it can write to its
/// partition of `__consumer_offsets`.
pub async fn trouble(cluster: &mut Cluster, group: &str, code: ErrorCode) -> String {
    let known = cluster.metadata(&[OFFSETS]).await.ok();
    let topics = known.as_ref().map_or(&[][..], |known| &known.topics);
    let count = topics
        .iter()
        .find(|topic| topic.name.as_deref() == Some(OFFSETS))
        .map_or(0, |topic| topic.partitions.len());
    let why = match i32::try_from(count) {
        _ if known.is_none() => None,
        Ok(count) if 0 < count => shortage::of(cluster, OFFSETS, partition_of(group, count)).await,
        _ => Some(NO_OFFSETS.to_owned()),
    };
    let why = why.unwrap_or_else(|| "`millrace status` shows whether brokers are missing".to_owned());
    format!("{code}: {why}")
}

/// The partition of `__consumer_offsets` that knows a group, as in Kafka: by Java's hash of its name.
fn partition_of(group: &str, count: i32) -> i32 {
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    hash.checked_abs().unwrap_or(0) % count
}

/// A connection to the coordinator of a group.
///
/// # Errors
/// When there is none for half a minute, or the broker refuses.
pub async fn of(cluster: &mut Cluster, group: &str) -> Result<Client, Failure> {
    let clock = OsClock::new();
    let began = clock.now();
    let question = FindCoordinatorRequest {
        key: group.to_owned(),
        key_type: 0,
        coordinator_keys: vec![group.to_owned()],
    };
    let mut waiting = Waiting::begin();
    loop {
        let (version, answer) = cluster.any().ask(4, &question).await?;
        let found = match version.0 {
            4.. => answer.coordinators.into_iter().next().unwrap_or_default(),
            _ => Coordinator {
                key: group.to_owned(),
                node_id: answer.node_id,
                host: answer.host,
                port: answer.port,
                error_code: answer.error_code,
                error_message: answer.error_message,
            },
        };
        let late = LIMIT <= clock.now().since(began);
        if found.error_code.is_retriable() && !late {
            if waiting.is_due() {
                let why = trouble(cluster, group, found.error_code).await;
                told(&format!("no coordinator of {group} yet: {why}"));
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let what = format!("the coordinator of {group}");
        ask::refuse(found.error_code, found.error_message.as_deref(), &what)?;
        let port = u16::try_from(found.port)
            .map_err(|_| Failure::Refused(format!("{what}: port {}", found.port)))?;
        let address = Address {
            host: found.host,
            port,
        };
        match Client::connect(&[address]).await {
            Ok(client) => return Ok(client),
            // It may have died and be about to be replaced.
            Err(error) if !late => {
                waiting.still(&format!("{what}: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Java says: `"billing".hashCode()` is -109829509, `"polygenelubricants".hashCode()` the smallest number there is.
    #[test]
    fn a_group_lies_where_kafka_looks_for_it() {
        assert_eq!(partition_of("billing", 50), 9);
        assert_eq!(partition_of("polygenelubricants", 50), 0);
        assert_eq!(partition_of("g", 50), 103 % 50);
    }
}
