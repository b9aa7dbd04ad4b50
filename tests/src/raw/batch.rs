//! Record batches, format 2, uncompressed: written with any lie in the header that a test wants, and read back.

use anyhow::{Result, ensure};

use super::bytes::{Reader, put_varint};

/// Bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;

/// Where the checksum stands.
const CRC_AT: usize = 17;

/// Where the bytes that the checksum covers begin.
const CRC_COVERS_FROM: usize = 21;

/// A batch to write. `Batch::of` fills in what a client would; every field may be changed before `bytes`.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Offset of the first record; a producer writes 0.
    pub base_offset: i64,
    /// Outside the checksum.
    pub leader_epoch: i32,
    /// Format of the batch.
    pub magic: i8,
    /// Codec, timestamp type, transactional and control bits.
    pub attributes: i16,
    /// Offset of the last record, from the base.
    pub last_offset_delta: i32,
    /// Time of the first record, milliseconds.
    pub base_timestamp: i64,
    /// Largest time in the batch, milliseconds.
    pub max_timestamp: i64,
    /// −1 without idempotence.
    pub producer_id: i64,
    /// −1 without idempotence.
    pub producer_epoch: i16,
    /// −1 without idempotence.
    pub base_sequence: i32,
    /// What the header says about how many records follow.
    pub count: i32,
    /// The records.
    pub records: Vec<Record>,
}

/// One record of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// From the base offset.
    pub offset_delta: i64,
    /// From the base timestamp, milliseconds.
    pub timestamp_delta: i64,
    /// Nothing is a null key.
    pub key: Option<Vec<u8>>,
    /// Nothing is a null value.
    pub value: Option<Vec<u8>>,
}

/// Milliseconds since the epoch.
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

impl Batch {
    /// An honest batch with these values, stamped now.
    pub fn of(values: &[&[u8]]) -> Batch {
        let records = values.iter().zip(0..).map(|(value, offset_delta)| Record {
            offset_delta,
            timestamp_delta: 0,
            key: None,
            value: Some(value.to_vec()),
        });
        let count = i32::try_from(values.len()).expect("a test writes short batches");
        let now = now_ms();
        Batch {
            base_offset: 0,
            leader_epoch: -1,
            magic: 2,
            attributes: 0,
            last_offset_delta: count - 1,
            base_timestamp: now,
            max_timestamp: now,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            count,
            records: records.collect(),
        }
    }

    /// The same batch, as an idempotent producer numbers it.
    pub fn from_producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Batch {
        (self.producer_id, self.producer_epoch, self.base_sequence) = (id, epoch, base_sequence);
        self
    }

    /// The bytes, with the right length and checksum.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.base_offset.to_be_bytes());
        out.extend([0; 4]);
        out.extend(self.leader_epoch.to_be_bytes());
        out.extend(self.magic.to_be_bytes());
        out.extend([0; 4]);
        out.extend(self.attributes.to_be_bytes());
        out.extend(self.last_offset_delta.to_be_bytes());
        out.extend(self.base_timestamp.to_be_bytes());
        out.extend(self.max_timestamp.to_be_bytes());
        out.extend(self.producer_id.to_be_bytes());
        out.extend(self.producer_epoch.to_be_bytes());
        out.extend(self.base_sequence.to_be_bytes());
        out.extend(self.count.to_be_bytes());
        for record in &self.records {
            record.put(&mut out);
        }
        sealed(out)
    }
}

impl Record {
    fn put(&self, out: &mut Vec<u8>) {
        let mut body = vec![0];
        put_varint(&mut body, self.timestamp_delta);
        put_varint(&mut body, self.offset_delta);
        for part in [&self.key, &self.value] {
            put_varint(&mut body, part.as_ref().map_or(-1, |bytes| bytes.len() as i64));
            body.extend(part.iter().flatten());
        }
        put_varint(&mut body, 0);
        put_varint(out, body.len() as i64);
        out.extend(body);
    }
}

/// Writes the right length and checksum into a batch.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = i32::try_from(bytes.len() - 12).expect("a test writes short batches");
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[CRC_COVERS_FROM..]);
    bytes[CRC_AT..CRC_COVERS_FROM].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// A record as it was read: where it stands, when it was stamped, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its offset.
    pub offset: i64,
    /// Milliseconds.
    pub timestamp: i64,
    /// Who wrote it, −1 without idempotence.
    pub producer_id: i64,
    /// Its value, empty where it is null.
    pub value: Vec<u8>,
}

/// The records of whole, uncompressed batches; a batch that was cut off at the end is left out.
pub fn stored(bytes: &[u8]) -> Result<Vec<Stored>> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while rest.len() >= HEADER_BYTES {
        let length = 12 + usize::try_from(i32::from_be_bytes(rest[8..12].try_into()?))?;
        if rest.len() < length {
            break;
        }
        let (batch, after) = rest.split_at(length);
        let crc = u32::from_be_bytes(batch[CRC_AT..CRC_COVERS_FROM].try_into()?);
        ensure!(
            crc == crc32c::crc32c(&batch[CRC_COVERS_FROM..]),
            "a batch with a wrong checksum was served"
        );
        let mut header = Reader::new(batch);
        let base = header.i64()?;
        header.raw(13)?;
        let attributes = header.i16()?;
        ensure!(attributes & 7 == 0, "this reader does not decompress");
        header.i32()?;
        let (base_time, max_time, producer_id) = (header.i64()?, header.i64()?, header.i64()?);
        header.raw(6)?;
        for _ in 0..header.i32()? {
            let (delta, time, value) = one_record(&mut header)?;
            let timestamp = if attributes & 8 == 0 {
                base_time + time
            } else {
                max_time
            };
            found.push(Stored {
                offset: base + delta,
                timestamp,
                producer_id,
                value,
            });
        }
        rest = after;
    }
    Ok(found)
}

fn one_record(reader: &mut Reader<'_>) -> Result<(i64, i64, Vec<u8>)> {
    let length = usize::try_from(reader.varint()?)?;
    let mut record = Reader::new(reader.raw(length)?);
    record.i8()?;
    let (time, delta) = (record.varint()?, record.varint()?);
    let key = usize::try_from(record.varint()?.max(0))?;
    record.raw(key)?;
    let value = usize::try_from(record.varint()?.max(0))?;
    let value = record.raw(value)?.to_vec();
    Ok((delta, time, value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let batch = Batch::of(&[b"one", b"two"]).from_producer(7, 0, 3);
        let read = stored(&batch.bytes()).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(
            (read[1].offset, read[1].producer_id, read[1].value.as_slice()),
            (1, 7, &b"two"[..])
        );
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let mut bytes = Batch::of(&[b"one"]).bytes();
        *bytes.last_mut().unwrap() ^= 1;
        assert!(stored(&bytes).is_err());
    }
}
