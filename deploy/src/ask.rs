//! Questions to a broker, and what the answers say, free of the wire's versions and sentinels.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use wire::ErrorCode;
use wire::messages::describe_cluster::DescribeClusterBroker;
use wire::messages::describe_configs::DescribeConfigsResource;
use wire::messages::describe_topic_partitions::{
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic, TopicRequest,
};
use wire::messages::metadata::{MetadataRequestTopic, MetadataResponsePartition, MetadataResponseTopic};
use wire::messages::{
    DescribeClusterRequest, DescribeConfigsRequest, DescribeTopicPartitionsRequest, MetadataRequest,
};

use crate::address::Address;
use crate::client::{Client, ClientError};
use crate::outcome::Failure;

/// The brokers of a cluster, as one of them knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterView {
    /// The cluster's id.
    pub cluster_id: String,
    /// Whether fenced brokers were asked for and are listed.
    pub fenced_listed: bool,
    /// By number.
    pub brokers: Vec<BrokerView>,
}

/// One broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokerView {
    /// Its number.
    pub id: i32,
    /// Where clients find it, host:port.
    pub endpoint: String,
    /// Its rack.
    pub rack: Option<String>,
    /// Whether it is fenced: registered, but not taking part.
    pub fenced: bool,
    /// Whether it answers at its endpoint; absent where it was not asked.
    pub answers: Option<bool>,
}

/// One topic and its partitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TopicView {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Whether it is the cluster's own.
    pub internal: bool,
    /// By number.
    pub partitions: Vec<PartitionView>,
}

/// One partition. Brokers are given by number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionView {
    /// Its number.
    pub partition: i32,
    /// Its leader, where it has one.
    pub leader: Option<i32>,
    /// How often it has changed leaders.
    pub leader_epoch: Option<i32>,
    /// Who holds it.
    pub replicas: Vec<i32>,
    /// Whose copy is complete.
    pub in_sync: Vec<i32>,
    /// Who of them is not there.
    pub offline: Vec<i32>,
    /// Who else may lead without loss; absent where it cannot be asked.
    pub eligible_leaders: Option<Vec<i32>>,
    /// Who led last, while nobody does; absent where it cannot be asked.
    pub last_known_leaders: Option<Vec<i32>>,
}

/// Who is in the cluster.
///
/// # Errors
/// When the broker does not answer or refuses.
pub async fn cluster(client: &mut Client) -> Result<ClusterView, Failure> {
    let question = DescribeClusterRequest {
        endpoint_type: 1,
        include_fenced_brokers: true,
        ..Default::default()
    };
    let (version, answer) = client.ask(2, &question).await?;
    refuse(
        answer.error_code,
        answer.error_message.as_deref(),
        "the cluster cannot be described",
    )?;
    let broker = |broker: &DescribeClusterBroker| BrokerView {
        id: broker.broker_id,
        endpoint: format!("{}:{}", broker.host, broker.port),
        rack: broker.rack.clone(),
        fenced: broker.is_fenced,
        answers: None,
    };
    let mut brokers: Vec<BrokerView> = answer.brokers.iter().map(broker).collect();
    brokers.sort_by_key(|broker| broker.id);
    Ok(ClusterView {
        cluster_id: answer.cluster_id,
        fenced_listed: version.0 >= 2,
        brokers,
    })
}

/// All topics, by name.
///
/// # Errors
/// When the broker does not answer or refuses.
pub async fn all_topics(client: &mut Client) -> Result<Vec<TopicView>, Failure> {
    let question = MetadataRequest {
        topics: None,
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let (_, answer) = client.ask(12, &question).await?;
    let mut topics = Vec::new();
    for topic in &answer.topics {
        refuse_topic(topic.error_code, topic.name.as_deref())?;
        topics.push(from_metadata(topic));
    }
    topics.sort_by(|one: &TopicView, other| one.name.cmp(&other.name));
    Ok(topics)
}

/// These topics, by name, with all that the broker can tell about their partitions.
///
/// # Errors
/// When the broker does not answer, or a topic does not exist.
pub async fn topics(client: &mut Client, names: &[String]) -> Result<Vec<TopicView>, Failure> {
    let wanted: BTreeSet<&String> = names.iter().collect();
    let mut question = DescribeTopicPartitionsRequest {
        topics: wanted
            .into_iter()
            .map(|name| TopicRequest { name: name.clone() })
            .collect(),
        ..Default::default()
    };
    let mut found: BTreeMap<String, TopicView> = BTreeMap::new();
    loop {
        let answer = match client.ask(0, &question).await {
            Ok((_, answer)) => answer,
            Err(ClientError::NotServed { .. }) => return topics_by_metadata(client, names).await,
            Err(error) => return Err(error.into()),
        };
        for topic in &answer.topics {
            refuse_topic(topic.error_code, topic.name.as_deref())?;
            // A topic that a page cuts in two comes again on the next.
            let view = from_partitions(topic);
            match found.get_mut(&view.name) {
                Some(known) => known.partitions.extend(view.partitions),
                None => drop(found.insert(view.name.clone(), view)),
            }
        }
        match answer.next_cursor {
            Some(next) => {
                if question.cursor.as_ref() == Some(&next) {
                    return Err(Failure::Refused(
                        "the broker gives the same page again and again".to_owned(),
                    ));
                }
                question.cursor = Some(next);
            }
            None => return Ok(found.into_values().collect()),
        }
    }
}

async fn topics_by_metadata(client: &mut Client, names: &[String]) -> Result<Vec<TopicView>, Failure> {
    let topic = |name: &String| MetadataRequestTopic {
        name: Some(name.clone()),
        ..Default::default()
    };
    let topics = Some(names.iter().map(topic).collect());
    let question = MetadataRequest {
        topics,
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let (_, answer) = client.ask(12, &question).await?;
    let mut found = Vec::new();
    for topic in &answer.topics {
        refuse_topic(topic.error_code, topic.name.as_deref())?;
        found.push(from_metadata(topic));
    }
    Ok(found)
}

/// One configuration value, with the number of its source (R4.23).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigView {
    /// The value; absent where nothing holds.
    pub value: Option<String>,
    /// Whether the topic itself says so.
    pub overridden: bool,
}

/// Configurations of topics: per topic, per key. `keys` none means all.
///
/// # Errors
/// When the broker does not answer or refuses.
pub async fn topic_configs(
    client: &mut Client,
    names: &[String],
    keys: Option<&[&str]>,
) -> Result<BTreeMap<String, BTreeMap<String, ConfigView>>, Failure> {
    const TOPIC: i8 = 2;
    const FROM_TOPIC: i8 = 1;
    let keys = keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<String>>());
    let resource = |name: &String| DescribeConfigsResource {
        resource_type: TOPIC,
        resource_name: name.clone(),
        configuration_keys: keys.clone(),
    };
    let question = DescribeConfigsRequest {
        resources: names.iter().map(resource).collect(),
        ..Default::default()
    };
    let (_, answer) = client.ask(4, &question).await?;
    let mut found = BTreeMap::new();
    for result in &answer.results {
        let what = format!("configuration of {}", result.resource_name);
        refuse(result.error_code, result.error_message.as_deref(), &what)?;
        let view = |value: &Option<String>, source| ConfigView {
            value: value.clone(),
            overridden: source == FROM_TOPIC,
        };
        let configs = result
            .configs
            .iter()
            .map(|one| (one.name.clone(), view(&one.value, one.config_source)));
        found.insert(result.resource_name.clone(), configs.collect());
    }
    Ok(found)
}

/// Where the controllers are, as the broker at the other end was told. `None` where it does not say.
///
/// # Errors
/// When the broker does not answer.
pub async fn controllers(
    client: &mut Client,
    brokers: &[BrokerView],
) -> Result<Option<Vec<Address>>, Failure> {
    const BROKER: i8 = 4;
    const VOTERS: &str = "controller.quorum.voters";
    // A broker describes itself only, and its address need not be the one that it was reached by.
    for broker in brokers {
        let resource = DescribeConfigsResource {
            resource_type: BROKER,
            resource_name: broker.id.to_string(),
            configuration_keys: Some(vec![VOTERS.to_owned()]),
        };
        let question = DescribeConfigsRequest {
            resources: vec![resource],
            ..Default::default()
        };
        let answer = match client.ask(4, &question).await {
            Ok((_, answer)) => answer,
            Err(ClientError::NotServed { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let voters = answer
            .results
            .iter()
            .flat_map(|result| &result.configs)
            .find_map(|config| config.value.as_ref());
        let address = |voter: &str| {
            voter
                .split_once('@')
                .and_then(|(_, address)| address.parse().ok())
        };
        let addresses: Vec<Address> = voters
            .into_iter()
            .flat_map(|text| text.split(',').filter_map(address))
            .collect();
        if !addresses.is_empty() {
            return Ok(Some(addresses));
        }
    }
    Ok(None)
}

/// A refusal of the broker as a failure of the command, with the broker's own words where it has some.
///
/// # Errors
/// When `code` is an error.
pub fn refuse(code: ErrorCode, message: Option<&str>, what: &str) -> Result<(), Failure> {
    if !code.is_error() {
        return Ok(());
    }
    let (meaning, next) = advice(code);
    let why = message.filter(|text| !text.is_empty()).unwrap_or(meaning);
    let words: Vec<&str> = [why, next].into_iter().filter(|text| !text.is_empty()).collect();
    let words = match words.is_empty() {
        true => String::new(),
        false => format!(": {}", words.join("; ")),
    };
    Err(Failure::Refused(format!("{what}: {code}{words}")))
}

/// What an error means, for one that comes without words, and what to do about it; empty where nothing is to be said.
const fn advice(code: ErrorCode) -> (&'static str, &'static str) {
    match code {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => (
            "there is no such topic or partition",
            "`millrace topic list` shows what there is",
        ),
        ErrorCode::REQUEST_TIMED_OUT => (
            "not done in time, perhaps still going on",
            "`millrace status` shows whether controllers answer",
        ),
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => (
            "the broker that keeps the group still reads its log",
            "try again, and if it stays so `millrace status` shows whether enough brokers are in sync",
        ),
        ErrorCode::COORDINATOR_NOT_AVAILABLE => (
            "no broker keeps the group",
            "`millrace status` shows whether brokers are missing, or partitions of __consumer_offsets have no leader",
        ),
        ErrorCode::NOT_COORDINATOR => ("the group is moving to another broker", "try again"),
        ErrorCode::GROUP_ID_NOT_FOUND => (
            "there is no such group",
            "`millrace group list` shows what there is",
        ),
        ErrorCode::INVALID_REPLICATION_FACTOR => ("", "`millrace status` shows the brokers"),
        ErrorCode::INVALID_CONFIG => ("", "`millrace keys` says what there is to configure"),
        ErrorCode::TOPIC_ALREADY_EXISTS => ("", "`millrace topic describe` shows it"),
        ErrorCode::NOT_ENOUGH_REPLICAS | ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND => (
            "fewer replicas are in sync than min.insync.replicas",
            "`millrace status` shows who is missing",
        ),
        _ => ("", ""),
    }
}

fn refuse_topic(code: ErrorCode, name: Option<&str>) -> Result<(), Failure> {
    // A topic without leaders is still described.
    if code == ErrorCode::LEADER_NOT_AVAILABLE {
        return Ok(());
    }
    refuse(code, None, name.unwrap_or("a topic"))
}

fn from_metadata(topic: &MetadataResponseTopic) -> TopicView {
    let partition = |one: &MetadataResponsePartition| PartitionView {
        partition: one.partition_index,
        leader: known(one.leader_id),
        leader_epoch: known(one.leader_epoch),
        replicas: one.replica_nodes.clone(),
        in_sync: one.isr_nodes.clone(),
        offline: one.offline_replicas.clone(),
        eligible_leaders: None,
        last_known_leaders: None,
    };
    view(
        topic.name.as_deref(),
        topic.topic_id,
        topic.is_internal,
        topic.partitions.iter().map(partition).collect(),
    )
}

fn from_partitions(topic: &DescribeTopicPartitionsResponseTopic) -> TopicView {
    let partition = |one: &DescribeTopicPartitionsResponsePartition| PartitionView {
        partition: one.partition_index,
        leader: known(one.leader_id),
        leader_epoch: known(one.leader_epoch),
        replicas: one.replica_nodes.clone(),
        in_sync: one.isr_nodes.clone(),
        offline: one.offline_replicas.clone(),
        eligible_leaders: Some(one.eligible_leader_replicas.clone().unwrap_or_default()),
        last_known_leaders: Some(one.last_known_elr.clone().unwrap_or_default()),
    };
    view(
        topic.name.as_deref(),
        topic.topic_id,
        topic.is_internal,
        topic.partitions.iter().map(partition).collect(),
    )
}

fn view(name: Option<&str>, id: wire::Uuid, internal: bool, mut partitions: Vec<PartitionView>) -> TopicView {
    partitions.sort_by_key(|partition| partition.partition);
    TopicView {
        name: name.unwrap_or_default().to_owned(),
        id: id.to_string(),
        internal,
        partitions,
    }
}

/// A number that the wire writes as -1 where there is none.
fn known(number: i32) -> Option<i32> {
    (0 <= number).then_some(number)
}
