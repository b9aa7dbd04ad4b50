//! Cutting a log: from the end when it diverged from its leader, from the start when records are deleted.
//!
//! Must not: decide where; leaders, followers and retention do.

use std::path::PathBuf;
use std::sync::Arc;

use crate::append::SyncNeed;
use crate::epochs::{EpochChange, EpochHistory};
use crate::log::{Active, AgeFrom, Log, new_segment, remove_if_there};
use crate::producer_snapshot;
use crate::producers::Producers;
use crate::recovery::replay_from;
use crate::scan::ReadAhead;
use crate::segment::{Segment, TimePeak, file_name, parse_file_name};
use crate::sync::Names;
use crate::types::Offset;
use crate::{LogFault, ReadError};

impl Log {
    /// Removes everything from `end` on (F-23). An `end` at or behind the log end removes no record; one before the first
    /// segment begins the log anew there. Whole batches go: one that `end` lies within, too.
    ///
    /// What was cut off must be synced away before anything is written in its place: a power loss could bring it back, under
    /// a watermark that stands for what was written instead.
    ///
    /// The recovery point may go back. Its checkpoint must say so before the cut: otherwise, where it cannot be written, a
    /// power loss could leave what is written next below a recovery point from before.
    ///
    /// A full disk fails no cut. One that fails otherwise may have been made in part: whoever knows where the log ends must
    /// look again.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn truncate_to(&mut self, end: Offset) -> Result<SyncNeed, LogFault> {
        if self.bounds.log_end <= end {
            // An epoch that this replica led without writing anything begins at the log end. The leader's history does
            // not have it, and would find the same divergence for ever.
            self.forget_epochs_behind_end()?;
            self.publish_now();
            return Ok(SyncNeed::None);
        }
        if end < self.segments[0].base {
            return self.restart_at(end);
        }
        self.timeline += 1;
        let kept = self.segments.partition_point(|segment| segment.base <= end);
        let cut = self.segments[kept - 1].clone();
        let found = cut.find(end, cut.size()).map_err(|stop| stop.into_fault())?;
        let shortened = Arc::new(cut.shortened(found)?);
        shortened.set_peak(peak_of(&shortened)?);
        let gone = self.segments.split_off(kept);
        self.segments[kept - 1] = shortened.clone();
        let age_from = if shortened.size() == 0 {
            AgeFrom::Empty
        } else {
            AgeFrom::Unknown
        };
        self.active = Active::new(&self.host, &self.config, age_from, self.active.created);
        // Compaction may have left no batch around `end`; then the log still ends there.
        self.end_at(found.map_or(end, |batch| batch.base.min(end)));
        // Readers leave what goes before it goes.
        self.publish_now();
        // A producer that was cut off and comes again must not be taken for one that is there, whatever becomes of the files.
        self.forget_behind_end()?;
        self.remove_segment_files(&gone)?;
        shortened.cut_files()?;
        Ok(SyncNeed::BeforeAnswer)
    }

    /// Removes everything and goes on at `start` (F-24). The watermark follows. As to syncs and the checkpoint of the
    /// recovery point, see [`Log::truncate_to`].
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn restart_at(&mut self, start: Offset) -> Result<SyncNeed, LogFault> {
        self.begin_anew_at(start)?;
        Ok(SyncNeed::BeforeAnswer)
    }

    pub(crate) fn begin_anew_at(&mut self, start: Offset) -> Result<(), LogFault> {
        self.timeline += 1;
        let begun = Arc::new(Segment::without_indexes(&self.host.disk, &self.dir, start, 0));
        let gone = std::mem::replace(&mut self.segments, vec![begun]);
        self.active = Active::new(&self.host, &self.config, AgeFrom::Empty, self.active.created);
        self.producers = Producers::default();
        self.snapshot_at = None;
        self.bounds.log_start = start;
        self.bounds.log_end = start;
        self.bounds.high_watermark = start;
        self.bounds.last_stable = start;
        self.recovery_point = start;
        self.shorten_epochs(EpochHistory::default())?;
        // Readers have left what goes now.
        self.remove_segment_files(&gone)?;
        for at in self.snapshots()? {
            remove_if_there(&*self.host.disk, &self.dir.join(file_name(at, ".snapshot")))?;
        }
        self.segments[0] = new_segment(&self.host, &self.dir, start)?;
        self.publish_now();
        Ok(())
    }

    /// Raises the log start (L-27 to L-29); never lowers it. Returns where it is now.
    ///
    /// # Errors
    /// `OffsetOutOfRange` behind the watermark; faults of the disk.
    pub fn raise_log_start(&mut self, to: Offset) -> Result<Offset, ReadError> {
        let (log_start, log_end) = (self.bounds.log_start, self.bounds.high_watermark);
        if log_end < to {
            return Err(ReadError::OffsetOutOfRange {
                asked: to,
                log_start,
                log_end,
            });
        }
        if log_start < to {
            self.bounds.log_start = to;
            self.bounds.last_stable = self.bounds.last_stable.max(to);
            let mut epochs = (*self.epochs).clone();
            if epochs.truncate_from_start(to) == EpochChange::Changed {
                self.shorten_epochs(epochs)?;
            }
            self.publish_now();
        }
        Ok(self.bounds.log_start)
    }

    /// No bound lies behind a new, lower end.
    fn end_at(&mut self, end: Offset) {
        self.bounds.log_end = end;
        self.bounds.log_start = self.bounds.log_start.min(end);
        self.bounds.high_watermark = self.bounds.high_watermark.min(end);
        self.bounds.last_stable = self.bounds.last_stable.min(end);
        self.recovery_point = self.recovery_point.min(end);
    }

    /// Producers and epochs are those of what is left.
    fn forget_behind_end(&mut self) -> Result<(), LogFault> {
        let end = self.bounds.log_end;
        let mut from = self.segments[0].base;
        let mut producers = Producers::default();
        self.snapshot_at = None;
        for at in self.snapshots()?.into_iter().rev() {
            let path = self.dir.join(file_name(at, ".snapshot"));
            if at <= end {
                let bytes = self
                    .host
                    .disk
                    .read_file(&path, producer_snapshot::SNAPSHOT_BYTES_MAX);
                if let Some(loaded) = bytes.ok().and_then(|bytes| producer_snapshot::decode(&bytes)) {
                    (producers, from) = (loaded, at);
                    self.snapshot_at = Some(at);
                    break;
                }
            }
            remove_if_there(&*self.host.disk, &path)?;
        }
        replay_from(
            &self.segments,
            &mut producers,
            from.max(self.segments[0].base),
            Offset(i64::MAX),
        )?;
        self.producers = producers;
        self.forget_epochs_behind_end()?;
        self.publish_now();
        Ok(())
    }

    fn forget_epochs_behind_end(&mut self) -> Result<(), LogFault> {
        let mut epochs = (*self.epochs).clone();
        if epochs.truncate_from_end(self.bounds.log_end) == EpochChange::Changed {
            self.shorten_epochs(epochs)?;
        }
        Ok(())
    }

    pub(crate) fn snapshots(&self) -> Result<Vec<Offset>, LogFault> {
        let names = self
            .host
            .disk
            .list(&self.dir)
            .map_err(LogFault::io("list", &self.dir))?;
        Ok(names
            .iter()
            .filter_map(|entry| parse_file_name(&entry.name, ".snapshot"))
            .collect())
    }

    /// The newest goes first: a process that dies half-way leaves no hole.
    fn remove_segment_files(&mut self, gone: &[Arc<Segment>]) -> Result<(), LogFault> {
        self.unsynced.names = Names::Changed;
        for segment in gone.iter().rev() {
            for path in Segment::paths(&self.dir, segment.base) {
                remove_if_there(&*self.host.disk, &path)?;
            }
        }
        Ok(())
    }

    /// Renames the files of a segment that is no longer part of the log; readers that have them open go on.
    pub(crate) fn rename_segment_files(&mut self, segment: &Segment) -> Result<Vec<PathBuf>, LogFault> {
        self.unsynced.names = Names::Changed;
        let snapshot = self.dir.join(file_name(segment.base, ".snapshot"));
        let mut renamed = Vec::new();
        for path in Segment::paths(&self.dir, segment.base)
            .into_iter()
            .chain([snapshot])
        {
            let mut deleted = path.as_os_str().to_owned();
            deleted.push(".deleted");
            let deleted = PathBuf::from(deleted);
            match self.host.disk.rename(&path, &deleted) {
                Ok(()) => renamed.push(deleted),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(LogFault::io("rename", &path)(e)),
            }
        }
        Ok(renamed)
    }
}

/// The largest time of a segment whose index may end before the last batches.
fn peak_of(segment: &Segment) -> Result<TimePeak, LogFault> {
    let mut peak = segment.peak()?;
    let position = segment
        .lookups()
        .offsets
        .last()?
        .map_or(0, |entry| entry.position);
    let mut scanner = segment.scan(position, segment.size(), ReadAhead::Little)?;
    while let Some(found) = scanner.next_header().map_err(|stop| stop.into_fault())? {
        if peak.timestamp < found.header.max_timestamp {
            let offset = Offset(found.header.last_offset());
            peak = TimePeak {
                timestamp: found.header.max_timestamp,
                offset,
            };
        }
    }
    Ok(peak)
}
