//! An answer as the socket sees it: bytes, and slices of files that the kernel sends by itself.
//!
//! Must not: know what the bytes mean, or touch a socket.

use std::sync::Arc;

use bytes::Bytes;
use host::File;
use wire::{Encoded, ErrorCounts, Part as WirePart};

use crate::metrics::AskedBy;

/// A piece of a segment file.
#[derive(Clone, Debug)]
pub struct FileSlice {
    /// The file; it stays open while somebody sends from it, also when the log deletes it meanwhile.
    pub file: Arc<dyn File>,
    /// Byte position of the first byte.
    pub at: u64,
    /// How many bytes.
    pub size: usize,
}

/// One part of an answer.
#[derive(Clone, Debug)]
pub enum Part {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes of a file.
    File(FileSlice),
}

/// A whole answer, its length prefix included.
#[derive(Clone, Debug)]
pub struct Response {
    parts: Vec<Part>,
    /// Whose request it answers.
    pub asked_by: AskedBy,
    errors: ErrorCounts,
}

impl Response {
    /// An encoded message without records in files.
    pub fn plain(encoded: Encoded) -> Response {
        Response::with_slices(encoded, &[])
    }

    /// An encoded message whose slot `n` is the n-th slice.
    ///
    /// # Panics
    /// When a slot names no slice, or one of another size: the length prefix would be a lie.
    pub fn with_slices(encoded: Encoded, slices: &[FileSlice]) -> Response {
        let errors = encoded.errors().clone();
        let parts = encoded
            .into_parts()
            .into_iter()
            .map(|part| match part {
                WirePart::Bytes(bytes) => Part::Bytes(bytes),
                WirePart::Slot { id, size } => {
                    let slice = slices.get(id as usize).expect("every slot was made from a slice");
                    assert_eq!(slice.size, size, "a slot is as long as its slice");
                    Part::File(slice.clone())
                }
            })
            .collect();
        Response {
            parts,
            asked_by: AskedBy::Client,
            errors,
        }
    }

    /// The same answer to somebody else.
    pub fn asked_by(self, asked_by: AskedBy) -> Response {
        Response { asked_by, ..self }
    }

    /// The error codes in it.
    pub fn errors(&self) -> &ErrorCounts {
        &self.errors
    }

    /// Its parts in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
}
