//! Writes the protocol's primitives. Collects what cannot be written instead of failing at each field, so that the
//! generated code is one call per field; [`Writer::finish`] tells.

use bytes::{BufMut, Bytes, BytesMut};

use crate::api::{ApiKey, ApiVersion};
use crate::error::ErrorCode;
use crate::error_counts::ErrorCounts;
use crate::records::{Encoded, Part, Records};
use crate::uuid::Uuid;
use crate::varint;

/// Records up to this size are copied next to the bytes around them: a separate part costs more than the copy.
const RECORDS_COPIED_MAX: usize = 1024;

/// Why a message could not be encoded: the first field that could not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A `None` where the version does not allow null.
    #[error("{message} v{version}: {field} must not be null")]
    Null {
        /// The message.
        message: &'static str,
        /// Its version.
        version: i16,
        /// The field, in Kafka's spelling.
        field: &'static str,
    },
    /// A length that the format cannot express.
    #[error("{message} v{version}: {field} is too long ({length})")]
    TooLong {
        /// The message.
        message: &'static str,
        /// Its version.
        version: i16,
        /// The field, in Kafka's spelling; empty for the message as a whole.
        field: &'static str,
        /// Bytes, or elements.
        length: usize,
    },
    /// The API has no such version.
    #[error("{api} has no version {version}")]
    UnsupportedVersion {
        /// The API.
        api: ApiKey,
        /// What was asked for.
        version: i16,
    },
}

/// Collects an encoded message.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: BytesMut,
    /// What stands between the bytes, each with the place in `bytes` before which it stands; in order.
    inserts: Vec<(usize, Part)>,
    inserted_size: usize,
    errors: ErrorCounts,
    message: &'static str,
    version: i16,
    error: Option<EncodeError>,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Writer {
        Writer {
            bytes: BytesMut::with_capacity(512),
            ..Writer::default()
        }
    }

    /// What was written.
    ///
    /// # Errors
    /// The first thing that could not be written.
    pub fn finish(self) -> Result<Encoded, EncodeError> {
        let size = self.bytes.len() + self.inserted_size;
        if let Some(error) = self.error {
            return Err(error);
        }
        if i32::try_from(size).is_err() {
            let Writer { message, version, .. } = self;
            return Err(EncodeError::TooLong {
                message,
                version,
                field: "",
                length: size,
            });
        }
        let bytes = self.bytes.freeze();
        let mut parts = Vec::with_capacity(2 * self.inserts.len() + 1);
        let mut written = 0;
        for (place, part) in self.inserts {
            if place > written {
                parts.push(Part::Bytes(bytes.slice(written..place)));
                written = place;
            }
            parts.push(part);
        }
        if written < bytes.len() {
            parts.push(Part::Bytes(bytes.slice(written..)));
        }
        Ok(Encoded {
            parts,
            size,
            errors: self.errors,
        })
    }

    /// The same, with the size of everything behind them in the first four bytes, which were left free.
    pub(crate) fn finish_frame(mut self) -> Result<Encoded, EncodeError> {
        let size = self.bytes.len() + self.inserted_size - 4;
        if let Ok(size) = i32::try_from(size) {
            self.bytes[..4].copy_from_slice(&size.to_be_bytes());
        }
        self.finish()
    }

    /// Names what is written from here on; false, and an error at the end, when the API has no such version.
    pub(crate) fn begin(&mut self, message: &'static str, api: ApiKey, version: ApiVersion) -> bool {
        self.message = message;
        self.version = version.0;
        let served = api.versions().contains(&version);
        if !served {
            self.fail(EncodeError::UnsupportedVersion {
                api,
                version: version.0,
            });
        }
        served
    }

    /// Names what is written from here on, for errors.
    pub(crate) fn name(&mut self, message: &'static str, version: i16) {
        self.message = message;
        self.version = version;
    }

    fn fail(&mut self, error: EncodeError) {
        self.error.get_or_insert(error);
    }

    fn null(&mut self, field: &'static str) {
        self.fail(EncodeError::Null {
            message: self.message,
            version: self.version,
            field,
        });
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.bytes.put_u8(u8::from(value));
    }

    pub(crate) fn i8(&mut self, value: i8) {
        self.bytes.put_i8(value);
    }

    pub(crate) fn i16(&mut self, value: i16) {
        self.bytes.put_i16(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.put_u16(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.bytes.put_i32(value);
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.bytes.put_i64(value);
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.bytes.put_f64(value);
    }

    pub(crate) fn uuid(&mut self, value: &Uuid) {
        self.bytes.put_slice(&value.0);
    }

    pub(crate) fn error_code(&mut self, value: ErrorCode) {
        self.errors.add(value);
        self.i16(value.0);
    }

    pub(crate) fn unsigned_varint(&mut self, value: u32) {
        let bytes = &mut self.bytes;
        varint::write_u64(u64::from(value), |byte| bytes.put_u8(byte));
    }

    /// The length of an array, of bytes or of records; `None` is null.
    fn length(&mut self, field: &'static str, flex: bool, length: Option<usize>) {
        // i32::MAX itself has no compact form that fits.
        let Ok(given) = i32::try_from(length.map_or(0, |length| length.saturating_add(1))) else {
            let (message, version, length) = (self.message, self.version, length.unwrap_or_default());
            return self.fail(EncodeError::TooLong {
                message,
                version,
                field,
                length,
            });
        };
        if flex {
            self.unsigned_varint(given as u32)
        } else {
            self.i32(given - 1)
        }
    }

    fn any_string(&mut self, field: &'static str, flex: bool, value: Option<&str>) {
        let length = value.map_or(-1, |value| i16::try_from(value.len()).unwrap_or(i16::MIN));
        if length == i16::MIN {
            let (message, version, length) = (self.message, self.version, value.map_or(0, str::len));
            return self.fail(EncodeError::TooLong {
                message,
                version,
                field,
                length,
            });
        }
        if flex {
            self.unsigned_varint((length + 1) as u32)
        } else {
            self.i16(length)
        }
        self.bytes.put_slice(value.unwrap_or_default().as_bytes());
    }

    pub(crate) fn string(&mut self, field: &'static str, flex: bool, value: &str) {
        self.any_string(field, flex, Some(value));
    }

    pub(crate) fn string_or_null(
        &mut self,
        field: &'static str,
        flex: bool,
        null: bool,
        value: &Option<String>,
    ) {
        if value.is_none() && !null {
            return self.null(field);
        }
        self.any_string(field, flex, value.as_deref().map(|text| shortened(field, text)));
    }

    pub(crate) fn bytes(&mut self, field: &'static str, flex: bool, value: &Bytes) {
        self.length(field, flex, Some(value.len()));
        self.bytes.put_slice(value);
    }

    pub(crate) fn records(&mut self, field: &'static str, flex: bool, value: &Records) {
        match value {
            Records::Null => self.length(field, flex, None),
            Records::Bytes(bytes) if bytes.len() <= RECORDS_COPIED_MAX => self.bytes(field, flex, bytes),
            Records::Bytes(bytes) => {
                self.length(field, flex, Some(bytes.len()));
                self.insert(Part::Bytes(bytes.clone()), bytes.len());
            }
            &Records::Slot { id, size } => {
                self.length(field, flex, Some(size));
                self.insert(Part::Slot { id, size }, size);
            }
        }
    }

    fn insert(&mut self, part: Part, size: usize) {
        self.inserted_size = self.inserted_size.saturating_add(size);
        self.inserts.push((self.bytes.len(), part));
    }

    pub(crate) fn array<T>(
        &mut self,
        field: &'static str,
        flex: bool,
        value: &[T],
        mut write: impl FnMut(&mut Writer, &T),
    ) {
        self.length(field, flex, Some(value.len()));
        for item in value {
            write(self, item);
        }
    }

    pub(crate) fn array_or_null<T>(
        &mut self,
        field: &'static str,
        flex: bool,
        null: bool,
        value: &Option<Vec<T>>,
        write: impl FnMut(&mut Writer, &T),
    ) {
        match value {
            Some(value) => self.array(field, flex, value, write),
            None if null => self.length(field, flex, None),
            None => self.null(field),
        }
    }

    pub(crate) fn struct_or_null<T>(
        &mut self,
        field: &'static str,
        null: bool,
        value: &Option<T>,
        write: impl FnOnce(&mut Writer, &T),
    ) {
        match value {
            Some(value) => {
                if null {
                    self.i8(1);
                }
                write(self, value);
            }
            None if null => self.i8(-1),
            None => self.null(field),
        }
    }

    /// A tagged field: tag, size, value. The size is known only when the value has been written, and goes in front of it.
    pub(crate) fn tagged(&mut self, tag: u32, write: impl FnOnce(&mut Writer)) {
        self.unsigned_varint(tag);
        let start = self.bytes.len();
        let inserts = self.inserts.len();
        write(self);
        assert!(
            inserts == self.inserts.len(),
            "no schema has records inside a tagged field"
        );
        let size = self.bytes.len() - start;
        let mut prefix = Vec::with_capacity(5);
        varint::write_u64(size as u64, |byte| prefix.push(byte));
        self.bytes.resize(start + prefix.len() + size, 0);
        self.bytes.copy_within(start..start + size, start + prefix.len());
        self.bytes[start..start + prefix.len()].copy_from_slice(&prefix);
    }
}

/// Words for people are cut where they are too long: an error that repeats what a client sent must not be lost, and the
/// connection with it, because the client sent much.
fn shortened<'a>(field: &str, text: &'a str) -> &'a str {
    if field.ends_with("rrorMessage") {
        &text[..text.floor_char_boundary(i16::MAX as usize)]
    } else {
        text
    }
}
