//! What a broker notes in its log directories beside the logs: the checkpoints, and the mark of an orderly stop (L-23, L-24).
//!
//! Must not: decide which mark that is; [`CleanStop::of`] does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use broker_core::lifecycle::CleanStop;
use partition_log::{CleanShutdown, LogDir, LogFault, Offset, TopicPartition};

use super::{DirIndex, Dirs};
use crate::seam;
use crate::storage::recovery::RecoveryProgress;

/// How often recovery points are written while logs are being recovered.
const RECOVERY_WRITTEN_EVERY_MS: i64 = 1_000;

/// What is written down regularly about one log.
#[derive(Clone, Debug)]
pub struct Marks {
    /// Whose.
    pub partition: TopicPartition,
    /// In which directory.
    pub dir: DirIndex,
    /// Everything before is durable.
    pub recovery_point: Offset,
    /// First readable offset.
    pub log_start: Offset,
    /// Everything before is committed.
    pub high_watermark: Offset,
    /// How often logs had been cut when this was noted.
    pub cuts: u64,
}

/// Whether every log that the cluster gives to this broker had been opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loading {
    /// It had.
    Finished,
    /// The broker was asked to stop before.
    Unfinished,
}

/// When the marks of a log became void that were noted before.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    count: u64,
    /// By the count after the cut.
    pub(super) since: BTreeMap<TopicPartition, u64>,
}

impl Dirs {
    /// The mark that an orderly stop left in all of them (R1.15); nothing if one lacks it or has another.
    pub fn clean_stop(&self) -> Option<CleanStop> {
        let marks: Option<Vec<CleanStop>> = self
            .dirs
            .iter()
            .map(|dir| {
                dir.log_dir
                    .lock()
                    .clean_shutdown()
                    .and_then(seam::clean_stop_to_core)
            })
            .collect();
        let marks = marks?;
        let first = marks.first()?.clone();
        marks.iter().all(|mark| *mark == first).then_some(first)
    }

    /// How often logs have been cut so far, for [`Marks::cuts`].
    pub fn cuts(&self) -> u64 {
        self.cuts.lock().count
    }

    fn void_marks(&self, partition: &TopicPartition) {
        let mut cuts = self.cuts.lock();
        cuts.count += 1;
        let count = cuts.count;
        cuts.since.insert(partition.clone(), count);
    }

    /// The recovery point that is written down for a log.
    pub fn written_recovery_point(&self, partition: &TopicPartition, dir: DirIndex) -> Offset {
        let log_dir = self.dirs[dir.0].log_dir.lock();
        log_dir.recovery_point(partition).unwrap_or_default()
    }

    /// How far the recovery is of logs that were not closed in order.
    pub fn recovery(&self) -> &Arc<RecoveryProgress> {
        &self.recovery
    }

    /// A log was recovered and synced before `point`. That is written down now and then, so that a process that is killed
    /// half-way does not begin from the start again.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn recovered(
        &self,
        partition: &TopicPartition,
        dir: DirIndex,
        point: Offset,
        now: host::WallMs,
    ) -> Result<(), LogFault> {
        let mut log_dir = self.dirs[dir.0].log_dir.lock();
        log_dir.note_recovery_point(partition, point);
        let written = self.recovery_written_ms.load(Ordering::Relaxed);
        if now.0 - written < RECOVERY_WRITTEN_EVERY_MS {
            return Ok(());
        }
        self.recovery_written_ms.store(now.0, Ordering::Relaxed);
        log_dir.write_noted_recovery_points()
    }

    /// Writes down, at once, that a log begins anew: nothing that was noted of it before counts any more.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn forget_marks(&self, partition: &TopicPartition, dir: DirIndex) -> Result<(), LogFault> {
        let mut log_dir = self.dirs[dir.0].log_dir.lock();
        self.void_marks(partition);
        log_dir.forget(partition)
    }

    /// Writes down, at once, that a log was cut and is durable only before `to`. Marks that were noted before the cut and
    /// are not written yet no longer count.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn lower_recovery_point(
        &self,
        partition: &TopicPartition,
        dir: DirIndex,
        to: Offset,
    ) -> Result<(), LogFault> {
        let mut log_dir = self.dirs[dir.0].log_dir.lock();
        self.void_marks(partition);
        log_dir.lower_recovery_point(partition, to)
    }

    /// Writes the watermarks down.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn write_high_watermarks(&self, marks: &[Marks]) -> Result<(), LogFault> {
        self.each(
            "the watermarks",
            marks,
            |mark| mark.high_watermark,
            LogDir::high_watermark,
            LogDir::write_high_watermarks,
        )
    }

    /// Writes recovery points and log starts down.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn write_recovery(&self, marks: &[Marks]) -> Result<(), LogFault> {
        let points = self.each(
            "the recovery points",
            marks,
            |mark| mark.recovery_point,
            LogDir::recovery_point,
            LogDir::write_recovery_points,
        );
        let starts = self.each(
            "the log starts",
            marks,
            |mark| mark.log_start,
            LogDir::log_start,
            LogDir::write_log_starts,
        );
        points.and(starts)
    }

    /// The logs on the disk that this process has not opened: there was no room, or they are damaged, or it has not come
    /// to them.
    fn unopened(&self) -> BTreeMap<TopicPartition, DirIndex> {
        let owners = self.owners.lock();
        let placed = self.placed.lock();
        let unopened = placed.iter().filter(|(name, _)| !owners.is_used(name));
        unopened.map(|(name, dir)| (name.clone(), *dir)).collect()
    }

    /// Writes one checkpoint in every directory that works. Where a mark is void, or the log was not opened, what is written
    /// already stays. What cannot be written in one is reported here, and keeps no other from being written.
    fn each(
        &self,
        what: &'static str,
        marks: &[Marks],
        noted: impl Fn(&Marks) -> Offset,
        held: impl Fn(&LogDir, &TopicPartition) -> Option<Offset>,
        write: impl Fn(&mut LogDir, &[(TopicPartition, Offset)]) -> Result<(), LogFault>,
    ) -> Result<(), LogFault> {
        let unopened = self.unopened();
        let mut all = Ok(());
        for (index, dir) in self.dirs.iter().enumerate() {
            if self.has_failed(DirIndex(index)) {
                continue;
            }
            let mut log_dir = dir.log_dir.lock();
            let mut here: Vec<_> = {
                let cuts = self.cuts.lock();
                let is_void = |mark: &Marks| {
                    let since = cuts.since.get(&mark.partition);
                    since.is_some_and(|since| mark.cuts < *since)
                };
                let offset = |mark: &Marks| match is_void(mark) {
                    true => held(&log_dir, &mark.partition),
                    false => Some(noted(mark)),
                };
                let here = marks.iter().filter(|mark| mark.dir.0 == index);
                here.filter_map(|mark| Some((mark.partition.clone(), offset(mark)?)))
                    .collect()
            };
            let others = unopened.iter().filter(|(_, lies_in)| lies_in.0 == index);
            here.extend(others.filter_map(|(name, _)| Some((name.clone(), held(&log_dir, name)?))));
            let written = write(&mut log_dir, &here);
            drop(log_dir);
            all = all.and(self.checkpointed(DirIndex(index), what, written));
        }
        all
    }

    fn checkpointed(
        &self,
        dir: DirIndex,
        what: &'static str,
        written: Result<(), LogFault>,
    ) -> Result<(), LogFault> {
        match &written {
            Ok(()) => {
                self.missing.lock().remove(&(dir, what));
                self.written(dir);
            }
            Err(fault) => {
                self.missing.lock().insert((dir, what));
                self.report(dir, "a checkpoint cannot be written", &what, fault);
            }
        }
        written
    }

    /// Marks a clean shutdown in every directory that works. Last of all (L-24). Where not every log had been opened, only
    /// a directory that was clean before still is: what else lies there was never recovered.
    ///
    /// Where a log lies in another directory than the assigned one, the mark names nobody: no log has to be recovered, yet
    /// the next process is trusted with nothing. It may come without that directory, and the controller would take the
    /// replica for one that still has what it had (R3.80).
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn mark_clean(&self, stop: &CleanStop, loading: Loading) -> Result<(), LogFault> {
        let (failed, missing) = (self.failed(), self.missing.lock().clone());
        let unopened = self.unopened();
        let mark = match self.is_any_misplaced.load(Ordering::Relaxed) {
            true => CleanShutdown::default(),
            false => seam::clean_stop_to_log(stop),
        };
        let mut all = Ok(());
        for (index, dir) in self.dirs.iter().enumerate() {
            let all_opened = loading == Loading::Finished && unopened.values().all(|other| other.0 != index);
            let is_whole = missing.iter().all(|(lacks, _)| lacks.0 != index);
            let is_clean = (all_opened || dir.was_clean) && is_whole;
            if is_clean && !failed.contains(&DirIndex(index)) {
                all = all.and(dir.log_dir.lock().mark_clean(&mark));
            }
        }
        all
    }
}
