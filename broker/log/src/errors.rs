//! What can go wrong: refusals (the caller is wrong or late) and faults (the machine failed).
//!
//! Must not: choose Kafka's error codes; the broker does that in one place, from these types.

use std::io;
use std::path::{Path, PathBuf};

use crate::types::{Offset, ProducerEpoch, ProducerId};

/// The machine failed.
#[derive(Debug, thiserror::Error)]
pub enum LogFault {
    /// No space left. Nothing was appended; the next append tries again.
    #[error("no space left for {}", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// Any other error of the disk.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was tried, such as `append to`.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Bytes on the disk are not what was written there.
    #[error("{} is damaged at {position}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Byte position of the damage.
        position: u64,
        /// What is wrong with it.
        what: String,
    },
}

impl LogFault {
    /// Whether the log directory cannot be used any more. A full disk recovers, and damaged bytes concern one log; of any
    /// other error nobody knows what it leaves (L-55).
    pub fn fails_directory(&self) -> bool {
        matches!(self, LogFault::Io { .. })
    }

    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogFault {
        move |source| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LogFault::DiskFull { path },
                _ => LogFault::Io { doing, path, source },
            }
        }
    }
}

/// Why one record of a batch was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// Place of the record within its batch, from 0.
    pub batch_index: i32,
    /// Why.
    pub why: RecordFlaw,
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFlaw {
    /// A compacted topic needs keys.
    #[error("a record without a key in a compacted topic")]
    NoKey,
    /// Too far from the broker's clock.
    #[error("timestamp {given} is not within {oldest} to {newest}")]
    TimestampOutOfRange {
        /// The record's time.
        given: i64,
        /// Oldest accepted.
        oldest: i64,
        /// Newest accepted.
        newest: i64,
    },
    /// A client claims that the broker set the time.
    #[error("a timestamp type that only brokers may set")]
    ClaimsLogAppendTime,
}

impl RecordFlaw {
    /// Whether the batch's error is the one about timestamps.
    pub fn concerns_time(&self) -> bool {
        !matches!(self, RecordFlaw::NoKey)
    }
}

/// Why a batch was not appended. The names of the variants follow the rules of the produce path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendRefusal {
    /// The payload holds no whole batch.
    #[error("no whole batch")]
    NoBatch,
    /// The payload holds more than one whole batch.
    #[error("more than one batch for a partition")]
    SeveralBatches,
    /// A batch of a format before version 2.
    #[error("batch of magic {magic}")]
    OldMagic {
        /// 0 or 1.
        magic: i8,
    },
    /// The client set a base offset.
    #[error("base offset {given} instead of 0")]
    BaseOffsetNotZero {
        /// What it set.
        given: i64,
    },
    /// Larger than `max.message.bytes`.
    #[error("batch of {size_bytes} bytes where {limit_bytes} are allowed")]
    BatchTooLarge {
        /// As received.
        size_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// Header or checksum wrong.
    #[error("corrupt batch: {what}")]
    Corrupt {
        /// What is wrong.
        what: &'static str,
    },
    /// Counts, deltas or records do not agree with each other.
    #[error("malformed batch: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// Only brokers write control batches.
    #[error("control batch from a client")]
    ControlBatch,
    /// A producer id without a sequence.
    #[error("producer id {producer} without a sequence")]
    SequenceMissing {
        /// The id.
        producer: ProducerId,
    },
    /// zstd from a client too old to read it back.
    #[error("zstd needs a newer produce version")]
    ZstdTooEarly,
    /// Codec number 5 to 7.
    #[error("unknown compression codec {id}")]
    UnknownCodec {
        /// Bits 0 to 2 of the attributes.
        id: u8,
    },
    /// The compressed part cannot be decompressed, or only to more than the limit.
    #[error("records cannot be decompressed: {what}")]
    Undecompressable {
        /// What the codec said.
        what: String,
    },
    /// Some records of the batch are refused, and with them the whole batch.
    #[error("{} records are invalid", records.len())]
    Records {
        /// Every refused record, in order.
        records: Vec<RecordError>,
    },
    /// Larger than a segment may be.
    #[error("{size_bytes} bytes do not fit into a segment of {limit_bytes}")]
    RecordListTooLarge {
        /// Size as it would be stored.
        size_bytes: u64,
        /// `segment.bytes`.
        limit_bytes: u64,
    },
    /// A newer incarnation of the producer has written (T-3).
    #[error("epoch {given} of producer {producer} while {held} is known")]
    StaleProducerEpoch {
        /// The id.
        producer: ProducerId,
        /// The newest known.
        held: ProducerEpoch,
        /// The batch's.
        given: ProducerEpoch,
    },
    /// A gap or a step back in a producer's sequence (T-4).
    #[error("sequence {given} of producer {producer} after {held:?}")]
    OutOfOrderSequence {
        /// The id.
        producer: ProducerId,
        /// Last sequence known; `None` if nothing was written in this epoch.
        held: Option<i32>,
        /// First sequence of the batch.
        given: i32,
    },
    /// A batch outside a transaction while the producer has one open here (T-7).
    #[error("producer {producer} has a transaction open")]
    TransactionOpen {
        /// The id.
        producer: ProducerId,
    },
    /// A fetched batch does not continue this log.
    #[error("batch at {given} where the log ends at {log_end}")]
    NotAtLogEnd {
        /// Where this log ends.
        log_end: Offset,
        /// The batch's base offset.
        given: Offset,
    },
}

/// An append failed.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The batch is at fault. Nothing was written.
    #[error(transparent)]
    Refused(#[from] AppendRefusal),
    /// The machine is at fault. Nothing was appended.
    #[error(transparent)]
    Fault(#[from] LogFault),
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The offset is not in the log (L-44).
    #[error("offset {asked} is not within {log_start} to {log_end}")]
    OffsetOutOfRange {
        /// What was asked for.
        asked: Offset,
        /// First offset that can be read.
        log_start: Offset,
        /// Offset behind the last record.
        log_end: Offset,
    },
    /// The machine is at fault.
    #[error(transparent)]
    Fault(#[from] LogFault),
}
