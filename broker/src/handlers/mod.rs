//! One file per API: typed request in, typed response out. This file only finds the handler.
//!
//! Must not: decide what an API answers, or let a panic of one handler reach another connection.

mod alter_configs;
mod api_versions;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_quorum;
mod describe_topic_partitions;
mod elect_leaders;
mod fetch;
mod fetch_answer;
mod fetch_read;
mod find_coordinator;
mod groups;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_fetch;
mod offset_for_leader_epoch;
mod operations;
mod produce;
mod resources;
mod sync_group;
pub mod topics;

use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use ::metadata::image::Image;
use futures::FutureExt;
use millrace_proto::v1;
use smallvec::{SmallVec, smallvec};
use tracing::{debug, error};
use wire::{ApiKey, ApiVersion, ErrorCode, Message, Reader, Request, RequestHeader, frame};

use crate::errors;
use crate::net::response::Response;
use crate::node::{Node, Published};

/// The APIs with a handler, by key: what ApiVersions advertises.
pub const SERVED: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::SyncGroup,
    ApiKey::DescribeGroups,
    ApiKey::ListGroups,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::DeleteRecords,
    ApiKey::InitProducerId,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::DescribeConfigs,
    ApiKey::AlterConfigs,
    ApiKey::DescribeLogDirs,
    ApiKey::CreatePartitions,
    ApiKey::DeleteGroups,
    ApiKey::ElectLeaders,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::DescribeQuorum,
    ApiKey::DescribeCluster,
    ApiKey::ListConfigResources,
    ApiKey::DescribeTopicPartitions,
];

/// Who everybody is on a listener without authentication.
const ANONYMOUS: &str = "User:ANONYMOUS";

/// Around one request.
#[derive(Clone)]
pub struct Call {
    /// The node that answers.
    pub node: Arc<Node>,
    /// The image that the whole answer is made from (R5.53).
    pub image: Arc<Image>,
    /// Who else is in the answer.
    published: Arc<Published>,
    /// Name of the listener that the request came in on; addresses in answers are of the same.
    pub listener: Arc<str>,
    /// What the client calls itself.
    pub client_id: Option<Arc<str>>,
    /// Where it is.
    pub client_host: IpAddr,
    /// The version asked in.
    pub version: ApiVersion,
}

impl Call {
    /// The same call with the newest image.
    pub fn renewed(self) -> Call {
        let published = self.node.published.load_full();
        Call {
            image: Arc::clone(&published.image),
            published,
            ..self
        }
    }

    /// The cluster's id.
    pub fn cluster_id(&self) -> &str {
        &self.published.cluster_id
    }

    /// Who asks, for the provenance of what a controller decides.
    pub fn caller(&self) -> v1::Caller {
        v1::Caller {
            principal: ANONYMOUS.to_owned(),
            client_id: self.client_id.as_deref().unwrap_or_default().to_owned(),
            client_host: self.client_host.to_string(),
            request_id: self.node.request_id(),
        }
    }

    /// A broker that is alive, as the node to send admin requests to; −1 when there is none.
    pub fn any_live_broker(&self) -> i32 {
        let alive =
            |(_, broker): &(&::metadata::ids::BrokerId, &Arc<::metadata::image::Broker>)| !broker.fenced;
        let count = self.image.brokers.iter().filter(alive).count();
        let chosen = self.node.entropy.below(count as u64);
        let mut alive = self.image.brokers.iter().filter(alive);
        alive
            .nth(usize::try_from(chosen).unwrap_or(0))
            .map_or(-1, |(id, _)| id.0)
    }
}

/// Knows the shape in which an API reports that a whole request failed.
pub trait Refusable: Request {
    /// The response that says `code` wherever the API has a place for it; nothing when no answer is expected.
    fn refused(&self, call: &Call, code: ErrorCode) -> Option<Self::Response>;
}

/// What becomes of a request.
pub enum Answer {
    /// To be sent.
    Send(Response),
    /// Nothing is sent: acks=0.
    Nothing,
    /// The connection must be closed, after earlier answers are sent.
    Close,
}

/// Something that a request at work reports.
pub enum Step {
    /// Everything that it appends is appended or refused (Produce only).
    Appended,
    /// It ended.
    Ended(Answer),
}

/// A report that is still to come.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How far a request is when its handler returns.
pub enum Begun {
    /// It ended.
    Ended(Answer),
    /// These reports will come, one of them its end.
    AtWork(SmallVec<[Later<Step>; 2]>),
}

/// What a connection knows of its client.
#[derive(Clone)]
pub struct Client {
    /// The listener's name.
    pub listener: Arc<str>,
    /// The peer's address.
    pub host: IpAddr,
}

/// Starts to answer one request.
pub fn begin(node: &Arc<Node>, client: &Client, header: &RequestHeader, body: Reader) -> Begun {
    let published = node.published.load_full();
    let call = Call {
        node: Arc::clone(node),
        image: Arc::clone(&published.image),
        published,
        listener: Arc::clone(&client.listener),
        client_id: header.client_id.as_deref().map(Arc::from),
        client_host: client.host,
        version: header.api_version,
    };
    let key = header.api_key;
    if key == ApiKey::ApiVersions && !key.versions().contains(&call.version) {
        return Begun::Ended(plain(header, ApiVersion(0), &api_versions::ask_again()));
    }
    if !SERVED.contains(&key) || !key.versions().contains(&call.version) {
        return Begun::Ended(Answer::Close);
    }
    route(call, header.clone(), body)
}

fn route(call: Call, header: RequestHeader, body: Reader) -> Begun {
    match header.api_key {
        ApiKey::Produce => guard(call, header, body, produce::begin),
        ApiKey::Fetch => guard(call, header, body, fetch::begin),
        ApiKey::ListOffsets => later(call, header, body, list_offsets::answer),
        ApiKey::Metadata => at_once(call, header, body, metadata::answer),
        ApiKey::FindCoordinator => at_once(call, header, body, find_coordinator::answer),
        ApiKey::OffsetCommit => later(call, header, body, offset_commit::answer),
        ApiKey::OffsetFetch => later(call, header, body, offset_fetch::answer),
        ApiKey::JoinGroup => later(call, header, body, join_group::answer),
        ApiKey::Heartbeat => later(call, header, body, heartbeat::answer),
        ApiKey::LeaveGroup => later(call, header, body, leave_group::answer),
        ApiKey::SyncGroup => later(call, header, body, sync_group::answer),
        ApiKey::DescribeGroups => later(call, header, body, describe_groups::answer),
        ApiKey::ListGroups => later(call, header, body, list_groups::answer),
        ApiKey::DeleteGroups => later(call, header, body, delete_groups::answer),
        ApiKey::ApiVersions => at_once(call, header, body, api_versions::answer),
        ApiKey::CreateTopics => later(call, header, body, create_topics::answer),
        ApiKey::DeleteTopics => later(call, header, body, delete_topics::answer),
        ApiKey::DeleteRecords => later(call, header, body, delete_records::answer),
        ApiKey::AlterConfigs => later(call, header, body, alter_configs::answer),
        ApiKey::IncrementalAlterConfigs => later(call, header, body, incremental_alter_configs::answer),
        ApiKey::DescribeLogDirs => later(call, header, body, describe_log_dirs::answer),
        ApiKey::CreatePartitions => later(call, header, body, create_partitions::answer),
        ApiKey::ElectLeaders => later(call, header, body, elect_leaders::answer),
        ApiKey::DescribeQuorum => later(call, header, body, describe_quorum::answer),
        ApiKey::ListConfigResources => at_once(call, header, body, list_config_resources::answer),
        ApiKey::InitProducerId => at_once(call, header, body, init_producer_id::answer),
        ApiKey::OffsetForLeaderEpoch => at_once(call, header, body, offset_for_leader_epoch::answer),
        ApiKey::DescribeConfigs => later(call, header, body, describe_configs::answer),
        ApiKey::DescribeCluster => at_once(call, header, body, describe_cluster::answer),
        ApiKey::DescribeTopicPartitions => at_once(call, header, body, describe_topic_partitions::answer),
        _ => Begun::Ended(Answer::Close),
    }
}

/// A handler that answers at once.
fn at_once<R: Refusable + 'static>(
    call: Call,
    header: RequestHeader,
    body: Reader,
    handler: fn(&Call, &R) -> R::Response,
) -> Begun {
    guard(call, header, body, move |call, header, request: R| {
        Begun::Ended(plain(&header, call.version, &handler(&call, &request)))
    })
}

/// A handler that has to wait for others.
fn later<R, F>(call: Call, header: RequestHeader, body: Reader, handler: fn(Call, R) -> F) -> Begun
where
    R: Refusable + Send + 'static,
    R::Response: Send,
    F: Future<Output = R::Response> + Send + 'static,
{
    guard(call, header, body, move |call, header, request: R| {
        at_work(async move {
            let version = call.version;
            plain(&header, version, &handler(call, request).await)
        })
    })
}

/// A request whose only report is its end.
pub fn at_work(answering: impl Future<Output = Answer> + Send + 'static) -> Begun {
    Begun::AtWork(smallvec![Box::pin(answering.map(Step::Ended)) as Later<Step>])
}

/// Decodes the request and starts its handler. A panic there becomes an answer in the API's own shape.
fn guard<R: Refusable + 'static>(
    call: Call,
    header: RequestHeader,
    mut body: Reader,
    start: impl FnOnce(Call, RequestHeader, R) -> Begun,
) -> Begun {
    let again = body.clone();
    let request = match R::decode(call.version, &mut body) {
        Ok(request) => request,
        Err(error) => {
            debug!(%error, host = %call.client_host, "a request cannot be read");
            return Begun::Ended(Answer::Close);
        }
    };
    let (kept_call, kept_header) = (call.clone(), header.clone());
    let started = std::panic::catch_unwind(AssertUnwindSafe(|| start(call, header, request)));
    match started {
        Err(_) => Begun::Ended(crashed::<R>(&kept_call, &kept_header, again)),
        Ok(Begun::Ended(answer)) => Begun::Ended(answer),
        Ok(Begun::AtWork(mut steps)) => {
            if let Some(last) = steps.pop() {
                steps.push(Box::pin(AssertUnwindSafe(last).catch_unwind().map(move |step| {
                    step.unwrap_or_else(|_| Step::Ended(crashed::<R>(&kept_call, &kept_header, again)))
                })));
            }
            Begun::AtWork(steps)
        }
    }
}

/// The answer of a handler that panicked.
fn crashed<R: Refusable>(call: &Call, header: &RequestHeader, mut body: Reader) -> Answer {
    error!(api = %header.api_key, version = %header.api_version, "a handler panicked; its request is refused");
    let refused = R::decode(call.version, &mut body)
        .ok()
        .and_then(|request| request.refused(call, errors::CRASHED));
    refused.map_or(Answer::Close, |response| plain(header, call.version, &response))
}

/// A response without records.
pub fn plain<M: Message>(header: &RequestHeader, version: ApiVersion, response: &M) -> Answer {
    match frame::response(header.api_key, version, header.correlation_id, response) {
        Ok(encoded) => Answer::Send(Response::plain(encoded)),
        Err(error) => {
            error!(api = %header.api_key, %version, %error, "a response cannot be written");
            Answer::Close
        }
    }
}
