//! Reading a log without its owner.
//!
//! A [`ReadView`] shows an immutable snapshot that the owner replaces after each change; readers on any thread never
//! wait for it, and never see half of a change. Must not: change anything.

use std::sync::Arc;

use host::File;

use crate::types::{LeaderEpoch, Offset, ProducerId};
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

/// The reading side of a log. Clones show the same log.
#[derive(Clone, Debug)]
pub struct ReadView {}

impl ReadView {
    /// The bounds now.
    pub fn bounds(&self) -> Bounds {
        todo!()
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
        let _ = (from, upto, size_bytes_max, first);
        todo!()
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
        let _ = (timestamp, upto);
        todo!()
    }

    /// The first record with the largest time, if it lies before `upto`; `None` in a log without records (L-48).
    ///
    /// # Errors
    /// As [`ReadView::offset_for_timestamp`].
    pub fn max_timestamp(&self, upto: Offset) -> Result<Option<TimestampedOffset>, LogFault> {
        let _ = upto;
        todo!()
    }

    /// Where `epoch` ended in this log (L-51).
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> EpochEnd {
        let _ = epoch;
        todo!()
    }

    /// The leader epochs of this log.
    pub fn epochs(&self) -> Arc<EpochHistory> {
        todo!()
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
        let _ = (from, upto);
        todo!()
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        todo!()
    }
}
