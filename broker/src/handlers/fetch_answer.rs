//! Puts the answer of a fetch together: numbers around slices of files.
//!
//! Must not: read.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker_core::hints;
use broker_core::session::{Answered, Notice, PartitionKey, Records as HasRecords, SessionId, TopicKey};
use bytes::Bytes;
use metadata::ids::BrokerId;
use partition_log::AbortedTransaction as Aborted;
use wire::messages::fetch::{
    AbortedTransaction, EpochEndOffset, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch,
    NodeEndpoint, PartitionData,
};
use wire::{ErrorCode, Records, RequestHeader, frame};

use super::fetch_read::{Failure, Read, Resolved};
use super::{Answer, Call};
use crate::metrics::AskedBy;
use crate::net::response::{FileSlice, Response};
use crate::seam;

/// First version whose clients take leader hints.
const WITH_HINTS: i16 = 16;

/// What the session must know of an answer.
pub fn noted(read: &Result<Read, Failure>) -> Answered {
    match read {
        Err(_) => Answered::Failed,
        Ok(read) => Answered::Read {
            records: if read.size() == 0 {
                HasRecords::None
            } else {
                HasRecords::Some
            },
            watermark: read.watermark,
            log_start: read.log_start,
            notice: if read.diverging.is_some() {
                Notice::Diverging
            } else {
                Notice::None
            },
        },
    }
}

/// The whole answer.
pub fn assemble<'a>(
    call: &Call,
    header: &RequestHeader,
    session: Option<SessionId>,
    listed: impl Iterator<Item = (&'a PartitionKey, Result<Read, Failure>)>,
    asked_by: AskedBy,
) -> Answer {
    let (response, slices) = response(call, session, listed);
    match frame::response(header.api_key, call.version, header.correlation_id, &response) {
        Ok(encoded) => Answer::Send(Response::with_slices(encoded, &slices).asked_by(asked_by)),
        Err(error) => {
            tracing::error!(%error, "a fetch cannot be answered");
            Answer::Close
        }
    }
}

/// The message, and the slices that its slots stand for.
pub fn response<'a>(
    call: &Call,
    session: Option<SessionId>,
    listed: impl Iterator<Item = (&'a PartitionKey, Result<Read, Failure>)>,
) -> (FetchResponse, Vec<FileSlice>) {
    let mut slices = Vec::new();
    let mut told = BTreeSet::new();
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut last: Option<&TopicKey> = None;
    for (key, read) in listed {
        let partition = match read {
            Ok(read) => given(key.index.0, read, &mut slices),
            Err(failure) => failed(call, key.index.0, &failure, &mut told),
        };
        if last != Some(&key.topic) {
            responses.push(of_topic(&key.topic));
            last = Some(&key.topic);
        }
        if let Some(topic) = responses.last_mut() {
            topic.partitions.push(partition);
        }
    }
    let response = FetchResponse {
        session_id: session.map_or(0, |session| session.0),
        responses,
        node_endpoints: endpoints(call, &told),
        ..Default::default()
    };
    (response, slices)
}

fn of_topic(key: &TopicKey) -> FetchableTopicResponse {
    match key {
        TopicKey::Name(name) => FetchableTopicResponse {
            topic: name.to_string(),
            ..Default::default()
        },
        TopicKey::Id(id) => FetchableTopicResponse {
            topic_id: seam::topic_to_wire(*id),
            ..Default::default()
        },
    }
}

fn given(index: i32, read: Read, slices: &mut Vec<FileSlice>) -> PartitionData {
    let records = match read.slice {
        Some(slice) => {
            let id = u32::try_from(slices.len()).expect("a request has fewer partitions than 2^32");
            let size = slice.size_bytes as usize;
            slices.push(FileSlice {
                file: slice.file,
                at: slice.position,
                size,
            });
            Records::Slot { id, size }
        }
        None => Records::Bytes(Bytes::new()),
    };
    let aborted = |transaction: Aborted| AbortedTransaction {
        producer_id: transaction.producer.0,
        first_offset: transaction.first.0,
    };
    PartitionData {
        partition_index: index,
        high_watermark: read.watermark.0.0,
        last_stable_offset: read.last_stable.0,
        log_start_offset: read.log_start.0.0,
        diverging_epoch: read
            .diverging
            .map(|end| EpochEndOffset {
                epoch: end.epoch.0,
                end_offset: end.end.0,
            })
            .unwrap_or_default(),
        aborted_transactions: read.aborted.map(|all| all.into_iter().map(aborted).collect()),
        records,
        ..Default::default()
    }
}

fn failed(call: &Call, index: i32, failure: &Failure, told: &mut BTreeSet<BrokerId>) -> PartitionData {
    let names_leader = matches!(
        failure.code,
        ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH
    );
    let hint = failure
        .hint
        .filter(|_| names_leader && WITH_HINTS <= call.version.0);
    told.extend(hint.and_then(|hint| hint.leader));
    PartitionData {
        partition_index: index,
        error_code: failure.code,
        high_watermark: -1,
        current_leader: hint.map_or_else(LeaderIdAndEpoch::default, |hint| LeaderIdAndEpoch {
            leader_id: hint.leader.map_or(-1, |leader| leader.0),
            leader_epoch: hint.epoch.0,
        }),
        aborted_transactions: match failure.resolved {
            Resolved::Yes => None,
            Resolved::No => Some(Vec::new()),
        },
        records: Records::Bytes(Bytes::new()),
        ..Default::default()
    }
}

fn endpoints(call: &Call, told: &BTreeSet<BrokerId>) -> Vec<NodeEndpoint> {
    let image = Arc::clone(&call.node.published.load().image);
    let endpoint = |leader: &BrokerId| {
        let (endpoint, rack) = hints::leader_endpoint(&image, *leader, &call.listener)?;
        Some(NodeEndpoint {
            node_id: leader.0,
            host: endpoint.host.clone(),
            port: i32::from(endpoint.port),
            rack: rack.map(str::to_owned),
        })
    };
    told.iter().filter_map(endpoint).collect()
}
