//! Fetching from one leader: for every partition followed there, from where to fetch next, and what to do with the
//! answer.
//!
//! ```text
//!   Ready ──plan──► asked ──answered──► Appending ──appended──► Ready
//!     ▲                │                    │ refused, no room
//!     │ back-off over  ├─ diverging ──► Truncating ──truncated──► Ready
//!     └── BackingOff ◄─┤
//!                      └─ out of range ──► LocatingEnd ─► LocatingStart ─► Wiping ─► Ready
//! ```
//!
//! Laws: records are appended only where the log ends, only for the offset and the leadership they were asked for
//! (F-25, F-26), and a log is cut only where the leader's history says so (F-23). Must not hold records.

#[cfg(test)]
mod tests;
mod told;
mod track;

use std::collections::BTreeMap;
use std::time::Duration;

use metadata::ids::{BrokerId, LeaderEpoch, PartitionId};

pub use self::told::{Saying, Told};
use self::track::{Stage, Track};
use crate::mutants::{self, Mutant};
use crate::offsets::{EpochEnd, HighWatermark, LogEnd, LogStart, Offset};
use crate::time::Moment;

/// The first back-off after an error; it doubles up to the configured one. Most errors are a leader that has not heard
/// of its election yet.
const FIRST_BACKOFF: Duration = Duration::from_millis(20);

/// Requests that may be on their way at once. One rests at the leader most of the time; the second takes up partitions
/// that came meanwhile, so that a new leadership does not wait for the end of a long poll.
const REQUESTS_MAX: usize = 2;

/// Names a request of this fetcher; the shell sends those of one fetcher over separate connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A follower's log, as the fetcher must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalLog {
    /// Where it starts.
    pub start: LogStart,
    /// Where it ends: what is asked for next.
    pub end: LogEnd,
    /// Epoch of the last record; absent in an empty log, and in one without a history.
    pub last_epoch: Option<LeaderEpoch>,
}

/// What is asked of the leader for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// From where: the log's end.
    pub offset: Offset,
    /// Under which leadership.
    pub leader_epoch: LeaderEpoch,
    /// Epoch of the last local record, so that the leader can see where the histories part (F-22).
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// Where the local log starts.
    pub log_start: LogStart,
}

/// A request to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its name.
    pub request: RequestId,
    /// What it asks for. The leader reads in this order and may run out of bytes on the way, so each request begins one
    /// partition later than the one before.
    pub fetches: Vec<(PartitionId, Fetch)>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this.
    Send(Plan),
    /// Nothing before this moment.
    WaitUntil(Moment),
    /// Nothing until something happens.
    Wait,
}

/// A leader's answer for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Records, perhaps none, and what the leader says of its log.
    Records {
        /// The leader's watermark.
        watermark: HighWatermark,
        /// The leader's log start.
        log_start: LogStart,
    },
    /// The histories part. `ours` is our own history's answer for the leader's epoch (L-51).
    Diverging {
        /// The leader's.
        theirs: EpochEnd,
        /// Ours.
        ours: Option<EpochEnd>,
    },
    /// An error.
    Failed(Failure),
}

/// Why a partition got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// What was asked for lies outside of the leader's log (F-24).
    OutOfRange,
    /// Our leader epoch is over: newer metadata is on its way (F-26).
    FencedLeaderEpoch,
    /// The leader does not know yet that it leads, or anything else that passes.
    Passing,
}

/// How what was wanted of a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, and the log is like this.
    Done(LocalLog),
    /// The log did not end where it was thought to: fetched again from where it does (F-25).
    LogMoved(LocalLog),
    /// The records are damaged: fetched again after a back-off (F-26).
    Refused,
    /// The disk has no room: tried again after the longest back-off, for room may come.
    NoRoom,
    /// The log cannot be written: the partition is given up until it is followed anew (F-26, L-55).
    Failed,
}

/// What must be done for a partition. Where [`crate::replica::Replica::follows`] says no, nothing is done and nothing is
/// reported: the new leadership has been, or will be, told with [`Fetcher::follow`] or [`Fetcher::unfollow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Append the records of the answer; then report [`Fetcher::appended`]. Then take the leader's watermark and log
    /// start over (F-25).
    Append {
        /// Which partition.
        partition: PartitionId,
        /// Under which leadership it was asked for; see [`crate::replica::Replica::follows`].
        leader_epoch: LeaderEpoch,
        /// Where the log must end.
        at: LogEnd,
        /// The leader's watermark.
        watermark: HighWatermark,
        /// The leader's log start.
        log_start: LogStart,
    },
    /// Cut the log back, then report [`Fetcher::truncated`].
    TruncateTo {
        /// Which partition.
        partition: PartitionId,
        /// Under which leadership.
        leader_epoch: LeaderEpoch,
        /// The new end.
        to: LogEnd,
    },
    /// Ask the leader for its log's end (F-24); report [`Fetcher::leader_end`].
    AskLeaderEnd {
        /// Which partition.
        partition: PartitionId,
        /// Under which leadership.
        leader_epoch: LeaderEpoch,
    },
    /// Ask the leader for its log's start (F-24); report [`Fetcher::leader_start`].
    AskLeaderStart {
        /// Which partition.
        partition: PartitionId,
        /// Under which leadership.
        leader_epoch: LeaderEpoch,
    },
    /// Drop the whole log and begin anew at this offset (F-24), then report [`Fetcher::truncated`].
    RestartAt {
        /// Which partition.
        partition: PartitionId,
        /// Under which leadership.
        leader_epoch: LeaderEpoch,
        /// The new start and end.
        start: LogStart,
    },
}

/// Everything that is fetched from one leader.
#[derive(Clone, Debug)]
pub struct Fetcher {
    leader: BrokerId,
    /// `replica.fetch.backoff.ms`: the longest back-off.
    backoff_max: Duration,
    tracks: BTreeMap<PartitionId, Track>,
    flights: BTreeMap<RequestId, BTreeMap<PartitionId, Fetch>>,
    next_request: RequestId,
    /// Where the last request began.
    last_first: Option<PartitionId>,
    /// The leader cannot be reached: nothing is sent before this.
    unreachable: Option<Backoff>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Backoff {
    until: Moment,
    length: Duration,
}

impl Fetcher {
    /// A fetcher that fetches nothing yet. `backoff_max` is `replica.fetch.backoff.ms`.
    #[must_use]
    pub fn of(leader: BrokerId, backoff_max: Duration) -> Self {
        Self {
            leader,
            backoff_max,
            tracks: BTreeMap::new(),
            flights: BTreeMap::new(),
            next_request: RequestId(0),
            last_first: None,
            unreachable: None,
        }
    }

    /// From whom it fetches.
    #[must_use]
    pub fn leader(&self) -> BrokerId {
        self.leader
    }

    /// Whether it has no partitions and nothing on its way, so that it can be dropped.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.tracks.is_empty() && self.flights.is_empty()
    }

    /// Partitions that are given up until their leadership changes, for the metric.
    pub fn given_up(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.tracks
            .iter()
            .filter(|(_, track)| track.stage == Stage::GivenUp)
            .map(|(id, _)| *id)
    }

    /// Follows a partition under a leadership, from the log's own end; also when only the epoch is new (F-27). A log
    /// with records but without a history is cut back to its watermark first, for nothing else in it is known to agree
    /// with anyone (F-23).
    #[must_use]
    pub fn follow(
        &mut self,
        partition: PartitionId,
        leader_epoch: LeaderEpoch,
        log: LocalLog,
        watermark: HighWatermark,
    ) -> Vec<Effect> {
        let has_no_history = log.last_epoch.is_none() && log.start.0 < log.end.0 && watermark.0 < log.end.0;
        let stage = if has_no_history {
            Stage::Truncating
        } else {
            Stage::Ready
        };
        self.tracks.insert(
            partition,
            Track {
                leader_epoch,
                log,
                stage,
                backoff: None,
            },
        );
        if has_no_history {
            let to = LogEnd(watermark.0.max(log.start.0));
            return vec![Effect::TruncateTo {
                partition,
                leader_epoch,
                to,
            }];
        }
        Vec::new()
    }

    /// Follows a partition no longer. What is still on its way for it is ignored.
    pub fn unfollow(&mut self, partition: PartitionId) {
        self.tracks.remove(&partition);
    }

    /// What to send next: everything that is ready and not asked for already. To be asked after each event, again and
    /// again until it says to wait.
    #[must_use]
    pub fn next(&mut self, now: Moment) -> Next {
        if let Some(backoff) = self.unreachable
            && now < backoff.until
        {
            return Next::WaitUntil(backoff.until);
        }
        if self.flights.len() < REQUESTS_MAX && !self.is_appending() {
            let mut fetches: Vec<(PartitionId, Fetch)> = self
                .tracks
                .iter()
                .filter(|(partition, track)| track.is_ready(now) && !self.is_asked(**partition))
                .map(|(partition, track)| (*partition, track.fetch()))
                .collect();
            if !fetches.is_empty() {
                let after_last = |(partition, _): &(PartitionId, Fetch)| Some(*partition) > self.last_first;
                let first = fetches.iter().position(after_last).unwrap_or(0);
                fetches.rotate_left(first);
                self.last_first = fetches.first().map(|(partition, _)| *partition);
                let request = self.next_request;
                self.next_request = RequestId(request.0 + 1);
                self.flights.insert(request, fetches.iter().copied().collect());
                return Next::Send(Plan { request, fetches });
            }
        }
        let backing_off = self
            .tracks
            .values()
            .filter_map(Track::ready_at)
            .filter(|at| now < *at)
            .min();
        backing_off.map_or(Next::Wait, Next::WaitUntil)
    }

    /// While records of an answer are appended, the rest of that request is not asked for again: it would rest at the
    /// leader in a request of its own, and what was just appended would have to wait for the end of a long poll. The
    /// leader would learn of the append only then, and every producer with `acks=all` with it.
    fn is_appending(&self) -> bool {
        self.tracks.values().any(|track| track.stage == Stage::Appending)
    }

    fn is_asked(&self, partition: PartitionId) -> bool {
        self.flights
            .values()
            .any(|fetches| fetches.contains_key(&partition))
    }

    /// The leader answered a request. Partitions that it left out have nothing new.
    ///
    /// An answer counts only if the partition still stands where it was asked for, under the same leadership (F-26).
    #[must_use]
    pub fn answered(
        &mut self,
        request: RequestId,
        answers: &BTreeMap<PartitionId, Answer>,
        now: Moment,
    ) -> Vec<Effect> {
        let Some(asked) = self.flights.remove(&request) else {
            return Vec::new();
        };
        self.unreachable = None;
        let mut effects = Vec::new();
        for (partition, fetch) in asked {
            let Some(answer) = answers.get(&partition) else {
                continue;
            };
            let Some(track) = self.tracks.get_mut(&partition) else {
                continue;
            };
            if track.stage != Stage::Ready || track.fetch() != fetch {
                continue;
            }
            effects.extend(track.answered(partition, *answer, self.backoff_max, now));
        }
        effects
    }

    /// A request could not be sent, or its answer was lost.
    pub fn unreachable(&mut self, request: RequestId, now: Moment) {
        self.flights.remove(&request);
        let length = self
            .unreachable
            .map_or(FIRST_BACKOFF, |last| last.length * 2)
            .min(self.backoff_max);
        self.unreachable = Some(Backoff {
            until: now.after(length),
            length,
        });
    }

    /// An append under this leadership has ended. Of another one nothing counts here and below: it tells of a log as it
    /// was then (F-26).
    pub fn appended(
        &mut self,
        partition: PartitionId,
        leader_epoch: LeaderEpoch,
        outcome: Outcome,
        now: Moment,
    ) {
        self.worked((partition, leader_epoch), Stage::Appending, outcome, now);
    }

    /// A cut, or a new beginning, has ended. Where there was no room for it, the leader is asked anew later.
    pub fn truncated(
        &mut self,
        partition: PartitionId,
        leader_epoch: LeaderEpoch,
        outcome: Outcome,
        now: Moment,
    ) {
        self.worked((partition, leader_epoch), Stage::Truncating, outcome, now);
    }

    fn worked(&mut self, followed: (PartitionId, LeaderEpoch), stage: Stage, outcome: Outcome, now: Moment) {
        let backoff_max = self.backoff_max;
        let Some(track) = self.located(followed, stage) else {
            return;
        };
        track.stage = Stage::Ready;
        match outcome {
            Outcome::Done(log) | Outcome::LogMoved(log) => track.log = log,
            Outcome::Refused => track.back_off(backoff_max, now),
            Outcome::NoRoom => track.wait_for_room(backoff_max, now),
            Outcome::Failed => track.stage = Stage::GivenUp,
        }
    }

    /// The leader told where its log ends (F-24).
    #[must_use]
    pub fn leader_end(
        &mut self,
        partition: PartitionId,
        leader_epoch: LeaderEpoch,
        end: Result<LogEnd, Failure>,
        now: Moment,
    ) -> Vec<Effect> {
        let Some(track) = self.located((partition, leader_epoch), Stage::LocatingEnd) else {
            return Vec::new();
        };
        match end {
            Ok(end) if end < track.log.end => {
                track.stage = Stage::Truncating;
                vec![Effect::TruncateTo {
                    partition,
                    leader_epoch,
                    to: end,
                }]
            }
            Ok(_) => {
                track.stage = Stage::LocatingStart;
                vec![Effect::AskLeaderStart {
                    partition,
                    leader_epoch,
                }]
            }
            Err(_) => {
                track.stage = Stage::Ready;
                let backoff_max = self.backoff_max;
                self.back_off(partition, backoff_max, now);
                Vec::new()
            }
        }
    }

    /// The leader told where its log starts (F-24).
    #[must_use]
    pub fn leader_start(
        &mut self,
        partition: PartitionId,
        leader_epoch: LeaderEpoch,
        start: Result<LogStart, Failure>,
        now: Moment,
    ) -> Vec<Effect> {
        let Some(track) = self.located((partition, leader_epoch), Stage::LocatingStart) else {
            return Vec::new();
        };
        match start {
            Ok(start) if track.log.end.0 < start.0 => {
                track.stage = Stage::Truncating;
                vec![Effect::RestartAt {
                    partition,
                    leader_epoch,
                    start,
                }]
            }
            Ok(_) | Err(_) => {
                track.stage = Stage::Ready;
                let backoff_max = self.backoff_max;
                // What was out of range a moment ago is asked for again, so not at once.
                self.back_off(partition, backoff_max, now);
                Vec::new()
            }
        }
    }

    fn located(&mut self, followed: (PartitionId, LeaderEpoch), stage: Stage) -> Option<&mut Track> {
        let (partition, leader_epoch) = followed;
        self.tracks
            .get_mut(&partition)
            .filter(|track| track.leader_epoch == leader_epoch && track.stage == stage)
    }

    fn back_off(&mut self, partition: PartitionId, backoff_max: Duration, now: Moment) {
        if let Some(track) = self.tracks.get_mut(&partition) {
            track.back_off(backoff_max, now);
        }
    }
}

/// Where a diverging follower must cut its log (F-23). `theirs` is what the leader said of the epoch of our last
/// record, `ours` our own history's answer for the leader's epoch. Where the epochs still differ, the next fetch tells
/// the leader our new last epoch, and the histories are compared again.
#[must_use]
pub fn truncation_point(theirs: EpochEnd, ours: Option<EpochEnd>, log_end: LogEnd) -> LogEnd {
    let point = match ours {
        _ if mutants::is_selected(Mutant::TruncateToWrongEpoch) => theirs.end,
        Some(ours) if ours.epoch == theirs.epoch => ours.end.min(theirs.end),
        Some(ours) => ours.end,
        None => theirs.end,
    };
    let point = point.min(log_end.0);
    if mutants::is_selected(Mutant::TruncateOneTooFew) {
        return LogEnd(Offset(point.0 + 1).min(log_end.0));
    }
    assert!(point <= log_end.0, "truncation never lengthens a log");
    LogEnd(point)
}
