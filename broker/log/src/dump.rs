//! A segment file as text, for people: the batches, their records, their contents.
//!
//! The lines are those of Kafka's own dump tool, so that the two can be compared. Must not: need a log, an index or the
//! file's neighbours.

use std::io::{self, Write};
use std::path::Path;

use host::{Disk, OpenHow};
use wire::batch::{Batch, Record, TimestampType};
use wire::codec::Codec;

use crate::producers::advance;
use crate::scan::{ReadAhead, ScanStop, Scanner};
use crate::segment::parse_file_name;
use crate::validate::time_of;

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// One line per batch.
    Batches,
    /// And one per record.
    Records,
    /// With keys and values, as text.
    Contents,
}

/// What was found on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpSummary {
    /// Whole batches.
    pub batches: u64,
    /// Records in them, as far as they could be read.
    pub records: u64,
    /// Batches whose checksum does not fit, or whose records cannot be read.
    pub bad_batches: u64,
    /// Bytes behind the last whole batch.
    pub trailing_bytes: u64,
}

/// What a segment ends with that is no whole batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// How many bytes.
    pub bytes: u64,
    /// What is wrong with them.
    pub what: String,
}

/// Shows every whole batch of a segment file with its position, in order; gives what stands behind the last one.
///
/// # Errors
/// The disk's, and those of `show`.
pub fn each_batch(
    disk: &dyn Disk,
    path: &Path,
    show: &mut dyn FnMut(u64, &Batch) -> io::Result<()>,
) -> io::Result<Option<Damage>> {
    let file = disk.open(path, OpenHow::Read)?;
    let size = file.len()?;
    let mut scanner = Scanner::new(file, path.to_owned(), 0, size, ReadAhead::Much);
    loop {
        match scanner.next_batch() {
            Ok(None) => return Ok(None),
            Ok(Some((position, batch))) => show(position, &batch)?,
            Err(ScanStop::Bad { position, what, .. }) => {
                let what = what.to_string();
                return Ok(Some(Damage {
                    bytes: size - position,
                    what,
                }));
            }
            Err(ScanStop::Fault(fault)) => return Err(io::Error::other(fault)),
        }
    }
}

/// Writes a segment file as text.
///
/// # Errors
/// The disk's, and those of `out`. Damage is told in the text and in the summary.
pub fn dump_segment(
    disk: &dyn Disk,
    path: &Path,
    detail: Detail,
    out: &mut dyn Write,
) -> io::Result<DumpSummary> {
    // Before anything is written: a file that is not there has no heading.
    disk.open(path, OpenHow::Read)?;
    writeln!(out, "Dumping {}", path.display())?;
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if let Some(base) = parse_file_name(name, ".log") {
        writeln!(out, "Log starting offset: {base}")?;
    }
    let mut summary = DumpSummary::default();
    let ended = each_batch(disk, path, &mut |position, batch| {
        summary.batches += 1;
        write_batch(batch, position, detail, out, &mut summary)
    })?;
    if let Some(Damage { bytes, what }) = ended {
        summary.trailing_bytes = bytes;
        writeln!(out, "Found {bytes} invalid bytes at the end of {name}: {what}")?;
    }
    Ok(summary)
}

fn write_batch(
    batch: &Batch,
    position: u64,
    detail: Detail,
    out: &mut dyn Write,
    summary: &mut DumpSummary,
) -> io::Result<()> {
    let header = &batch.header;
    let intact = batch.check().is_ok();
    let last_sequence = sequence_of(batch, header.last_offset_delta);
    let horizon = match header.attributes.has_delete_horizon() {
        true => format!("OptionalLong[{}]", header.base_timestamp),
        false => "OptionalLong.empty".to_owned(),
    };
    writeln!(
        out,
        "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {last_sequence} producerId: {} \
         producerEpoch: {} partitionLeaderEpoch: {} isTransactional: {} isControl: {} deleteHorizonMs: {horizon} \
         position: {position} {}: {} size: {} magic: 2 compresscodec: {} crc: {} isvalid: {intact}",
        header.base_offset,
        header.last_offset(),
        header.record_count,
        header.base_sequence,
        header.producer_id,
        header.producer_epoch,
        header.partition_leader_epoch,
        header.attributes.is_transactional(),
        header.attributes.is_control(),
        time_name(batch),
        header.max_timestamp,
        header.size(),
        header.attributes.codec().map_or("unknown", Codec::name),
        header.crc,
    )?;
    let readable = match detail {
        Detail::Batches => true,
        Detail::Records | Detail::Contents => write_records(batch, detail, out, summary)?,
    };
    if !intact || !readable {
        summary.bad_batches += 1;
    }
    Ok(())
}

/// Whether all of them could be read.
fn write_records(
    batch: &Batch,
    detail: Detail,
    out: &mut dyn Write,
    summary: &mut DumpSummary,
) -> io::Result<bool> {
    let body = match batch.body(BODY_BYTES_MAX) {
        Ok(body) => body,
        Err(e) => {
            writeln!(out, "| cannot be decompressed: {e}")?;
            return Ok(false);
        }
    };
    for record in batch.records(&body) {
        match record {
            Ok(record) => write_record(batch, &record, detail, out)?,
            Err(e) => {
                writeln!(out, "| cannot be read: {e}")?;
                return Ok(false);
            }
        }
        summary.records += 1;
    }
    Ok(true)
}

fn write_record(batch: &Batch, record: &Record<'_>, detail: Detail, out: &mut dyn Write) -> io::Result<()> {
    let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
    let header_keys: Vec<_> = record
        .headers
        .map(|header| String::from_utf8_lossy(header.key))
        .collect();
    write!(
        out,
        "| offset: {} {}: {} keySize: {} valueSize: {} sequence: {} headerKeys: [{}]",
        batch
            .header
            .base_offset
            .wrapping_add(i64::from(record.offset_delta)),
        time_name(batch),
        time_of(&batch.header, record),
        size(record.key),
        size(record.value),
        sequence_of(batch, record.offset_delta),
        header_keys.join(","),
    )?;
    if batch.header.attributes.is_control() {
        write_marker(record, out)?;
    } else if detail == Detail::Contents {
        if let Some(key) = record.key {
            write!(out, " key: {}", String::from_utf8_lossy(key))?;
        }
        if let Some(value) = record.value {
            write!(out, " payload: {}", String::from_utf8_lossy(value))?;
        }
    }
    writeln!(out)
}

fn write_marker(record: &Record<'_>, out: &mut dyn Write) -> io::Result<()> {
    let kind = record
        .key
        .and_then(|key| key.get(2..)?.first_chunk())
        .map(|kind| i16::from_be_bytes(*kind));
    let epoch = record
        .value
        .and_then(|value| value.get(2..)?.first_chunk())
        .map(|e| i32::from_be_bytes(*e));
    match (kind, epoch) {
        (Some(0), Some(epoch)) => write!(out, " endTxnMarker: ABORT coordinatorEpoch: {epoch}"),
        (Some(1), Some(epoch)) => write!(out, " endTxnMarker: COMMIT coordinatorEpoch: {epoch}"),
        (Some(other), _) => write!(out, " controlType: {other}"),
        (None, _) => write!(out, " controlType: unreadable"),
    }
}

fn sequence_of(batch: &Batch, delta: i32) -> i32 {
    match batch.header.base_sequence {
        none if none < 0 => -1,
        base => advance(base, delta),
    }
}

fn time_name(batch: &Batch) -> &'static str {
    match batch.header.attributes.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

/// Far above any batch that a log accepts.
const BODY_BYTES_MAX: usize = 1024 * 1024 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use host::SimDisk;
    use wire::batch::BatchBuilder;

    #[test]
    fn a_segment_reads_as_in_kafkas_tool() {
        let mut builder = BatchBuilder::new(Codec::Gzip).base_offset(5).leader_epoch(3);
        builder.append(
            1_000,
            Some(b"k"),
            Some(b"v1"),
            &[(b"a", None), (b"b", Some(b"x"))],
        );
        builder.append(1_007, None, None, &[]);
        let bytes = builder.build();
        let disk = SimDisk::new();
        let path = Path::new("/00000000000000000005.log");
        let file = disk.open(path, OpenHow::CreateNew).unwrap();
        file.write_at(&bytes, 0).unwrap();
        file.append(b"torn").unwrap();
        let mut text = Vec::new();
        let summary = dump_segment(&disk, path, Detail::Contents, &mut text).unwrap();

        let crc = Batch::parse(&bytes).unwrap().header.crc;
        let size = bytes.len();
        let expected = format!(
            "Dumping /00000000000000000005.log\n\
             Log starting offset: 5\n\
             baseOffset: 5 lastOffset: 6 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 \
             partitionLeaderEpoch: 3 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty \
             position: 0 CreateTime: 1007 size: {size} magic: 2 compresscodec: gzip crc: {crc} isvalid: true\n\
             | offset: 5 CreateTime: 1000 keySize: 1 valueSize: 2 sequence: -1 headerKeys: [a,b] key: k payload: v1\n\
             | offset: 6 CreateTime: 1007 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []\n\
             Found 4 invalid bytes at the end of 00000000000000000005.log: 4 bytes are less than a batch's header\n"
        );
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(
            summary,
            DumpSummary {
                batches: 1,
                records: 2,
                bad_batches: 0,
                trailing_bytes: 4
            }
        );
    }
}
