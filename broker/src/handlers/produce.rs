//! Produce: what can be refused before a log is asked is refused here, in Kafka's order; the rest is the
//! lanes'. The answer names the leader where the client asked the wrong broker (KIP-951).
//!
//! Must not: copy records, or look into them beyond their header.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use broker_core::hints::{self, Arrival};
use broker_core::produce::{Acks, ProduceRefusal, WaitOutcome};
use broker_core::time::Moment;
use futures::FutureExt;
use metadata::ids::{BrokerId, LeaderEpoch, PartitionId, PartitionIndex};
use metadata::image::{Image, Topic};
use partition_log::{Offset, ProduceVersionLimits, check_payload};
use smallvec::smallvec;
use wire::batch::{Batch, BatchHeader};
use wire::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData,
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceData, TopicProduceResponse,
};
use wire::{ErrorCode, Records, RequestHeader};

use super::{Answer, Begun, Call, Later, Refusable, Step, at_work, plain, topics};
use crate::errors::{self, LogStartShown, ProduceError};
use crate::seam;
use crate::storage::hosted::NotHere;
use crate::storage::lane::Event;
use crate::storage::ticket::{PartState, Ticket};

/// First version that names topics by id.
const WITH_IDS: i16 = 13;
/// First version whose clients can read zstd.
const WITH_ZSTD: i16 = 7;
/// First version that carries leader hints.
const WITH_HINTS: i16 = 10;

/// One partition of the answer.
enum Part {
    /// Refused before its log was asked.
    Refused(ProduceError, Option<(Option<BrokerId>, LeaderEpoch)>),
    /// At work under this place of the ticket.
    AtWork(usize),
}

/// What becomes of a request.
struct Sorted {
    /// By topic, then partition, in the order in which they were first named; each partition once (F-42).
    topics: Vec<(TopicProduceData, Vec<(i32, Part)>)>,
    ticket: Arc<Ticket>,
}

/// Starts a request: its batches are on their way to their lanes when this returns.
pub fn begin(call: Call, header: RequestHeader, request: ProduceRequest) -> Begun {
    if lacks_transactional_id(&request) {
        return refuse_all(
            &call,
            &header,
            &request,
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        );
    }
    if let Some(until) = held_until(&call, &request, call.node.now()) {
        return at_work(hold(call, header, request, until));
    }
    let time = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let (sorted, acks) = dispatch(&call, &request);
    let appended = Arc::clone(&sorted.ticket);
    let appended: Later<Step> = Box::pin(async move { appended.appended().await }.map(|()| Step::Appended));
    let ended: Later<Step> = Box::pin(finish(call, header, sorted, acks, time).map(Step::Ended));
    Begun::AtWork(smallvec![appended, ended])
}

/// Until when the request waits for the news of a move to this broker, if it is for a partition that could have moved
/// here.
fn held_until(call: &Call, request: &ProduceRequest, arrived: Moment) -> Option<Moment> {
    let now = call.node.now();
    let ids = request.topic_data.iter().flat_map(|topic| {
        let known = known_topic(call, topic);
        let of_topic = move |partition: &PartitionProduceData| {
            known.map(|known| PartitionId {
                topic: known.id,
                index: PartitionIndex(partition.index),
            })
        };
        topic.partition_data.iter().filter_map(of_topic)
    });
    ids.filter_map(|id| {
        let led = call
            .node
            .partitions
            .get(id)
            .and_then(|hosted| hosted.seen.load().led);
        match hints::arrival(&call.image, id, call.node.id, led, arrived, now) {
            Arrival::Hold { until } => Some(until),
            Arrival::Refuse(_) | Arrival::Unknown | Arrival::Lead => None,
        }
    })
    .max()
}

/// Waits for newer images until the request need not be held any longer, then goes the usual way. Nothing behind it on
/// its connection is started meanwhile.
async fn hold(call: Call, header: RequestHeader, request: ProduceRequest, until: Moment) -> Answer {
    let arrived = call.node.now();
    let mut call = call;
    while held_until(&call, &request, arrived).is_some() {
        let pause = until.since(call.node.now());
        if tokio::time::timeout(pause, call.node.next_image(call.image.next_offset))
            .await
            .is_err()
        {
            break;
        }
        call = call.renewed();
    }
    let time = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let (sorted, acks) = dispatch(&call, &request);
    finish(call, header, sorted, acks, time).await
}

/// Sends every batch that may be appended to its lane.
fn dispatch(call: &Call, request: &ProduceRequest) -> (Sorted, Option<Acks>) {
    let acks = match request.acks {
        0 => Some(Acks::Nothing),
        1 => Some(Acks::Leader),
        -1 => Some(Acks::All),
        _ => None,
    };
    let (sorted, work) = sort(call, request, acks);
    for (place, (partition, batch)) in work.into_iter().enumerate() {
        match (call.node.partitions.get(partition), acks) {
            (Some(hosted), Some(acks)) => hosted.lane.send(Event::Append {
                partition,
                batch,
                acks,
                under: None,
                ticket: (Arc::clone(&sorted.ticket), place),
            }),
            _ => sorted.ticket.report(place, PartState::Gone),
        }
    }
    (sorted, acks)
}

/// The topic that a request names.
fn known_topic<'a>(call: &'a Call, topic: &TopicProduceData) -> Option<&'a Arc<Topic>> {
    if WITH_IDS <= call.version.0 {
        call.image.topics.get(&seam::topic_from_wire(topic.topic_id))
    } else {
        call.image.topic_named(&topic.name)
    }
}

/// a transactional batch needs a transactional id.
fn lacks_transactional_id(request: &ProduceRequest) -> bool {
    request.transactional_id.is_none()
        && request
            .topic_data
            .iter()
            .flat_map(|topic| &topic.partition_data)
            .filter_map(|partition| partition.records.bytes())
            .any(|bytes| BatchHeader::parse(bytes).is_ok_and(|batch| batch.attributes.is_transactional()))
}

type Work = Vec<(PartitionId, Batch)>;

fn sort(call: &Call, request: &ProduceRequest, acks: Option<Acks>) -> (Sorted, Work) {
    let mut work: Work = Vec::new();
    let mut topics: Vec<(TopicProduceData, Vec<(i32, Part)>)> = Vec::new();
    // A request may name thousands: looking each up among those before it would take minutes.
    let mut known: HashMap<(&str, wire::Uuid), usize> = HashMap::new();
    let mut named: HashMap<(usize, i32), usize> = HashMap::new();
    for topic in &request.topic_data {
        let at = *known.entry((&topic.name, topic.topic_id)).or_insert_with(|| {
            let name = TopicProduceData {
                partition_data: Vec::new(),
                ..topic.clone()
            };
            topics.push((name, Vec::new()));
            topics.len() - 1
        });
        for partition in &topic.partition_data {
            let parts = &mut topics[at].1;
            let before = named.get(&(at, partition.index)).copied();
            let part = match check(call, request, topic, partition, acks) {
                // A partition named twice: the last one counts (F-42).
                Ok((id, batch)) => match before.map(|before| &parts[before].1) {
                    Some(Part::AtWork(place)) => {
                        work[*place] = (id, batch);
                        Part::AtWork(*place)
                    }
                    _ => {
                        work.push((id, batch));
                        Part::AtWork(work.len() - 1)
                    }
                },
                Err((error, hint)) => Part::Refused(error, hint),
            };
            match before {
                Some(before) => parts[before].1 = part,
                None => {
                    named.insert((at, partition.index), parts.len());
                    parts.push((partition.index, part));
                }
            }
        }
    }
    let ticket = Arc::new(Ticket::new(work.iter().map(|(id, _)| *id).collect()));
    (Sorted { topics, ticket }, work)
}

type Refused = (ProduceError, Option<(Option<BrokerId>, LeaderEpoch)>);

/// for one partition. Gives the one batch that is to be appended.
fn check(
    call: &Call,
    request: &ProduceRequest,
    topic: &TopicProduceData,
    partition: &PartitionProduceData,
    acks: Option<Acks>,
) -> Result<(PartitionId, Batch), Refused> {
    let refuse = |code| (ProduceError::hidden(code), None);
    let unknown = if WITH_IDS <= call.version.0 {
        ErrorCode::UNKNOWN_TOPIC_ID
    } else {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    };
    let known = known_topic(call, topic).ok_or_else(|| refuse(unknown))?;
    let id = PartitionId {
        topic: known.id,
        index: PartitionIndex(partition.index),
    };
    let state = topics::partition(known, partition.index)
        .ok_or_else(|| refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
    let Records::Bytes(payload) = &partition.records else {
        return Err(refuse(ErrorCode::INVALID_RECORD));
    };
    let limits = if call.version.0 < WITH_ZSTD {
        ProduceVersionLimits::NoZstd
    } else {
        ProduceVersionLimits::None
    };
    let batch = check_payload(payload, limits).map_err(|refusal| (errors::of_payload(&refusal), None))?;
    if acks.is_none() {
        return Err(refuse(ErrorCode::INVALID_REQUIRED_ACKS));
    }
    if topics::is_internal(&known.name) {
        return Err(refuse(ErrorCode::INVALID_TOPIC_EXCEPTION));
    }
    if batch.header.attributes.is_transactional() {
        // The id names a transaction, and no coordinator here knows any.
        let _ = &request.transactional_id;
        return Err(refuse(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    }
    if let Err(why) = call.node.partitions.find(id, state, call.node.id) {
        let hint = (why == NotHere::Unknown).then_some((state.leader, state.leader_epoch));
        return Err((ProduceError::hidden(errors::of_absence(why)), hint));
    }
    Ok((id, batch))
}

async fn finish(
    call: Call,
    header: RequestHeader,
    sorted: Sorted,
    acks: Option<Acks>,
    time: Duration,
) -> Answer {
    let waits = (acks == Some(Acks::All)).then(|| call.node.metrics.waiting.produce());
    if tokio::time::timeout(time, sorted.ticket.decided()).await.is_err() {
        // Appends take their time on a slow disk, and their outcome must be known; only waits can be given up.
        sorted.ticket.appended().await;
        for (partition, waiter) in sorted.ticket.expire() {
            if let Some(hosted) = call.node.partitions.get(partition) {
                hosted.lane.send(Event::Forget(partition, waiter));
            }
        }
    }
    drop(waits);
    let states = sorted.ticket.take();
    let mut states: Vec<Option<PartState>> = states.into_iter().map(Some).collect();
    let mut hints = Hints::new(&call);
    let responses: Vec<TopicProduceResponse> = sorted
        .topics
        .into_iter()
        // A topic without partitions has no answer (F-42).
        .filter(|(_, parts)| !parts.is_empty())
        .map(|(topic, parts)| TopicProduceResponse {
            name: topic.name,
            topic_id: topic.topic_id,
            partition_responses: parts
                .into_iter()
                .map(|(index, part)| match part {
                    Part::Refused(error, hint) => failed(index, error, None, &mut hints, hint),
                    Part::AtWork(place) => outcome(index, states[place].take(), &mut hints),
                })
                .collect(),
        })
        .collect();
    if acks == Some(Acks::Nothing) {
        let all = responses.iter().flat_map(|topic| &topic.partition_responses);
        let failed = all.into_iter().any(|partition| partition.error_code.is_error());
        return if failed { Answer::Close } else { Answer::Nothing };
    }
    let response = ProduceResponse {
        responses,
        node_endpoints: hints.endpoints(),
        ..Default::default()
    };
    plain(&header, call.version, &response)
}

fn outcome(index: i32, state: Option<PartState>, hints: &mut Hints<'_>) -> PartitionProduceResponse {
    match state {
        Some(PartState::Appended { appended, outcome }) => {
            let hint = match outcome {
                WaitOutcome::NotLeader { leader, epoch } => Some((leader, epoch)),
                _ => None,
            };
            let code = errors::of_wait(outcome);
            let keeps_numbers = matches!(outcome, WaitOutcome::Replicated | WaitOutcome::TimedOut);
            PartitionProduceResponse {
                index,
                error_code: code,
                base_offset: if keeps_numbers { appended.first.0 } else { -1 },
                log_append_time_ms: appended
                    .log_append_time
                    .filter(|_| outcome == WaitOutcome::Replicated)
                    .map_or(-1, |time| time.0),
                log_start_offset: if keeps_numbers { appended.log_start.0 } else { -1 },
                current_leader: hints.of(hint),
                ..Default::default()
            }
        }
        Some(PartState::NotAdmitted { refusal, log_start }) => {
            let hint = match refusal {
                ProduceRefusal::NotLeader { leader, epoch } => Some((leader, epoch)),
                _ => None,
            };
            failed(index, errors::of_produce_refusal(refusal), log_start, hints, hint)
        }
        Some(PartState::Failed { error, log_start }) => {
            failed(index, errors::of_append(error), Some(log_start), hints, None)
        }
        Some(PartState::Gone) | None => failed(
            index,
            ProduceError::hidden(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            None,
            hints,
            None,
        ),
        // Nothing is taken from a ticket before everything in it is decided.
        Some(PartState::Queued | PartState::Waiting { .. }) => failed(
            index,
            ProduceError::hidden(errors::OUT_OF_TIME),
            None,
            hints,
            None,
        ),
    }
}

fn failed(
    index: i32,
    error: ProduceError,
    log_start: Option<Offset>,
    hints: &mut Hints<'_>,
    hint: Option<(Option<BrokerId>, LeaderEpoch)>,
) -> PartitionProduceResponse {
    let log_start = log_start.filter(|_| error.log_start == LogStartShown::Real);
    PartitionProduceResponse {
        index,
        error_code: error.code,
        base_offset: -1,
        log_start_offset: log_start.map_or(-1, |offset| offset.0),
        record_errors: error
            .records
            .into_iter()
            .map(|record| BatchIndexAndErrorMessage {
                batch_index: record.batch_index,
                batch_index_error_message: Some(record.why.to_string()),
            })
            .collect(),
        error_message: error.message,
        current_leader: hints.of(hint),
        ..Default::default()
    }
}

/// Who leads, told with errors (KIP-951).
struct Hints<'a> {
    call: &'a Call,
    image: Arc<Image>,
    told: BTreeSet<BrokerId>,
}

impl<'a> Hints<'a> {
    fn new(call: &'a Call) -> Hints<'a> {
        // The newest image, not the request's: what the client is to learn is where the leader is now.
        let image = Arc::clone(&call.node.published.load().image);
        Hints {
            call,
            image,
            told: BTreeSet::new(),
        }
    }

    fn of(&mut self, hint: Option<(Option<BrokerId>, LeaderEpoch)>) -> LeaderIdAndEpoch {
        let Some((leader, epoch)) = hint.filter(|_| WITH_HINTS <= self.call.version.0) else {
            return LeaderIdAndEpoch::default();
        };
        self.told.extend(leader);
        LeaderIdAndEpoch {
            leader_id: leader.map_or(-1, |leader| leader.0),
            leader_epoch: epoch.0,
        }
    }

    fn endpoints(&self) -> Vec<NodeEndpoint> {
        let endpoint = |leader: &BrokerId| {
            let (endpoint, rack) = hints::leader_endpoint(&self.image, *leader, &self.call.listener)?;
            Some(NodeEndpoint {
                node_id: leader.0,
                host: endpoint.host.clone(),
                port: i32::from(endpoint.port),
                rack: rack.map(str::to_owned),
            })
        };
        self.told.iter().filter_map(endpoint).collect()
    }
}

fn refuse_all(call: &Call, header: &RequestHeader, request: &ProduceRequest, code: ErrorCode) -> Begun {
    Begun::Ended(match request.refused(call, code) {
        Some(response) => plain(header, call.version, &response),
        None => Answer::Close,
    })
}

impl Refusable for ProduceRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<ProduceResponse> {
        if self.acks == 0 {
            return None;
        }
        let mut by_topic: BTreeMap<(&str, wire::Uuid), Vec<i32>> = BTreeMap::new();
        for topic in &self.topic_data {
            let indexes = by_topic.entry((&topic.name, topic.topic_id)).or_default();
            indexes.extend(topic.partition_data.iter().map(|partition| partition.index));
        }
        let partition = |index| PartitionProduceResponse {
            index,
            error_code: code,
            base_offset: -1,
            ..Default::default()
        };
        let responses = by_topic
            .into_iter()
            .map(|((name, topic_id), indexes)| TopicProduceResponse {
                name: name.to_owned(),
                topic_id,
                partition_responses: indexes.into_iter().map(partition).collect(),
            })
            .collect();
        Some(ProduceResponse {
            responses,
            ..Default::default()
        })
    }
}
