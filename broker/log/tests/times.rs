//! Offsets by time (L-47, L-48).

#![allow(clippy::unwrap_used)]

mod support;

use partition_log::{Log, LogConfig, Offset};
use support::*;
use wire::batch::{Batch, BatchBuilder};
use wire::codec::Codec;

fn timed(codec: Codec, times: &[i64]) -> Batch {
    let mut builder = BatchBuilder::new(codec);
    for time in times {
        builder.append(*time, None, Some(b"v"), &[]);
    }
    parsed(builder)
}

fn by_time(log: &Log, time: i64) -> Option<(i64, i64)> {
    let found = log.view().offset_for_timestamp(time, log.log_end()).unwrap();
    found.map(|record| (record.offset.0, record.timestamp))
}

fn newest(log: &Log) -> Option<(i64, i64)> {
    log.view()
        .max_timestamp(log.log_end())
        .unwrap()
        .map(|record| (record.offset.0, record.timestamp))
}

/// BC-070.
#[test]
fn the_first_record_at_or_after_a_time_is_found_within_its_batch() {
    let (_disk, mut log) = fresh(LogConfig::default());
    assert_eq!((by_time(&log, 0), newest(&log)), (None, None));
    append(
        &mut log,
        &timed(Codec::Zstd, &[100, 110, 120, 130, 140, 150, 160, 170, 180, 190]),
    );
    append(&mut log, &timed(Codec::None, &[150, 120]));

    assert_eq!(by_time(&log, 0), Some((0, 100)));
    assert_eq!(by_time(&log, 145), Some((5, 150)));
    assert_eq!(by_time(&log, 150), Some((5, 150)));
    assert_eq!(by_time(&log, 151), Some((6, 160)));
    assert_eq!(by_time(&log, 191), None);
    assert_eq!(newest(&log), Some((9, 190)));
}

#[test]
fn the_answer_lies_within_log_start_and_bound() {
    let (_disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &timed(Codec::None, &[100, 200]));
    append(&mut log, &timed(Codec::None, &[300, 400]));
    log.raise_log_start(Offset(1)).unwrap();

    assert_eq!(by_time(&log, 50), Some((1, 200)));
    let bounded = |time| {
        log.view()
            .offset_for_timestamp(time, Offset(3))
            .unwrap()
            .map(|r| r.offset.0)
    };
    assert_eq!(bounded(300), Some(2));
    assert_eq!(bounded(350), None);
    assert_eq!(log.view().max_timestamp(Offset(3)).unwrap(), None);
}

#[test]
fn times_are_found_across_segments_and_after_a_restart() {
    let config = LogConfig {
        segment_bytes: 400,
        index_interval_bytes: 100,
        ..LogConfig::default()
    };
    let (disk, mut log) = fresh(config.clone());
    // Every third record is late.
    let time = |n: i64| {
        if n % 3 == 2 {
            1_000 + n * 10 - 55
        } else {
            1_000 + n * 10
        }
    };
    for n in 0..60 {
        append(&mut log, &timed(Codec::None, &[time(n)]));
    }
    let expected = |asked: i64| (0..60).map(|n| (n, time(n))).find(|(_, time)| asked <= *time);
    let check = |log: &Log| {
        for asked in 900..1_700 {
            assert_eq!(by_time(log, asked), expected(asked), "{asked}");
        }
        assert_eq!(newest(log), Some((58, 1_580)));
    };
    check(&log);
    log.release_idle().unwrap();
    check(&log);
    drop(log);
    check(&reopen(&disk, config.clone(), recovering(0)).0);
    let (mut log, _) = reopen(&disk, config.clone(), recovering(0));
    let synced = log.close().unwrap().unwrap().run().unwrap();
    log.synced(synced);
    check(&reopen(&disk, config, clean()).0);
}

#[test]
fn without_any_time_the_first_record_is_the_newest() {
    let (_disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &timed(Codec::None, &[-1, -1]));
    append(&mut log, &timed(Codec::None, &[-1]));
    assert_eq!(newest(&log), Some((0, -1)));
    assert_eq!(by_time(&log, 0), None);
}

#[test]
fn a_truncated_log_forgets_the_times_of_what_is_gone() {
    let (_disk, mut log) = fresh(LogConfig {
        index_interval_bytes: 100,
        ..LogConfig::default()
    });
    for n in 0..50 {
        append(&mut log, &timed(Codec::None, &[1_000 + n]));
    }
    log.truncate_to(Offset(23)).unwrap();
    assert_eq!(newest(&log), Some((22, 1_022)));
    assert_eq!(by_time(&log, 1_023), None);
    append(&mut log, &timed(Codec::None, &[500]));
    assert_eq!(newest(&log), Some((22, 1_022)));
}
