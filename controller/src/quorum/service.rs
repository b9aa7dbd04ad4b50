//! What other controllers ask of this one: the gRPC side of [`super::network`].
//!
//! Every message is checked for its address first. Must not decide anything: the consensus library does.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use host::OpenHow;
use millrace_proto::v1;
use millrace_proto::v1::quorum_server::{Quorum as QuorumRpc, QuorumServer};
use openraft::Snapshot;
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::{Request, Response, Status, Streaming};

use super::Quorum;
use super::append_stream::UNANSWERED_MAX;
use super::network::{MESSAGE_BYTES_MAX, PRE_VOTE, REAL_VOTE};
use super::snapshots::SnapshotFile;
use super::types::{SnapshotMeta, TypeConfig, Vote, damaged, decode_snapshot_meta, decode_vote};

const VOTE_BYTES: usize = 17;

/// The server for controllers.
pub fn server(quorum: Arc<Quorum>) -> QuorumServer<Peers> {
    QuorumServer::new(Peers {
        quorum,
        installs: AtomicU64::new(0),
    })
    .max_decoding_message_size(MESSAGE_BYTES_MAX)
    .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// Answers other controllers.
pub struct Peers {
    quorum: Arc<Quorum>,
    /// Numbers the snapshots that come in, so that two never share a file.
    installs: AtomicU64,
}

/// A message for this node, or the answer that says why it is not.
fn accept<T: DeserializeOwned>(
    quorum: &Quorum,
    message: &v1::Addressed,
    skip: usize,
) -> Result<T, v1::Answer> {
    accept_bytes(quorum, message)?;
    let payload = message.payload.get(skip..).unwrap_or_default();
    postcard::from_bytes(payload).map_err(|error| misdirected(&format!("not understood: {error}")))
}

fn accept_bytes(quorum: &Quorum, message: &v1::Addressed) -> Result<(), v1::Answer> {
    match quorum.addressing.refuse(message) {
        Some(why) => Err(misdirected(&why)),
        None => Ok(()),
    }
}

fn misdirected(why: &str) -> v1::Answer {
    v1::Answer {
        payload: Bytes::new(),
        misdirected: Some(why.to_owned()),
    }
}

/// Has the consensus core answer, unless this node is stopping.
async fn answer<T, E>(quorum: &Quorum, call: impl Future<Output = Result<T, E>>) -> Result<v1::Answer, Status>
where
    T: Serialize,
    E: std::fmt::Display,
{
    let Some(_taking_part) = quorum.taking_part().await else {
        return Err(Status::unavailable("this controller is stopping"));
    };
    let value = call
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let payload = postcard::to_allocvec(&value).map_err(|error| Status::internal(error.to_string()))?;
    Ok(v1::Answer {
        payload: payload.into(),
        misdirected: None,
    })
}

async fn answer_append(quorum: &Quorum, message: &v1::Addressed) -> Result<v1::Answer, Status> {
    match accept::<AppendEntriesRequest<TypeConfig>>(quorum, message, 0) {
        Ok(request) => answer(quorum, quorum.raft.append_entries(request)).await,
        Err(refused) => Ok(refused),
    }
}

#[tonic::async_trait]
impl QuorumRpc for Peers {
    type AppendStream = BoxStream<'static, Result<v1::Answer, Status>>;

    /// Messages go to the core as they come: a heartbeat must not wait until the entries before it are durable, or a
    /// slow disk would look like a leader that is gone. Answers leave in the order of the messages.
    async fn append(
        &self,
        request: Request<Streaming<v1::Addressed>>,
    ) -> Result<Response<Self::AppendStream>, Status> {
        let quorum = self.quorum.clone();
        let answers = request.into_inner().map(move |message| {
            let quorum = quorum.clone();
            async move { answer_append(&quorum, &message?).await }
        });
        Ok(Response::new(answers.buffered(UNANSWERED_MAX).boxed()))
    }

    async fn vote(&self, request: Request<v1::Addressed>) -> Result<Response<v1::Answer>, Status> {
        let message = request.into_inner();
        let rpc = match accept::<VoteRequest<TypeConfig>>(&self.quorum, &message, 1) {
            Ok(rpc) => rpc,
            Err(refused) => return Ok(Response::new(refused)),
        };
        let (quorum, raft) = (&self.quorum, &self.quorum.raft);
        let answered = match message.payload.first() {
            Some(&REAL_VOTE) => answer(quorum, raft.vote(rpc)).await?,
            Some(&PRE_VOTE) => answer(quorum, raft.pre_vote(rpc)).await?,
            _ => misdirected("a vote of unknown kind"),
        };
        Ok(Response::new(answered))
    }

    async fn transfer(&self, request: Request<v1::Addressed>) -> Result<Response<v1::Answer>, Status> {
        let message = request.into_inner();
        let answered = match accept::<TransferLeaderRequest<TypeConfig>>(&self.quorum, &message, 0) {
            Ok(rpc) => answer(&self.quorum, self.quorum.raft.handle_transfer_leader(rpc)).await?,
            Err(refused) => refused,
        };
        Ok(Response::new(answered))
    }

    async fn install(
        &self,
        request: Request<Streaming<v1::SnapshotChunk>>,
    ) -> Result<Response<v1::Answer>, Status> {
        let mut chunks = request.into_inner();
        let first = chunks.message().await?;
        let Some(description) = first.and_then(|chunk| chunk.description) else {
            return Err(Status::invalid_argument("a snapshot without its description"));
        };
        if let Err(refused) = accept_bytes(&self.quorum, &description) {
            return Ok(Response::new(refused));
        }
        let undecodable = |error: io::Error| Status::invalid_argument(error.to_string());
        if description.payload.len() < VOTE_BYTES {
            return Err(Status::invalid_argument("a snapshot without its vote"));
        }
        let vote = decode_vote(&description.payload.slice(..VOTE_BYTES)).map_err(undecodable)?;
        let meta = decode_snapshot_meta(&description.payload.slice(VOTE_BYTES..)).map_err(undecodable)?;
        let number = self.installs.fetch_add(1, Ordering::Relaxed);
        let path = self
            .quorum
            .snapshots
            .incoming(&format!("{}-{number}", description.sender));
        let installed = self.install_from(chunks, vote, meta, path.clone()).await;
        // What did not become a snapshot must not fill the disk.
        let snapshots = self.quorum.snapshots.clone();
        if let Err(fault) = self
            .quorum
            .snapshots
            .blocking(move || snapshots.discard(&path))
            .await
        {
            tracing::warn!(%fault, "a snapshot that was not installed is left behind");
        }
        installed.map(Response::new)
    }

    async fn probe(&self, request: Request<v1::ProbeRequest>) -> Result<Response<v1::ProbeReply>, Status> {
        let asked = request.into_inner();
        Ok(Response::new(self.quorum.answer_probe(&asked)))
    }
}

impl Peers {
    async fn install_from(
        &self,
        chunks: Streaming<v1::SnapshotChunk>,
        vote: Vote,
        meta: SnapshotMeta,
        path: PathBuf,
    ) -> Result<v1::Answer, Status> {
        let snapshot = self.receive(chunks, &meta, path).await?;
        let snapshot = Snapshot { meta, snapshot };
        answer(
            &self.quorum,
            self.quorum.raft.install_full_snapshot(vote, snapshot),
        )
        .await
    }

    /// Puts the pieces of a snapshot into a synced file. One that is not whole, or another than was announced, is
    /// refused here: the consensus library would take it for a fault of this node's own disk.
    async fn receive(
        &self,
        mut chunks: Streaming<v1::SnapshotChunk>,
        meta: &SnapshotMeta,
        path: PathBuf,
    ) -> Result<SnapshotFile, Status> {
        let failed = |error: io::Error| Status::unavailable(error.to_string());
        let snapshots = &self.quorum.snapshots;
        let (disk, opened) = (snapshots.disk().clone(), path.clone());
        let opening = move || {
            let file = disk.open(&opened, OpenHow::CreateOrWrite)?;
            file.set_len(0)?;
            Ok(file)
        };
        let file = snapshots.blocking(opening).await.map_err(failed)?;
        let mut at = 0;
        while let Some(chunk) = chunks.message().await? {
            let (file, bytes, begin) = (file.clone(), chunk.bytes, at);
            at += bytes.len() as u64;
            let writing = move || file.write_at(&bytes, begin);
            snapshots.blocking(writing).await.map_err(failed)?;
        }
        let (reader, received, announced) = (snapshots.clone(), path.clone(), meta.last_log_id);
        let checking = move || {
            file.sync_data()?;
            let (found, _) = reader.read(&received)?;
            if found.last_log_id != announced {
                return Err(damaged("the snapshot received is not the one announced"));
            }
            Ok(())
        };
        snapshots.blocking(checking).await.map_err(failed)?;
        Ok(SnapshotFile { path })
    }
}
