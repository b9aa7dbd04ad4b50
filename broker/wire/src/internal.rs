//! The records of internal topics, as Kafka's tools read them: typed keys and values, generated from `records/`.
//!
//! A key begins with its kind, a value with its version. Must not: know what a record means.

use std::fmt;
use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::reader::{DecodeError, DecodeReason, Reader};
use crate::writer::{EncodeError, Writer};

#[allow(
    clippy::all,
    unused_variables,
    unused_mut,
    unused_imports,
    reason = "generated code is uniform; what a record does not need is cheaper to leave than to leave out"
)]
mod kinds {
    mod generated {
        //! What every generated module uses.
        pub(super) use crate::internal::{RecordKey, RecordPart};
        pub(super) use crate::reader::Tag;
        pub(super) use crate::{DecodeError, Reader, Uuid, Writer};
        pub(super) use bytes::Bytes;
    }

    include!(concat!(env!("OUT_DIR"), "/internal.rs"));
}

pub use kinds::*;

/// The version in which a key is written: there is one of each.
const KEY_VERSION: i16 = 0;

/// A key or a value.
pub trait RecordPart: Sized + Default + Clone + PartialEq + fmt::Debug {
    /// The name, for errors and logs.
    const NAME: &'static str;

    /// The versions that have a layout.
    const VERSIONS: RangeInclusive<i16>;

    /// Reads what follows the kind or the version.
    ///
    /// # Errors
    /// When the bytes are no such part.
    fn read_fields(version: i16, reader: &mut Reader) -> Result<Self, DecodeError>;

    /// Writes what follows the kind or the version.
    fn write_fields(&self, version: i16, writer: &mut Writer);
}

/// A key; knows its kind and its value.
pub trait RecordKey: RecordPart {
    /// The number that a key of this kind begins with.
    const KIND: i16;
    /// What such a key stands before.
    type Value: RecordPart;
}

/// The kind that a key begins with, if it is long enough to have one.
pub fn kind_of(key: &[u8]) -> Option<i16> {
    key.first_chunk().copied().map(i16::from_be_bytes)
}

/// Reads a key, whatever kind it says it is.
///
/// # Errors
/// When the bytes are no such key.
pub fn decode_key<K: RecordKey>(key: Bytes) -> Result<K, DecodeError> {
    let mut reader = Reader::new(key);
    reader.name(K::NAME, KEY_VERSION);
    reader.i16("kind")?;
    K::read_fields(KEY_VERSION, &mut reader)
}

/// Writes a key.
///
/// # Errors
/// When a field does not fit.
pub fn encode_key<K: RecordKey>(key: &K) -> Result<Bytes, EncodeError> {
    encode(K::KIND, KEY_VERSION, key)
}

/// Reads a value in the version that it begins with.
///
/// # Errors
/// When the bytes are no such value, or its version is newer than what is known here.
pub fn decode_value<V: RecordPart>(value: Bytes) -> Result<V, DecodeError> {
    let mut reader = Reader::new(value);
    reader.name(V::NAME, -1);
    let version = reader.i16("version")?;
    reader.name(V::NAME, version);
    if !V::VERSIONS.contains(&version) {
        return Err(reader.error("version", DecodeReason::UnknownVersion(version)));
    }
    V::read_fields(version, &mut reader)
}

/// Writes a value in this version, which must be one of the kind's.
///
/// # Errors
/// When a field does not fit.
pub fn encode_value<V: RecordPart>(value: &V, version: i16) -> Result<Bytes, EncodeError> {
    assert!(
        V::VERSIONS.contains(&version),
        "a value is written in a version that it has"
    );
    encode(version, version, value)
}

fn encode<P: RecordPart>(begins_with: i16, version: i16, part: &P) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::new();
    writer.name(P::NAME, version);
    writer.i16(begins_with);
    part.write_fields(version, &mut writer);
    Ok(writer.finish()?.into_bytes())
}
