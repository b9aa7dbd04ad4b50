//! Builds batches from records: for clients of our own, for rebuilt batches, for tests.

use bytes::Bytes;

use super::header::{self, Attributes, BatchHeader, HEADER_SIZE, TimestampType};
use crate::codec::{self, Codec};
use crate::varint;

/// What an idempotent producer writes into its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    /// The producer's id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The sequence of the batch's first record.
    pub base_sequence: i32,
}

/// Collects records, then gives the batch.
///
/// ```
/// use wire::batch::{Batch, BatchBuilder};
/// use wire::codec::Codec;
///
/// let mut builder = BatchBuilder::new(Codec::Zstd);
/// builder.append(1_700_000_000_000, Some(b"key"), Some(b"value"), &[]);
/// let batch = Batch::parse(&builder.build())?;
/// batch.check()?;
/// let body = batch.body(1 << 20)?;
/// assert_eq!(batch.records(&body).next().unwrap()?.value, Some(&b"value"[..]));
/// # Ok::<(), wire::batch::BatchError>(())
/// ```
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    codec: Codec,
    level: Option<i32>,
    attributes: Attributes,
    base_offset: i64,
    leader_epoch: i32,
    producer: ProducerState,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    next_offset_delta: i32,
    count: i32,
    body: Vec<u8>,
}

impl BatchBuilder {
    /// A batch as a client sends it: base offset 0, no leader epoch, no producer.
    pub fn new(codec: Codec) -> BatchBuilder {
        BatchBuilder {
            codec,
            level: None,
            attributes: Attributes::default().with_codec(codec),
            base_offset: 0,
            leader_epoch: -1,
            producer: ProducerState {
                id: -1,
                epoch: -1,
                base_sequence: -1,
            },
            base_timestamp: None,
            max_timestamp: -1,
            next_offset_delta: 0,
            count: 0,
            body: Vec::new(),
        }
    }

    /// Sets the codec's level; its default otherwise.
    #[must_use]
    pub fn level(mut self, level: i32) -> BatchBuilder {
        self.level = Some(level);
        self
    }

    /// Sets the offset of delta 0.
    #[must_use]
    pub fn base_offset(mut self, offset: i64) -> BatchBuilder {
        self.base_offset = offset;
        self
    }

    /// Sets the epoch of the leader.
    #[must_use]
    pub fn leader_epoch(mut self, epoch: i32) -> BatchBuilder {
        self.leader_epoch = epoch;
        self
    }

    /// Sets the idempotent producer.
    #[must_use]
    pub fn producer(mut self, producer: ProducerState) -> BatchBuilder {
        self.producer = producer;
        self
    }

    /// Makes the batch a part of a transaction.
    #[must_use]
    pub fn transactional(mut self) -> BatchBuilder {
        self.attributes = self.attributes.transactional();
        self
    }

    /// Makes the records markers.
    #[must_use]
    pub fn control(mut self) -> BatchBuilder {
        self.attributes = self.attributes.control();
        self
    }

    /// Appends a record behind the last one. `timestamp` is in ms since 1970; a header without a value has a null value.
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) {
        self.append_at(self.next_offset_delta, timestamp, key, value, headers);
    }

    /// Appends a record at an offset delta of its own, as when a batch is rebuilt.
    pub fn append_at(
        &mut self,
        offset_delta: i32,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) {
        let base = *self.base_timestamp.get_or_insert(timestamp);
        let mut record = vec![0];
        put_varint(&mut record, timestamp.wrapping_sub(base));
        put_varint(&mut record, i64::from(offset_delta));
        put_nullable(&mut record, key);
        put_nullable(&mut record, value);
        put_varint(&mut record, headers.len() as i64);
        for (key, value) in headers {
            put_nullable(&mut record, Some(key));
            put_nullable(&mut record, *value);
        }
        put_varint(&mut self.body, record.len() as i64);
        self.body.extend_from_slice(&record);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.next_offset_delta = offset_delta + 1;
        self.count += 1;
    }

    /// How many bytes the records take so far, before compression.
    pub fn body_size(&self) -> usize {
        self.body.len()
    }

    /// How many records there are so far.
    pub fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// The batch.
    pub fn build(self) -> Bytes {
        self.finish(None)
    }

    /// The batch with the broker's time for all its records (R-33).
    pub fn build_log_append_time(mut self, now: i64) -> Bytes {
        self.attributes = self.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        self.finish(Some(now))
    }

    fn finish(self, append_time: Option<i64>) -> Bytes {
        let body = match self.codec {
            Codec::None => self.body,
            codec => codec::compress(codec, self.level, &self.body),
        };
        let length = i32::try_from(HEADER_SIZE - 12 + body.len())
            .expect("a batch is collected under a limit far below 2 GiB");
        let header = BatchHeader {
            base_offset: self.base_offset,
            length,
            partition_leader_epoch: self.leader_epoch,
            crc: 0,
            attributes: self.attributes,
            last_offset_delta: self.next_offset_delta - 1,
            base_timestamp: self.base_timestamp.unwrap_or(-1),
            max_timestamp: append_time.unwrap_or(self.max_timestamp),
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            base_sequence: self.producer.base_sequence,
            record_count: self.count,
        };
        let mut batch = Vec::with_capacity(HEADER_SIZE + body.len());
        batch.extend_from_slice(&header.to_bytes());
        batch.extend_from_slice(&body);
        header::seal(&mut batch);
        Bytes::from(batch)
    }
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    varint::write_i64(value, |byte| out.push(byte));
}

fn put_nullable(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => {
            put_varint(out, value.len() as i64);
            out.extend_from_slice(value);
        }
        None => put_varint(out, -1),
    }
}
