//! Reads the protocol's primitives from a frame. Never panics, never allocates more than the frame can fill.

use bytes::Bytes;

use crate::api::{ApiKey, ApiVersion};
use crate::error::ErrorCode;
use crate::records::Records;
use crate::uuid::Uuid;
use crate::varint::{self, BadVarint};

/// The longest string that Kafka accepts, in bytes.
const STRING_SIZE_MAX: usize = i16::MAX as usize;

/// What the elements of a message's arrays may take in memory, in bytes: this much, and
/// [`MEMORY_PER_BYTE`] for each byte of the frame. No client needs nearly as much, but without a limit a frame full of empty
/// elements would take a hundred times its size.
const MEMORY_BASE: usize = 64 << 20;
const MEMORY_PER_BYTE: usize = 4;

/// Why bytes are not a message: what was read, where, and what was wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} v{version}, field {field}, byte {offset}: {reason}")]
pub struct DecodeError {
    /// The message, such as `FetchRequest`.
    pub message: &'static str,
    /// Its version.
    pub version: i16,
    /// The field, in Kafka's spelling.
    pub field: &'static str,
    /// Where in the frame (counted from the reader's first byte).
    pub offset: usize,
    /// What was wrong.
    pub reason: DecodeReason,
}

/// What can be wrong with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeReason {
    /// A value or a length goes beyond the end.
    #[error("{needed} bytes needed, {left} left")]
    Truncated {
        /// Bytes, or elements of at least one byte.
        needed: usize,
        /// Bytes left.
        left: usize,
    },
    /// Null where the version does not allow it.
    #[error("null is not allowed")]
    Null,
    /// More than 32,767 bytes.
    #[error("a string of {0} bytes")]
    StringTooLong(usize),
    /// Elements that would take more memory than the frame is granted.
    #[error("elements of {needed} bytes in memory, where {left} are left")]
    OverBudget {
        /// What the elements of this array take, in bytes.
        needed: usize,
        /// What is left, in bytes.
        left: usize,
    },
    /// More than 32 bits.
    #[error("a varint of more than 32 bits")]
    VarintTooWide,
    /// A tagged field that is shorter than its announced size.
    #[error("{0} bytes left in a tagged field")]
    TaggedFieldTooLong(usize),
    /// No API of a broker has this key.
    #[error("unknown API key {0}")]
    UnknownApi(i16),
    /// The API has no such version.
    #[error("{0} has no such version")]
    UnsupportedVersion(ApiKey),
    /// A record of a version that is newer than what is known here.
    #[error("no such version: {0}")]
    UnknownVersion(i16),
}

/// Whether a tagged field was one that the reader knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Known,
    Unknown,
}

/// A position in the bytes of one frame, and what is being read there.
///
/// Bytes and records that it yields are slices of the frame; nothing of them is copied.
#[derive(Debug, Clone)]
pub struct Reader {
    frame: Bytes,
    position: usize,
    /// Exclusive; short of the frame's end while a tagged field is read.
    end: usize,
    /// What elements may still take in memory, in bytes.
    memory_left: usize,
    message: &'static str,
    version: i16,
}

impl Reader {
    /// A reader at the first byte of `frame` (without the length in front).
    pub fn new(frame: Bytes) -> Reader {
        let memory_left = frame
            .len()
            .saturating_mul(MEMORY_PER_BYTE)
            .saturating_add(MEMORY_BASE);
        Reader {
            position: 0,
            end: frame.len(),
            memory_left,
            frame,
            message: "frame",
            version: 0,
        }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// What is left, as a slice of the frame.
    pub fn rest(&self) -> Bytes {
        self.frame.slice(self.position..self.end)
    }

    /// Names what is read from here on, and checks that the API has the version.
    pub(crate) fn begin(
        &mut self,
        message: &'static str,
        api: ApiKey,
        version: ApiVersion,
    ) -> Result<(), DecodeError> {
        self.name(message, version.0);
        if api.versions().contains(&version) {
            Ok(())
        } else {
            Err(self.error("", DecodeReason::UnsupportedVersion(api)))
        }
    }

    /// Names what is read from here on, for errors.
    pub(crate) fn name(&mut self, message: &'static str, version: i16) {
        self.message = message;
        self.version = version;
    }

    pub(crate) fn error(&self, field: &'static str, reason: DecodeReason) -> DecodeError {
        DecodeError {
            message: self.message,
            version: self.version,
            field,
            offset: self.position,
            reason,
        }
    }

    fn take(&mut self, field: &'static str, size: usize) -> Result<&[u8], DecodeError> {
        if size > self.remaining() {
            let left = self.remaining();
            return Err(self.error(field, DecodeReason::Truncated { needed: size, left }));
        }
        let start = self.position;
        self.position += size;
        Ok(&self.frame[start..self.position])
    }

    fn array_of<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let mut value = [0; N];
        value.copy_from_slice(self.take(field, N)?);
        Ok(value)
    }

    /// Any byte but zero is true.
    pub(crate) fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        Ok(self.i8(field)? != 0)
    }

    pub(crate) fn i8(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        self.array_of(field).map(i8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self, field: &'static str) -> Result<i16, DecodeError> {
        self.array_of(field).map(i16::from_be_bytes)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.array_of(field).map(u16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.array_of(field).map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.array_of(field).map(i64::from_be_bytes)
    }

    pub(crate) fn f64(&mut self, field: &'static str) -> Result<f64, DecodeError> {
        self.array_of(field).map(f64::from_be_bytes)
    }

    pub(crate) fn uuid(&mut self, field: &'static str) -> Result<Uuid, DecodeError> {
        self.array_of(field).map(Uuid)
    }

    pub(crate) fn error_code(&mut self, field: &'static str) -> Result<ErrorCode, DecodeError> {
        self.i16(field).map(ErrorCode)
    }

    pub(crate) fn unsigned_varint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let left = self.remaining();
        match varint::read_u32(&self.frame[self.position..self.end]) {
            Ok((value, taken)) => {
                self.position += taken;
                Ok(value)
            }
            Err(BadVarint::Truncated) => Err(self.error(
                field,
                DecodeReason::Truncated {
                    needed: left + 1,
                    left,
                },
            )),
            Err(BadVarint::TooWide) => Err(self.error(field, DecodeReason::VarintTooWide)),
        }
    }

    /// A compact length is one more than it says, as 32 bits that may wrap; below zero is null.
    fn compact_length(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        let length = (self.unsigned_varint(field)? as i32).wrapping_sub(1);
        Ok(usize::try_from(length).ok())
    }

    fn length(&mut self, field: &'static str, flex: bool) -> Result<Option<usize>, DecodeError> {
        if flex {
            self.compact_length(field)
        } else {
            Ok(usize::try_from(self.i32(field)?).ok())
        }
    }

    /// A null is a value where `null` says that it may be one, and an error elsewhere.
    fn allow<T>(&self, field: &'static str, null: bool, value: Option<T>) -> Result<Option<T>, DecodeError> {
        if value.is_none() && !null {
            return Err(self.error(field, DecodeReason::Null));
        }
        Ok(value)
    }

    fn require<T>(&self, field: &'static str, value: Option<T>) -> Result<T, DecodeError> {
        value.ok_or_else(|| self.error(field, DecodeReason::Null))
    }

    /// What is no UTF-8 is replaced, as Java does.
    fn any_string(&mut self, field: &'static str, flex: bool) -> Result<Option<String>, DecodeError> {
        let length = if flex {
            self.compact_length(field)?
        } else {
            usize::try_from(self.i16(field)?).ok()
        };
        match length {
            None => Ok(None),
            Some(size) if size > STRING_SIZE_MAX => Err(self.error(field, DecodeReason::StringTooLong(size))),
            Some(size) => Ok(Some(
                String::from_utf8_lossy(self.take(field, size)?).into_owned(),
            )),
        }
    }

    pub(crate) fn string(&mut self, field: &'static str, flex: bool) -> Result<String, DecodeError> {
        let value = self.any_string(field, flex)?;
        self.require(field, value)
    }

    pub(crate) fn string_or_null(
        &mut self,
        field: &'static str,
        flex: bool,
        null: bool,
    ) -> Result<Option<String>, DecodeError> {
        let value = self.any_string(field, flex)?;
        self.allow(field, null, value)
    }

    fn any_bytes(&mut self, field: &'static str, flex: bool) -> Result<Option<Bytes>, DecodeError> {
        let Some(size) = self.length(field, flex)? else {
            return Ok(None);
        };
        let start = self.position;
        self.take(field, size)?;
        Ok(Some(self.frame.slice(start..start + size)))
    }

    pub(crate) fn bytes(&mut self, field: &'static str, flex: bool) -> Result<Bytes, DecodeError> {
        let value = self.any_bytes(field, flex)?;
        self.require(field, value)
    }

    pub(crate) fn records(&mut self, field: &'static str, flex: bool) -> Result<Records, DecodeError> {
        Ok(self.any_bytes(field, flex)?.map_or(Records::Null, Records::Bytes))
    }

    fn any_array<T>(
        &mut self,
        field: &'static str,
        flex: bool,
        mut read: impl FnMut(&mut Reader) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.length(field, flex)? else {
            return Ok(None);
        };
        let left = self.remaining();
        // Every element takes a byte at least, so a count above what is left is a lie.
        if count > left {
            return Err(self.error(field, DecodeReason::Truncated { needed: count, left }));
        }
        let needed = count.saturating_mul(size_of::<T>());
        let memory = self.memory_left.checked_sub(needed);
        let Some(memory) = memory else {
            return Err(self.error(
                field,
                DecodeReason::OverBudget {
                    needed,
                    left: self.memory_left,
                },
            ));
        };
        self.memory_left = memory;
        // Elements can be larger in memory than on the wire: what is reserved at once never exceeds what came.
        let mut elements = Vec::with_capacity(count.min(left / size_of::<T>().max(1)));
        for _ in 0..count {
            elements.push(read(self)?);
        }
        Ok(Some(elements))
    }

    pub(crate) fn array<T>(
        &mut self,
        field: &'static str,
        flex: bool,
        read: impl FnMut(&mut Reader) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let value = self.any_array(field, flex, read)?;
        self.require(field, value)
    }

    pub(crate) fn array_or_null<T>(
        &mut self,
        field: &'static str,
        flex: bool,
        null: bool,
        read: impl FnMut(&mut Reader) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let value = self.any_array(field, flex, read)?;
        self.allow(field, null, value)
    }

    /// One byte leads a nullable struct: below zero is null.
    pub(crate) fn struct_or_null<T>(
        &mut self,
        field: &'static str,
        null: bool,
        read: impl FnOnce(&mut Reader) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        // Where the version does not allow null there is no such byte.
        if !null {
            return read(self).map(Some);
        }
        if self.i8(field)? < 0 {
            Ok(None)
        } else {
            read(self).map(Some)
        }
    }

    /// Reads tagged fields, in any order; `read` says whether it knew the tag.
    pub(crate) fn tagged(
        &mut self,
        mut read: impl FnMut(u32, &mut Reader) -> Result<Tag, DecodeError>,
    ) -> Result<(), DecodeError> {
        const FIELD: &str = "tagged fields";
        let count = self.unsigned_varint(FIELD)?;
        for _ in 0..count {
            let tag = self.unsigned_varint(FIELD)?;
            let size = self.unsigned_varint(FIELD)? as usize;
            let left = self.remaining();
            if size > left {
                return Err(self.error(FIELD, DecodeReason::Truncated { needed: size, left }));
            }
            let outer = std::mem::replace(&mut self.end, self.position + size);
            match read(tag, self)? {
                Tag::Known if self.position < self.end => {
                    return Err(self.error(FIELD, DecodeReason::TaggedFieldTooLong(self.remaining())));
                }
                Tag::Known => {}
                Tag::Unknown => self.position = self.end,
            }
            self.end = outer;
        }
        Ok(())
    }

    /// Skips tagged fields of a struct that knows none.
    pub(crate) fn skip_tagged(&mut self) -> Result<(), DecodeError> {
        self.tagged(|_, _| Ok(Tag::Unknown))
    }
}
