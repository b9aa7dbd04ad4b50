//! The consensus library's messages to other controllers, over gRPC.
//!
//! Replication, heartbeats and snapshots have a connection each, so that a large message never delays a small one.
//! Names are resolved at every dial, and failing to resolve is one more way of being unreachable. Must not retry: the
//! library does.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use millrace_proto::v1::quorum_client::QuorumClient;
use millrace_proto::v1::{Addressed, Answer, SnapshotChunk};
use openraft::OptionalSend;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::addressing::Addressing;
use super::append_stream::AppendStream;
use super::snapshots::{SnapshotFile, Snapshots};
use super::types::{Peer, TypeConfig, Vote, encode_snapshot_meta, encode_vote};

/// Largest message taken: a batch is at most 4 MiB.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
const SNAPSHOT_PIECE_BYTES: usize = 256 * 1024;
const DIAL_TIMEOUT: Duration = Duration::from_millis(500);
/// A follower has taken an append by then, or does not keep up.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// A snapshot of hundreds of MiB takes a while; a follower without any would wait longer.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(120);

/// Marks what a `Vote` message carries, in its first byte.
pub const REAL_VOTE: u8 = 0;
/// A question whether a vote would be given; it changes nothing.
pub const PRE_VOTE: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    Replication,
    Heartbeat,
    Snapshot,
}

/// Makes connections to peers; those with one purpose to one address share a channel.
#[derive(Clone)]
pub struct Network {
    addressing: Arc<Addressing>,
    snapshots: Snapshots,
    channels: Arc<Mutex<HashMap<(Purpose, String), Channel>>>,
}

impl Network {
    /// A network in the name of this node.
    pub fn new(addressing: Arc<Addressing>, snapshots: Snapshots) -> Network {
        Network {
            addressing,
            snapshots,
            channels: Arc::default(),
        }
    }

    fn connection(&self, target: u64, peer: &Peer, purpose: Purpose) -> Connection {
        // The configuration knows best where a controller is now; the membership knows which disk is meant.
        let configured = self.addressing.voters().get(&target);
        let address = configured.unwrap_or(&peer.address);
        Connection {
            target,
            directory: peer.directory.clone(),
            client: self.channel(purpose, address).map(client),
            addressing: self.addressing.clone(),
            snapshots: self.snapshots.clone(),
            stream: None,
        }
    }

    /// A channel that dials when it is used and again after every loss, resolving the name each time.
    fn channel(&self, purpose: Purpose, address: &str) -> Option<Channel> {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.get(&(purpose, address.to_owned())) {
            return Some(channel.clone());
        }
        let endpoint = Endpoint::from_shared(format!("http://{address}")).ok()?;
        let channel = self.addressing.dial(
            endpoint
                .connect_timeout(DIAL_TIMEOUT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
                .keep_alive_timeout(KEEPALIVE_INTERVAL)
                .keep_alive_while_idle(true),
        );
        channels.insert((purpose, address.to_owned()), channel.clone());
        Some(channel)
    }
}

fn client(channel: Channel) -> QuorumClient<Channel> {
    QuorumClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &Peer) -> Connection {
        self.connection(target, node, Purpose::Replication)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Peer) -> Connection {
        self.connection(target, node, Purpose::Heartbeat)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Peer) -> Connection {
        self.connection(target, node, Purpose::Snapshot)
    }
}

/// One peer, for one purpose.
pub struct Connection {
    target: u64,
    directory: String,
    /// `None` if the address cannot be an address.
    client: Option<QuorumClient<Channel>>,
    addressing: Arc<Addressing>,
    snapshots: Snapshots,
    /// None until something is to be appended, and after a failure.
    stream: Option<AppendStream>,
}

type Failure = RPCError<TypeConfig>;

impl Connection {
    fn addressed<T: Serialize>(&self, tag: Option<u8>, message: &T) -> Result<Addressed, Failure> {
        let mut payload: Vec<u8> = tag.into_iter().collect();
        payload.extend(postcard::to_allocvec(message).map_err(|error| broken(&error))?);
        Ok(self.addressing.address(self.target, &self.directory, payload))
    }

    fn client(&self) -> Result<QuorumClient<Channel>, Failure> {
        self.client
            .clone()
            .ok_or_else(|| unreachable("its address cannot be dialled"))
    }

    fn payload<T: DeserializeOwned>(&self, answer: Answer) -> Result<T, Failure> {
        if let Some(why) = answer.misdirected {
            self.addressing.note_refusal(self.target, &why);
            return Err(unreachable(&why));
        }
        postcard::from_bytes(&answer.payload).map_err(|error| broken(&error))
    }

    async fn append(&mut self, message: Addressed) -> Result<Answer, Failure> {
        let client = self.client()?;
        let stream = self.stream.get_or_insert_with(|| AppendStream::open(client));
        // The library's own limit, one heartbeat, would cut off a large message to a loaded machine for ever.
        let asked = tokio::time::timeout(ANSWER_TIMEOUT, stream.ask(message)).await;
        let asked = asked.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
        asked.map_err(|status| {
            self.stream = None;
            unreachable(&status.to_string())
        })
    }

    async fn send_snapshot(
        &self,
        vote: Vote,
        snapshot: openraft::alias::SnapshotOf<TypeConfig, SnapshotFile>,
    ) -> Result<SnapshotResponse<TypeConfig>, Failure> {
        let mut description = encode_vote(&vote).to_vec();
        description.extend_from_slice(&encode_snapshot_meta(&snapshot.meta));
        let description = self.addressing.address(self.target, &self.directory, description);
        let (pieces, outbound) = mpsc::channel(4);
        let mut client = self.client()?;
        let first = SnapshotChunk {
            description: Some(description),
            bytes: bytes::Bytes::new(),
        };
        let sending = send_pieces(self.snapshots.clone(), snapshot.snapshot, first, pieces);
        let answering = client.install(ReceiverStream::new(outbound));
        let (sent, answer) = tokio::join!(sending, answering);
        let answer = answer.map_err(|status| unreachable(&status.to_string()))?;
        sent.map_err(|error| broken(&error))?;
        self.payload(answer.into_inner())
    }
}

/// Sends a file in pieces; ends early when the receiver has gone.
async fn send_pieces(
    snapshots: Snapshots,
    snapshot: SnapshotFile,
    first: SnapshotChunk,
    pieces: mpsc::Sender<SnapshotChunk>,
) -> std::io::Result<()> {
    let mut at = 0;
    let mut next = Some(first);
    let disk = snapshots.disk().clone();
    let opening = move || disk.open(&snapshot.path, host::OpenHow::Read);
    let file = snapshots.blocking(opening).await?;
    while let Some(piece) = next {
        if pieces.send(piece).await.is_err() {
            return Ok(());
        }
        let file = file.clone();
        let reading = move || {
            let mut bytes = vec![0; SNAPSHOT_PIECE_BYTES];
            let count = file.read_at(&mut bytes, at)?;
            bytes.truncate(count);
            Ok(bytes)
        };
        let read = snapshots.blocking(reading).await?;
        at += read.len() as u64;
        next = (!read.is_empty()).then(|| SnapshotChunk {
            description: None,
            bytes: read.into(),
        });
    }
    Ok(())
}

impl RaftNetworkV2<TypeConfig> for Connection {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, Failure> {
        let message = self.addressed(None, &rpc)?;
        let answer = self.append(message).await?;
        self.payload(answer)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Failure> {
        self.ask_for_vote(REAL_VOTE, &rpc, &option).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Failure> {
        self.ask_for_vote(PRE_VOTE, &rpc, &option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: openraft::alias::SnapshotOf<TypeConfig, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        tokio::select! {
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = tokio::time::timeout(SNAPSHOT_TIMEOUT, self.send_snapshot(vote, snapshot)) => match sent {
                Ok(answered) => answered.map_err(StreamingError::from),
                Err(_) => Err(unreachable("the snapshot was not taken in time").into()),
            },
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, Failure> {
        let message = self.addressed(None, &req)?;
        let mut client = self.client()?;
        let answer = tokio::time::timeout(option.soft_ttl(), client.transfer(message)).await;
        let answer = answer.map_err(|_| unreachable("no answer in time"))?;
        let answer = answer.map_err(|status| unreachable(&status.to_string()))?;
        self.payload(answer.into_inner())
    }
}

impl Connection {
    async fn ask_for_vote(
        &mut self,
        kind: u8,
        rpc: &VoteRequest<TypeConfig>,
        option: &RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Failure> {
        let message = self.addressed(Some(kind), rpc)?;
        let mut client = self.client()?;
        let answer = tokio::time::timeout(option.soft_ttl(), client.vote(message)).await;
        let answer = answer.map_err(|_| unreachable("no answer in time"))?;
        let answer = answer.map_err(|status| unreachable(&status.to_string()))?;
        self.payload(answer.into_inner())
    }
}

fn unreachable(why: &str) -> Failure {
    RPCError::Unreachable(Unreachable::from_string(why))
}

fn broken(error: &impl std::fmt::Display) -> Failure {
    RPCError::Network(NetworkError::from_string(error))
}
