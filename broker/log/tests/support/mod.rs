//! Builders for the tests of the log: batches as clients send them, and logs on a disk in memory.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used)]

pub mod sequences;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use host::{Disk, SeededEntropy, SimDisk, WallMs};
use partition_log::{
    AppendError, AppendRefusal, Appended, FirstBatch, LeaderAppend, LeaderEpoch, Log, LogConfig, LogHost,
    Offset, OpenReport, Opening, Origin, ReadView, TopicId,
};
use wire::batch::{Batch, BatchBuilder, Batches, ProducerState};
use wire::codec::Codec;

/// Monday morning, in the tests.
pub const NOW: WallMs = WallMs(1_700_000_000_000);
pub const TOPIC: TopicId = TopicId([7; 16]);

pub fn host_on(disk: impl Disk) -> LogHost {
    LogHost {
        disk: Arc::new(disk),
        entropy: Arc::new(SeededEntropy::new(1)),
    }
}

pub fn dir() -> PathBuf {
    PathBuf::from("/logs/orders-0")
}

/// A disk in memory, and an empty log on it.
pub fn fresh(config: LogConfig) -> (SimDisk, Log) {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/logs")).unwrap();
    let log = Log::create(&host_on(disk.clone()), &dir(), config, TOPIC, NOW).unwrap();
    (disk, log)
}

pub fn recovering(from: i64) -> Opening {
    Opening {
        recover_from: Some(Offset(from)),
        log_start: Offset::ZERO,
        high_watermark: Offset::ZERO,
    }
}

pub fn clean() -> Opening {
    Opening {
        recover_from: None,
        log_start: Offset::ZERO,
        high_watermark: Offset::ZERO,
    }
}

pub fn reopen(disk: &SimDisk, config: LogConfig, opening: Opening) -> (Log, OpenReport) {
    Log::open(&host_on(disk.clone()), &dir(), config, opening, NOW).unwrap()
}

/// Values `v0`, `v1`, … without keys, one millisecond apart from `NOW`.
pub fn values(count: usize) -> Batch {
    sized(count, 2)
}

/// `count` records with values of `size` bytes.
pub fn sized(count: usize, size: usize) -> Batch {
    let mut builder = BatchBuilder::new(Codec::None);
    for n in 0..count {
        builder.append(
            NOW.0 + n as i64,
            None,
            Some(&vec![b'a' + (n % 26) as u8; size]),
            &[],
        );
    }
    parsed(builder)
}

/// One record of that time.
pub fn at_time(timestamp: i64) -> Batch {
    let mut builder = BatchBuilder::new(Codec::None);
    builder.append(timestamp, None, Some(b"v"), &[]);
    parsed(builder)
}

/// `count` records of an idempotent producer.
pub fn sequenced(id: i64, epoch: i16, base_sequence: i32, count: usize) -> Batch {
    let mut builder = BatchBuilder::new(Codec::None).producer(ProducerState {
        id,
        epoch,
        base_sequence,
    });
    for n in 0..count {
        builder.append(NOW.0 + n as i64, None, Some(b"v"), &[]);
    }
    parsed(builder)
}

pub fn parsed(builder: BatchBuilder) -> Batch {
    Batch::parse(&builder.build()).unwrap()
}

pub fn by_leader(epoch: i32) -> LeaderAppend {
    LeaderAppend {
        leader_epoch: LeaderEpoch(epoch),
        now: NOW,
        origin: Origin::Client,
    }
}

pub fn append(log: &mut Log, batch: &Batch) -> Appended {
    let appended = log.append_as_leader(batch, by_leader(0)).unwrap();
    publish_all(log);
    appended
}

/// As if every replica had everything.
pub fn publish_all(log: &mut Log) {
    let end = log.log_end();
    log.publish(end, log.last_stable_below(end));
}

pub fn refusal(result: Result<Appended, AppendError>) -> AppendRefusal {
    match result {
        Err(AppendError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

pub fn sync(log: &mut Log) {
    if let Some(job) = log.sync_job().unwrap() {
        let synced = job.run().unwrap();
        log.synced(synced);
    }
}

/// All bytes from `from` to the end, read slice by slice.
pub fn read_all(view: &ReadView, from: Offset) -> Bytes {
    let (mut at, mut bytes) = (from, Vec::new());
    loop {
        let end = view.bounds().log_end;
        let Some(slice) = view.read(at, end, 64 * 1024, FirstBatch::Whole).unwrap() else {
            break;
        };
        let read = Bytes::from(slice.read().unwrap());
        let mut whole = 0;
        for batch in Batches::new(read.clone()) {
            let batch = batch.unwrap();
            batch.check().unwrap();
            at = Offset(batch.header.last_offset() + 1);
            whole += batch.bytes.len();
        }
        assert!(0 < whole, "a read always makes progress");
        bytes.extend_from_slice(&read[..whole]);
    }
    Bytes::from(bytes)
}

/// The batches from `from` to the end.
pub fn batches(view: &ReadView, from: Offset) -> Vec<Batch> {
    Batches::new(read_all(view, from))
        .map(|batch| batch.unwrap())
        .collect()
}

/// First and last offsets of all batches.
pub fn spans(view: &ReadView) -> Vec<(i64, i64)> {
    batches(view, view.bounds().log_start)
        .iter()
        .map(|b| (b.header.base_offset, b.header.last_offset()))
        .collect()
}

/// The names in the log's directory with this suffix.
pub fn files(disk: &SimDisk, suffix: &str) -> Vec<String> {
    let entries = disk.list(&dir()).unwrap();
    entries
        .into_iter()
        .map(|e| e.name)
        .filter(|name| name.ends_with(suffix))
        .collect()
}
