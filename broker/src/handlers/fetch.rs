//! Fetch: which partitions a request reads, when it waits, and how its answer is put together (F-1 to F-22).
//!
//! Records are never touched: an answer names slices of segment files. Must not: change a replica; its lane is told
//! that a follower fetched.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use broker_core::fetch::{Bound, Budget, Isolation, Origin, Outcome, Reader, Sizes};
use broker_core::offsets::{LogStart, Offset};
use broker_core::session::{
    Ask, Context, Listing, Naming, PartitionKey, ReaderKind, Request, TopicKey, Wanted,
};
use metadata::ids::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionIndex};
use tokio::sync::Notify;
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use wire::{ErrorCode, RequestHeader};

use super::fetch_answer;
use super::fetch_read::{self, Failure, Read, Reading};
use super::{Answer, Begun, Call, Refusable, at_work, plain};
use crate::errors;
use crate::metrics::{AskedBy, WaitCount};
use crate::seam;
use crate::storage::hosted::Hosted;

/// First version that names topics by id.
pub(super) const WITH_IDS: i16 = 13;
/// First version whose consumers may read at a follower (F-4).
const WITH_CLIENT_METADATA: i16 = 11;
/// First version that has the follower in a struct of its own.
const WITH_REPLICA_STATE: i16 = 15;

/// Starts a request.
pub fn begin(call: Call, header: RequestHeader, request: FetchRequest) -> Begun {
    let v = call.version.0;
    let reader = reader(v, &request);
    let kind = match reader {
        Reader::Consumer { .. } => ReaderKind::Consumer,
        Reader::Follower { .. } => ReaderKind::Follower,
    };
    let asked = Request {
        ask: Ask::of_request(request.session_id, request.session_epoch),
        naming: if v < WITH_IDS {
            Naming::ByName
        } else {
            Naming::ById
        },
        reader: kind,
        wanted: wanted(v, &request.topics),
        forgotten: forgotten(v, &request),
    };
    // Only a session that begins needs a number, and the machine is asked for it by a system call.
    let fresh = match asked.ask {
        Ask::Begin { .. } => call.node.entropy.below(1 << 31) as i32,
        Ask::Sessionless { .. } | Ask::Continue { .. } => 0,
    };
    let context = match call.node.fetch_sessions.context(asked, fresh, call.node.now()) {
        Ok(context) => context,
        Err(refusal) => {
            let response = FetchResponse {
                error_code: errors::of_session(&refusal),
                ..Default::default()
            };
            return Begun::Ended(plain(&header, call.version, &response));
        }
    };
    let reading = Reading {
        reader,
        sizes: Sizes {
            request_max: Some(u64::try_from(request.max_bytes).unwrap_or(0)),
            broker_max: u64::from(call.node.settings.limits.fetch_bytes_max),
            quota_max: u64::MAX,
            min: u64::try_from(request.min_bytes).unwrap_or(0),
        },
        nonsense: nonsense(&request),
    };
    let max_wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    at_work(answer(call, header, context, reading, max_wait))
}

fn nonsense(request: &FetchRequest) -> Option<ErrorCode> {
    if request.max_bytes < 0 {
        return Some(errors::NEGATIVE_FETCH_SIZE);
    }
    (!(0..=1).contains(&request.isolation_level)).then_some(errors::UNKNOWN_ISOLATION)
}

fn reader(v: i16, request: &FetchRequest) -> Reader {
    let (id, epoch) = if v < WITH_REPLICA_STATE {
        (request.replica_id, -1)
    } else {
        (
            request.replica_state.replica_id,
            request.replica_state.replica_epoch,
        )
    };
    if 0 <= id {
        return Reader::Follower {
            id: BrokerId(id),
            epoch: (0 <= epoch).then_some(BrokerEpoch(epoch)),
        };
    }
    Reader::Consumer {
        origin: if v < WITH_CLIENT_METADATA {
            Origin::Unknown
        } else {
            Origin::Known
        },
        isolation: match request.isolation_level {
            1 => Isolation::ReadCommitted,
            _ => Isolation::ReadUncommitted,
        },
    }
}

fn topic_key(v: i16, name: &str, id: wire::Uuid) -> TopicKey {
    if v < WITH_IDS {
        TopicKey::Name(name.into())
    } else {
        TopicKey::Id(seam::topic_from_wire(id))
    }
}

fn wanted(v: i16, topics: &[FetchTopic]) -> Vec<(PartitionKey, Wanted)> {
    let of_partition = |topic: &TopicKey, partition: &FetchPartition| {
        let key = PartitionKey {
            topic: topic.clone(),
            index: PartitionIndex(partition.partition),
        };
        // Any negative epoch is "not known" (F-3).
        let epoch = |epoch: i32| (0 <= epoch).then_some(LeaderEpoch(epoch));
        let wanted = Wanted {
            offset: Offset(partition.fetch_offset),
            max_bytes: partition.partition_max_bytes,
            leader_epoch: epoch(partition.current_leader_epoch),
            last_fetched_epoch: epoch(partition.last_fetched_epoch),
            log_start: (0 <= partition.log_start_offset)
                .then_some(LogStart(Offset(partition.log_start_offset))),
        };
        (key, wanted)
    };
    let mut wanted: Vec<(PartitionKey, Wanted)> = Vec::new();
    let mut places: BTreeMap<PartitionKey, usize> = BTreeMap::new();
    for topic in topics {
        let named = topic_key(v, &topic.topic, topic.topic_id);
        for partition in &topic.partitions {
            let (key, what) = of_partition(&named, partition);
            // A partition named twice is read once, in its first place, as it was named last: a small request must not
            // have the same records read, and sent, ten thousand times.
            match places.entry(key.clone()) {
                Entry::Occupied(place) => wanted[*place.get()].1 = what,
                Entry::Vacant(place) => {
                    place.insert(wanted.len());
                    wanted.push((key, what));
                }
            }
        }
    }
    wanted
}

fn forgotten(v: i16, request: &FetchRequest) -> Vec<PartitionKey> {
    request
        .forgotten_topics_data
        .iter()
        .flat_map(|topic| {
            let key = topic_key(v, &topic.topic, topic.topic_id);
            let keyed = move |index: &i32| PartitionKey {
                topic: key.clone(),
                index: PartitionIndex(*index),
            };
            topic.partitions.iter().map(keyed)
        })
        .collect()
}

async fn answer(
    call: Call,
    header: RequestHeader,
    context: Context,
    reading: Reading,
    max_wait: Duration,
) -> Answer {
    let (mut reads, due) = read_all(&call, &context, &reading, max_wait, Round::First);
    if !due {
        reads = wait(&call, &context, &reading, max_wait).await;
    }
    reads.iter().for_each(|read| count(reading.reader, read));
    let noted: Vec<_> = context
        .partitions()
        .iter()
        .zip(&reads)
        .map(|((key, _), read)| (key.clone(), fetch_answer::noted(read)))
        .collect();
    let listings = call.node.fetch_sessions.answered(&context, &noted);
    let listed = context
        .partitions()
        .iter()
        .zip(reads)
        .zip(listings)
        .filter(|(_, listing)| *listing == Listing::Listed)
        .map(|(((key, _), read), _)| (key, read));
    let asked_by = match reading.reader {
        Reader::Follower { .. } => AskedBy::Follower,
        Reader::Consumer { .. } => AskedBy::Client,
    };
    fetch_answer::assemble(&call, &header, context.session(), listed, asked_by)
}

/// Counts what a partition gave.
fn count(reader: Reader, read: &Result<Read, Failure>) {
    match (read, reader) {
        (Ok(read), Reader::Follower { .. }) => read.hosted.traffic.replicated_out(read.size() as u64),
        (Ok(read), Reader::Consumer { .. }) => read.hosted.traffic.consumed(read.size() as u64),
        (
            Err(Failure {
                broken: Some(hosted), ..
            }),
            _,
        ) => hosted.traffic.fetch_failed(),
        (Err(_), _) => {}
    }
}

/// Whether a follower's fetch is reported to the lane: once a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    First,
    Again,
}

/// Reads all partitions in order; says whether the answer is due (F-11, F-12).
fn read_all(
    call: &Call,
    context: &Context,
    reading: &Reading,
    max_wait: Duration,
    round: Round,
) -> (Vec<Result<Read, Failure>>, bool) {
    let mut budget = Budget::of(reading.sizes);
    let mut outcome = Outcome::Plain;
    let partitions = context.partitions();
    let mut reads = Vec::with_capacity(partitions.len());
    for (key, wanted) in partitions {
        let read = match reading.nonsense {
            Some(code) => Err(Failure::plain(code)),
            None => fetch_read::read(call, reading, key, wanted, &budget),
        };
        match &read {
            Ok(read) => {
                budget.took(read.size() as u64);
                if read.diverging.is_some() {
                    outcome = Outcome::News;
                } else if let (Reader::Follower { id, epoch }, Round::First) = (reading.reader, round) {
                    fetch_read::report(call, id, epoch, wanted, read);
                }
            }
            Err(_) => outcome = Outcome::News,
        }
        reads.push(read);
    }
    let due = budget.answers_at_once(max_wait, partitions.len(), outcome);
    (reads, due)
}

/// Waits until enough is there, something must be told, or the time is over (F-13).
async fn wait(
    call: &Call,
    context: &Context,
    reading: &Reading,
    max_wait: Duration,
) -> Vec<Result<Read, Failure>> {
    let bound = match reading.reader {
        Reader::Follower { .. } => Bound::LogEnd,
        Reader::Consumer {
            isolation: Isolation::ReadCommitted,
            ..
        } => Bound::LastStable,
        Reader::Consumer {
            isolation: Isolation::ReadUncommitted,
            ..
        } => Bound::Watermark,
    };
    let waiting = Waiting::register(call, context, bound);
    let deadline = tokio::time::sleep(max_wait);
    tokio::pin!(deadline);
    loop {
        // Registered first, looked at second: whatever happens from here on leaves a permit.
        let (reads, due) = read_all(call, context, reading, max_wait, Round::Again);
        if due {
            return reads;
        }
        tokio::select! {
            () = waiting.woken.notified() => {}
            () = &mut deadline => return read_all(call, context, reading, Duration::ZERO, Round::Again).0,
        }
    }
}

/// A fetch registered at its partitions, taken out when it is dropped.
struct Waiting {
    woken: Arc<Notify>,
    partitions: Vec<Arc<Hosted>>,
    _counted: WaitCount,
}

impl Waiting {
    fn register(call: &Call, context: &Context, bound: Bound) -> Waiting {
        let woken = Arc::new(Notify::new());
        let partitions: Vec<Arc<Hosted>> = context
            .partitions()
            .iter()
            .filter_map(|(key, _)| fetch_read::hosted(call, key))
            .collect();
        for hosted in &partitions {
            hosted.waits.add(bound, &woken);
        }
        Waiting {
            woken,
            partitions,
            _counted: call.node.metrics.waiting.fetch(),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for hosted in &self.partitions {
            hosted.waits.withdraw(&self.woken);
        }
    }
}

impl Refusable for FetchRequest {
    fn refused(&self, call: &Call, code: ErrorCode) -> Option<FetchResponse> {
        let v = call.version.0;
        let failed: Vec<_> = wanted(v, &self.topics);
        let reads = failed.iter().map(|(key, _)| (key, Err(Failure::plain(code))));
        Some(FetchResponse {
            error_code: code,
            ..fetch_answer::response(call, None, reads).0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_stands_there_twice_is_read_once_as_it_was_named_last() {
        let partition = |partition, fetch_offset| FetchPartition {
            partition,
            fetch_offset,
            ..Default::default()
        };
        let topic = |partitions| FetchTopic {
            topic: "t".into(),
            partitions,
            ..Default::default()
        };
        let topics = [
            topic(vec![partition(1, 5), partition(0, 6), partition(1, 7)]),
            topic(vec![partition(1, 8)]),
        ];

        let read: Vec<(i32, i64)> = wanted(12, &topics)
            .into_iter()
            .map(|(key, wanted)| (key.index.0, wanted.offset.0))
            .collect();

        assert_eq!(read, [(1, 8), (0, 6)]);
    }
}
