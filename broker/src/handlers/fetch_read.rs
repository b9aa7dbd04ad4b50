//! Reads one partition of a fetch: the checks in Kafka's order, then a slice of its log (F-2 to F-9, F-22).
//!
//! Must not: wait, or touch the records.

use std::sync::Arc;

use broker_core::fetch::{
    self, Allowance, Bound, Budget, Claim, FetchRefusal, Isolation, LeaderHint, Reader, Sizes,
};
use broker_core::offsets::{EpochEnd, HighWatermark, LogEnd, LogStart, Offset};
use broker_core::replica::FollowerFetch;
use broker_core::session::{PartitionKey, TopicKey, Wanted};
use metadata::ids::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionId};
use metadata::image::Topic;
use partition_log::{AbortedTransaction, FileSlice, FirstBatch};
use wire::ErrorCode;

use super::Call;
use crate::errors;
use crate::seam;
use crate::storage::hosted::{Hosted, NotHere};
use crate::storage::lane::Event;

/// Who reads, and how.
pub(super) struct Reading {
    pub reader: Reader,
    pub sizes: Sizes,
    /// A limit of the request, or its isolation, is one that no request has.
    pub nonsense: Option<ErrorCode>,
}

/// What one partition gives.
pub struct Read {
    /// Where it was read.
    pub hosted: Arc<Hosted>,
    /// Under which leadership.
    pub leader_epoch: LeaderEpoch,
    /// The watermark before the read.
    pub watermark: HighWatermark,
    /// The last stable offset before the read.
    pub last_stable: Offset,
    /// First readable offset.
    pub log_start: LogStart,
    /// The log end before the read.
    pub log_end: LogEnd,
    /// The records, if there are any for this reader.
    pub slice: Option<FileSlice>,
    /// Where the reader's history leaves ours.
    pub diverging: Option<EpochEnd>,
    /// Transactions whose records a read-committed reader skips.
    pub aborted: Option<Vec<AbortedTransaction>>,
}

impl Read {
    /// Bytes of records.
    pub fn size(&self) -> usize {
        self.slice.as_ref().map_or(0, |slice| slice.size_bytes as usize)
    }
}

/// Why a partition gives nothing.
pub struct Failure {
    /// Told to the client.
    pub code: ErrorCode,
    /// Who leads, where that helps (F-6).
    pub hint: Option<LeaderHint>,
    /// Whether the list of aborted transactions is null or empty: clients see both (F-9).
    pub resolved: Resolved,
    /// The log that could not be read, where that is why.
    pub broken: Option<Arc<Hosted>>,
}

/// Whether the partition was found at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It was, and reading failed.
    Yes,
    /// It was not.
    No,
}

impl Failure {
    /// A failure of reading that says nothing but its code.
    pub fn plain(code: ErrorCode) -> Failure {
        Failure {
            code,
            hint: None,
            resolved: Resolved::Yes,
            broken: None,
        }
    }

    fn unresolved(code: ErrorCode) -> Failure {
        Failure {
            resolved: Resolved::No,
            ..Failure::plain(code)
        }
    }
}

impl From<FetchRefusal> for Failure {
    fn from(refusal: FetchRefusal) -> Failure {
        let hint = match refusal {
            FetchRefusal::NotLeader { hint }
            | FetchRefusal::FencedLeaderEpoch { hint, .. }
            | FetchRefusal::NotAReplica { hint, .. }
            | FetchRefusal::StaleBrokerEpoch { hint, .. } => Some(hint),
            FetchRefusal::InconsistentTopicId { .. }
            | FetchRefusal::LogOffline
            | FetchRefusal::UnknownLeaderEpoch { .. }
            | FetchRefusal::OffsetOutOfRange { .. } => None,
        };
        Failure {
            hint,
            ..Failure::plain(errors::of_fetch(&refusal))
        }
    }
}

fn topic<'a>(call: &'a Call, key: &TopicKey) -> Result<&'a Arc<Topic>, Failure> {
    match key {
        TopicKey::Id(id) => call
            .image
            .topics
            .get(id)
            .ok_or_else(|| Failure::unresolved(ErrorCode::UNKNOWN_TOPIC_ID)),
        TopicKey::Name(name) => {
            let known = call.image.topic_named(name);
            known.ok_or_else(|| Failure::unresolved(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))
        }
    }
}

/// The replica here, if there is one.
pub fn hosted(call: &Call, key: &PartitionKey) -> Option<Arc<Hosted>> {
    let topic = topic(call, &key.topic).ok()?.id;
    call.node.partitions.get(PartitionId {
        topic,
        index: key.index,
    })
}

/// Reads one partition.
///
/// # Errors
/// The first check that fails.
pub fn read(
    call: &Call,
    reading: &Reading,
    key: &PartitionKey,
    wanted: &Wanted,
    budget: &Budget,
) -> Result<Read, Failure> {
    let (hosted, bound, leader_epoch) = admitted(call, reading, key, wanted)?;
    let size_max = budget
        .next_partition(wanted.max_bytes)
        .map_err(|_| Failure::plain(errors::NEGATIVE_FETCH_SIZE))?;
    let mut read = unread(&hosted, leader_epoch);
    if let Some(last_fetched) = wanted.last_fetched_epoch {
        let found = epoch_end(&hosted, last_fetched);
        read.diverging = fetch::divergence(last_fetched, wanted.offset, found, read.log_start, read.log_end)?;
        if read.diverging.is_some() {
            return Ok(read);
        }
    }
    fetch::check_range(wanted.offset, read.log_start, read.log_end)?;
    let upto = match bound {
        Bound::LogEnd => read.log_end.0,
        Bound::Watermark => read.watermark.0,
        Bound::LastStable => read.last_stable,
    };
    let (limit, first) = match size_max {
        Allowance::OneBatchOrUpTo(limit) => (limit, FirstBatch::Whole),
        Allowance::UpTo(limit) => (limit, FirstBatch::WithinLimit),
    };
    if wanted.offset < upto {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let slice = hosted
            .log
            .read(seam::to_log(wanted.offset), seam::to_log(upto), limit, first);
        read.slice = slice.map_err(|error| Failure {
            broken: Some(Arc::clone(&hosted)),
            ..Failure::plain(errors::of_read(&error))
        })?;
    }
    if let Reader::Consumer {
        isolation: Isolation::ReadCommitted,
        ..
    } = reading.reader
    {
        read.aborted = Some(aborted(&hosted, wanted.offset, upto, read.slice.as_ref())?);
    }
    Ok(read)
}

/// The replica here, how far this reader may see, and under which leadership (F-2 to F-7).
fn admitted(
    call: &Call,
    reading: &Reading,
    key: &PartitionKey,
    wanted: &Wanted,
) -> Result<(Arc<Hosted>, Bound, LeaderEpoch), Failure> {
    let topic = topic(call, &key.topic)?;
    let id = PartitionId {
        topic: topic.id,
        index: key.index,
    };
    let state = topic
        .partitions
        .get(&key.index)
        .ok_or_else(|| Failure::unresolved(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
    let hosted = call
        .node
        .partitions
        .find(id, state, call.node.id)
        .map_err(|why| match why {
            NotHere::Unopened => FetchRefusal::LogOffline,
            NotHere::Unknown => {
                let hint = LeaderHint {
                    leader: state.leader,
                    epoch: state.leader_epoch,
                };
                FetchRefusal::NotLeader { hint }
            }
        })?;
    let seen = hosted.seen.load_full();
    let claim = Claim {
        leader_epoch: wanted.leader_epoch,
        topic: match key.topic {
            TopicKey::Id(id) => Some(id),
            TopicKey::Name(_) => None,
        },
    };
    let bound = fetch::admit(&seen.view, &seen.assignment, reading.reader, claim)?;
    Ok((hosted, bound, seen.view.leader_epoch))
}

/// What is said of a partition whatever comes of the read. The watermark is older than the records, never newer (F-9).
fn unread(hosted: &Arc<Hosted>, leader_epoch: LeaderEpoch) -> Read {
    let bounds = hosted.log.bounds();
    Read {
        hosted: Arc::clone(hosted),
        leader_epoch,
        watermark: HighWatermark(seam::to_core(bounds.high_watermark)),
        last_stable: seam::to_core(bounds.last_stable),
        log_start: LogStart(seam::to_core(bounds.log_start)),
        log_end: LogEnd(seam::to_core(bounds.log_end)),
        slice: None,
        diverging: None,
        aborted: None,
    }
}

fn aborted(
    hosted: &Hosted,
    from: Offset,
    upto: Offset,
    slice: Option<&FileSlice>,
) -> Result<Vec<AbortedTransaction>, Failure> {
    if slice.is_none() {
        return Ok(Vec::new());
    }
    let found = hosted
        .log
        .aborted_transactions(seam::to_log(from), seam::to_log(upto));
    found.map_err(|fault| Failure::plain(errors::of_fault(&fault)))
}

/// Where an epoch ended in this log (L-51).
pub fn epoch_end(hosted: &Hosted, epoch: LeaderEpoch) -> Option<EpochEnd> {
    match hosted.log.end_offset_for_epoch(seam::epoch_to_log(epoch)) {
        partition_log::EpochEnd::Undefined => None,
        partition_log::EpochEnd::At { epoch, end } => Some(EpochEnd {
            epoch: seam::epoch_to_core(epoch),
            end: seam::to_core(end),
        }),
    }
}

/// Tells the lane that a follower fetched (F-29).
pub fn report(call: &Call, follower: BrokerId, epoch: Option<BrokerEpoch>, wanted: &Wanted, read: &Read) {
    let fetch = FollowerFetch {
        leader_epoch: read.leader_epoch,
        broker_epoch: epoch,
        fetch_offset: LogEnd(wanted.offset),
        log_start: wanted.log_start.unwrap_or(read.log_start),
        leader_end: read.log_end,
        at: call.node.now(),
    };
    let partition = read.hosted.id;
    read.hosted.lane.send(Event::FollowerFetched {
        partition,
        follower,
        fetch,
    });
}
