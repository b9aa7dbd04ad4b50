//! Prints a log segment as `kafka-dump-log --deep-iteration --print-data-log` does, with the broker's own reader of
//! batches, so that the two can be compared line by line.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use bytes::Bytes;
use wire::batch::{Batch, Batches, Record, TimestampType};

/// Most bytes that one batch may take when decompressed.
const BUDGET_BYTES: usize = 64 << 20;

/// The lines of the batches and records in `segment`, without the tool's own two lines at the top.
pub fn dump(segment: &Path) -> Result<String> {
    let bytes = Bytes::from(std::fs::read(segment)?);
    let mut text = String::new();
    let mut position = 0;
    let mut batches = Batches::new(bytes);
    for batch in batches.by_ref() {
        let batch = batch.with_context(|| format!("at {position}"))?;
        batch_line(&mut text, &batch, position)?;
        let body = batch.body(BUDGET_BYTES)?;
        for record in batch.records(&body) {
            record_line(&mut text, &batch, &record?)?;
        }
        position += batch.bytes.len();
    }
    anyhow::ensure!(
        batches.rest().is_empty(),
        "{} bytes behind the last batch",
        batches.rest().len()
    );
    Ok(text)
}

fn batch_line(text: &mut String, batch: &Batch, position: usize) -> Result<()> {
    let header = &batch.header;
    let attributes = header.attributes;
    let last_sequence = match header.base_sequence {
        -1 => -1,
        base => base.wrapping_add(header.last_offset_delta) & i32::MAX,
    };
    write!(
        text,
        "baseOffset: {} lastOffset: {} ",
        header.base_offset,
        header.last_offset()
    )?;
    write!(
        text,
        "count: {} baseSequence: {} ",
        header.record_count, header.base_sequence
    )?;
    write!(
        text,
        "lastSequence: {last_sequence} producerId: {} ",
        header.producer_id
    )?;
    write!(text, "producerEpoch: {} ", header.producer_epoch)?;
    write!(text, "partitionLeaderEpoch: {} ", header.partition_leader_epoch)?;
    write!(text, "isTransactional: {} ", attributes.is_transactional())?;
    write!(text, "isControl: {} ", attributes.is_control())?;
    if attributes.has_delete_horizon() {
        write!(text, "deleteHorizonMs: OptionalLong[{}] ", header.base_timestamp)?;
    } else {
        write!(text, "deleteHorizonMs: OptionalLong.empty ")?;
    }
    write!(
        text,
        "position: {position} {}: {} ",
        stamp(batch),
        header.max_timestamp
    )?;
    write!(text, "size: {} magic: 2 ", batch.bytes.len())?;
    write!(text, "compresscodec: {} ", attributes.codec().context("a codec")?)?;
    writeln!(text, "crc: {} isvalid: {}", header.crc, batch.check().is_ok())?;
    Ok(())
}

fn stamp(batch: &Batch) -> &'static str {
    match batch.header.attributes.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

fn record_line(text: &mut String, batch: &Batch, record: &Record<'_>) -> Result<()> {
    let header = &batch.header;
    let time = match header.attributes.timestamp_type() {
        TimestampType::CreateTime => header.base_timestamp + record.timestamp_delta,
        TimestampType::LogAppendTime => header.max_timestamp,
    };
    let sequence = match header.base_sequence {
        -1 => -1,
        base => base.wrapping_add(record.offset_delta) & i32::MAX,
    };
    let size = |part: Option<&[u8]>| part.map_or("-1".to_owned(), |bytes| bytes.len().to_string());
    write!(
        text,
        "| offset: {} ",
        header.base_offset + i64::from(record.offset_delta)
    )?;
    write!(text, "{}: {time} keySize: {} ", stamp(batch), size(record.key))?;
    write!(text, "valueSize: {} sequence: {sequence} ", size(record.value))?;
    let names: Vec<_> = record
        .headers
        .map(|header| String::from_utf8_lossy(header.key).into_owned())
        .collect();
    write!(text, "headerKeys: [{}]", names.join(","))?;
    for (name, part) in [("key", record.key), ("payload", record.value)] {
        if let Some(bytes) = part {
            write!(text, " {name}: {}", String::from_utf8_lossy(bytes))?;
        }
    }
    text.push('\n');
    Ok(())
}
