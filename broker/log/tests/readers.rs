//! Readers on other threads while the owner appends, rolls, cuts and deletes; and idle logs.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use host::{Disk, OsDisk, SyncFault};
use partition_log::{FirstBatch, Log, LogConfig, LogFault, Offset, ReadError, ReadView};
use support::*;
use wire::batch::Batches;

/// The first value of a batch is its base offset, so that a reader can tell whether it got what was written there.
fn numbered(offset: i64) -> wire::batch::Batch {
    let mut builder = wire::batch::BatchBuilder::new(wire::codec::Codec::None);
    for n in 0..3 {
        builder.append(NOW.0 + offset + n, None, Some(&(offset + n).to_be_bytes()), &[]);
    }
    parsed(builder)
}

fn check_numbers(bytes: Vec<u8>) -> u64 {
    let mut seen = 0;
    for batch in Batches::new(Bytes::from(bytes)) {
        let batch = batch.unwrap();
        batch.check().unwrap();
        let body = batch.body(1 << 20).unwrap();
        for record in batch.records(&body) {
            let record = record.unwrap();
            let offset = batch.header.base_offset + i64::from(record.offset_delta);
            assert_eq!(record.value.unwrap(), offset.to_be_bytes());
            seen += 1;
        }
    }
    seen
}

/// Reads at a place that `step` chooses, and looks a time up there; how many records came.
fn read_somewhere(view: &ReadView, step: i64) -> u64 {
    let bounds = view.bounds();
    let width = bounds.high_watermark.0 - bounds.log_start.0;
    let from = Offset(bounds.log_start.0 + step * 7 % width.max(1));
    let time = view
        .offset_for_timestamp(NOW.0 + from.0, bounds.high_watermark)
        .unwrap();
    assert!(time.is_none_or(|found| found.timestamp == NOW.0 + found.offset.0));
    match view.read(from, bounds.high_watermark, 2_000, FirstBatch::Whole) {
        Ok(None) | Err(ReadError::OffsetOutOfRange { .. }) => 0,
        Ok(Some(slice)) => check_numbers(slice.read().unwrap()),
        Err(e) => panic!("{e}"),
    }
}

/// One append, and now and then a cut of what is not committed, a deletion, a release or a commit.
fn move_on(log: &mut Log, round: i64) {
    log.append_as_leader(&numbered(log.log_end().0), by_leader(0))
        .unwrap();
    match round % 50 {
        10 => drop(log.truncate_to(log.bounds().high_watermark).unwrap()),
        20 => {
            for path in log
                .delete_old_segments(NOW)
                .unwrap()
                .into_iter()
                .flat_map(|gone| gone.paths)
            {
                OsDisk.remove_file(&path).unwrap();
            }
        }
        30 => log.release_idle().unwrap(),
        n if n % 3 == 0 => publish_all(log),
        _ => {}
    }
}

#[test]
fn readers_see_only_whole_batches_at_their_offsets_while_everything_moves() {
    let home = tempfile::tempdir().unwrap();
    let config = LogConfig {
        segment_bytes: 4_000,
        index_interval_bytes: 300,
        retention_bytes: Some(20_000),
        retention_ms: None,
        ..LogConfig::default()
    };
    let mut log = Log::create(
        &host_on(OsDisk),
        &home.path().join("orders-0"),
        config,
        TOPIC,
        NOW,
    )
    .unwrap();
    append(&mut log, &numbered(0));
    let view = log.view();
    let done = AtomicBool::new(false);
    let records = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (view, done, records) = (view.clone(), &done, &records);
            scope.spawn(move || {
                let mut step = reader;
                while !done.load(Ordering::Relaxed) {
                    records.fetch_add(read_somewhere(&view, step), Ordering::Relaxed);
                    step += 1;
                }
            });
        }
        for round in 0..4_000 {
            move_on(&mut log, round);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(
        1_000 < records.load(Ordering::Relaxed),
        "the readers had something to check"
    );
}

#[test]
fn an_idle_log_holds_no_file_after_opening_or_release() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("orders-0");
    let held = || {
        let names = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = names.filter_map(|name| std::fs::read_link(name.ok()?.path()).ok());
        targets.filter(|target| target.starts_with(&path)).count()
    };
    let mut log = Log::create(&host_on(OsDisk), &path, LogConfig::default(), TOPIC, NOW).unwrap();
    for _ in 0..100 {
        append(&mut log, &sized(3, 100));
    }
    assert!(0 < held());
    log.release_idle().unwrap();
    assert_eq!(held(), 0);
    let job = log.close().unwrap().unwrap();
    log.synced(job.run().unwrap());
    drop(log);
    let (mut log, _) = Log::open(&host_on(OsDisk), &path, LogConfig::default(), clean(), NOW).unwrap();
    assert_eq!(held(), 0);
    assert!(
        log.close().unwrap().is_none(),
        "nothing happened, so nothing has to be synced"
    );
}

#[test]
fn a_failed_sync_is_an_error_and_moves_nothing() {
    let (disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &values(3));
    disk.fail_next_sync(SyncFault::Fails);
    let job = log.sync_job().unwrap().unwrap();
    assert!(matches!(job.run(), Err(LogFault::Io { .. })));
    assert_eq!(log.recovery_point(), Offset(0));
}

#[test]
fn a_sync_of_records_alone_syncs_one_file() {
    let (disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &values(3));
    sync(&mut log);
    let (_, before) = disk.writes_and_syncs();
    append(&mut log, &values(3));
    sync(&mut log);
    assert_eq!(disk.writes_and_syncs().1 - before, 1);
    assert_eq!(log.recovery_point(), Offset(6));
}

#[test]
fn a_job_survives_the_deletion_of_its_partition() {
    let (disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &values(3));
    let job = log.sync_job().unwrap().unwrap();
    disk.rename(&dir(), std::path::Path::new("/logs/orders-0.x-delete"))
        .unwrap();
    let _synced = job.run().unwrap();
}
