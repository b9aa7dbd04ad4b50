//! Cutting a log: from the end when it diverged from its leader, from the start when records are deleted.
//!
//! Must not: decide where; leaders, followers and retention do.

use std::path::PathBuf;
use std::sync::Arc;

use crate::epochs::{EpochChange, EpochHistory};
use crate::log::{Active, AgeFrom, Log, new_segment, old_segment, remove_if_there};
use crate::producer_snapshot;
use crate::producers::Producers;
use crate::recovery::replay_from;
use crate::scan::ReadAhead;
use crate::segment::{FileSizes, Place, Segment, TimePeak, file_name, parse_file_name};
use crate::types::Offset;
use crate::{LogFault, ReadError};

impl Log {
    /// Removes everything from `end` on (F-23). An `end` at or behind the log end changes nothing; one before the first
    /// segment begins the log anew there. Whole batches go: one that `end` lies within, too.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn truncate_to(&mut self, end: Offset) -> Result<(), LogFault> {
        if self.bounds.log_end <= end {
            return Ok(());
        }
        if end < self.segments[0].base {
            return self.restart_at(end);
        }
        self.timeline += 1;
        let kept = self.segments.partition_point(|segment| segment.base <= end);
        // The newest goes first: a process that dies half-way leaves no hole.
        while kept < self.segments.len() {
            let newest = self.active_segment().clone();
            self.remove_segment_files(&newest)?;
            self.segments.pop();
        }
        let cut = self.active_segment().clone();
        let found = cut.find(end, cut.size()).map_err(|stop| stop.into_fault())?;
        self.reopen_active(&cut, found)?;
        // Compaction may have left no batch around `end`; then the log still ends there.
        self.end_at(found.map_or(end, |batch| batch.base.min(end)))
    }

    /// Removes everything and goes on at `start` (F-24). The watermark follows.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn restart_at(&mut self, start: Offset) -> Result<(), LogFault> {
        self.timeline += 1;
        while 1 < self.segments.len() {
            let newest = self.active_segment().clone();
            self.remove_segment_files(&newest)?;
            self.segments.pop();
        }
        let oldest = self.active_segment().clone();
        self.segments[0] = new_segment(&self.host, &self.dir, start)?;
        if oldest.base != start {
            self.remove_segment_files(&oldest)?;
        }
        self.active = Active::new(&self.host, &self.config, AgeFrom::Empty, self.active.created);
        self.producers = Producers::default();
        for at in self.snapshots()? {
            remove_if_there(&*self.host.disk, &self.dir.join(file_name(at, ".snapshot")))?;
        }
        self.unsynced.names = true;
        self.bounds.log_start = start;
        self.bounds.log_end = start;
        self.bounds.high_watermark = start;
        self.bounds.last_stable = start;
        self.recovery_point = start;
        self.replace_epochs(EpochHistory::default())
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
                self.replace_epochs(epochs)?;
            }
            self.publish_now();
        }
        Ok(self.bounds.log_start)
    }

    /// Makes a new active segment out of the first bytes of an old one.
    fn reopen_active(&mut self, cut: &Arc<Segment>, first_gone: Option<Place>) -> Result<(), LogFault> {
        cut.write_indexes_out()?;
        let size = first_gone.map_or(cut.size(), |batch| batch.position);
        let (offsets, times) = {
            let lookups = cut.lookups();
            let offsets = lookups.offsets.partition_point(|entry| entry.position < size)?;
            let gone = first_gone.map_or(u32::MAX, |batch| cut.relative(batch.base));
            (
                offsets,
                lookups.times.partition_point(|entry| entry.relative < gone)?,
            )
        };
        let file = cut.log.get()?;
        file.set_len(u64::from(size))
            .map_err(LogFault::io("truncate", cut.log.path()))?;
        let sizes = FileSizes {
            log: size,
            index: cut.lookups().offsets.count() as u64 * 8,
            time_index: cut.lookups().times.count() as u64 * 12,
            aborted: cut.aborted.size_bytes(),
        };
        let segment = old_segment(&self.host, &self.dir, cut.base, sizes);
        {
            let mut lookups = segment.lookups_mut();
            lookups.offsets.truncate(offsets)?;
            lookups.times.truncate(times)?;
        }
        if let Some(batch) = first_gone {
            segment.aborted.truncate(batch.base)?;
        }
        segment.set_peak(peak_of(&segment)?);
        let last = self.segments.len() - 1;
        self.segments[last] = segment;
        let age_from = if size == 0 {
            AgeFrom::Empty
        } else {
            AgeFrom::Unknown
        };
        self.active = Active::new(&self.host, &self.config, age_from, self.active.created);
        self.unsynced.names = true;
        Ok(())
    }

    /// Everything that follows from a new, lower end.
    fn end_at(&mut self, end: Offset) -> Result<(), LogFault> {
        self.bounds.log_end = end;
        self.bounds.log_start = self.bounds.log_start.min(end);
        self.bounds.high_watermark = self.bounds.high_watermark.min(end);
        self.bounds.last_stable = self.bounds.last_stable.min(end);
        self.recovery_point = self.recovery_point.min(end);
        let mut from = self.segments[0].base;
        let mut producers = Producers::default();
        for at in self.snapshots()?.into_iter().rev() {
            let path = self.dir.join(file_name(at, ".snapshot"));
            if at <= end {
                let bytes = self
                    .host
                    .disk
                    .read_file(&path, producer_snapshot::SNAPSHOT_BYTES_MAX);
                if let Some(loaded) = bytes.ok().and_then(|bytes| producer_snapshot::decode(&bytes)) {
                    (producers, from) = (loaded, at);
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
        let mut epochs = (*self.epochs).clone();
        if epochs.truncate_from_end(end) == EpochChange::Changed {
            self.replace_epochs(epochs)?;
        }
        self.publish_now();
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

    fn remove_segment_files(&mut self, segment: &Segment) -> Result<(), LogFault> {
        self.unsynced.names = true;
        for path in Segment::paths(&self.dir, segment.base) {
            remove_if_there(&*self.host.disk, &path)?;
        }
        Ok(())
    }

    /// Renames the files of a segment that is no longer part of the log; readers that have them open go on.
    pub(crate) fn rename_segment_files(&mut self, segment: &Segment) -> Result<Vec<PathBuf>, LogFault> {
        self.unsynced.names = true;
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
    let (mut peak, position) = {
        let lookups = segment.lookups();
        let peak = lookups.times.last()?.map_or(
            TimePeak {
                timestamp: -1,
                offset: segment.base,
            },
            |time| TimePeak {
                timestamp: time.timestamp,
                offset: Offset(segment.base.0 + i64::from(time.relative)),
            },
        );
        (peak, lookups.offsets.last()?.map_or(0, |entry| entry.position))
    };
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
