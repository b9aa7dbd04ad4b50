//! The records inside a batch's decompressed body. Reads them in place, with every bound checked.

use super::BatchError;
use crate::varint;

/// One record; keys, values and headers are slices of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// No bit has a meaning in v2.
    pub attributes: i8,
    /// Counted from the batch's base timestamp, in ms.
    pub timestamp_delta: i64,
    /// Counted from the batch's base offset.
    pub offset_delta: i32,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; none is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: Headers<'a>,
}

/// The headers of a record; iterate over them. They were checked when the record was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers<'a> {
    left: Cursor<'a>,
    count: usize,
}

/// One header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The key; UTF-8 by convention, which nobody checks.
    pub key: &'a [u8],
    /// The value.
    pub value: Option<&'a [u8]>,
}

/// The records of a batch in order, as many as its header says. Fewer, broken ones, or bytes behind the last one give an
/// error, after which it ends.
#[derive(Debug, Clone)]
pub struct RecordIter<'a> {
    left: Cursor<'a>,
    index: usize,
    count: usize,
    done: bool,
}

impl<'a> RecordIter<'a> {
    pub(super) fn new(body: &'a [u8], count: i32) -> RecordIter<'a> {
        let count = usize::try_from(count).unwrap_or(0);
        RecordIter {
            left: Cursor { bytes: body },
            index: 0,
            count,
            done: false,
        }
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.index == self.count {
            self.done = true;
            let trailing = self.left.bytes.len();
            return (trailing > 0).then_some(Err(BatchError::TrailingBytes(trailing)));
        }
        let index = self.index;
        self.index += 1;
        let record = record(&mut self.left).map_err(|what| BatchError::Record { index, what });
        self.done = record.is_err();
        Some(record)
    }
}

impl<'a> Headers<'a> {
    /// How many there are left.
    pub fn count_left(&self) -> usize {
        self.count
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.count = self.count.checked_sub(1)?;
        header(&mut self.left).ok()
    }
}

fn record<'a>(body: &mut Cursor<'a>) -> Result<Record<'a>, &'static str> {
    let size = body.varint()?;
    let size = usize::try_from(size).map_err(|_| "a negative size")?;
    let mut bytes = Cursor {
        bytes: body.take(size)?,
    };
    let attributes = bytes.take(1)?[0] as i8;
    let timestamp_delta = bytes.varlong()?;
    let offset_delta = bytes.varint()?;
    let key = bytes.nullable()?;
    let value = bytes.nullable()?;
    let count = usize::try_from(bytes.varint()?).map_err(|_| "a negative number of headers")?;
    let headers = Headers { left: bytes, count };
    // A header takes two bytes at least, so a count that lies ends the loop early.
    for _ in 0..count {
        header(&mut bytes)?;
    }
    if !bytes.bytes.is_empty() {
        return Err("bytes behind its last field");
    }
    Ok(Record {
        attributes,
        timestamp_delta,
        offset_delta,
        key,
        value,
        headers,
    })
}

fn header<'a>(bytes: &mut Cursor<'a>) -> Result<Header<'a>, &'static str> {
    let key = bytes.nullable()?.ok_or("a header without a key")?;
    let value = bytes.nullable()?;
    Ok(Header { key, value })
}

/// What is left of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], &'static str> {
        let (taken, left) = self
            .bytes
            .split_at_checked(size)
            .ok_or("it goes beyond the end")?;
        self.bytes = left;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<i32, &'static str> {
        let (value, taken) = varint::read_i32(self.bytes).map_err(|_| "a broken varint")?;
        self.take(taken)?;
        Ok(value)
    }

    fn varlong(&mut self) -> Result<i64, &'static str> {
        let (value, taken) = varint::read_i64(self.bytes).map_err(|_| "a broken varint")?;
        self.take(taken)?;
        Ok(value)
    }

    /// A length below zero is null.
    fn nullable(&mut self) -> Result<Option<&'a [u8]>, &'static str> {
        match usize::try_from(self.varint()?) {
            Ok(size) => self.take(size).map(Some),
            Err(_) => Ok(None),
        }
    }
}
