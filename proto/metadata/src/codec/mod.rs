//! Records and batches as bytes: on disk, over the wire between our own processes, in snapshots.
//!
//! Each record is `{ type, version, bytes }`. A type or version that this build does not know is an error that names
//! it, never a record to skip. Must not judge what a record means: that is [`crate::replay`].

mod decode;
mod encode;
mod messages;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use prost::Message;

use crate::batch::{MetadataBatch, Provenance};
use crate::ids::{MetadataOffset, Term};
use crate::record::Record;

/// The longest encoded batch, in bytes. A change that needs more is refused before it is proposed.
pub const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most records of one batch (R0.7, R0.8).
pub const BATCH_RECORDS_MAX: usize = 10_000;

/// The version that every record type has today.
const VERSION: u32 = 1;

/// What kind of record a number on disk stands for. Where Kafka has the same record, the number is Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordType {
    BrokerRegistered = 0,
    BrokerUnregistered = 1,
    TopicCreated = 2,
    PartitionCreated = 3,
    ConfigChanged = 4,
    PartitionChanged = 5,
    TopicDeleted = 9,
    FeatureLevelSet = 12,
    ProducerIdsAllocated = 15,
    BrokerRegistrationChanged = 17,
    NoOp = 20,
    EligibleReplicasCleared = 28,
}

impl RecordType {
    const ALL: [Self; 12] = [
        Self::BrokerRegistered,
        Self::BrokerUnregistered,
        Self::TopicCreated,
        Self::PartitionCreated,
        Self::ConfigChanged,
        Self::PartitionChanged,
        Self::TopicDeleted,
        Self::FeatureLevelSet,
        Self::ProducerIdsAllocated,
        Self::BrokerRegistrationChanged,
        Self::NoOp,
        Self::EligibleReplicasCleared,
    ];

    fn number(self) -> u32 {
        self as u32
    }

    fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Which record it is.
    pub record_type: u32,
    /// In which shape; a published (type, version) keeps its meaning for ever.
    pub version: u32,
    /// The fields.
    pub bytes: Bytes,
}

/// Bytes that are not what they claim to be, or come from a newer release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Longer than anything this project writes.
    #[error("{size} bytes, and a batch has at most {BATCH_BYTES_MAX}")]
    TooLong {
        /// Bytes given.
        size: usize,
    },
    /// Not the encoding at all.
    #[error("malformed: {0}")]
    Malformed(String),
    /// A record type of another release.
    #[error("unknown record type {record_type} version {version}")]
    UnknownType {
        /// As stored.
        record_type: u32,
        /// As stored.
        version: u32,
    },
    /// A shape of another release.
    #[error("unknown version {version} of record type {record_type}")]
    UnknownVersion {
        /// As stored.
        record_type: u32,
        /// As stored.
        version: u32,
    },
    /// A field holds what it cannot hold.
    #[error("record type {record_type}: {field} is not valid")]
    InvalidField {
        /// As stored.
        record_type: u32,
        /// Which field.
        field: &'static str,
    },
    /// A batch holds between one record and [`BATCH_RECORDS_MAX`].
    #[error("{0} records, and a batch has 1 to {BATCH_RECORDS_MAX}")]
    RecordCount(usize),
}

impl Record {
    /// Type, version and fields.
    #[must_use]
    pub fn to_encoded(&self) -> Encoded {
        let (kind, bytes) = encode::record(self);
        Encoded {
            record_type: kind.number(),
            version: VERSION,
            bytes,
        }
    }

    /// The record that `encoded` stands for.
    ///
    /// # Errors
    /// When its type, its version or one of its fields is not known here.
    pub fn from_encoded(encoded: &Encoded) -> Result<Self, DecodeError> {
        let (record_type, version) = (encoded.record_type, encoded.version);
        let kind =
            RecordType::numbered(record_type).ok_or(DecodeError::UnknownType { record_type, version })?;
        if version != VERSION {
            return Err(DecodeError::UnknownVersion { record_type, version });
        }
        decode::record(kind, &encoded.bytes)
    }

    /// One record as bytes, as snapshots carry it.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        messages::Stored::from(self.to_encoded()).encode_to_vec().into()
    }

    /// The record in these bytes.
    ///
    /// # Errors
    /// As [`Record::from_encoded`], and when the bytes are malformed or longer than [`BATCH_BYTES_MAX`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        within_limit(bytes)?;
        Self::from_encoded(&messages::Stored::decode(bytes).map_err(malformed)?.into())
    }
}

impl MetadataBatch {
    /// The batch as bytes. They may be longer than [`BATCH_BYTES_MAX`]: whoever proposes checks.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let records = self.records.iter().map(|record| record.to_encoded().into());
        let batch = messages::Batch {
            decided_in_term: self.decided_in_term.0,
            base_offset: self.base_offset.0,
            provenance: Some(messages::Provenance {
                actor: self.provenance.actor.clone(),
                client_id: self.provenance.client_id.clone(),
                request_id: self.provenance.request_id.clone(),
                wall_time_ms: self.provenance.wall_time_ms,
            }),
            records: records.collect(),
        };
        batch.encode_to_vec().into()
    }

    /// The batch in these bytes.
    ///
    /// # Errors
    /// When the bytes are too long or malformed, or a record of them is not known here.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        within_limit(bytes)?;
        let batch = messages::Batch::decode(bytes).map_err(malformed)?;
        if batch.records.is_empty() || batch.records.len() > BATCH_RECORDS_MAX {
            return Err(DecodeError::RecordCount(batch.records.len()));
        }
        if batch.base_offset < 0 {
            return Err(DecodeError::Malformed(format!(
                "base offset {}",
                batch.base_offset
            )));
        }
        let provenance = batch.provenance.unwrap_or_default();
        let records = batch.records.into_iter();
        Ok(Self {
            decided_in_term: Term(batch.decided_in_term),
            base_offset: MetadataOffset(batch.base_offset),
            provenance: Provenance {
                actor: provenance.actor,
                client_id: provenance.client_id,
                request_id: provenance.request_id,
                wall_time_ms: provenance.wall_time_ms,
            },
            records: records
                .map(|stored| Record::from_encoded(&stored.into()))
                .collect::<Result<_, _>>()?,
        })
    }
}

fn within_limit(bytes: &[u8]) -> Result<(), DecodeError> {
    if bytes.len() > BATCH_BYTES_MAX {
        return Err(DecodeError::TooLong { size: bytes.len() });
    }
    Ok(())
}

fn malformed(error: prost::DecodeError) -> DecodeError {
    DecodeError::Malformed(error.to_string())
}
