//! `millrace topic`: create, list, describe and delete.

use serde::Serialize;
use wire::ErrorCode;
use wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use wire::messages::delete_topics::DeleteTopicState;
use wire::messages::{CreateTopicsRequest, DeleteTopicsRequest};

use crate::args::{Target, TopicCommand};
use crate::ask::{self, TopicView};
use crate::client::{Client, ClientError};
use crate::config;
use crate::outcome::Failure;
use crate::table::{counted, numbers, table};
use crate::terminal::{say, say_json, tell};

/// How long the cluster may take for a change.
const CHANGE_TIMEOUT_MS: i32 = 30_000;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}

/// Carries out a command on topics.
///
/// # Errors
/// When the cluster refuses or cannot be asked.
pub async fn run(command: &TopicCommand, style: Style) -> Result<(), Failure> {
    match command {
        TopicCommand::Create { at, .. } => {
            let mut client = Client::connect(&at.bootstrap).await?;
            create(&mut client, command, style).await
        }
        TopicCommand::List { at } => {
            let mut client = Client::connect(&at.bootstrap).await?;
            list(&mut client, style).await
        }
        TopicCommand::Describe { at, names } => {
            let mut client = Client::connect(&at.bootstrap).await?;
            describe(&mut client, names, style).await
        }
        TopicCommand::Delete { at, names, if_exists } => {
            let mut client = Client::connect(&at.bootstrap).await?;
            let missing = if *if_exists {
                Missing::IsFine
            } else {
                Missing::IsRefused
            };
            delete(&mut client, names, missing, style).await
        }
    }
}

#[derive(Debug, Serialize)]
struct Created {
    topic: String,
    id: Option<String>,
    partitions: Option<i32>,
    replication_factor: Option<i16>,
    created: bool,
}

async fn create(client: &mut Client, command: &TopicCommand, style: Style) -> Result<(), Failure> {
    let TopicCommand::Create {
        name,
        partitions,
        replication_factor,
        configs,
        if_not_exists,
        ..
    } = command
    else {
        panic!("only a creation is created: {command:?}")
    };
    let config = |(key, value): &(String, String)| CreatableTopicConfig {
        name: key.clone(),
        value: Some(value.clone()),
    };
    let topic = CreatableTopic {
        name: name.clone(),
        num_partitions: partitions.unwrap_or(-1),
        replication_factor: replication_factor.unwrap_or(-1),
        assignments: Vec::new(),
        configs: configs.iter().map(config).collect(),
    };
    let question = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: CHANGE_TIMEOUT_MS,
        validate_only: false,
    };
    let (version, answer) = client.ask(7, &question).await?;
    let result = answer
        .topics
        .first()
        .ok_or_else(|| Failure::Refused(format!("{name}: the answer is empty")))?;
    let exists = result.error_code == ErrorCode::TOPIC_ALREADY_EXISTS && *if_not_exists;
    if !exists {
        let refused = ask::refuse(result.error_code, result.error_message.as_deref(), name);
        let keys = configs.iter().map(|(key, _)| key);
        config::with_suggestion(refused, &Target::Topic(name.clone()), keys)?;
    }
    let told = !exists && version.0 >= 5;
    let created = Created {
        topic: name.clone(),
        id: (told && version.0 >= 7).then(|| result.topic_id.to_string()),
        partitions: told.then_some(result.num_partitions).filter(|count| 0 < *count),
        replication_factor: told
            .then_some(result.replication_factor)
            .filter(|count| 0 < *count),
        created: !exists,
    };
    if !exists {
        let warnings = config::warnings_of(client, &Target::Topic(name.clone()), configs).await;
        warnings.iter().for_each(|one| tell(&one.to_string()));
    }
    match style {
        Style::Json => say_json(&created),
        Style::Text if exists => say(&format!("{name} exists already")),
        Style::Text => say(&created_line(&created)),
    }
    Ok(())
}

fn created_line(created: &Created) -> String {
    let mut line = format!("created {}", created.topic);
    if let (Some(partitions), Some(factor)) = (created.partitions, created.replication_factor) {
        let partitions = counted(partitions, "partition");
        line += &format!(": {partitions}, replication factor {factor}");
    }
    if let Some(id) = &created.id {
        line += &format!(", id {id}");
    }
    line
}

#[derive(Debug, Serialize)]
struct Listed<'a> {
    topic: &'a str,
    id: &'a str,
    internal: bool,
    partitions: usize,
    replication_factor: usize,
}

async fn list(client: &mut Client, style: Style) -> Result<(), Failure> {
    let topics = ask::all_topics(client).await?;
    if style == Style::Json {
        say_json(&topics.iter().map(listed).collect::<Vec<_>>());
        return Ok(());
    }
    if topics.is_empty() {
        say("no topics");
        return Ok(());
    }
    let row = |one: Listed<'_>| {
        vec![
            one.topic.to_owned(),
            one.partitions.to_string(),
            one.replication_factor.to_string(),
            one.id.to_owned(),
        ]
    };
    let rows: Vec<_> = topics.iter().map(listed).map(row).collect();
    table(&["topic", "partitions", "replicas", "id"], &rows)
        .iter()
        .for_each(|line| say(line));
    Ok(())
}

fn listed(topic: &TopicView) -> Listed<'_> {
    Listed {
        topic: &topic.name,
        id: &topic.id,
        internal: topic.internal,
        partitions: topic.partitions.len(),
        replication_factor: topic
            .partitions
            .first()
            .map_or(0, |partition| partition.replicas.len()),
    }
}

#[derive(Debug, Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    topic: &'a TopicView,
    /// Values that the topic itself sets; absent where the broker cannot be asked.
    overrides: Option<std::collections::BTreeMap<String, String>>,
}

async fn describe(client: &mut Client, names: &[String], style: Style) -> Result<(), Failure> {
    let names = if names.is_empty() {
        ask::all_topics(client)
            .await?
            .into_iter()
            .map(|topic| topic.name)
            .collect()
    } else {
        names.to_vec()
    };
    let topics = if names.is_empty() {
        Vec::new()
    } else {
        ask::topics(client, &names).await?
    };
    let configs = match ask::topic_configs(client, &names, None).await {
        Ok(configs) => Some(configs),
        Err(Failure::Client(ClientError::NotServed { .. })) => None,
        Err(failure) => return Err(failure),
    };
    let overrides = |name: &str| {
        let own = configs
            .as_ref()?
            .get(name)?
            .iter()
            .filter(|(_, config)| config.overridden);
        Some(
            own.map(|(key, config)| (key.clone(), config.value.clone().unwrap_or_default()))
                .collect(),
        )
    };
    let described: Vec<_> = topics
        .iter()
        .map(|topic| Described {
            topic,
            overrides: overrides(&topic.name),
        })
        .collect();
    if style == Style::Json {
        say_json(&described);
        return Ok(());
    }
    if described.is_empty() {
        say("no topics");
    }
    described
        .iter()
        .flat_map(described_lines)
        .for_each(|line| say(&line));
    Ok(())
}

fn described_lines(described: &Described<'_>) -> Vec<String> {
    let topic = described.topic;
    let configs = match &described.overrides {
        None => "configurations cannot be asked".to_owned(),
        Some(own) if own.is_empty() => "no configuration of its own".to_owned(),
        Some(own) => own
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>()
            .join(", "),
    };
    let mut lines = vec![format!("{}  id {}  {configs}", topic.name, topic.id)];
    let none = || "none".to_owned();
    let rows: Vec<Vec<String>> = topic
        .partitions
        .iter()
        .map(|one| {
            vec![
                one.partition.to_string(),
                one.leader.map_or_else(none, |leader| leader.to_string()),
                one.leader_epoch.map_or_else(none, |epoch| epoch.to_string()),
                numbers(&one.replicas),
                numbers(&one.in_sync),
                numbers(&one.offline),
            ]
        })
        .collect();
    let heading = ["partition", "leader", "epoch", "replicas", "in sync", "offline"];
    lines.extend(table(&heading, &rows).iter().map(|line| format!("  {line}")));
    lines
}

/// What a topic that does not exist means to a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    IsFine,
    IsRefused,
}

#[derive(Debug, Serialize)]
struct Deleted {
    topic: String,
    deleted: bool,
}

async fn delete(
    client: &mut Client,
    names: &[String],
    missing: Missing,
    style: Style,
) -> Result<(), Failure> {
    let state = |name: &String| DeleteTopicState {
        name: Some(name.clone()),
        ..Default::default()
    };
    let question = DeleteTopicsRequest {
        topics: names.iter().map(state).collect(),
        topic_names: names.to_vec(),
        timeout_ms: CHANGE_TIMEOUT_MS,
    };
    // Up to version 5 the names stand in one field, from 6 on in the other; what a version lacks is left out.
    let (_, answer) = client.ask(6, &question).await?;
    let mut deleted = Vec::new();
    let mut refused = Vec::new();
    for result in &answer.responses {
        let name = result.name.clone().unwrap_or_default();
        let absent = result.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && missing == Missing::IsFine;
        match ask::refuse(result.error_code, result.error_message.as_deref(), &name) {
            Err(failure) if !absent => refused.push(failure.to_string()),
            _ => deleted.push(Deleted {
                topic: name,
                deleted: !absent,
            }),
        }
    }
    deleted.sort_by(|one, other| one.topic.cmp(&other.topic));
    match style {
        Style::Json => say_json(&deleted),
        Style::Text => deleted.iter().for_each(|one| {
            say(&format!(
                "{} {}",
                if one.deleted { "deleted" } else { "there is no" },
                one.topic
            ));
        }),
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(Failure::Refused(refused.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::PartitionView;

    #[test]
    fn a_topic_is_described_by_one_line_and_one_for_each_partition() {
        let partition = PartitionView {
            partition: 0,
            leader: None,
            leader_epoch: Some(4),
            replicas: vec![1, 2],
            in_sync: vec![],
            offline: vec![1, 2],
            eligible_leaders: None,
            last_known_leaders: None,
        };
        let topic = TopicView {
            name: "orders".to_owned(),
            id: "x".to_owned(),
            internal: false,
            partitions: vec![partition],
        };
        let overrides = Some(std::collections::BTreeMap::from([(
            "segment.ms".to_owned(),
            "5".to_owned(),
        )]));
        let lines = described_lines(&Described {
            topic: &topic,
            overrides,
        });
        assert_eq!(
            lines,
            [
                "orders  id x  segment.ms=5",
                "  partition  leader  epoch  replicas  in sync  offline",
                "  0          none    4      1,2       -        1,2",
            ]
        );
    }

    #[test]
    fn a_created_topic_tells_what_the_broker_told() {
        let mut created = Created {
            topic: "orders".to_owned(),
            id: Some("x".to_owned()),
            partitions: Some(12),
            replication_factor: Some(3),
            created: true,
        };
        assert_eq!(
            created_line(&created),
            "created orders: 12 partitions, replication factor 3, id x"
        );
        (created.id, created.partitions) = (None, None);
        assert_eq!(created_line(&created), "created orders");
    }
}
