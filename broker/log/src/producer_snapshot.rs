//! The file that remembers the producers at one offset, `<offset>.snapshot` (L-21, T-10).
//!
//! ```text
//! version i16 = 1 | crc-32c u32 of what follows | count i32 |
//! per producer: id i64, epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64,
//!               coordinator epoch i32, first offset of the open transaction i64          (46 bytes)
//! ```
//! Only the last batch of each producer is kept, as in Kafka. Must not: touch the disk.

use std::collections::VecDeque;

use crate::producers::{Producer, Producers, SequencedBatch, go_back};
use crate::types::{CoordinatorEpoch, Offset, ProducerEpoch, ProducerId};

/// Largest snapshot that is read: more than ten million producers.
pub(crate) const SNAPSHOT_BYTES_MAX: u64 = 512 * 1024 * 1024;

const VERSION: i16 = 1;
const HEADER_BYTES: usize = 6;
const ENTRY_BYTES: usize = 46;

/// The bytes of a snapshot.
pub(crate) fn encode(producers: &Producers) -> Vec<u8> {
    let mut body = vec![0; 4];
    let mut count = 0_i32;
    for (id, producer) in producers.iter() {
        let last = producer.batches.back();
        body.extend_from_slice(&id.0.to_be_bytes());
        body.extend_from_slice(&producer.epoch.0.to_be_bytes());
        body.extend_from_slice(&last.map_or(-1, |batch| batch.last_sequence).to_be_bytes());
        body.extend_from_slice(&last.map_or(-1, |batch| batch.last.0).to_be_bytes());
        let delta = last.map_or(0, |batch| {
            i32::try_from(batch.last.0 - batch.first.0).unwrap_or(0)
        });
        body.extend_from_slice(&delta.to_be_bytes());
        body.extend_from_slice(&producer.last_timestamp.to_be_bytes());
        body.extend_from_slice(
            &producer
                .coordinator_epoch
                .map_or(-1, |epoch| epoch.0)
                .to_be_bytes(),
        );
        body.extend_from_slice(&producer.open_from.map_or(-1, |first| first.0).to_be_bytes());
        count += 1;
    }
    body[..4].copy_from_slice(&count.to_be_bytes());
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&body).to_be_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// Reads what [`encode`] writes; `None` if the version, the checksum or the length is wrong.
pub(crate) fn decode(bytes: &[u8]) -> Option<Producers> {
    let (header, body) = bytes.split_at_checked(HEADER_BYTES)?;
    if header[..2] != VERSION.to_be_bytes() || header[2..] != crc32c::crc32c(body).to_be_bytes() {
        return None;
    }
    let (count, entries) = body.split_first_chunk::<4>()?;
    let count = usize::try_from(i32::from_be_bytes(*count)).ok()?;
    if entries.len() != count.checked_mul(ENTRY_BYTES)? {
        return None;
    }
    let mut producers = Producers::default();
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let (id, producer) = decode_producer(entry)?;
        producers.insert(id, producer);
    }
    Some(producers)
}

fn decode_producer(entry: &[u8]) -> Option<(ProducerId, Producer)> {
    let i64_at = |at: usize| entry[at..].first_chunk().map(|bytes| i64::from_be_bytes(*bytes));
    let i32_at = |at: usize| entry[at..].first_chunk().map(|bytes| i32::from_be_bytes(*bytes));
    let (last_sequence, last, delta) = (i32_at(10)?, i64_at(14)?, i32_at(22)?);
    let timestamp = i64_at(26)?;
    let mut batches = VecDeque::new();
    if 0 <= last {
        batches.push_back(SequencedBatch {
            first_sequence: go_back(last_sequence, delta),
            last_sequence,
            first: Offset(last.checked_sub(i64::from(delta))?),
            last: Offset(last),
            timestamp,
        });
    }
    let producer = Producer {
        epoch: ProducerEpoch(i16::from_be_bytes(*entry[8..].first_chunk()?)),
        batches,
        coordinator_epoch: Some(i32_at(34)?)
            .filter(|epoch| 0 <= *epoch)
            .map(CoordinatorEpoch),
        last_timestamp: timestamp,
        open_from: Some(i64_at(38)?).filter(|first| 0 <= *first).map(Offset),
    };
    Some((ProducerId(i64_at(0)?), producer))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn sample() -> Producers {
        let mut producers = Producers::default();
        let batch = SequencedBatch {
            first_sequence: 4,
            last_sequence: 6,
            first: Offset(100),
            last: Offset(102),
            timestamp: 1_000,
        };
        producers.insert(
            ProducerId(0x1122),
            Producer {
                epoch: ProducerEpoch(3),
                batches: VecDeque::from([batch]),
                coordinator_epoch: None,
                last_timestamp: 1_000,
                open_from: Some(Offset(100)),
            },
        );
        producers
    }

    #[test]
    fn a_snapshot_has_kafkas_bytes() {
        let bytes = encode(&sample());
        let body = [
            &[0, 0, 0, 1][..],
            &[0, 0, 0, 0, 0, 0, 0x11, 0x22],
            &[0, 3],
            &[0, 0, 0, 6],
            &[0, 0, 0, 0, 0, 0, 0, 102],
            &[0, 0, 0, 2],
            &[0, 0, 0, 0, 0, 0, 3, 0xe8],
            &[0xff, 0xff, 0xff, 0xff],
            &[0, 0, 0, 0, 0, 0, 0, 100],
        ]
        .concat();
        assert_eq!(bytes[..2], [0, 1]);
        assert_eq!(bytes[2..6], crc32c::crc32c(&body).to_be_bytes());
        assert_eq!(bytes[6..], body);
        assert_eq!(decode(&bytes), Some(sample()));
    }

    #[test]
    fn a_damaged_snapshot_is_none() {
        let whole = encode(&sample());
        for cut in 0..whole.len() {
            assert_eq!(decode(&whole[..cut]), None);
        }
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            assert_eq!(decode(&flipped), None, "byte {at}");
        }
        assert_eq!(decode(&encode(&Producers::default())), Some(Producers::default()));
    }
}
