//! Cutting a log at either end, and what goes with it.

#![allow(clippy::unwrap_used)]

mod support;

use host::{Disk, WallMs};
use partition_log::{
    AppendOutcome, CleanupPolicy, EpochEnd, FirstBatch, LeaderEpoch, LogConfig, Offset, Opening, ReadError,
    RetentionRule, SyncNeed,
};
use support::*;

fn small() -> LogConfig {
    LogConfig {
        segment_bytes: 1_000,
        index_interval_bytes: 100,
        retention_ms: None,
        ..LogConfig::default()
    }
}

#[test]
fn a_truncated_log_is_as_if_it_had_never_been_longer() {
    for end in [0, 3, 27, 30, 57, 60] {
        let (_disk, mut short) = fresh(small());
        let (disk, mut long) = fresh(small());
        for n in 0..20 {
            let batch = sequenced(9, 0, n * 3, 3);
            if n * 3 < end {
                append(&mut short, &batch);
            }
            append(&mut long, &batch);
        }
        long.truncate_to(Offset(end.into())).unwrap();
        assert_eq!(long.bounds(), short.bounds(), "{end}");
        for log in [&mut short, &mut long] {
            append(log, &sequenced(9, 0, end, 3));
            append(log, &values(40));
        }
        assert_eq!(
            read_all(&long.view(), Offset::ZERO),
            read_all(&short.view(), Offset::ZERO),
            "{end}"
        );
        let (found, report) = reopen(&disk, small(), recovering(0));
        assert_eq!((found.log_end(), report.tail_cut), (long.log_end(), None));
    }
}

#[test]
fn an_end_inside_a_batch_takes_the_whole_batch() {
    let (_disk, mut log) = fresh(small());
    append(&mut log, &values(3));
    append(&mut log, &values(3));
    log.truncate_to(Offset(4)).unwrap();
    assert_eq!(log.log_end(), Offset(3));
}

#[test]
fn truncation_takes_epochs_watermark_and_recovery_point_back() {
    let (_disk, mut log) = fresh(small());
    for epoch in 0..4 {
        log.append_as_leader(&values(5), by_leader(epoch)).unwrap();
    }
    publish_all(&mut log);
    sync(&mut log);
    log.truncate_to(Offset(10)).unwrap();

    assert_eq!(log.latest_epoch(), Some(LeaderEpoch(1)));
    assert_eq!(log.recovery_point(), Offset(10));
    let bounds = log.view().bounds();
    assert_eq!(
        (bounds.high_watermark, bounds.last_stable, bounds.log_end),
        (Offset(10), Offset(10), Offset(10))
    );
    let end = |epoch| log.view().end_offset_for_epoch(LeaderEpoch(epoch));
    assert_eq!(
        end(0),
        EpochEnd::At {
            epoch: LeaderEpoch(0),
            end: Offset(5)
        }
    );
    assert_eq!(
        end(1),
        EpochEnd::At {
            epoch: LeaderEpoch(1),
            end: Offset(10)
        }
    );
    assert_eq!(end(2), EpochEnd::Undefined);
}

/// A replica led in an epoch without writing anything, and was deposed. Its next leader has never heard of that epoch and
/// answers every fetch with the same divergence, at the log end: the epoch has to go, or this repeats for ever.
#[test]
fn an_epoch_in_which_nothing_was_written_goes_with_a_truncation_to_the_log_end() {
    let (_disk, mut log) = fresh(small());
    log.append_as_leader(&values(5), by_leader(0)).unwrap();
    log.begin_epoch(LeaderEpoch(1));
    publish_all(&mut log);
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch(1)));

    log.truncate_to(Offset(5)).unwrap();

    assert_eq!(log.log_end(), Offset(5));
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch(0)));
    assert_eq!(
        log.view().end_offset_for_epoch(LeaderEpoch(1)),
        EpochEnd::Undefined
    );
}

#[test]
fn truncation_takes_producers_back() {
    let (_disk, mut log) = fresh(small());
    for n in 0..30 {
        append(&mut log, &sequenced(9, 0, n, 1));
    }
    log.truncate_to(Offset(17)).unwrap();
    refusal(log.append_as_leader(&sequenced(9, 0, 18, 1), by_leader(0)));
    assert_eq!(append(&mut log, &sequenced(9, 0, 17, 1)).first, Offset(17));
}

/// A broker that starts may lead thousands of logs in one moment, most of them without a record to come.
#[test]
fn a_new_leader_knows_its_epoch_at_once_and_writes_it_with_the_first_record() {
    let (disk, mut log) = fresh(small());
    append(&mut log, &values(5));
    let written = || {
        let text = disk.read_file(&dir().join("leader-epoch-checkpoint"), 100);
        String::from_utf8(text.unwrap()).unwrap()
    };
    log.begin_epoch(LeaderEpoch(7));
    log.begin_epoch(LeaderEpoch(6));

    let end = EpochEnd::At {
        epoch: LeaderEpoch(7),
        end: Offset(5),
    };
    assert_eq!(log.view().end_offset_for_epoch(LeaderEpoch(7)), end);
    assert_eq!(written(), "0\n1\n0 0\n");

    log.append_as_leader(&values(1), by_leader(7)).unwrap();
    assert_eq!(written(), "0\n2\n0 0\n7 5\n");
}

#[test]
fn a_restart_forgets_an_epoch_in_which_nothing_was_written() {
    let (disk, mut log) = fresh(small());
    append(&mut log, &values(5));
    log.begin_epoch(LeaderEpoch(7));

    let (log, _) = reopen(&disk, small(), recovering(0));
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch(0)));
}

#[test]
fn restarting_elsewhere_leaves_nothing_behind() {
    let (disk, mut log) = fresh(small());
    for n in 0..30 {
        append(&mut log, &sequenced(9, 0, n, 1));
    }
    log.restart_at(Offset(1_000)).unwrap();

    let bounds = log.view().bounds();
    assert_eq!(
        (bounds.log_start, bounds.high_watermark, bounds.log_end),
        (Offset(1_000), Offset(1_000), Offset(1_000))
    );
    assert_eq!(log.latest_epoch(), None);
    assert_eq!(files(&disk, ".log"), ["00000000000000001000.log"]);
    assert_eq!(files(&disk, ".snapshot"), Vec::<String>::new());
    assert_eq!(append(&mut log, &sequenced(9, 0, 5, 1)).first, Offset(1_000));
}

#[test]
fn the_log_start_only_rises_and_need_not_be_a_boundary() {
    let (_disk, mut log) = fresh(small());
    for _ in 0..10 {
        append(&mut log, &values(3));
    }
    log.publish(Offset(20), Offset(20));
    assert_eq!(log.raise_log_start(Offset(7)).unwrap(), Offset(7));
    assert_eq!(log.raise_log_start(Offset(5)).unwrap(), Offset(7));
    assert!(matches!(
        log.raise_log_start(Offset(21)),
        Err(ReadError::OffsetOutOfRange { .. })
    ));

    let view = log.view();
    assert!(view.read(Offset(6), Offset(30), 100, FirstBatch::Whole).is_err());
    let slice = view
        .read(Offset(7), Offset(30), 100, FirstBatch::Whole)
        .unwrap()
        .unwrap();
    assert_eq!(slice.base_offset, Offset(6));
}

#[test]
fn segments_below_the_log_start_go_and_readers_keep_what_they_hold() {
    let (disk, mut log) = fresh(LogConfig {
        cleanup: CleanupPolicy::Compact,
        ..small()
    });
    for n in 0..30 {
        let mut builder = wire::batch::BatchBuilder::new(wire::codec::Codec::None);
        builder.append(NOW.0 + n, Some(b"k"), Some(&[b'x'; 60]), &[]);
        append(&mut log, &parsed(builder));
    }
    let view = log.view();
    let held = view
        .read(Offset(0), Offset(30), 10_000, FirstBatch::Whole)
        .unwrap()
        .unwrap();
    let before = held.read().unwrap();
    log.raise_log_start(Offset(17)).unwrap();
    let deleted = log.delete_old_segments(NOW).unwrap();

    assert!(!deleted.is_empty() && deleted.iter().all(|gone| gone.rule == RetentionRule::LogStart));
    assert_eq!(held.read().unwrap(), before);
    assert!(
        deleted
            .iter()
            .flat_map(|gone| &gone.paths)
            .all(|path| disk.exists(path).unwrap())
    );
    assert!(
        files(&disk, ".log")[0]
            .trim_end_matches(".log")
            .parse::<i64>()
            .unwrap()
            <= 17
    );
    let opening = Opening {
        log_start: Offset(17),
        ..recovering(0)
    };
    let (log, _) = reopen(&disk, small(), opening);
    assert_eq!((log.log_start(), log.log_end()), (Offset(17), Offset(30)));
    assert_eq!(files(&disk, ".deleted"), Vec::<String>::new());
}

#[test]
fn retention_by_size_keeps_at_least_the_limit_and_never_passes_the_watermark() {
    let (_disk, mut log) = fresh(LogConfig {
        retention_bytes: Some(2_500),
        ..small()
    });
    for _ in 0..40 {
        append(&mut log, &sized(1, 100));
    }
    let size = log.view().size_bytes();
    log.publish(Offset(12), Offset(12));
    let first: Vec<_> = log
        .delete_old_segments(NOW)
        .unwrap()
        .iter()
        .map(|gone| gone.rule)
        .collect();
    assert_eq!(first, [RetentionRule::Size, RetentionRule::Size]);
    assert_eq!(log.log_start(), Offset(10));

    publish_all(&mut log);
    log.delete_old_segments(NOW).unwrap();
    let kept = log.view().size_bytes();
    assert!((2_500..3_500).contains(&kept), "{kept} of {size}");
}

#[test]
fn retention_by_age_may_take_everything() {
    let (disk, mut log) = fresh(LogConfig {
        retention_ms: Some(1_000),
        ..small()
    });
    for n in 0..20 {
        append(&mut log, &at_time(NOW.0 + n));
    }
    assert_eq!(log.delete_old_segments(WallMs(NOW.0 + 1_000)).unwrap(), []);
    let deleted = log.delete_old_segments(WallMs(NOW.0 + 1_020)).unwrap();

    assert!(deleted.iter().all(|gone| gone.rule == RetentionRule::Age));
    assert_eq!((log.log_start(), log.log_end()), (Offset(20), Offset(20)));
    assert_eq!(files(&disk, ".log"), ["00000000000000000020.log"]);
    assert_eq!(log.delete_old_segments(WallMs(i64::MAX)).unwrap(), []);
    assert_eq!(append(&mut log, &at_time(NOW.0)).first, Offset(20));
}

/// Who has no room deletes records to make some: that must not need room itself.
#[test]
fn a_full_disk_does_not_keep_records_from_being_deleted() {
    let config = LogConfig {
        retention_ms: Some(1_000),
        ..small()
    };
    let (disk, mut log) = fresh(config.clone());
    for n in 0..40 {
        let epoch = i32::try_from(n).unwrap() / 5;
        log.append_as_leader(&at_time(NOW.0 + n), by_leader(epoch))
            .unwrap();
    }
    publish_all(&mut log);
    disk.set_capacity(Some(0));

    assert_eq!(log.raise_log_start(Offset(12)).unwrap(), Offset(12));
    let deleted = log.delete_old_segments(WallMs(NOW.0 + 1_040)).unwrap();
    let kept = files(&disk, ".log");
    assert_eq!(
        kept.len(),
        1,
        "all but the last, which needs a next one: {kept:?}"
    );
    assert!(!deleted.is_empty());

    disk.set_capacity(None);
    log.append_as_leader(&values(1), by_leader(7)).unwrap();
    let (end, shown) = (log.log_end(), log.view().epochs());
    let opening = Opening {
        log_start: log.log_start(),
        ..recovering(0)
    };
    drop(log);
    let (log, report) = reopen(&disk, config, opening);
    assert_eq!((log.log_end(), report.tail_cut), (end, None));
    assert_eq!(log.view().epochs(), shown);
}

/// A follower cut its log on a full disk, where the indexes and the epochs had no room. What was cut off was gone, yet its
/// producer counted as one that had written it: leading, the replica acknowledged the repeated batch, and had it nowhere.
#[test]
fn what_a_full_disk_has_cut_off_is_forgotten_with_its_producer() {
    let config = small();
    for end in 0..30 {
        let (disk, mut log) = fresh(config.clone());
        let batches: Vec<_> = (0..30).map(|n| sequenced(9, 0, n, 1)).collect();
        for (n, batch) in batches.iter().enumerate() {
            log.append_as_leader(batch, by_leader(n as i32 / 5)).unwrap();
        }
        disk.set_capacity(Some(0));

        assert_eq!(log.truncate_to(Offset(end)).unwrap(), SyncNeed::BeforeAnswer);

        assert_eq!(log.log_end(), Offset(end));
        let kept = log.view().epochs();
        assert!(
            kept.entries().iter().all(|entry| entry.start < Offset(end)),
            "{kept:?}"
        );
        disk.set_capacity(None);
        for (n, batch) in batches.iter().enumerate().skip(end as usize) {
            let appended = log.append_as_leader(batch, by_leader(6)).unwrap();
            assert_eq!(
                (appended.outcome, appended.first),
                (AppendOutcome::Written, Offset(n as i64)),
                "cut to {end}"
            );
        }
        publish_all(&mut log);
        let (before, shown) = (read_all(&log.view(), Offset::ZERO), log.view().epochs());
        drop(log);
        let (log, report) = reopen(&disk, config.clone(), recovering(0));
        assert_eq!(report.tail_cut, None, "cut to {end}");
        assert!(read_all(&log.view(), Offset::ZERO) == before, "cut to {end}");
        assert_eq!(log.view().epochs(), shown, "cut to {end}");
    }
}
