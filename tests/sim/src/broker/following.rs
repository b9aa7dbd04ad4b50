//! What fetchers want done to the logs of followed partitions.

use broker_core::fetcher::{self, Effect, Outcome};
use broker_core::offsets::{HighWatermark, LogEnd, LogStart};
use bytes::Bytes;
use metadata::ids::{BrokerId, LeaderEpoch, PartitionId};
use partition_log::{AppendError, AppendRefusal, LogFault};

use super::hosted::{to_core, to_log};
use super::{Broker, Later};
use crate::marks::Mark;
use crate::node::{At, Output};

/// Something to be done to a followed partition's log.
pub(super) struct Work {
    /// Whose fetcher wants it.
    pub leader: BrokerId,
    pub partition: PartitionId,
    /// The leadership under which it was decided.
    pub leader_epoch: LeaderEpoch,
    pub what: WorkKind,
}

pub(super) enum WorkKind {
    Append {
        at: LogEnd,
        batches: Bytes,
        watermark: HighWatermark,
        log_start: LogStart,
    },
    Truncate(LogEnd),
    Restart(LogStart),
}

impl Broker {
    /// Follows a leader from now on, and nobody else.
    pub(super) fn start_fetching(
        &mut self,
        at: At,
        partition: PartitionId,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
    ) {
        self.stop_fetching(partition);
        let Some(hosted) = self.hosted.get(&partition) else {
            return;
        };
        let (local, watermark) = (hosted.local(), hosted.watermark());
        let backoff_max = std::time::Duration::from_millis(1000);
        let fetcher = self
            .fetchers
            .entry(leader)
            .or_insert_with(|| fetcher::Fetcher::of(leader, backoff_max));
        let effects = fetcher.follow(partition, leader_epoch, local, watermark);
        self.order_work(at, leader, effects, Bytes::new());
    }

    pub(super) fn stop_fetching(&mut self, partition: PartitionId) {
        self.fetchers
            .values_mut()
            .for_each(|fetcher| fetcher.unfollow(partition));
    }

    /// Puts down what a fetcher wants done to logs; `batches` go with an append. Questions are asked by the caller.
    pub(super) fn order_work(&mut self, at: At, leader: BrokerId, effects: Vec<Effect>, batches: Bytes) {
        for effect in effects {
            let (partition, leader_epoch, what) = match effect {
                Effect::Append {
                    partition,
                    leader_epoch,
                    at,
                    watermark,
                    log_start,
                } => {
                    let batches = batches.clone();
                    (
                        partition,
                        leader_epoch,
                        WorkKind::Append {
                            at,
                            batches,
                            watermark,
                            log_start,
                        },
                    )
                }
                Effect::TruncateTo {
                    partition,
                    leader_epoch,
                    to,
                } => (partition, leader_epoch, WorkKind::Truncate(to)),
                Effect::RestartAt {
                    partition,
                    leader_epoch,
                    start,
                } => (partition, leader_epoch, WorkKind::Restart(start)),
                Effect::AskLeaderEnd { .. } | Effect::AskLeaderStart { .. } => continue,
            };
            let due = self.write_at(at);
            self.later.put(
                due,
                Later::Follow(Work {
                    leader,
                    partition,
                    leader_epoch,
                    what,
                }),
            );
        }
    }

    pub(super) fn carry_work(&mut self, at: At, work: Work, out: &mut Vec<Output>) {
        let Work {
            leader,
            partition,
            leader_epoch,
            what,
        } = work;
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        // The role may have changed since the fetcher decided.
        if hosted.replica.follows(leader_epoch).is_err() {
            return;
        }
        let is_append = matches!(what, WorkKind::Append { .. });
        let done = match what {
            WorkKind::Append {
                at: end,
                batches,
                watermark,
                log_start,
            } => {
                if to_core(hosted.log.log_end()) != end.0 {
                    Ok(Outcome::LogMoved(hosted.local()))
                } else {
                    self.append_fetched(at, partition, leader_epoch, &batches, (watermark, log_start), out)
                }
            }
            WorkKind::Truncate(to) => self.truncate(at, partition, to, out),
            WorkKind::Restart(start) => self.restart(at, partition, start, out),
        };
        let outcome = done.unwrap_or_else(|fault| {
            self.log_failed(partition, &fault, out);
            match fault {
                LogFault::DiskFull { .. } => Outcome::NoRoom,
                _ => Outcome::Failed,
            }
        });
        let now = self.now(at);
        let Some(fetcher) = self.fetchers.get_mut(&leader) else {
            return;
        };
        match is_append {
            true => fetcher.appended(partition, leader_epoch, outcome, now),
            false => fetcher.truncated(partition, leader_epoch, outcome, now),
        }
    }

    fn truncate(
        &mut self,
        at: At,
        partition: PartitionId,
        to: LogEnd,
        out: &mut Vec<Output>,
    ) -> Result<Outcome, LogFault> {
        let hosted = self.hosted.get_mut(&partition).expect("the caller has it");
        if to_core(hosted.log.log_end()) > to.0 {
            out.push(Output::Mark(Mark::RecordsTruncated));
        }
        out.push(Output::Mark(Mark::FollowerTruncated));
        self.note_cut(partition, to_log(to.0))?;
        let hosted = self.hosted.get_mut(&partition).expect("the caller has it");
        let cut = hosted.log.truncate_to(to_log(to.0));
        // However far that came, the replica knows where the log ends.
        let end = hosted.log.log_end();
        hosted.replica.truncated(LogEnd(to_core(end)));
        self.cut_off(partition, out);
        let sync = cut?;
        // Whole batches go.
        self.note_cut(partition, end)?;
        self.sync_as_needed(at, partition, sync, out);
        Ok(self.done(partition))
    }

    fn restart(
        &mut self,
        at: At,
        partition: PartitionId,
        start: LogStart,
        out: &mut Vec<Output>,
    ) -> Result<Outcome, LogFault> {
        self.note_cut(partition, to_log(start.0))?;
        let hosted = self.hosted.get_mut(&partition).expect("the caller has it");
        let cut = hosted.log.restart_at(to_log(start.0));
        hosted.replica.wiped(start);
        self.cut_off(partition, out);
        self.sync_as_needed(at, partition, cut?, out);
        out.push(Output::Mark(Mark::LogBegunAnew));
        Ok(self.done(partition))
    }

    /// Before a log is cut back to an offset: what is appended there is not durable, and the checkpoints must not say that
    /// it is.
    fn note_cut(&mut self, partition: PartitionId, to: partition_log::Offset) -> Result<(), LogFault> {
        if !self.has_name(partition) {
            return Ok(());
        }
        let hosted = &self.hosted[&partition];
        if to < hosted.log.log_start() {
            return self.dir.forget(&hosted.name);
        }
        let point = hosted.log.recovery_point().min(to);
        self.dir.lower_recovery_point(&hosted.name, point)
    }

    fn done(&self, partition: PartitionId) -> Outcome {
        Outcome::Done(self.hosted[&partition].local())
    }

    fn append_fetched(
        &mut self,
        at: At,
        partition: PartitionId,
        leader_epoch: LeaderEpoch,
        batches: &Bytes,
        said: (HighWatermark, LogStart),
        out: &mut Vec<Output>,
    ) -> Result<Outcome, LogFault> {
        let now = self.now(at);
        let hosted = self.hosted.get_mut(&partition).expect("the caller has it");
        if !batches.is_empty() {
            let epoch = partition_log::LeaderEpoch(leader_epoch.0);
            let appended = match hosted.log.append_as_follower(batches, epoch, Self::wall(at)) {
                Ok(appended) => appended,
                Err(AppendError::Refused(refusal)) => {
                    if matches!(refusal, AppendRefusal::Corrupt { .. }) {
                        out.push(Output::Mark(Mark::RotRefusedByFollower));
                    }
                    return Ok(Outcome::Refused);
                }
                Err(AppendError::Fault(fault)) => {
                    hosted.replica.truncated(LogEnd(to_core(hosted.log.log_end())));
                    return Err(fault);
                }
            };
            let effects = hosted.replica.appended(LogEnd(to_core(appended.log_end)), now);
            self.sync_as_needed(at, partition, appended.sync, out);
            self.carry_out(at, partition, effects, out);
        }
        let hosted = self.hosted.get_mut(&partition).expect("the caller has it");
        let effects = hosted.replica.leader_said(said.0, said.1);
        self.carry_out(at, partition, effects, out);
        Ok(self.done(partition))
    }
}
