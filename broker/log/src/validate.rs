//! What is asked of the bytes of a produced batch, in Kafka's order, and what they become
//! in the log.
//!
//! Pure: the same bytes, configuration and time give the same answer. Must not: look at the log.

use bytes::Bytes;
use host::WallMs;
use wire::batch::{Batch, BatchError, BatchHeader, Batches, Record, TimestampType};
use wire::codec::{self, Codec};

use crate::config::{LogConfig, StoredCompression, TimestampKind};
use crate::errors::{AppendRefusal, RecordError, RecordFlaw};
use crate::types::ProducerId;

/// Who appends at the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A producer.
    Client,
    /// A coordinator of this broker, writing to its internal topic.
    Coordinator,
}

/// What the version of the produce request allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProduceVersionLimits {
    /// Versions below 7, which know no zstd.
    NoZstd,
    /// Version 7 and up.
    None,
}

/// the payload of one partition is exactly one whole batch of version 2; a second one that is cut off
/// is dropped. Returns that batch, a slice of the payload. The produce handler asks this first, for all partitions.
///
/// # Errors
/// `NoBatch`, `SeveralBatches`, `OldMagic`, `Corrupt` (a magic or length that cannot be), `ZstdTooEarly`.
pub fn check_payload(payload: &Bytes, limits: ProduceVersionLimits) -> Result<Batch, AppendRefusal> {
    let mut batches = Batches::new(payload.clone());
    let batch = batches
        .next()
        .ok_or(AppendRefusal::NoBatch)?
        .map_err(header_refusal)?;
    if limits == ProduceVersionLimits::NoZstd && batch.header.attributes.codec() == Some(Codec::Zstd) {
        return Err(AppendRefusal::ZstdTooEarly);
    }
    match batches.next() {
        None => Ok(batch),
        Some(Ok(_)) => Err(AppendRefusal::SeveralBatches),
        Some(Err(e)) => Err(header_refusal(e)),
    }
}

fn header_refusal(error: BatchError) -> AppendRefusal {
    match error {
        BatchError::Magic(magic @ (0 | 1)) => AppendRefusal::OldMagic { magic },
        BatchError::Magic(_) => AppendRefusal::Corrupt {
            what: "no such magic",
        },
        BatchError::Length(_) => AppendRefusal::Corrupt {
            what: "a length below that of a header",
        },
        _ => AppendRefusal::Corrupt { what: "no batch" },
    }
}

/// A batch that may be stored, except for its offset and leader epoch.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// The header as it will be stored; its checksum fits, since neither offset nor epoch are covered by it.
    pub header: BatchHeader,
    /// What follows the header; as it came unless it had to be compressed anew.
    pub records: Bytes,
}

/// in that order.
pub(crate) fn admit(
    batch: &Batch,
    config: &LogConfig,
    origin: Origin,
    now: WallMs,
) -> Result<Admitted, AppendRefusal> {
    check_header(batch, config, origin)?;
    let header = &batch.header;
    let id = header.attributes.codec_id();
    let sent = Codec::from_id(id).ok_or(AppendRefusal::UnknownCodec { id })?;
    let body = batch
        .body(config.decompressed_bytes_max as usize)
        .map_err(|e| match e {
            BatchError::Codec(why) => AppendRefusal::Undecompressable {
                what: why.to_string(),
            },
            _ => AppendRefusal::Corrupt { what: "no records" },
        })?;
    let stored = stored_codec(config.compression, header).unwrap_or(sent);
    let deltas = match (sent, stored) {
        (Codec::None, Codec::None) => Deltas::AsSent,
        _ => Deltas::Dense,
    };
    let max_timestamp = check_records(batch, &body, config, now, deltas)?;
    Ok(stored_form(batch, &body, stored, config, now, max_timestamp))
}

///
fn check_header(batch: &Batch, config: &LogConfig, origin: Origin) -> Result<(), AppendRefusal> {
    let header = &batch.header;
    if origin == Origin::Client && header.base_offset != 0 {
        return Err(AppendRefusal::BaseOffsetNotZero {
            given: header.base_offset,
        });
    }
    check_size(header.size() as u64, config)?;
    batch.check().map_err(|_| AppendRefusal::Corrupt {
        what: "the checksum does not fit",
    })?;
    let malformed = |what| Err(AppendRefusal::Malformed { what });
    if header.last_offset_delta < 0 {
        return malformed("the last offset is below the first");
    }
    if header.record_count <= 0 {
        return malformed("no records");
    }
    if i64::from(header.record_count) != i64::from(header.last_offset_delta) + 1 {
        return malformed("the number of records is not that of the offsets");
    }
    if origin == Origin::Client && header.attributes.is_control() {
        return Err(AppendRefusal::ControlBatch);
    }
    if 0 <= header.producer_id && header.base_sequence < 0 && origin == Origin::Client {
        return Err(AppendRefusal::SequenceMissing {
            producer: ProducerId(header.producer_id),
        });
    }
    Ok(())
}

/// asked of the batch as it came, and again if it was compressed anew.
pub(crate) fn check_size(size_bytes: u64, config: &LogConfig) -> Result<(), AppendRefusal> {
    let limit_bytes = u64::from(config.max_message_bytes);
    if limit_bytes < size_bytes {
        return Err(AppendRefusal::BatchTooLarge {
            size_bytes,
            limit_bytes,
        });
    }
    Ok(())
}

/// Whether offset deltas must be 0, 1, 2….
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deltas {
    /// Yes.
    Dense,
    /// An uncompressed batch is stored as sent, whatever they are.
    AsSent,
}

/// for every record; the largest time, −1 if none is above that.
fn check_records(
    batch: &Batch,
    body: &[u8],
    config: &LogConfig,
    now: WallMs,
    deltas: Deltas,
) -> Result<i64, AppendRefusal> {
    let mut errors = Vec::new();
    let mut max_timestamp = -1;
    for (index, record) in (0..).zip(batch.records(body)) {
        let record = record.map_err(|_| AppendRefusal::Malformed {
            what: "broken records",
        })?;
        if deltas == Deltas::Dense && record.offset_delta != index {
            return Err(AppendRefusal::Malformed {
                what: "offsets of records that are not 0, 1, 2 and so on",
            });
        }
        let timestamp = time_of(&batch.header, &record);
        max_timestamp = max_timestamp.max(timestamp);
        if let Err(why) = check_record(&batch.header, &record, timestamp, config, now) {
            errors.push(RecordError {
                batch_index: index,
                why,
            });
        }
    }
    if errors.is_empty() {
        Ok(max_timestamp)
    } else {
        Err(AppendRefusal::Records { records: errors })
    }
}

/// A record's time as a reader sees it.
pub(crate) fn time_of(header: &BatchHeader, record: &Record<'_>) -> i64 {
    match header.attributes.timestamp_type() {
        TimestampType::LogAppendTime => header.max_timestamp,
        TimestampType::CreateTime => header.base_timestamp.wrapping_add(record.timestamp_delta),
    }
}

fn check_record(
    header: &BatchHeader,
    record: &Record<'_>,
    timestamp: i64,
    config: &LogConfig,
    now: WallMs,
) -> Result<(), RecordFlaw> {
    if config.cleanup.compacts() && record.key.is_none() {
        return Err(RecordFlaw::NoKey);
    }
    if config.timestamp_kind == TimestampKind::CreateTime && timestamp != -1 {
        // In 128 bits, so that the oldest possible time is told from a recent one.
        let oldest = i128::from(now.0) - i128::from(config.timestamp_before_max_ms);
        let newest = i128::from(now.0) + i128::from(config.timestamp_after_max_ms);
        if i128::from(timestamp) < oldest || newest < i128::from(timestamp) {
            return Err(RecordFlaw::TimestampOutOfRange {
                given: timestamp,
                oldest: oldest.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
                newest: newest.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            });
        }
    } else if header.attributes.timestamp_type() == TimestampType::LogAppendTime {
        return Err(RecordFlaw::ClaimsLogAppendTime);
    }
    Ok(())
}

/// The codec that the topic wants; `None` if it takes what came. Control batches are never compressed.
fn stored_codec(wanted: StoredCompression, header: &BatchHeader) -> Option<Codec> {
    if header.attributes.is_control() {
        return None;
    }
    match wanted {
        StoredCompression::Producer => None,
        StoredCompression::Uncompressed => Some(Codec::None),
        StoredCompression::Gzip(_) => Some(Codec::Gzip),
        StoredCompression::Snappy => Some(Codec::Snappy),
        StoredCompression::Lz4(_) => Some(Codec::Lz4),
        StoredCompression::Zstd(_) => Some(Codec::Zstd),
    }
}

fn level(wanted: StoredCompression) -> Option<i32> {
    match wanted {
        StoredCompression::Gzip(level) | StoredCompression::Lz4(level) | StoredCompression::Zstd(level) => {
            Some(level)
        }
        StoredCompression::Producer | StoredCompression::Uncompressed | StoredCompression::Snappy => None,
    }
}

/// The batch as it will be stored: only what must differ from what came does.
fn stored_form(
    batch: &Batch,
    body: &Bytes,
    stored: Codec,
    config: &LogConfig,
    now: WallMs,
    max_timestamp: i64,
) -> Admitted {
    let mut header = batch.header;
    let mut records = batch.bytes.slice(wire::batch::HEADER_SIZE..);
    match config.timestamp_kind {
        TimestampKind::CreateTime => {
            header.attributes = header.attributes.with_timestamp_type(TimestampType::CreateTime);
            header.max_timestamp = max_timestamp;
        }
        TimestampKind::LogAppendTime => {
            header.attributes = header
                .attributes
                .with_timestamp_type(TimestampType::LogAppendTime);
            header.max_timestamp = now.0;
        }
    }
    if header.attributes.codec() != Some(stored) {
        records = match stored {
            Codec::None => body.clone(),
            codec => Bytes::from(codec::compress(codec, level(config.compression), body)),
        };
        header.attributes = header.attributes.with_codec(stored);
        let behind_length = wire::batch::HEADER_SIZE - 12 + records.len();
        header.length =
            i32::try_from(behind_length).expect("decompressed batches are limited far below 2 GiB");
    }
    if header != batch.header {
        header.crc = checksum(&header, &records);
    }
    Admitted { header, records }
}

/// The checksum of a header and what follows it, without putting them together.
pub(crate) fn checksum(header: &BatchHeader, records: &[u8]) -> u32 {
    let bytes = header.to_bytes();
    crc32c::crc32c_append(crc32c::crc32c(&bytes[21..]), records)
}
