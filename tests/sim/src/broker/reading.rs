//! Reads: of consumers up to the watermark, of followers up to the log's end, and the wait for more.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use broker_core::fetch::{
    self, Bound, Claim, FetchRefusal, Isolation, LeaderHint, Origin, Reader, Wake, woken_by,
};
use broker_core::fetcher::{Failure, Fetch};
use broker_core::offsets::{EpochEnd, HighWatermark, LogEnd, LogStart, Offset};
use broker_core::replica::{FollowerFetch, Serving};
use bytes::Bytes;
use metadata::ids::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionId};
use partition_log::FirstBatch;

use super::Broker;
use super::hosted::{to_core, to_log};
use super::producing::Place;
use crate::message::{Ask, CallKey, ClientAnswer, ClientError, Fetched, FollowerAnswer, StreamKey, Told};
use crate::node::{At, Output};

/// A fetch waits at most so long for records.
const WAIT_MAX: Duration = Duration::from_millis(400);
/// Most bytes of one partition in an answer: small, so that batches of several answers make up a log.
const PARTITION_BYTES_MAX: u32 = 1024;

/// A fetch that waits.
pub(super) struct Parked {
    pub deadline: Duration,
    what: Waiting,
}

#[derive(Clone)]
enum Waiting {
    Consumer(Place, Consume),
    Follower(CallKey, BrokerId, Option<BrokerEpoch>, Vec<(PartitionId, Fetch)>),
}

type Consume = (PartitionId, Offset, Option<LeaderEpoch>);

impl Parked {
    /// Whether it came on this connection.
    pub fn is_of(&self, connection: StreamKey) -> bool {
        matches!(&self.what, Waiting::Consumer(place, _) if place.connection == connection)
    }

    fn is_woken(&self, partition: PartitionId, wake: Wake) -> bool {
        match &self.what {
            Waiting::Consumer(_, (wanted, ..)) => *wanted == partition && woken_by(wake, Bound::Watermark),
            Waiting::Follower(_, _, _, fetches) => {
                fetches.iter().any(|(wanted, _)| *wanted == partition) && woken_by(wake, Bound::LogEnd)
            }
        }
    }
}

impl Broker {
    /// Lets the fetches that wait for this look again.
    pub(super) fn wake(&mut self, at: At, partition: PartitionId, wake: Wake, out: &mut Vec<Output>) {
        let (woken, still) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|parked| parked.is_woken(partition, wake));
        self.parked = still;
        let woken: VecDeque<Parked> = woken;
        for parked in woken {
            self.look(at, parked.what, parked.deadline, out);
        }
    }

    pub(super) fn expire_parked(&mut self, at: At, out: &mut Vec<Output>) {
        let (due, still) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|parked| parked.deadline <= at.world);
        self.parked = still;
        let due: VecDeque<Parked> = due;
        for parked in due {
            self.look(at, parked.what, parked.deadline, out);
        }
    }

    fn look(&mut self, at: At, waiting: Waiting, deadline: Duration, out: &mut Vec<Output>) {
        let is_due = deadline <= at.world;
        match waiting {
            Waiting::Consumer(place, consume) => {
                let read = self.read_as_consumer(consume);
                if is_due || read.as_ref().map_or(true, |fetched| !fetched.batches.is_empty()) {
                    return self.end(at, place, ClientAnswer::Fetched(read), out);
                }
                self.parked.push_back(Parked {
                    deadline,
                    what: Waiting::Consumer(place, consume),
                });
            }
            Waiting::Follower(call, follower, epoch, fetches) => {
                let answers = self.read_as_follower(at, follower, epoch, &fetches, out);
                let is_news = |answer: &FollowerAnswer| match answer {
                    FollowerAnswer::Records { batches, .. } => !batches.is_empty(),
                    FollowerAnswer::Diverging(_) | FollowerAnswer::Failed(_) => true,
                };
                if is_due || answers.values().any(is_news) {
                    out.push(Output::Answer(call, Told::Fetch(answers)));
                    return;
                }
                let what = Waiting::Follower(call, follower, epoch, fetches);
                self.parked.push_back(Parked { deadline, what });
            }
        }
    }

    pub(super) fn consumer_reads(&mut self, at: At, place: Place, consume: Consume, out: &mut Vec<Output>) {
        self.look(at, Waiting::Consumer(place, consume), at.world + WAIT_MAX, out);
    }

    pub(super) fn asked(&mut self, at: At, call: CallKey, ask: Ask, out: &mut Vec<Output>) {
        match ask {
            Ask::Fetch {
                follower,
                epoch,
                fetches,
            } => {
                let waiting = Waiting::Follower(call, follower, epoch, fetches);
                self.look(at, waiting, at.world + WAIT_MAX, out);
            }
            Ask::LogEnd(partition, epoch) => {
                let end = self.as_leader(partition, epoch).map(|log| log.end);
                out.push(Output::Answer(call, Told::LogEnd(end)));
            }
            Ask::LogStart(partition, epoch) => {
                let start = self.as_leader(partition, epoch).map(|log| log.start);
                out.push(Output::Answer(call, Told::LogStart(start)));
            }
            Ask::Command(_) => {}
        }
    }

    fn as_leader(
        &self,
        partition: PartitionId,
        epoch: LeaderEpoch,
    ) -> Option<broker_core::offsets::LogFacts> {
        let view = self.hosted.get(&partition)?.replica.view();
        let hint = LeaderHint {
            leader: view.leader,
            epoch: view.leader_epoch,
        };
        fetch::check_epoch(Some(epoch), hint).ok()?;
        match view.serving {
            Serving::Leader { log, .. } => Some(log),
            Serving::Follower { .. } | Serving::Offline => None,
        }
    }

    fn read_as_consumer(&self, (partition, offset, leader_epoch): Consume) -> Result<Fetched, ClientError> {
        let hosted = self.hosted.get(&partition).ok_or(ClientError::NotLeader)?;
        let reader = Reader::Consumer {
            origin: Origin::Known,
            isolation: Isolation::ReadUncommitted,
        };
        let claim = Claim {
            leader_epoch,
            topic: Some(partition.topic),
        };
        let admitted = fetch::admit(&hosted.replica.view(), hosted.replica.assignment(), reader, claim);
        let bound = admitted.map_err(|refusal| match refusal {
            FetchRefusal::FencedLeaderEpoch { .. } | FetchRefusal::UnknownLeaderEpoch { .. } => {
                ClientError::OtherEpoch
            }
            FetchRefusal::NotLeader { .. } => ClientError::NotLeader,
            _ => ClientError::TryAgain("not readable"),
        })?;
        let bounds = hosted.log.bounds();
        let (start, end) = (
            LogStart(to_core(bounds.log_start)),
            LogEnd(to_core(bounds.log_end)),
        );
        fetch::check_range(offset, start, end).map_err(|_| ClientError::OutOfRange)?;
        let watermark = to_core(bounds.high_watermark);
        let upto = match bound {
            Bound::LogEnd => end.0,
            Bound::Watermark => watermark,
            Bound::LastStable => to_core(bounds.last_stable),
        };
        let batches = read(&hosted.log.view(), offset, upto);
        Ok(Fetched {
            batches,
            watermark: HighWatermark(watermark),
        })
    }

    fn read_as_follower(
        &mut self,
        at: At,
        follower: BrokerId,
        epoch: Option<BrokerEpoch>,
        fetches: &[(PartitionId, Fetch)],
        out: &mut Vec<Output>,
    ) -> BTreeMap<PartitionId, FollowerAnswer> {
        let mut answers = BTreeMap::new();
        for (partition, fetch) in fetches {
            let answer = self.read_one(at, (follower, epoch), *partition, fetch, out);
            answers.insert(*partition, answer.unwrap_or_else(FollowerAnswer::Failed));
        }
        answers
    }

    fn read_one(
        &mut self,
        at: At,
        (follower, epoch): (BrokerId, Option<BrokerEpoch>),
        partition: PartitionId,
        fetch: &Fetch,
        out: &mut Vec<Output>,
    ) -> Result<FollowerAnswer, Failure> {
        let now = self.now(at);
        let hosted = self.hosted.get_mut(&partition).ok_or(Failure::Passing)?;
        let (view, assignment) = (hosted.replica.view(), hosted.replica.assignment());
        let claim = Claim {
            leader_epoch: Some(fetch.leader_epoch),
            topic: Some(partition.topic),
        };
        let reader = Reader::Follower { id: follower, epoch };
        fetch::admit(&view, assignment, reader, claim).map_err(|refusal| failure(&refusal))?;
        let bounds = hosted.log.bounds();
        let (start, end) = (
            LogStart(to_core(bounds.log_start)),
            LogEnd(to_core(bounds.log_end)),
        );
        if let Some(last) = fetch.last_fetched_epoch {
            let log = hosted.log.view();
            let found = match log.end_offset_for_epoch(partition_log::LeaderEpoch(last.0)) {
                partition_log::EpochEnd::Undefined => None,
                partition_log::EpochEnd::At { epoch, end } => Some(EpochEnd {
                    epoch: LeaderEpoch(epoch.0),
                    end: to_core(end),
                }),
            };
            let diverging = fetch::divergence(last, fetch.offset, found, start, end);
            if let Some(theirs) = diverging.map_err(|refusal| failure(&refusal))? {
                return Ok(FollowerAnswer::Diverging(theirs));
            }
        }
        fetch::check_range(fetch.offset, start, end).map_err(|refusal| failure(&refusal))?;
        let batches = read(&hosted.log.view(), fetch.offset, end.0);
        let fetched = FollowerFetch {
            leader_epoch: view.leader_epoch,
            broker_epoch: epoch,
            fetch_offset: LogEnd(fetch.offset),
            log_start: fetch.log_start,
            leader_end: end,
            at: now,
        };
        let effects = hosted
            .replica
            .follower_fetched(follower, fetched)
            .map_err(|_| Failure::Passing)?;
        let (watermark, log_start) = (hosted.watermark(), start);
        self.carry_out(at, partition, effects, out);
        Ok(FollowerAnswer::Records {
            batches,
            watermark,
            log_start,
        })
    }
}

/// Bytes of whole batches, at least one; a read that fails gives none, and is tried again.
fn read(view: &partition_log::ReadView, from: Offset, upto: Offset) -> Bytes {
    let slice = view.read(to_log(from), to_log(upto), PARTITION_BYTES_MAX, FirstBatch::Whole);
    let bytes = slice.ok().flatten().and_then(|slice| slice.read().ok());
    bytes.map(Bytes::from).unwrap_or_default()
}

fn failure(refusal: &FetchRefusal) -> Failure {
    match refusal {
        FetchRefusal::OffsetOutOfRange { .. } => Failure::OutOfRange,
        FetchRefusal::FencedLeaderEpoch { .. } => Failure::FencedLeaderEpoch,
        _ => Failure::Passing,
    }
}
