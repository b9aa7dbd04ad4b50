//! A partition that follows: what a fetch brought goes into its log.
//!
//! Must not: decide what is to be done to the log; [`broker_core::fetcher`] has.

use std::sync::atomic::Ordering;

use broker_core::fetch::Wake;
use broker_core::fetcher::{LocalLog, Outcome};
use broker_core::offsets::{HighWatermark, LogEnd, LogStart};
use bytes::Bytes;
use metadata::ids::LeaderEpoch;
use partition_log::{AppendError, FollowerAppended, LogFault};
use tracing::{info, warn};

use super::super::follower::{FetchedPart, Work};
use super::super::lane::Waits;
use super::super::shared::Shared;
use super::Owned;
use crate::seam;

impl Owned {
    /// This broker fetched from the leader.
    pub fn fetched(&mut self, shared: &Shared, waits: &mut Waits, part: FetchedPart) {
        if self.replica.follows(part.leader_epoch).is_err() {
            part.nobody_is_here();
            return;
        }
        // An answer without records touches no file, and there are two a second for each idle replica.
        if !part.work.is_empty() {
            self.used(shared);
        }
        let outcome = self
            .follow(shared, waits, part.work, part.leader_epoch)
            .unwrap_or_else(|fault| {
                self.faulted(shared, waits, "following failed", &fault);
                match fault {
                    LogFault::DiskFull { .. } => Outcome::NoRoom,
                    LogFault::Io { .. } | LogFault::Damaged { .. } => Outcome::Failed,
                }
            });
        // Whoever fetched may have been told to stop meanwhile.
        let _ = part.done.send(outcome);
    }

    fn follow(
        &mut self,
        shared: &Shared,
        waits: &mut Waits,
        work: Work,
        leader_epoch: LeaderEpoch,
    ) -> Result<Outcome, LogFault> {
        match work {
            Work::Append {
                from,
                batches,
                watermark,
                log_start,
            } => {
                if seam::to_core(self.log.log_end()) != from {
                    return Ok(Outcome::LogMoved(self.local_log()));
                }
                if !batches.is_empty() {
                    match self.append_fetched(shared, &batches, leader_epoch) {
                        Ok(appended) => {
                            self.hosted.traffic.replicated_in(u64::from(appended.size_bytes));
                            let end = LogEnd(seam::to_core(appended.log_end));
                            let effects = self.replica.appended(end, shared.now());
                            self.carry_out(shared, waits, effects);
                            self.sync_as_needed(appended.sync, shared, waits);
                        }
                        Err(AppendError::Refused(refusal)) => {
                            warn!(partition = %self.hosted.name, %refusal, "fetched batches do not fit");
                            return Ok(Outcome::Refused);
                        }
                        Err(AppendError::Fault(fault)) => {
                            // An empty log may have begun anew, at an offset before its end.
                            self.replica.truncated(LogEnd(seam::to_core(self.log.log_end())));
                            return Err(fault);
                        }
                    }
                }
                self.publish_lag(watermark);
                let effects = self.replica.leader_said(watermark, log_start);
                self.carry_out(shared, waits, effects);
            }
            Work::Truncate(end) => {
                self.note_cut(shared, seam::to_log(end))?;
                let cut = self.log.truncate_to(seam::to_log(end));
                // However far that came, the replica knows where the log ends.
                let held = seam::to_core(self.log.log_end());
                self.replica.truncated(LogEnd(held));
                let sync = cut?;
                // Whole batches go.
                self.note_cut(shared, seam::to_log(held))?;
                self.sync_as_needed(sync, shared, waits);
                info!(partition = %self.hosted.name, log_end = held.0, "truncated to the leader's history");
                self.publish_watermark(self.watermark());
                self.hosted.waits.wake(Wake::RoleChanged);
            }
            Work::Restart(start) => {
                self.note_cut(shared, seam::to_log(start.0))?;
                let cut = self.log.restart_at(seam::to_log(start.0));
                self.replica.wiped(start);
                self.sync_as_needed(cut?, shared, waits);
                info!(partition = %self.hosted.name, log_start = start.0.0, "begun anew at the leader's log start");
                self.publish_watermark(self.watermark());
                self.hosted.waits.wake(Wake::RoleChanged);
            }
        }
        Ok(Outcome::Done(self.local_log()))
    }

    fn append_fetched(
        &mut self,
        shared: &Shared,
        batches: &Bytes,
        leader_epoch: LeaderEpoch,
    ) -> Result<FollowerAppended, AppendError> {
        self.settle_recovery_point(shared).map_err(AppendError::Fault)?;
        let epoch = seam::epoch_to_log(leader_epoch);
        self.log.append_as_follower(batches, epoch, shared.wall())
    }

    /// How much of what is committed is still missing here.
    fn publish_lag(&self, leaders: HighWatermark) {
        let missing = leaders.0.0.saturating_sub(self.log.log_end().0);
        let missing = u64::try_from(missing).unwrap_or(0);
        self.hosted.lag.store(missing, Ordering::Relaxed);
    }

    /// Before the log is cut back to an offset: what is appended there is not durable, and the checkpoints must not say that
    /// it is. Where they do not, nothing is written; where that is not possible, nothing is cut.
    fn note_cut(&mut self, shared: &Shared, to: partition_log::Offset) -> Result<(), LogFault> {
        // Where the next topic of this name has taken it, the marks are that one's.
        if !shared.dirs.has_name(&self.hosted.name, self.hosted.id.topic) {
            return Ok(());
        }
        let point = self.log.recovery_point().min(to);
        if to < self.log.log_start() {
            shared.dirs.forget_marks(&self.hosted.name, self.dir)?;
        } else if point < self.noted {
            shared
                .dirs
                .lower_recovery_point(&self.hosted.name, self.dir, point)?;
        }
        self.noted = self.noted.min(point);
        Ok(())
    }

    /// Before anything is appended to a log that was found shorter than its recovery point on a disk that had no room to
    /// write that down: what comes now is not durable.
    pub(super) fn settle_recovery_point(&mut self, shared: &Shared) -> Result<(), LogFault> {
        let point = self.log.recovery_point();
        if point < self.noted {
            self.note_cut(shared, point)?;
        }
        Ok(())
    }

    /// The log as a fetcher must know it.
    pub(super) fn local_log(&self) -> LocalLog {
        let bounds = self.log.bounds();
        LocalLog {
            start: LogStart(seam::to_core(bounds.log_start)),
            end: LogEnd(seam::to_core(bounds.log_end)),
            last_epoch: self.log.latest_epoch().map(seam::epoch_to_core),
        }
    }
}
