//! The 61 bytes in front of a batch's records.
//!
//! ```text
//!  0 baseOffset i64          12 partitionLeaderEpoch i32   23 lastOffsetDelta i32   43 producerId i64
//!  8 batchLength i32         16 magic i8                   27 baseTimestamp i64     51 producerEpoch i16
//!    (bytes behind itself)   17 crc u32                    35 maxTimestamp i64      53 baseSequence i32
//!                            21 attributes i16                                      57 recordsCount i32
//! ```
//! The checksum covers everything from the attributes on. Base offset and leader epoch stand in front of it: a broker
//! writes them into a batch that it took from a client without touching the rest.

use super::BatchError;
use crate::codec::Codec;

/// The size of the header, in bytes.
pub const HEADER_SIZE: usize = 61;

/// Base offset and length, which the length does not count.
const LENGTH_END: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
/// Where the bytes that the checksum covers begin.
const CHECKED_AT: usize = 21;
/// The only format that is read.
const MAGIC: i8 = 2;
/// The smallest length field of the oldest format; less is no batch of any format.
const LENGTH_MIN_ANY: i32 = 14;
/// The smallest length field of v2.
const LENGTH_MIN: i32 = (HEADER_SIZE - LENGTH_END) as i32;

/// The header of a batch, field by field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record.
    pub base_offset: i64,
    /// Bytes behind the length field, that is all but the first 12.
    pub length: i32,
    /// The epoch of the leader that appended the batch, −1 from a client.
    pub partition_leader_epoch: i32,
    /// CRC-32C of everything behind this field.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: Attributes,
    /// The offset of the last record, counted from the base offset.
    pub last_offset_delta: i32,
    /// What the records' times are counted from, in ms since 1970; the delete horizon where that flag is set.
    pub base_timestamp: i64,
    /// The largest time of a record, or the time of the append, in ms since 1970; −1 for none.
    pub max_timestamp: i64,
    /// −1 without an idempotent producer.
    pub producer_id: i64,
    /// −1 without an idempotent producer.
    pub producer_epoch: i16,
    /// The sequence of the first record; −1 without an idempotent producer.
    pub base_sequence: i32,
    /// How many records there are.
    pub record_count: i32,
}

/// Who gave the records their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer.
    CreateTime,
    /// The broker: every record has the batch's `max_timestamp` (R-33).
    LogAppendTime,
}

/// The attributes of a batch, as the 16 bits that they are. Unused bits are kept (R-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    const CODEC: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// The number of the codec, 0 to 7.
    pub fn codec_id(self) -> u8 {
        (self.0 & Self::CODEC) as u8
    }

    /// The codec, when there is one of that number.
    pub fn codec(self) -> Option<Codec> {
        Codec::from_id(self.codec_id())
    }

    /// Who gave the records their time.
    pub fn timestamp_type(self) -> TimestampType {
        match self.0 & Self::LOG_APPEND_TIME {
            0 => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        }
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the records are markers and not a user's.
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether the base timestamp is the time after which tombstones may go.
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// The same with another codec.
    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Attributes {
        Attributes(self.0 & !Self::CODEC | i16::from(codec.id()))
    }

    /// The same with another origin of times.
    #[must_use]
    pub fn with_timestamp_type(self, kind: TimestampType) -> Attributes {
        match kind {
            TimestampType::CreateTime => Attributes(self.0 & !Self::LOG_APPEND_TIME),
            TimestampType::LogAppendTime => Attributes(self.0 | Self::LOG_APPEND_TIME),
        }
    }

    /// The same, as a part of a transaction.
    #[must_use]
    pub fn transactional(self) -> Attributes {
        Attributes(self.0 | Self::TRANSACTIONAL)
    }

    /// The same, as a batch of markers.
    #[must_use]
    pub fn control(self) -> Attributes {
        Attributes(self.0 | Self::CONTROL)
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`; the batch need not be there as a whole.
    ///
    /// # Errors
    /// When the bytes end too early, the length is impossible or the format is not v2, judged in this order: a length that
    /// no format has, a format that is not v2, a length that v2 does not have (R-5).
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        let left = bytes.len();
        if left <= MAGIC_AT {
            return Err(BatchError::Truncated {
                needed: HEADER_SIZE,
                left,
            });
        }
        let length = i32::from_be_bytes(field(bytes, 8));
        let magic = bytes[MAGIC_AT] as i8;
        if length < LENGTH_MIN_ANY {
            return Err(BatchError::Length(length));
        }
        if magic != MAGIC {
            return Err(BatchError::Magic(magic));
        }
        if length < LENGTH_MIN {
            return Err(BatchError::Length(length));
        }
        if left < HEADER_SIZE {
            return Err(BatchError::Truncated {
                needed: HEADER_SIZE,
                left,
            });
        }
        Ok(BatchHeader {
            base_offset: i64::from_be_bytes(field(bytes, 0)),
            length,
            partition_leader_epoch: i32::from_be_bytes(field(bytes, 12)),
            crc: u32::from_be_bytes(field(bytes, CRC_AT)),
            attributes: Attributes(i16::from_be_bytes(field(bytes, 21))),
            last_offset_delta: i32::from_be_bytes(field(bytes, 23)),
            base_timestamp: i64::from_be_bytes(field(bytes, 27)),
            max_timestamp: i64::from_be_bytes(field(bytes, 35)),
            producer_id: i64::from_be_bytes(field(bytes, 43)),
            producer_epoch: i16::from_be_bytes(field(bytes, 51)),
            base_sequence: i32::from_be_bytes(field(bytes, 53)),
            record_count: i32::from_be_bytes(field(bytes, 57)),
        })
    }

    /// The header as bytes, with the checksum that the field says.
    pub fn to_bytes(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[0..8].copy_from_slice(&self.base_offset.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.partition_leader_epoch.to_be_bytes());
        bytes[MAGIC_AT] = MAGIC as u8;
        bytes[17..21].copy_from_slice(&self.crc.to_be_bytes());
        bytes[21..23].copy_from_slice(&self.attributes.0.to_be_bytes());
        bytes[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        bytes[27..35].copy_from_slice(&self.base_timestamp.to_be_bytes());
        bytes[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        bytes[43..51].copy_from_slice(&self.producer_id.to_be_bytes());
        bytes[51..53].copy_from_slice(&self.producer_epoch.to_be_bytes());
        bytes[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        bytes[57..61].copy_from_slice(&self.record_count.to_be_bytes());
        bytes
    }

    /// The size of the whole batch in bytes, header included.
    pub fn size(&self) -> usize {
        // A parsed length is never negative.
        LENGTH_END + usize::try_from(self.length).unwrap_or(0)
    }

    /// The offset of the last record; the header of a client may say nonsense, hence the wrap.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(i64::from(self.last_offset_delta))
    }
}

/// The CRC-32C that the header of this whole batch should have.
///
/// # Panics
/// When there is no whole header.
pub fn checksum(batch: &[u8]) -> u32 {
    assert!(HEADER_SIZE <= batch.len(), "a batch begins with its header");
    crc32c::crc32c(&batch[CHECKED_AT..])
}

/// Writes the checksum into the header of this whole batch, after anything behind the checksum was changed.
///
/// # Panics
/// When there is no whole header.
pub fn seal(batch: &mut [u8]) {
    let crc = checksum(batch);
    batch[CRC_AT..CHECKED_AT].copy_from_slice(&crc.to_be_bytes());
}

/// Writes the base offset into a header in place; the checksum does not cover it.
///
/// # Panics
/// When there is no whole header.
pub fn set_base_offset(header: &mut [u8], base_offset: i64) {
    assert!(HEADER_SIZE <= header.len(), "a batch begins with its header");
    header[0..8].copy_from_slice(&base_offset.to_be_bytes());
}

/// Writes the leader epoch into a header in place; the checksum does not cover it.
///
/// # Panics
/// When there is no whole header.
pub fn set_leader_epoch(header: &mut [u8], epoch: i32) {
    assert!(HEADER_SIZE <= header.len(), "a batch begins with its header");
    header[12..16].copy_from_slice(&epoch.to_be_bytes());
}
