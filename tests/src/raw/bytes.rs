//! The plain (not compact) encoding of Kafka's primitives. Reading is strict: nothing missing, nothing left.

use anyhow::{Context, Result, ensure};

/// Builds a body, field by field.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// An empty body.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// What has been written.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// One byte.
    pub fn i8(&mut self, value: i8) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    /// Two bytes.
    pub fn i16(&mut self, value: i16) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    /// Four bytes.
    pub fn i32(&mut self, value: i32) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    /// Eight bytes.
    pub fn i64(&mut self, value: i64) -> &mut Writer {
        self.raw(&value.to_be_bytes())
    }

    /// The length of an array, whose elements follow.
    pub fn count(&mut self, elements: usize) -> &mut Writer {
        self.i32(i32::try_from(elements).expect("a test writes short arrays"))
    }

    /// A string.
    pub fn string(&mut self, value: &str) -> &mut Writer {
        self.i16(i16::try_from(value.len()).expect("a test writes short strings"))
            .raw(value.as_bytes())
    }

    /// A null string.
    pub fn null_string(&mut self) -> &mut Writer {
        self.i16(-1)
    }

    /// Bytes with their length.
    pub fn sized(&mut self, value: &[u8]) -> &mut Writer {
        self.count(value.len()).raw(value)
    }

    /// Bytes as they are.
    pub fn raw(&mut self, value: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(value);
        self
    }
}

/// Takes a body apart.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads `bytes` from the start.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// So many bytes.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .context("the answer is too short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.raw(N)?.try_into()?)
    }

    /// One byte.
    pub fn i8(&mut self) -> Result<i8> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    /// Two bytes.
    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A string, empty where it is null.
    pub fn string(&mut self) -> Result<String> {
        let length = usize::try_from(self.i16()?.max(0))?;
        Ok(String::from_utf8(self.raw(length)?.to_vec())?)
    }

    /// A string, or nothing where it is null.
    pub fn nullable_string(&mut self) -> Result<Option<String>> {
        let length = self.i16()?;
        if length < 0 {
            return Ok(None);
        }
        let bytes = self.raw(usize::try_from(length)?)?;
        Ok(Some(String::from_utf8(bytes.to_vec())?))
    }

    /// Bytes with their length, empty where they are null.
    pub fn sized(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.i32()?.max(0))?;
        self.raw(length)
    }

    /// An array, each element read by `element`; null is empty.
    pub fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.i32()?.max(0);
        (0..count).map(|_| element(self)).collect()
    }

    /// A base-128 number with its sign folded in, as records hold it.
    pub fn varint(&mut self) -> Result<i64> {
        let mut folded = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.array::<1>()?[0];
            folded |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((folded >> 1).cast_signed() ^ -((folded & 1).cast_signed()));
            }
        }
        anyhow::bail!("a varint without an end")
    }

    /// Fails unless everything has been read.
    pub fn end(&self) -> Result<()> {
        ensure!(self.0.is_empty(), "{} bytes are left over", self.0.len());
        Ok(())
    }
}

/// Appends a base-128 number with its sign folded in.
pub fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut folded = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while folded >= 0x80 {
        out.push((folded & 0x7f) as u8 | 0x80);
        folded >>= 7;
    }
    out.push(folded as u8);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn a_varint_comes_back_as_it_went() {
        for value in [
            0,
            1,
            -1,
            63,
            64,
            -64,
            -65,
            300,
            i64::from(i32::MAX),
            i64::MAX,
            i64::MIN,
        ] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.varint().unwrap(), value);
            reader.end().unwrap();
        }
    }

    #[test]
    fn bytes_left_over_are_an_error() {
        let mut writer = Writer::new();
        writer.i16(7).i8(1);
        let mut reader = Reader::new(writer.bytes());
        assert_eq!(reader.i16().unwrap(), 7);
        assert!(reader.end().is_err());
    }
}
