//! One followed partition: where it is, and what its leader's answers ask for.

use std::time::Duration;

use metadata::ids::{LeaderEpoch, PartitionId};

use super::{Answer, Backoff, Effect, FIRST_BACKOFF, Failure, Fetch, LocalLog, truncation_point};
use crate::time::Moment;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Track {
    pub leader_epoch: LeaderEpoch,
    pub log: LocalLog,
    pub stage: Stage,
    /// The last back-off since an answer was good.
    pub backoff: Option<Backoff>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// To be fetched, once any back-off is over.
    Ready,
    /// Records are being appended.
    Appending,
    /// The log is being cut back or begun anew.
    Truncating,
    /// The leader is asked where its log ends.
    LocatingEnd,
    /// The leader is asked where its log starts.
    LocatingStart,
    /// Our leader epoch is over; nothing until the metadata says more.
    AwaitingMetadata,
    /// The log cannot be written; nothing until the replica is followed anew.
    GivenUp,
}

impl Track {
    pub fn fetch(&self) -> Fetch {
        Fetch {
            offset: self.log.end.0,
            leader_epoch: self.leader_epoch,
            last_fetched_epoch: self.log.last_epoch,
            log_start: self.log.start,
        }
    }

    pub fn is_ready(&self, now: Moment) -> bool {
        self.stage == Stage::Ready && self.backoff.is_none_or(|backoff| backoff.until <= now)
    }

    /// When a back-off is over.
    pub fn ready_at(&self) -> Option<Moment> {
        self.backoff
            .filter(|_| self.stage == Stage::Ready)
            .map(|backoff| backoff.until)
    }

    pub fn back_off(&mut self, longest: Duration, now: Moment) {
        let length = self
            .backoff
            .map_or(FIRST_BACKOFF, |last| last.length * 2)
            .min(longest);
        self.backoff = Some(Backoff {
            until: now.after(length),
            length,
        });
    }

    /// A good answer ends every back-off, so that one that doubles would stay short here.
    pub fn wait_for_room(&mut self, longest: Duration, now: Moment) {
        self.backoff = Some(Backoff {
            until: now.after(longest),
            length: longest,
        });
    }

    pub fn answered(
        &mut self,
        partition: PartitionId,
        answer: Answer,
        backoff_max: Duration,
        now: Moment,
    ) -> Option<Effect> {
        match answer {
            Answer::Records { watermark, log_start } => {
                self.backoff = None;
                self.stage = Stage::Appending;
                Some(Effect::Append {
                    partition,
                    leader_epoch: self.leader_epoch,
                    at: self.log.end,
                    watermark,
                    log_start,
                })
            }
            Answer::Diverging { theirs, ours } => {
                self.backoff = None;
                self.stage = Stage::Truncating;
                let to = truncation_point(theirs, ours, self.log.end);
                Some(Effect::TruncateTo {
                    partition,
                    leader_epoch: self.leader_epoch,
                    to,
                })
            }
            Answer::Failed(Failure::OutOfRange) => {
                self.stage = Stage::LocatingEnd;
                Some(Effect::AskLeaderEnd {
                    partition,
                    leader_epoch: self.leader_epoch,
                })
            }
            Answer::Failed(Failure::FencedLeaderEpoch) => {
                self.stage = Stage::AwaitingMetadata;
                None
            }
            Answer::Failed(Failure::Passing) => {
                self.back_off(backoff_max, now);
                None
            }
        }
    }
}
