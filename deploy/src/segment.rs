//! `millrace log dump`: what stands in segment files, without a broker. Reads, and changes nothing.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use host::OsDisk;
use partition_log::dump::{Damage, Detail, DumpSummary, dump_segment, each_batch};
use serde_json::{Value, json};
use wire::batch::{Batch, Record, TimestampType};
use wire::codec::Codec;

use crate::args::{DumpArgs, DumpDetail};
use crate::outcome::Failure;
use crate::table::counted;
use crate::terminal::{self, Answers};
use crate::topic::Style;

/// Far above any batch that a log accepts.
const BODY_BYTES_MAX: usize = 1 << 30;

/// Prints segments: lines as Kafka's own tool writes them, or one JSON object for each batch.
///
/// # Errors
/// With exit code 2 where a file is no segment by its name, and nothing is printed; when a file cannot be read, or
/// something in it is damaged, after what could be read was printed.
pub fn run(args: &DumpArgs, style: Style) -> Result<(), Failure> {
    let strange: Vec<String> = args.files.iter().filter_map(|file| not_a_segment(file)).collect();
    if !strange.is_empty() {
        return Err(Failure::Usage(strange));
    }
    let mut damaged = Vec::new();
    for file in &args.files {
        let summary = match style {
            Style::Text => as_text(file, args.detail),
            Style::Json => as_json(file, args.detail),
        };
        // What could not be written is no fault of the file.
        terminal::delivered()?;
        let shown = file.display();
        let summary = summary.map_err(|error| Failure::machine(&shown.to_string(), &error))?;
        if 0 < summary.bad_batches {
            damaged.push(format!(
                "{shown}: damaged batches: {} of {}",
                summary.bad_batches, summary.batches
            ));
        }
        if 0 < summary.trailing_bytes {
            damaged.push(format!(
                "{shown}: {} at the end without a batch",
                counted(summary.trailing_bytes, "byte")
            ));
        }
    }
    match damaged.is_empty() {
        true => Ok(()),
        false => Err(Failure::Refused(damaged.join("\n"))),
    }
}

/// What is wrong with a name. Other files of a log hold no batches: read as if they did, an empty index looks sound and
/// a database damaged.
fn not_a_segment(file: &Path) -> Option<String> {
    const SEGMENTS: [&str; 2] = [".log", ".log.deleted"];
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_segment = SEGMENTS.iter().any(|end| name.ends_with(end));
    (!is_segment).then(|| {
        format!(
            "{}: not a segment; what can be dumped are the files of a partition that end in {}",
            file.display(),
            SEGMENTS.join(" or ")
        )
    })
}

fn as_text(file: &Path, detail: DumpDetail) -> std::io::Result<DumpSummary> {
    let detail = match detail {
        DumpDetail::Batches => Detail::Batches,
        DumpDetail::Records => Detail::Records,
        DumpDetail::Contents => Detail::Contents,
    };
    let mut out = BufWriter::new(Answers);
    let summary = dump_segment(&OsDisk, file, detail, &mut out)?;
    out.flush()?;
    Ok(summary)
}

fn as_json(file: &Path, detail: DumpDetail) -> std::io::Result<DumpSummary> {
    let mut out = BufWriter::new(Answers);
    let mut summary = DumpSummary::default();
    let ended = each_batch(&OsDisk, file, &mut |position, batch| {
        let intact = batch.check().is_ok();
        let mut shown = header(batch, position, intact);
        summary.batches += 1;
        if detail != DumpDetail::Batches {
            let records = records(batch, detail);
            summary.records += records.as_ref().map_or(0, |records| records.len() as u64);
            summary.bad_batches += u64::from(!intact || records.is_err());
            shown["records"] = records.map_or(Value::Null, Value::from);
        } else {
            summary.bad_batches += u64::from(!intact);
        }
        writeln!(out, "{shown}")
    })?;
    if let Some(Damage { bytes, what }) = ended {
        summary.trailing_bytes = bytes;
        writeln!(out, "{}", json!({ "invalid_bytes": bytes, "why": what }))?;
    }
    out.flush()?;
    Ok(summary)
}

fn time_name(batch: &Batch) -> &'static str {
    match batch.header.attributes.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

fn header(batch: &Batch, position: u64, intact: bool) -> Value {
    let header = &batch.header;
    json!({
        "base_offset": header.base_offset,
        "last_offset": header.last_offset(),
        "count": header.record_count,
        "position": position,
        "size": header.size(),
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.attributes.is_transactional(),
        "control": header.attributes.is_control(),
        "timestamp_type": time_name(batch),
        "max_timestamp": header.max_timestamp,
        "codec": header.attributes.codec().map_or("unknown", Codec::name),
        "crc": header.crc,
        "valid": intact,
    })
}

/// The records; an error where they cannot be read.
fn records(batch: &Batch, detail: DumpDetail) -> Result<Vec<Value>, ()> {
    let body = batch.body(BODY_BYTES_MAX).map_err(drop)?;
    let records = batch
        .records(&body)
        .map(|record| record.map(|record| record_json(batch, &record, detail)));
    records.collect::<Result<_, _>>().map_err(drop)
}

fn record_json(batch: &Batch, record: &Record<'_>, detail: DumpDetail) -> Value {
    let size = |bytes: Option<&[u8]>| bytes.map(<[u8]>::len);
    let time = match batch.header.attributes.timestamp_type() {
        TimestampType::CreateTime => batch.header.base_timestamp.wrapping_add(record.timestamp_delta),
        TimestampType::LogAppendTime => batch.header.max_timestamp,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<String> = record.headers.map(|header| text(header.key)).collect();
    let mut shown = json!({
        "offset": batch.header.base_offset.wrapping_add(i64::from(record.offset_delta)),
        "timestamp": time,
        "key_size": size(record.key),
        "value_size": size(record.value),
        "header_keys": headers,
    });
    if detail == DumpDetail::Contents {
        shown["key"] = record.key.map(text).into();
        shown["value"] = record.value.map(text).into();
    }
    shown
}
