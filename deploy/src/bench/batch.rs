//! A batch that is built once and sent for ever: only its header and one stamp are written anew.
//!
//! The stamp stands in the first record's value and says when each record of the batch was due, so that a reader in
//! the same process knows how long every one of them took.

use bytes::Bytes;
use wire::batch::{Batch, BatchBuilder, HEADER_SIZE, ProducerState, seal};
use wire::codec::Codec;

/// What a stamp begins with, to be found again: no text.
const MARK: [u8; 8] = [0xf1, 0x9a, 0x02, 0xc7, 0x5e, 0xb3, 0x88, 0x6d];

/// When the records of a batch were due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The first one, in ns on the generator's clock.
    pub first: u64,
    /// Between one and the next, in ns.
    pub step: u64,
}

/// The smallest value that has room for a stamp, in bytes.
pub const VALUE_BYTES_MIN: usize = MARK.len() + 16;

/// A full batch and where each of its records ends.
#[derive(Debug, Clone)]
pub struct Template {
    bytes: Vec<u8>,
    /// The size of a batch with so many records, by count; the first is that of none.
    sizes: Vec<usize>,
    stamp_at: usize,
}

impl Template {
    /// Batches of at most `batch_size` bytes with values of `record_size` bytes; at least one record fits.
    pub fn new(record_size: usize, batch_size: usize) -> Self {
        assert!(VALUE_BYTES_MIN <= record_size, "a value has room for the stamp");
        let mut value = letters(record_size);
        value[..MARK.len()].copy_from_slice(&MARK);
        let mut builder = BatchBuilder::new(Codec::None);
        let mut sizes = vec![HEADER_SIZE];
        loop {
            let mut longer = builder.clone();
            longer.append(0, None, Some(&value), &[]);
            let size = HEADER_SIZE + longer.body_size();
            if 1 < sizes.len() && batch_size < size {
                break;
            }
            builder = longer;
            sizes.push(size);
            value = letters(record_size);
        }
        let bytes = builder.build().to_vec();
        let stamp_at = bytes.windows(MARK.len()).position(|part| part == MARK);
        let stamp_at = stamp_at.expect("the first value begins with the mark") + MARK.len();
        Self {
            bytes,
            sizes,
            stamp_at,
        }
    }

    /// How many records a full batch has.
    pub fn records_max(&self) -> usize {
        self.sizes.len() - 1
    }

    /// A batch of the first `count` records.
    pub fn batch(&self, count: usize, time_ms: i64, producer: Option<ProducerState>, stamp: Stamp) -> Bytes {
        let size = self.sizes[count];
        let mut bytes = self.bytes[..size].to_vec();
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let count = i32::try_from(count).expect("a batch has few records");
        let length = i32::try_from(size - 12).expect("a batch is small");
        put(8, &length.to_be_bytes());
        put(23, &(count - 1).to_be_bytes());
        put(27, &time_ms.to_be_bytes());
        put(35, &time_ms.to_be_bytes());
        if let Some(producer) = producer {
            put(43, &producer.id.to_be_bytes());
            put(51, &producer.epoch.to_be_bytes());
            put(53, &producer.base_sequence.to_be_bytes());
        }
        put(57, &count.to_be_bytes());
        put(self.stamp_at, &stamp.first.to_be_bytes());
        put(self.stamp_at + 8, &stamp.step.to_be_bytes());
        seal(&mut bytes);
        bytes.into()
    }
}

/// The stamp of a batch, where it is one of ours.
pub fn stamp(batch: &Batch) -> Option<Stamp> {
    let body = batch.body(usize::MAX).ok()?;
    let value = batch.records(&body).next()?.ok()?.value?;
    let (first, rest) = value.strip_prefix(&MARK)?.split_first_chunk::<8>()?;
    let step = rest.first_chunk::<8>()?;
    Some(Stamp {
        first: u64::from_be_bytes(*first),
        step: u64::from_be_bytes(*step),
    })
}

/// Letters that do not repeat soon.
fn letters(count: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b'A' + (state % 26) as u8
    };
    (0..count).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn every_count_of_records_is_a_batch_that_a_broker_takes() {
        let template = Template::new(100, 16_384);
        assert!(
            140 < template.records_max() && template.records_max() < 160,
            "{}",
            template.records_max()
        );
        for count in [1, 2, 17, template.records_max()] {
            let producer = ProducerState {
                id: 7,
                epoch: 2,
                base_sequence: 40,
            };
            let stamp_in = Stamp {
                first: 1_000_000,
                step: 250,
            };
            let bytes = template.batch(count, 1_700_000_000_000, Some(producer), stamp_in);
            assert!(bytes.len() <= 16_384);
            let batch = Batch::parse(&bytes).unwrap();
            assert_eq!(batch.bytes.len(), bytes.len());
            batch.check().unwrap();
            let body = batch.body(1 << 20).unwrap();
            let records: Vec<_> = batch.records(&body).map(Result::unwrap).collect();
            assert_eq!(records.len(), count);
            assert!(records.iter().all(|record| record.value.unwrap().len() == 100));
            assert_eq!(records[count - 1].offset_delta, batch.header.last_offset_delta);
            assert_eq!(batch.header.base_timestamp, 1_700_000_000_000);
            assert_eq!((batch.header.producer_id, batch.header.base_sequence), (7, 40));
            assert_eq!(stamp(&batch), Some(stamp_in));
        }
    }

    #[test]
    fn a_record_above_the_size_of_a_batch_goes_alone() {
        assert_eq!(Template::new(20_000, 16_384).records_max(), 1);
    }
}
