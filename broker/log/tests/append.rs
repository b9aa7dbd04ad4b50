//! Appending and reading back, as leader and as follower.

#![allow(clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use host::{OsDisk, WallMs};
use partition_log::{
    AppendError, AppendOutcome, AppendRefusal, FirstBatch, LeaderAppend, LeaderEpoch, Log, LogConfig,
    LogFault, Offset, Origin, ReadError, SyncNeed, TimestampKind,
};
use support::*;
use wire::batch::TimestampType;

#[test]
fn a_batch_gets_the_next_offsets_and_the_leaders_epoch_and_keeps_its_bytes() {
    let (_disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &values(3));
    let sent = values(2);
    let appended = log.append_as_leader(&sent, by_leader(4)).unwrap();

    assert_eq!((appended.first, appended.last), (Offset(3), Offset(4)));
    assert_eq!(appended.log_append_time, None);
    assert_eq!(appended.outcome, AppendOutcome::Written);
    let stored = &batches(&log.view(), Offset(3))[0];
    assert_eq!(stored.header.base_offset, 3);
    assert_eq!(stored.header.partition_leader_epoch, 4);
    assert_eq!(stored.bytes[16..], sent.bytes[16..]);
    stored.check().unwrap();
}

#[test]
fn an_append_is_one_write() {
    let (disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &values(1));
    let (before, _) = disk.writes_and_syncs();
    for _ in 0..100 {
        append(&mut log, &sized(10, 100));
    }
    assert_eq!(disk.writes_and_syncs().0 - before, 100);
}

#[test]
fn what_is_appended_is_read_on_a_real_disk() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("orders-0");
    let config = LogConfig {
        segment_bytes: 4_000,
        ..LogConfig::default()
    };
    let mut log = Log::create(&host_on(OsDisk), &path, config.clone(), TOPIC, NOW).unwrap();
    let sent: Vec<_> = (1..40).map(|n| sized(n % 7 + 1, 50)).collect();
    for batch in &sent {
        append(&mut log, batch);
    }
    let payloads = |log: &Log| {
        let stored = batches(&log.view(), Offset::ZERO);
        stored.iter().map(|b| b.bytes.slice(21..)).collect::<Vec<_>>()
    };
    let expected: Vec<_> = sent.iter().map(|b| b.bytes.slice(21..)).collect();
    assert_eq!(payloads(&log), expected);

    let job = log.close().unwrap().unwrap();
    log.synced(job.run().unwrap());
    let end = log.log_end();
    drop(log);
    let (log, report) = Log::open(&host_on(OsDisk), &path, config, clean(), NOW).unwrap();
    assert_eq!((log.log_end(), report.scanned_bytes), (end, 0));
    assert_eq!(log.topic(), Some(TOPIC));
    assert_eq!(payloads(&log), expected);
}

#[test]
fn log_append_time_is_the_brokers_and_stands_in_the_answer() {
    let config = LogConfig {
        timestamp_kind: TimestampKind::LogAppendTime,
        ..LogConfig::default()
    };
    let (_disk, mut log) = fresh(config);
    let later = LeaderAppend {
        now: WallMs(NOW.0 + 5_000),
        ..by_leader(0)
    };
    let sent = values(3);
    let appended = log.append_as_leader(&sent, later).unwrap();

    assert_eq!(appended.log_append_time, Some(later.now));
    let stored = &batches(&log.view(), Offset::ZERO)[0];
    stored.check().unwrap();
    assert_eq!(
        stored.header.attributes.timestamp_type(),
        TimestampType::LogAppendTime
    );
    assert_eq!(stored.header.max_timestamp, later.now.0);
    assert_eq!(stored.header.base_timestamp, sent.header.base_timestamp);
    assert_eq!(stored.bytes[61..], sent.bytes[61..]);
}

#[test]
fn a_duplicate_answers_with_the_offsets_and_time_of_the_first() {
    let (_disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &values(5));
    append(&mut log, &sequenced(9, 0, 0, 3));
    let end = log.log_end();
    let again = append(&mut log, &sequenced(9, 0, 0, 3));

    assert_eq!(again.outcome, AppendOutcome::Duplicate);
    assert_eq!((again.first, again.last), (Offset(5), Offset(7)));
    assert_eq!(again.log_append_time, Some(WallMs(NOW.0 + 2)));
    assert_eq!(log.log_end(), end);
}

#[test]
fn a_log_knows_a_repeated_batch_before_it_is_appended() {
    let (_disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &sequenced(9, 0, 0, 3));

    assert!(log.repeats(&sequenced(9, 0, 0, 3)));
    assert!(
        !log.repeats(&sequenced(9, 0, 0, 4)),
        "other bounds are another batch"
    );
    assert!(!log.repeats(&sequenced(9, 1, 0, 3)), "another epoch too");
    assert!(!log.repeats(&values(3)));
}

#[test]
fn a_gap_in_the_sequence_is_refused_and_nothing_is_written() {
    let (_disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &sequenced(9, 0, 0, 3));
    let refused = refusal(log.append_as_leader(&sequenced(9, 0, 4, 1), by_leader(0)));

    assert!(matches!(
        refused,
        AppendRefusal::OutOfOrderSequence {
            held: Some(2),
            given: 4,
            ..
        }
    ));
    assert_eq!(log.log_end(), Offset(3));
    append(&mut log, &sequenced(9, 0, 3, 1));
}

#[test]
fn reads_begin_at_the_batch_that_holds_the_offset_and_end_at_the_bound() {
    let (_disk, mut log) = fresh(LogConfig::default());
    let sizes: Vec<_> = (0..200)
        .map(|_| append(&mut log, &sized(3, 40)).size_bytes)
        .collect();
    let view = log.view();
    let read = |from, upto, max| {
        view.read(Offset(from), Offset(upto), max, FirstBatch::Whole)
            .unwrap()
    };

    for from in [0, 1, 2, 3, 4, 100, 301, 599] {
        let slice = read(from, 600, u32::MAX).unwrap();
        assert_eq!(slice.base_offset, Offset(from / 3 * 3));
        assert_eq!(slice.position, (from / 3) as u64 * u64::from(sizes[0]));
    }
    let bounded = read(5, 30, u32::MAX).unwrap();
    assert_eq!(bounded.size_bytes, sizes[0] * 9);
    assert_eq!(read(5, 31, u32::MAX).unwrap().size_bytes, sizes[0] * 9);
    assert!(read(30, 30, u32::MAX).is_none());
    assert!(read(600, 600, u32::MAX).is_none());
    for outside in [-1, 601] {
        let error = view
            .read(Offset(outside), Offset(600), 10, FirstBatch::Whole)
            .unwrap_err();
        assert!(matches!(
            error,
            ReadError::OffsetOutOfRange {
                log_end: Offset(600),
                ..
            }
        ));
    }
}

#[test]
fn the_first_batch_comes_whole_or_not_at_all() {
    let (_disk, mut log) = fresh(LogConfig::default());
    let size = append(&mut log, &sized(3, 400)).size_bytes;
    append(&mut log, &sized(3, 400));
    let view = log.view();
    let read = |max, first| {
        view.read(Offset(0), Offset(6), max, first)
            .unwrap()
            .map(|slice| slice.size_bytes)
    };

    assert_eq!(read(1, FirstBatch::Whole), Some(size));
    assert_eq!(read(1, FirstBatch::WithinLimit), None);
    assert_eq!(read(size + 7, FirstBatch::WithinLimit), Some(size + 7));
    assert_eq!(read(u32::MAX, FirstBatch::WithinLimit), Some(2 * size));
}

#[test]
fn a_follower_keeps_offsets_and_epochs() {
    let (_disk, mut leader) = fresh(LogConfig::default());
    append(&mut leader, &values(3));
    leader.begin_epoch(LeaderEpoch(2));
    leader.append_as_leader(&values(2), by_leader(2)).unwrap();
    let fetched = read_all(&leader.view(), Offset::ZERO);
    let (_disk, mut follower) = fresh(LogConfig::default());
    let cut = fetched.slice(..fetched.len() - 1);
    let appended = follower.append_as_follower(&cut, LeaderEpoch(2), NOW).unwrap();
    assert_eq!(appended.log_end, Offset(3));
    let rest = read_all(&leader.view(), Offset(3));
    follower.append_as_follower(&rest, LeaderEpoch(2), NOW).unwrap();

    assert_eq!(read_all(&follower.view(), Offset::ZERO), fetched);
    assert_eq!(follower.view().epochs(), leader.view().epochs());
}

#[test]
fn a_follower_refuses_damage_gaps_back_and_leaves_newer_epochs_out() {
    let (_disk, mut leader) = fresh(LogConfig::default());
    append(&mut leader, &values(3));
    leader.append_as_leader(&values(2), by_leader(5)).unwrap();
    let fetched = read_all(&leader.view(), Offset::ZERO);
    let (_disk, mut follower) = fresh(LogConfig::default());

    let mut damaged = fetched.to_vec();
    damaged[80] ^= 1;
    let refused = follower
        .append_as_follower(&Bytes::from(damaged), LeaderEpoch(5), NOW)
        .unwrap_err();
    assert!(matches!(
        refused,
        AppendError::Refused(AppendRefusal::Corrupt { .. })
    ));
    assert_eq!(follower.log_end(), Offset(0));

    let appended = follower
        .append_as_follower(&fetched, LeaderEpoch(4), NOW)
        .unwrap();
    assert_eq!(appended.log_end, Offset(3));
    let again = follower
        .append_as_follower(&fetched, LeaderEpoch(5), NOW)
        .unwrap_err();
    assert!(matches!(
        again,
        AppendError::Refused(AppendRefusal::NotAtLogEnd {
            log_end: Offset(3),
            given: Offset(0)
        })
    ));
}

#[test]
fn an_empty_follower_begins_at_the_batch_that_its_end_lies_within() {
    let (_disk, mut leader) = fresh(LogConfig::default());
    append(&mut leader, &values(3));
    append(&mut leader, &values(3));
    let fetched = read_all(&leader.view(), Offset(3));
    let (_disk, mut follower) = fresh(LogConfig::default());
    follower.restart_at(Offset(4)).unwrap();
    follower
        .append_as_follower(&fetched, LeaderEpoch(0), NOW)
        .unwrap();

    assert_eq!((follower.log_start(), follower.log_end()), (Offset(3), Offset(6)));
}

#[test]
fn a_full_disk_refuses_and_recovers_by_itself() {
    let (disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &values(3));
    let before = read_all(&log.view(), Offset::ZERO);
    disk.set_capacity(Some(before.len() as u64 + 300));
    let error = log.append_as_leader(&sized(10, 100), by_leader(0)).unwrap_err();
    assert!(
        matches!(error, AppendError::Fault(LogFault::DiskFull { .. })),
        "{error:?}"
    );
    assert_eq!(read_all(&log.view(), Offset::ZERO), before);

    disk.set_capacity(None);
    append(&mut log, &values(2));
    assert_eq!(spans(&log.view()), [(0, 2), (3, 4)]);
    let (log, report) = reopen(&disk, LogConfig::default(), recovering(0));
    assert_eq!((log.log_end(), report.tail_cut), (Offset(5), None));
}

#[test]
fn a_disk_that_is_full_at_any_moment_costs_nothing_that_was_appended() {
    let config = LogConfig {
        segment_bytes: 700,
        index_interval_bytes: 100,
        ..LogConfig::default()
    };
    let mut refused = 0;
    for capacity in (200..4_000).step_by(37) {
        let (disk, mut log) = fresh(config.clone());
        disk.set_capacity(Some(capacity));
        for n in 0..30 {
            let end = log.log_end();
            match log.append_as_leader(&sequenced(9, 0, end.0 as i32, 1), by_leader(n / 10)) {
                Ok(appended) => assert_eq!(appended.first, end),
                Err(AppendError::Fault(LogFault::DiskFull { .. })) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        disk.set_capacity(None);
        for _ in 0..10 {
            let end = log.log_end();
            // Epochs never go back: a log in which they did would be cut there.
            let batch = sequenced(9, 0, end.0 as i32, 1);
            assert_eq!(log.append_as_leader(&batch, by_leader(3)).unwrap().first, end);
        }
        publish_all(&mut log);
        let before = read_all(&log.view(), Offset::ZERO);
        let (log, report) = reopen(&disk, config.clone(), recovering(0));
        assert_eq!(
            (read_all(&log.view(), Offset::ZERO), report.tail_cut),
            (before, None),
            "{capacity}"
        );
    }
    assert!(500 < refused, "{refused} appends met a full disk");
}

/// A fetch brings many batches for several segments. Where the room ends between two of them, the log ends there too, and so
/// does what it knows of producers: nothing is half there.
#[test]
fn a_follower_whose_disk_is_full_has_whatever_came_before() {
    let config = LogConfig {
        segment_bytes: 700,
        index_interval_bytes: 100,
        ..LogConfig::default()
    };
    let (_disk, mut leader) = fresh(LogConfig::default());
    let batches: Vec<_> = (0..30).map(|n| sequenced(9, 0, n, 1)).collect();
    for batch in &batches {
        leader.append_as_leader(batch, by_leader(0)).unwrap();
    }
    publish_all(&mut leader);
    let fetched = read_all(&leader.view(), Offset::ZERO);
    let (mut in_part, mut refused) = (0, 0);
    for capacity in (200..4_000).step_by(7) {
        let (disk, mut log) = fresh(config.clone());
        disk.set_capacity(Some(capacity));
        let appended = log.append_as_follower(&fetched, LeaderEpoch(0), NOW);
        let end = log.log_end();
        match appended {
            Ok(appended) => assert_eq!(appended.log_end, end, "{capacity}"),
            Err(AppendError::Fault(LogFault::DiskFull { .. })) => {
                refused += 1;
                assert_eq!(
                    end,
                    Offset::ZERO,
                    "{capacity}: an error says that nothing was appended"
                );
            }
            Err(other) => panic!("{other}"),
        }
        in_part += usize::from(Offset::ZERO < end && end < Offset(30));
        for (n, batch) in batches.iter().enumerate() {
            // The last five of a producer are known.
            let is_known = (end.0 - 5..end.0).contains(&(n as i64));
            assert_eq!(log.repeats(batch), is_known, "{capacity}: {n} of {end}");
        }
        disk.set_capacity(None);
        let rest = read_all(&leader.view(), end);
        if !rest.is_empty() {
            log.append_as_follower(&rest, LeaderEpoch(0), NOW).unwrap();
        }
        publish_all(&mut log);
        assert!(read_all(&log.view(), Offset::ZERO) == fetched, "{capacity}");
        let (log, report) = reopen(&disk, config.clone(), recovering(0));
        assert_eq!((log.log_end(), report.tail_cut), (Offset(30), None), "{capacity}");
    }
    assert!(
        50 < refused && 200 < in_part,
        "{refused} refused, {in_part} in part"
    );
}

#[test]
fn flush_messages_asks_for_a_sync_before_the_answer() {
    let config = LogConfig {
        flush_messages: 3,
        ..LogConfig::default()
    };
    let (_disk, mut log) = fresh(config);
    assert_eq!(append(&mut log, &values(2)).sync, SyncNeed::None);
    assert_eq!(append(&mut log, &values(1)).sync, SyncNeed::BeforeAnswer);
    sync(&mut log);

    assert_eq!(log.recovery_point(), Offset(3));
    assert_eq!(append(&mut log, &values(1)).sync, SyncNeed::None);
    assert!(log.sync_job().unwrap().is_some());
}

#[test]
fn an_idle_log_gives_its_files_back_and_goes_on() {
    let (_disk, mut log) = fresh(LogConfig::default());
    for _ in 0..50 {
        append(&mut log, &sized(5, 100));
    }
    let before = read_all(&log.view(), Offset::ZERO);
    log.release_idle().unwrap();
    assert_eq!(read_all(&log.view(), Offset::ZERO), before);
    log.release_idle().unwrap();
    append(&mut log, &values(1));
    assert_eq!(log.log_end(), Offset(251));
}

#[test]
fn a_coordinators_records_need_no_sequence_and_an_old_sync_says_nothing_after_a_cut() {
    let (_disk, mut log) = fresh(LogConfig::default());
    let coordinator = LeaderAppend {
        origin: Origin::Coordinator,
        ..by_leader(0)
    };
    log.append_as_leader(&values(4), coordinator).unwrap();
    let job = log.sync_job().unwrap().unwrap();
    log.truncate_to(Offset(0)).unwrap();
    log.append_as_leader(&values(4), coordinator).unwrap();
    log.synced(job.run().unwrap());

    assert_eq!(log.recovery_point(), Offset(0));
}

/// The records are there, so that they can be made durable; what a full disk leaves out of the indexes is made again at
/// the next start. Nothing of this may end a process.
#[test]
fn a_full_disk_without_room_for_index_entries_does_not_keep_records_from_becoming_durable() {
    let config = LogConfig {
        index_interval_bytes: 100,
        ..LogConfig::default()
    };
    let mut without_indexes = 0;
    for capacity in (200..4_000).step_by(37) {
        let (disk, mut log) = fresh(config.clone());
        if let Some(job) = log.sync_job().unwrap() {
            log.synced(job.run().unwrap());
        }
        disk.set_capacity(Some(capacity));
        while log.append_as_leader(&sized(1, 50), by_leader(0)).is_ok() {}
        let end = log.log_end();
        let job = log.sync_job().expect("a full disk is no reason to give up");
        if let Some(job) = job {
            log.synced(job.run().unwrap());
        }
        let point = log.recovery_point();
        without_indexes += usize::from(point < end);
        publish_all(&mut log);
        let before = read_all(&log.view(), Offset::ZERO);

        disk.set_capacity(None);
        disk.crash(capacity);
        let (log, report) = reopen(&disk, config.clone(), recovering(point.0));
        let after = read_all(&log.view(), Offset::ZERO);
        assert_eq!(
            (log.log_end(), after, report.tail_cut),
            (end, before, None),
            "{capacity}"
        );
    }
    assert!(
        10 < without_indexes,
        "{without_indexes} syncs had no room for index entries"
    );
}
