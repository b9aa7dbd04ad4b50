//! A broker made up here, which answers with what tests expect it to.

use std::process::Output;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use metadata::config::{Scope, catalogue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use wire::messages::api_versions::ApiVersionRange;
use wire::messages::create_topics::CreatableTopicResult;
use wire::messages::delete_topics::DeletableTopicResult;
use wire::messages::describe_cluster::DescribeClusterBroker;
use wire::messages::describe_configs::{
    DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult,
};
use wire::messages::describe_groups::DescribedGroup;
use wire::messages::describe_log_dirs::DescribeLogDirsResult;
use wire::messages::describe_topic_partitions::{
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use wire::messages::find_coordinator::Coordinator;
use wire::messages::incremental_alter_configs::{AlterConfigsResource, AlterConfigsResourceResponse};
use wire::messages::metadata::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
use wire::messages::{
    ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest,
    DeleteTopicsResponse, DescribeClusterResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    DescribeGroupsResponse, DescribeLogDirsResponse, DescribeQuorumResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, FetchRequest, FindCoordinatorResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, ListOffsetsRequest, MetadataResponse, ProduceRequest,
};
use wire::{ApiKey, ErrorCode, Message, Reader, RequestHeader, frame};

use crate::records;

/// A broker that serves these APIs and remembers what it was asked.
pub struct Broker {
    /// Where it listens.
    pub address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Broker {
    /// Begins.
    pub async fn serving(apis: &'static [ApiKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, apis, kept.clone()));
            }
        });
        Self { address, asked }
    }

    /// What comes of this command line.
    pub async fn command(&self, line: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command
            .args(line)
            .args(["--bootstrap", &self.address])
            .env_clear()
            .output()
            .await
            .unwrap()
    }

    /// What it was asked.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, apis: &'static [ApiKey], asked: Arc<Mutex<Vec<String>>>) {
    let port = stream.local_addr().unwrap().port();
    let mut prefix = [0; frame::PREFIX];
    while stream.read_exact(&mut prefix).await.is_ok() {
        let mut body = vec![0; frame::length(prefix, 1 << 20).unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        let mut reader = Reader::new(Bytes::from(body));
        let header = RequestHeader::decode(&mut reader).unwrap();
        let sent = answer(&header, &mut reader, (apis, port), &asked);
        if sent.is_empty() {
            // Never: what is asked next on this connection waits as well.
            std::future::pending::<()>().await;
        }
        stream.write_all(&sent).await.unwrap();
    }
}

/// Nothing where it does not answer.
fn answer(
    header: &RequestHeader,
    reader: &mut Reader,
    (apis, port): (&[ApiKey], u16),
    asked: &Mutex<Vec<String>>,
) -> Bytes {
    let version = header.api_version;
    let note = |text: String| asked.lock().unwrap().push(format!("{} {text}", header.api_key));
    match header.api_key {
        ApiKey::ApiVersions => reply(header, &versions(apis)),
        ApiKey::CreateTopics => {
            let asked = CreateTopicsRequest::decode(version, reader).unwrap();
            let topic = &asked.topics[0];
            note(format!(
                "{} {} {} {:?}",
                topic.name,
                topic.num_partitions,
                topic.replication_factor,
                topic.configs.len()
            ));
            match topic.name.as_str() {
                "stuck" => Bytes::new(),
                name => reply(header, &created(name)),
            }
        }
        ApiKey::DeleteTopics => {
            let asked = DeleteTopicsRequest::decode(version, reader).unwrap();
            let names: Vec<String> = asked.topics.into_iter().filter_map(|topic| topic.name).collect();
            note(names.join(" "));
            reply(header, &deleted(&names))
        }
        ApiKey::Metadata => reply(header, &topics(apis, port)),
        ApiKey::DescribeTopicPartitions => {
            let asked = DescribeTopicPartitionsRequest::decode(version, reader).unwrap();
            note(format!(
                "from {:?}",
                asked.cursor.as_ref().map(|cursor| cursor.partition_index)
            ));
            reply(header, &page(asked.cursor.is_some()))
        }
        ApiKey::DescribeCluster => reply(header, &cluster(port)),
        ApiKey::DescribeLogDirs => reply(header, &log_dirs()),
        ApiKey::DescribeQuorum => {
            let refused = DescribeQuorumResponse {
                error_code: ErrorCode::REQUEST_TIMED_OUT,
                ..Default::default()
            };
            reply(header, &refused)
        }
        ApiKey::DescribeConfigs => {
            let asked = DescribeConfigsRequest::decode(version, reader).unwrap();
            reply(header, &configs(&asked))
        }
        ApiKey::IncrementalAlterConfigs => {
            let asked = IncrementalAlterConfigsRequest::decode(version, reader).unwrap();
            reply(header, &altered(&asked))
        }
        ApiKey::FindCoordinator => reply(header, &coordinator(apis, port)),
        ApiKey::DescribeGroups => {
            let is_ready = !asked.lock().unwrap().is_empty();
            note(String::new());
            reply(header, &no_group(is_ready))
        }
        _ => about_records(header, reader),
    }
}

fn about_records(header: &RequestHeader, reader: &mut Reader) -> Bytes {
    let version = header.api_version;
    match header.api_key {
        ApiKey::JoinGroup => reply(header, &records::not_joined()),
        ApiKey::Produce => {
            let asked = ProduceRequest::decode(version, reader).unwrap();
            reply(header, &records::not_written(&asked))
        }
        ApiKey::ListOffsets => {
            let asked = ListOffsetsRequest::decode(version, reader).unwrap();
            reply(header, &records::offsets(&asked))
        }
        ApiKey::Fetch => {
            let asked = FetchRequest::decode(version, reader).unwrap();
            reply(header, &records::fetched(&asked))
        }
        other => panic!("nobody said that {other} is served"),
    }
}

fn reply<M: Message>(header: &RequestHeader, body: &M) -> Bytes {
    frame::response(header.api_key, header.api_version, header.correlation_id, body)
        .unwrap()
        .into_bytes()
}

fn versions(apis: &[ApiKey]) -> ApiVersionsResponse {
    let range = |api: &ApiKey| ApiVersionRange {
        api_key: api.code(),
        min_version: api.versions().start().0,
        max_version: api.versions().end().0,
    };
    ApiVersionsResponse {
        api_keys: apis.iter().map(range).collect(),
        ..Default::default()
    }
}

fn created(name: &str) -> CreateTopicsResponse {
    let (code, message) = match name {
        "taken" => (ErrorCode::TOPIC_ALREADY_EXISTS, Some("it is there".to_owned())),
        "misspelt" => (
            ErrorCode::INVALID_CONFIG,
            Some("unknown topic configuration: retention.mss".to_owned()),
        ),
        "late" => (
            ErrorCode::REQUEST_TIMED_OUT,
            Some("no controller took it".to_owned()),
        ),
        _ => (ErrorCode::NONE, None),
    };
    let result = CreatableTopicResult {
        name: name.to_owned(),
        error_code: code,
        error_message: message,
        num_partitions: 4,
        replication_factor: 2,
        ..Default::default()
    };
    CreateTopicsResponse {
        topics: vec![result],
        ..Default::default()
    }
}

fn deleted(names: &[String]) -> DeleteTopicsResponse {
    let result = |name: &String| DeletableTopicResult {
        name: Some(name.clone()),
        error_code: if name == "gone" {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else {
            ErrorCode::NONE
        },
        ..Default::default()
    };
    DeleteTopicsResponse {
        responses: names.iter().map(result).collect(),
        ..Default::default()
    }
}

/// Broker 2 leads partition 0, and is the one that is asked where it keeps records. Where there are groups, their partition
/// has lost broker 1.
fn topics(apis: &[ApiKey], port: u16) -> MetadataResponse {
    let partition = |index, leader| MetadataResponsePartition {
        partition_index: index,
        leader_id: leader,
        replica_nodes: vec![1, 2],
        isr_nodes: vec![2],
        ..Default::default()
    };
    let topic = |name: &str, partitions| MetadataResponseTopic {
        name: Some(name.to_owned()),
        partitions,
        ..Default::default()
    };
    let mut topics = vec![topic("orders", vec![partition(1, -1), partition(0, 2)])];
    if apis.contains(&ApiKey::JoinGroup) {
        let lost = MetadataResponsePartition {
            offline_replicas: vec![1],
            ..partition(0, 2)
        };
        topics.push(topic("__consumer_offsets", vec![lost]));
    }
    let broker = MetadataResponseBroker {
        node_id: 2,
        host: "127.0.0.1".to_owned(),
        port: i32::from(port),
        ..Default::default()
    };
    let keeps_records = [ApiKey::Fetch, ApiKey::Produce]
        .iter()
        .any(|api| apis.contains(api));
    MetadataResponse {
        brokers: keeps_records.then_some(broker).into_iter().collect(),
        topics,
        ..Default::default()
    }
}

/// Two partitions on two pages.
fn page(second: bool) -> DescribeTopicPartitionsResponse {
    let partition = DescribeTopicPartitionsResponsePartition {
        partition_index: i32::from(second),
        leader_id: 1,
        replica_nodes: vec![1, 2],
        isr_nodes: vec![1, 2],
        ..Default::default()
    };
    let topic = DescribeTopicPartitionsResponseTopic {
        name: Some("orders".to_owned()),
        partitions: vec![partition],
        ..Default::default()
    };
    let cursor = wire::messages::describe_topic_partitions::Cursor {
        topic_name: "orders".to_owned(),
        partition_index: 1,
    };
    DescribeTopicPartitionsResponse {
        topics: vec![topic],
        next_cursor: (!second).then_some(cursor),
        ..Default::default()
    }
}

/// Whoever serves groups keeps them; else nobody does.
fn coordinator(apis: &[ApiKey], port: u16) -> FindCoordinatorResponse {
    let keeps = [ApiKey::DescribeGroups, ApiKey::JoinGroup];
    let found = match keeps.iter().any(|api| apis.contains(api)) {
        true => Coordinator {
            host: "127.0.0.1".to_owned(),
            port: i32::from(port),
            ..Default::default()
        },
        false => Coordinator {
            error_code: ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ..Default::default()
        },
    };
    FindCoordinatorResponse {
        coordinators: vec![found],
        ..Default::default()
    }
}

/// There is none, which is known once the log is read.
fn no_group(is_ready: bool) -> DescribeGroupsResponse {
    let error_code = match is_ready {
        true => ErrorCode::GROUP_ID_NOT_FOUND,
        false => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
    };
    DescribeGroupsResponse {
        groups: vec![DescribedGroup {
            error_code,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn altered(asked: &IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse {
    let result = |resource: &AlterConfigsResource| AlterConfigsResourceResponse {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        ..Default::default()
    };
    IncrementalAlterConfigsResponse {
        responses: asked.resources.iter().map(result).collect(),
        ..Default::default()
    }
}

/// One that is full, one that has room, one that is dead.
fn log_dirs() -> DescribeLogDirsResponse {
    let dir = |log_dir: &str, usable_bytes, error_code| DescribeLogDirsResult {
        error_code,
        log_dir: log_dir.to_owned(),
        usable_bytes,
        total_bytes: 20 << 30,
        ..Default::default()
    };
    DescribeLogDirsResponse {
        results: vec![
            dir("/full", 4096, ErrorCode::NONE),
            dir("/roomy", 10 << 30, ErrorCode::NONE),
            dir("/dead", -1, ErrorCode::KAFKA_STORAGE_ERROR),
        ],
        ..Default::default()
    }
}

/// Broker 1, which is the one that is asked, and broker 2, which is fenced.
fn cluster(port: u16) -> DescribeClusterResponse {
    let broker = |id, fenced| DescribeClusterBroker {
        broker_id: id,
        host: "127.0.0.1".to_owned(),
        port: i32::from(port),
        is_fenced: fenced,
        ..Default::default()
    };
    DescribeClusterResponse {
        cluster_id: "c1".to_owned(),
        brokers: vec![broker(2, true), broker(1, false)],
        ..Default::default()
    }
}

/// The key that is asked for, where it is one of those that may do nothing.
fn documented(resource: &DescribeConfigsResource) -> Option<&str> {
    match resource.configuration_keys.as_deref() {
        Some([key]) if ["preallocate", "cleanup.policy"].contains(&key.as_str()) => Some(key),
        _ => None,
    }
}

/// Broker 1, which describes itself only and names a controller that is gone; topics want two in sync.
fn configs(asked: &DescribeConfigsRequest) -> DescribeConfigsResponse {
    let config = |name: &str, value: &str| DescribeConfigsResourceResult {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..Default::default()
    };
    let result = |resource: &DescribeConfigsResource| {
        let (code, configs) = match (resource.resource_type, resource.resource_name.as_str()) {
            (4, "1") => (
                ErrorCode::NONE,
                vec![config("controller.quorum.voters", "101@127.0.0.1:1")],
            ),
            (4, _) => (ErrorCode::INVALID_REQUEST, vec![]),
            (2, name) if documented(resource).is_some() => {
                // A topic of ours, and one of a cluster that acts on the key.
                let key = documented(resource).unwrap();
                let known = catalogue().find(Scope::Topic, key).unwrap();
                let says = match name {
                    "ours" => known.documentation(),
                    _ => "It is acted on.",
                };
                let described = DescribeConfigsResourceResult {
                    documentation: Some(says.to_owned()),
                    ..config(key, "true")
                };
                (ErrorCode::NONE, vec![described])
            }
            _ => (ErrorCode::NONE, vec![config("min.insync.replicas", "2")]),
        };
        DescribeConfigsResult {
            error_code: code,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            configs,
            ..Default::default()
        }
    };
    DescribeConfigsResponse {
        results: asked.resources.iter().map(result).collect(),
        ..Default::default()
    }
}
