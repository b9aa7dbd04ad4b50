//! The records of a partition inside a message, and what an encoded message is made of.
//!
//! Records are the bulk of the traffic and are never copied: decoding yields slices of the received frame, and encoding
//! leaves gaps that the caller fills, for instance by `sendfile` from a segment.

use bytes::{Bytes, BytesMut};

use crate::error_counts::ErrorCounts;

/// The record batches of one partition, as a field of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Records {
    /// No field value at all.
    #[default]
    Null,
    /// Batches in memory. Decoded ones are a slice of the frame.
    Bytes(Bytes),
    /// A gap of `size` bytes in the encoded message; comes out as [`Part::Slot`] with the same `id`.
    Slot {
        /// What the sender calls the bytes that belong here.
        id: u32,
        /// How many there are; the sender must send exactly as many.
        size: usize,
    },
}

impl Records {
    /// The size in bytes; a null has none.
    pub fn size(&self) -> usize {
        match self {
            Records::Null => 0,
            Records::Bytes(bytes) => bytes.len(),
            Records::Slot { size, .. } => *size,
        }
    }

    /// The batches, where they are in memory.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Records::Bytes(bytes) => Some(bytes),
            Records::Null | Records::Slot { .. } => None,
        }
    }
}

impl From<Bytes> for Records {
    fn from(bytes: Bytes) -> Records {
        Records::Bytes(bytes)
    }
}

/// A piece of an encoded message; the pieces are sent one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes as they are.
    Bytes(Bytes),
    /// The bytes of a [`Records::Slot`].
    Slot {
        /// The slot's id.
        id: u32,
        /// Its size in bytes.
        size: usize,
    },
}

/// A message, encoded: its parts in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    pub(crate) parts: Vec<Part>,
    pub(crate) size: usize,
    pub(crate) errors: ErrorCounts,
}

impl Encoded {
    /// The size in bytes, slots included.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The error codes in it.
    pub fn errors(&self) -> &ErrorCounts {
        &self.errors
    }

    /// The parts in order; never two `Bytes` where one would do, except around large records.
    pub fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// All bytes as one; copies when there is more than one part.
    ///
    /// # Panics
    /// When a part is a slot: its bytes are not here.
    pub fn into_bytes(mut self) -> Bytes {
        if let [Part::Bytes(_)] = self.parts.as_slice()
            && let Some(Part::Bytes(only)) = self.parts.pop()
        {
            return only;
        }
        let mut all = BytesMut::with_capacity(self.size);
        for part in self.parts {
            match part {
                Part::Bytes(bytes) => all.extend_from_slice(&bytes),
                Part::Slot { id, .. } => panic!("the bytes of slot {id} are not in the message"),
            }
        }
        all.freeze()
    }
}
