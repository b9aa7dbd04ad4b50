//! The record batch, format v2 (magic 2): header, batches in a buffer, records in a batch, and a builder.
//!
//! Checks only what must hold for the bytes to be read safely; which batch may be appended is the broker's decision
//! (R-5…R-36). Older formats are recognised and not read.

mod builder;
mod header;
mod record;

pub use builder::{BatchBuilder, ProducerState};
pub use header::{
    Attributes, BatchHeader, HEADER_SIZE, TimestampType, checksum, seal, set_base_offset, set_leader_epoch,
};
pub use record::{Header, Headers, Record, RecordIter};

use bytes::Bytes;

use crate::codec::{self, Codec, CodecError};

/// Why bytes are not a batch, or not its records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bytes end inside the header or inside the batch.
    #[error("a batch of {needed} bytes or more, {left} left")]
    Truncated {
        /// What the batch needs at least.
        needed: usize,
        /// What is there.
        left: usize,
    },
    /// The length field is below what a batch of any kind has.
    #[error("a batch length of {0}")]
    Length(i32),
    /// A format that is not v2: 0 and 1 are old ones, others do not exist.
    #[error("magic {0}")]
    Magic(i8),
    /// The checksum does not fit the bytes.
    #[error("checksum {given:08x} in the header, {computed:08x} of the bytes")]
    Checksum {
        /// In the header.
        given: u32,
        /// Of the bytes.
        computed: u32,
    },
    /// Codec numbers 5 to 7.
    #[error("codec {0}")]
    UnknownCodec(u8),
    /// The records do not decompress, or to more than allowed.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// Record number `index` is broken.
    #[error("record {index}: {what}")]
    Record {
        /// Counted from 0.
        index: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// Bytes behind the last record.
    #[error("{0} bytes behind the last record")]
    TrailingBytes(usize),
}

/// One whole batch: its header and all its bytes, header included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The header.
    pub header: BatchHeader,
    /// All bytes; a slice of what the batch was read from.
    pub bytes: Bytes,
}

impl Batch {
    /// The batch at the start of `bytes`, which may go on behind it.
    ///
    /// # Errors
    /// When there is no whole batch. The checksum is not computed here, see [`Batch::check`].
    pub fn parse(bytes: &Bytes) -> Result<Batch, BatchError> {
        let header = BatchHeader::parse(bytes)?;
        let needed = header.size();
        if bytes.len() < needed {
            return Err(BatchError::Truncated {
                needed,
                left: bytes.len(),
            });
        }
        Ok(Batch {
            header,
            bytes: bytes.slice(..needed),
        })
    }

    /// Compares the checksum with the bytes.
    ///
    /// # Errors
    /// When they differ.
    pub fn check(&self) -> Result<(), BatchError> {
        let computed = checksum(&self.bytes);
        match self.header.crc {
            given if given == computed => Ok(()),
            given => Err(BatchError::Checksum { given, computed }),
        }
    }

    /// The records' bytes, decompressed where needed into at most `budget` bytes. Not compressed, they are a slice.
    ///
    /// # Errors
    /// When the codec is unknown, the bytes do not decompress, or the budget does not suffice.
    pub fn body(&self, budget: usize) -> Result<Bytes, BatchError> {
        let stored = self.bytes.slice(HEADER_SIZE..);
        let id = self.header.attributes.codec_id();
        match Codec::from_id(id).ok_or(BatchError::UnknownCodec(id))? {
            Codec::None => Ok(stored),
            codec => Ok(codec::decompress(codec, &stored, budget)?),
        }
    }

    /// The records in a body that [`Batch::body`] gave.
    pub fn records<'a>(&self, body: &'a [u8]) -> RecordIter<'a> {
        RecordIter::new(body, self.header.record_count)
    }
}

/// The whole batches in a buffer, in order. A batch that is cut off at the end is left out silently, as when a fetch ends
/// in the middle of one; what is left then is [`Batches::rest`]. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Batches {
    left: Bytes,
    failed: bool,
}

impl Batches {
    /// The batches of `bytes`.
    pub fn new(bytes: Bytes) -> Batches {
        Batches {
            left: bytes,
            failed: false,
        }
    }

    /// What has not been given yet.
    pub fn rest(&self) -> &Bytes {
        &self.left
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.left.is_empty() {
            return None;
        }
        match Batch::parse(&self.left) {
            Ok(batch) => {
                self.left = self.left.slice(batch.bytes.len()..);
                Some(Ok(batch))
            }
            Err(BatchError::Truncated { .. }) => None,
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}
