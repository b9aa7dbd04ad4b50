//! The topic of a load: made with all its replicas in sync, deleted afterwards.

use std::time::Duration;

use host::{Clock as _, OsClock};
use wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use wire::messages::delete_topics::DeleteTopicState;
use wire::messages::{CreateTopicsRequest, DeleteTopicsRequest};

use crate::address::Address;
use crate::ask;
use crate::client::Client;
use crate::cluster::Cluster;
use crate::outcome::Failure;

/// How long a topic may take to be made, and then to be in sync.
const LIMIT: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(100);

/// A topic of this name, which must exist, or a new one.
///
/// # Errors
/// When it cannot be made, or its replicas do not come in sync.
pub async fn ensure(
    bootstrap: &[Address],
    name: Option<&str>,
    partitions: i32,
    replication_factor: i16,
) -> Result<String, Failure> {
    if let Some(name) = name {
        return Ok(name.to_owned());
    }
    let clock = OsClock::new();
    let name = format!("millrace-bench-{}", clock.wall());
    // What is deleted should give its disk back at once, also where that takes a minute by default.
    let config = |key: &str, value: &str| CreatableTopicConfig {
        name: key.to_owned(),
        value: Some(value.to_owned()),
    };
    let mut configs = vec![config("file.delete.delay.ms", "1000")];
    if 3 <= replication_factor {
        configs.push(config("min.insync.replicas", "2"));
    }
    let topic = CreatableTopic {
        name: name.clone(),
        num_partitions: partitions,
        replication_factor,
        configs,
        ..Default::default()
    };
    let question = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: i32::try_from(LIMIT.as_millis()).unwrap_or(i32::MAX),
        validate_only: false,
    };
    let mut client = Client::connect(bootstrap).await?;
    let (_, answer) = client.ask(7, &question).await?;
    for result in &answer.topics {
        ask::refuse(result.error_code, result.error_message.as_deref(), &name)?;
    }
    let mut cluster = Cluster::connect(bootstrap).await?;
    let began = clock.now();
    while !in_sync(&mut cluster, &name, partitions).await {
        if LIMIT < clock.now().since(began) {
            return Err(Failure::Refused(format!("{name} does not come in sync")));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(name)
}

/// Whether every partition has its leader and all its replicas, as every broker would say.
async fn in_sync(cluster: &mut Cluster, name: &str, partitions: i32) -> bool {
    let Ok(answer) = cluster.metadata(&[name]).await else {
        return false;
    };
    let all: Vec<_> = answer.topics.iter().flat_map(|topic| &topic.partitions).collect();
    i32::try_from(all.len()) == Ok(partitions)
        && all
            .iter()
            .all(|one| 0 <= one.leader_id && one.isr_nodes.len() == one.replica_nodes.len())
}

/// Deletes it.
///
/// # Errors
/// When the cluster refuses.
pub async fn delete(bootstrap: &[Address], name: &str) -> Result<(), Failure> {
    let question = DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: Some(name.to_owned()),
            ..Default::default()
        }],
        topic_names: vec![name.to_owned()],
        timeout_ms: i32::try_from(LIMIT.as_millis()).unwrap_or(i32::MAX),
    };
    let (_, answer) = Client::connect(bootstrap).await?.ask(6, &question).await?;
    for result in &answer.responses {
        ask::refuse(result.error_code, result.error_message.as_deref(), name)?;
    }
    Ok(())
}
