//! Reading a log without its owner.
//!
//! A [`ReadView`] shows an immutable snapshot that the owner replaces after each change; readers on any thread never
//! wait for it, and never see half of a change. Must not: change anything.

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use host::File;

use crate::scan::{ReadAhead, ScanStop};
use crate::segment::{Place, Segment};
use crate::types::{LeaderEpoch, Offset, ProducerId};
use crate::validate::time_of;
use crate::{EpochEnd, EpochHistory, LogFault, ReadError};

/// The offsets that bound a log, as of one moment: `log_start ≤ last_stable ≤ high_watermark ≤ log_end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First offset that may be read.
    pub log_start: Offset,
    /// Everything before is decided: no open transaction below.
    pub last_stable: Offset,
    /// Everything before is on every in-sync replica.
    pub high_watermark: Offset,
    /// Behind the last record.
    pub log_end: Offset,
}

/// Whether a read returns its first batch even when it is larger than the limit (F-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBatch {
    /// Yes, whole.
    Whole,
    /// No: then nothing is returned.
    WithinLimit,
}

/// A range of a segment file that is ready to be sent.
///
/// A truncation may shorten the file while it is being sent; only offsets that are not committed are ever truncated.
#[derive(Clone, Debug)]
pub struct FileSlice {
    /// The segment's file; it stays readable after the segment is deleted.
    pub file: Arc<dyn File>,
    /// First byte.
    pub position: u64,
    /// Bytes; the last batch may be cut off by the limit (L-45).
    pub size_bytes: u32,
    /// Base offset of the first batch: at or below the offset asked for.
    pub base_offset: Offset,
}

impl FileSlice {
    /// Its bytes, copied: for listeners that must encrypt them, and for tests.
    ///
    /// # Errors
    /// The disk's; `UnexpectedEof` if the file was truncated meanwhile.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.size_bytes as usize];
        self.file.read_exact_at(&mut bytes, self.position)?;
        Ok(bytes)
    }
}

/// A record found by its time (L-47, L-48).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// The record's time; −1 is the record's own "none".
    pub timestamp: i64,
    /// Where it is.
    pub offset: Offset,
    /// Epoch of the leader that wrote it.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// A transaction whose records a read-committed reader must skip (F-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Who wrote it.
    pub producer: ProducerId,
    /// Its first record.
    pub first: Offset,
}

/// What readers see of a log at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Oldest first, never empty; the last one is being written.
    pub segments: Arc<[Arc<Segment>]>,
    pub bounds: Bounds,
    /// Bytes of the last segment that belong to this moment.
    pub end_position: u32,
    pub epochs: Arc<EpochHistory>,
}

/// The reading side of a log. Clones show the same log.
#[derive(Clone, Debug)]
pub struct ReadView {
    pub(crate) current: Arc<ArcSwap<Snapshot>>,
}

impl ReadView {
    /// The bounds now.
    pub fn bounds(&self) -> Bounds {
        self.current.load().bounds
    }

    /// The leader epochs of this log.
    pub fn epochs(&self) -> Arc<EpochHistory> {
        self.current.load().epochs.clone()
    }

    /// Where `epoch` ended in this log (L-51).
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> EpochEnd {
        let now = self.current.load();
        now.epochs.end_offset_for(epoch, now.bounds.log_end)
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        let now = self.current.load();
        (0..now.segments.len())
            .map(|place| u64::from(now.size_of(place)))
            .sum()
    }

    /// The bytes from the batch that holds `from`, up to `size_bytes_max` and not beyond the batches before `upto`
    /// (L-44 to L-46, F-11). `None` if there is nothing to read yet, or the first batch does not fit. One answer never
    /// reaches into the next segment.
    ///
    /// # Errors
    /// `OffsetOutOfRange` below the log start or behind the log end; faults of the disk.
    pub fn read(
        &self,
        from: Offset,
        upto: Offset,
        size_bytes_max: u32,
        first: FirstBatch,
    ) -> Result<Option<FileSlice>, ReadError> {
        self.asking(|now| {
            let Bounds {
                log_start, log_end, ..
            } = now.bounds;
            if from < log_start || log_end < from {
                return Ok(Err(ReadError::OffsetOutOfRange {
                    asked: from,
                    log_start,
                    log_end,
                }));
            }
            now.read(from, upto.min(log_end), size_bytes_max, first).map(Ok)
        })?
    }

    /// The first record before `upto`, at or behind the log start, whose time is at least `timestamp`.
    ///
    /// # Errors
    /// Faults of the disk; `Damaged` if a batch cannot be decoded.
    pub fn offset_for_timestamp(
        &self,
        timestamp: i64,
        upto: Offset,
    ) -> Result<Option<TimestampedOffset>, LogFault> {
        self.asking(|now| now.offset_for_timestamp(timestamp, upto))
    }

    /// The first record with the largest time, if it lies before `upto`; `None` in a log without records (L-48).
    ///
    /// # Errors
    /// As [`ReadView::offset_for_timestamp`].
    pub fn max_timestamp(&self, upto: Offset) -> Result<Option<TimestampedOffset>, LogFault> {
        self.asking(|now| now.max_timestamp(upto))
    }

    /// The aborted transactions that may touch records in `[from, upto)`; may name more, never fewer (F-8).
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn aborted_transactions(
        &self,
        from: Offset,
        upto: Offset,
    ) -> Result<Vec<AbortedTransaction>, LogFault> {
        self.asking(|now| now.aborted_transactions(from, upto))
    }

    /// Asks the present snapshot, and again if it was replaced while the files under it changed.
    fn asking<T>(&self, ask: impl Fn(&Snapshot) -> Result<T, ScanStop>) -> Result<T, LogFault> {
        let mut now = self.current.load_full();
        loop {
            let stop = match ask(&now) {
                Ok(answer) => return Ok(answer),
                Err(stop) => stop,
            };
            // A segment that was deleted or cut under an old snapshot looks damaged; under the present one it is.
            let newer = self.current.load_full();
            if Arc::ptr_eq(&now.segments, &newer.segments) {
                return Err(stop.into_fault());
            }
            now = newer;
        }
    }
}

impl Snapshot {
    fn size_of(&self, place: usize) -> u32 {
        if place + 1 == self.segments.len() {
            self.end_position
        } else {
            self.segments[place].size()
        }
    }

    /// The segment that holds `offset`, or would.
    fn place_of(&self, offset: Offset) -> usize {
        self.segments
            .partition_point(|segment| segment.base <= offset)
            .saturating_sub(1)
    }

    /// The first batch that ends at or behind `offset`, in whatever segment.
    fn find(&self, offset: Offset) -> Result<Option<(usize, Place)>, ScanStop> {
        for place in self.place_of(offset)..self.segments.len() {
            if let Some(found) = self.segments[place].find(offset, self.size_of(place))? {
                return Ok(Some((place, found)));
            }
        }
        Ok(None)
    }

    fn read(
        &self,
        from: Offset,
        upto: Offset,
        size_bytes_max: u32,
        first: FirstBatch,
    ) -> Result<Option<FileSlice>, ScanStop> {
        if upto <= from {
            return Ok(None);
        }
        let Some((place, start)) = self.find(from)? else {
            return Ok(None);
        };
        let segment = &self.segments[place];
        // Compaction may leave nothing between the two offsets.
        let ends_here = self.segments.get(place + 1).is_none_or(|next| upto < next.base);
        let end = match ends_here && upto < self.bounds.log_end {
            true => segment
                .find(upto, self.size_of(place))?
                .map_or(self.size_of(place), |batch| batch.position),
            false => self.size_of(place),
        };
        if end <= start.position {
            return Ok(None);
        }
        let mut size_bytes = (end - start.position).min(size_bytes_max);
        if size_bytes < start.size {
            match first {
                FirstBatch::WithinLimit => return Ok(None),
                FirstBatch::Whole => size_bytes = start.size,
            }
        }
        let file = segment.log.get().map_err(ScanStop::Fault)?;
        let position = u64::from(start.position);
        Ok(Some(FileSlice {
            file,
            position,
            size_bytes,
            base_offset: start.base,
        }))
    }

    fn offset_for_timestamp(
        &self,
        timestamp: i64,
        upto: Offset,
    ) -> Result<Option<TimestampedOffset>, ScanStop> {
        for (place, segment) in self.segments.iter().enumerate() {
            if segment.peak().map_err(ScanStop::Fault)?.timestamp < timestamp {
                continue;
            }
            // Every batch up to the entry's offset is older than asked for, so the search may begin there.
            let entry = segment
                .lookups()
                .times
                .last_where(|entry| entry.timestamp < timestamp);
            let relative = entry.map_err(ScanStop::Fault)?.map_or(0, |entry| entry.relative);
            let begin = Offset(segment.base.0 + i64::from(relative)).max(self.bounds.log_start);
            let found = self.search(place, begin, self.bounds.log_start, |time| timestamp <= time)?;
            if found.is_some() {
                return Ok(found.filter(|record| record.offset < upto));
            }
        }
        Ok(None)
    }

    fn max_timestamp(&self, upto: Offset) -> Result<Option<TimestampedOffset>, ScanStop> {
        let mut best: Option<(usize, i64, Offset)> = None;
        for (place, segment) in self.segments.iter().enumerate() {
            let peak = segment.peak().map_err(ScanStop::Fault)?;
            if 0 < self.size_of(place) && best.is_none_or(|(_, time, _)| time < peak.timestamp) {
                best = Some((place, peak.timestamp, peak.offset));
            }
        }
        let Some((place, timestamp, offset)) = best else {
            return Ok(None);
        };
        // The peak names the batch's last offset; without any time it names the segment's base. The log start is not
        // asked: Kafka names a deleted record too.
        let found = self.search(place, offset, Offset::ZERO, |time| time == timestamp)?;
        Ok(found.filter(|record| record.offset < upto))
    }

    /// The first record at or behind `lowest` in the batches of a segment from the one that holds `begin`, whose time
    /// satisfies `wanted`.
    fn search(
        &self,
        place: usize,
        begin: Offset,
        lowest: Offset,
        wanted: impl Fn(i64) -> bool,
    ) -> Result<Option<TimestampedOffset>, ScanStop> {
        let (segment, size) = (&self.segments[place], self.size_of(place));
        let Some(start) = segment.find(begin, size)? else {
            return Ok(None);
        };
        let mut scanner = segment
            .scan(start.position, size, ReadAhead::Little)
            .map_err(ScanStop::Fault)?;
        while let Some((position, batch)) = scanner.next_batch()? {
            let path = segment.log.path();
            let bad = |e: wire::batch::BatchError| ScanStop::Bad {
                path: path.to_owned(),
                position,
                what: e.to_string(),
            };
            if batch.header.record_count == 0 {
                continue;
            }
            let body = batch.body(DECODE_BYTES_MAX).map_err(bad)?;
            for record in batch.records(&body) {
                let record = record.map_err(bad)?;
                let offset = Offset(batch.header.base_offset + i64::from(record.offset_delta));
                let timestamp = time_of(&batch.header, &record);
                if wanted(timestamp) && lowest <= offset {
                    let epoch = batch.header.partition_leader_epoch;
                    let leader_epoch = (0 <= epoch).then_some(LeaderEpoch(epoch));
                    return Ok(Some(TimestampedOffset {
                        timestamp,
                        offset,
                        leader_epoch,
                    }));
                }
            }
        }
        Ok(None)
    }

    fn aborted_transactions(&self, from: Offset, upto: Offset) -> Result<Vec<AbortedTransaction>, ScanStop> {
        let mut found = Vec::new();
        for segment in &self.segments[self.place_of(from)..] {
            for entry in segment.aborted.entries().map_err(ScanStop::Fault)? {
                if from <= entry.last && entry.first < upto {
                    found.push(AbortedTransaction {
                        producer: entry.producer,
                        first: entry.first,
                    });
                }
                if upto <= entry.last_stable {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }
}

/// Batches in the log were accepted under a limit of their own; this one only keeps damage from filling the memory.
const DECODE_BYTES_MAX: usize = 1024 * 1024 * 1024;
