//! Opening after a clean end, after a kill, after a power loss, after damage.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use host::{Disk, OpenHow, SimDisk};
use partition_log::{
    AppendError, AppendOutcome, EpochHistory, EpochStart, LeaderEpoch, Log, LogConfig, LogFault, Offset,
    OpenReport, Opening, TimestampedOffset,
};
use proptest::prelude::*;
use support::*;
use wire::batch::{Batch, BatchBuilder, Batches, ProducerState};
use wire::codec::Codec;

fn small_segments() -> LogConfig {
    LogConfig {
        segment_bytes: 2_000,
        index_interval_bytes: 200,
        ..LogConfig::default()
    }
}

/// 40 batches of 3 records over several segments.
fn written(config: LogConfig) -> (SimDisk, Log) {
    let (disk, mut log) = fresh(config);
    for _ in 0..40 {
        append(&mut log, &sized(3, 30));
    }
    (disk, log)
}

#[test]
fn a_clean_end_needs_no_recovery() {
    let (disk, mut log) = written(small_segments());
    let job = log.close().unwrap().unwrap();
    log.synced(job.run().unwrap());
    let before = read_all(&log.view(), Offset::ZERO);
    disk.crash(1);
    let (log, report) = reopen(&disk, small_segments(), clean());

    assert_eq!(
        (report.scanned_bytes, report.rebuilt_segments, report.tail_cut),
        (0, 0, None)
    );
    assert_eq!((log.log_end(), log.recovery_point()), (Offset(120), Offset(120)));
    assert_eq!(read_all(&log.view(), Offset::ZERO), before);
}

#[test]
fn a_killed_process_loses_nothing() {
    let (disk, log) = written(small_segments());
    let (before, shown) = (read_all(&log.view(), Offset::ZERO), log.view().epochs());
    drop(log);
    let (log, report) = reopen(&disk, small_segments(), recovering(0));

    assert_eq!(report.tail_cut, None);
    assert_eq!(report.scanned_bytes, before.len() as u64);
    assert_eq!(read_all(&log.view(), Offset::ZERO), before);
    assert_eq!(log.view().epochs(), shown);
}

#[test]
fn recovery_begins_near_the_recovery_point() {
    let config = LogConfig {
        index_interval_bytes: 200,
        ..LogConfig::default()
    };
    let (disk, mut log) = written(config.clone());
    sync(&mut log);
    let point = log.recovery_point();
    let size = append(&mut log, &sized(3, 30)).size_bytes;
    let before = read_all(&log.view(), Offset::ZERO);
    drop(log);
    let (mut log, report) = reopen(&disk, config, recovering(point.0));

    assert!(report.scanned_bytes < u64::from(size) * 6, "{report:?}");
    assert_eq!(read_all(&log.view(), Offset::ZERO), before);
    // The rebuilt indexes are as if there had been no crash.
    for _ in 0..20 {
        append(&mut log, &sized(3, 30));
    }
    for from in 0..log.log_end().0 {
        assert_eq!(
            batches(&log.view(), Offset(from))[0].header.base_offset,
            from / 3 * 3
        );
    }
}

#[test]
fn a_damaged_batch_ends_the_log_and_later_segments_go() {
    let (disk, log) = written(small_segments());
    let second = files(&disk, ".log")[1].clone();
    let base: i64 = second.trim_end_matches(".log").parse().unwrap();
    drop(log);
    disk.flip_bit(&dir().join(&second), 170 + 61 + 3, 0).unwrap();
    let (log, report) = reopen(&disk, small_segments(), recovering(0));

    let cut = report.tail_cut.unwrap();
    assert_eq!(cut.log_end, Offset(base + 3));
    assert_eq!(log.log_end(), Offset(base + 3));
    assert_eq!(files(&disk, ".log").len(), 2);
    assert_eq!(spans(&log.view()).last(), Some(&(base, base + 2)));
}

/// BC-085: tail sizes that are no sizes, and a magic that is none.
#[test]
fn a_wrong_length_in_the_tail_ends_the_log_there() {
    for (at, bytes) in [
        (8, &0x7fff_ffff_i32.to_be_bytes()[..]),
        (8, &0_i32.to_be_bytes()),
        (8, &(-5_i32).to_be_bytes()),
        (16, &[9]),
    ] {
        let (disk, mut log) = fresh(LogConfig::default());
        let size = append(&mut log, &sized(3, 30)).size_bytes;
        for _ in 0..5 {
            append(&mut log, &sized(3, 30));
        }
        drop(log);
        let file = disk
            .open(&dir().join(&files(&disk, ".log")[0]), OpenHow::Write)
            .unwrap();
        file.write_at(bytes, u64::from(size) * 3 + at).unwrap();
        let (log, report) = reopen(&disk, LogConfig::default(), recovering(0));

        assert_eq!(log.log_end(), Offset(9));
        assert_eq!(report.tail_cut.unwrap().removed_bytes, u64::from(size) * 3);
        assert_eq!(file.len().unwrap(), u64::from(size) * 3);
    }
}

/// A log was cut, a batch of a newer leader written in the place of what went, and the power lost before the cut was
/// durable: what was cut is back behind the newer batch, whole, and at the right offsets.
#[test]
fn what_an_earlier_leader_wrote_behind_a_later_one_ends_the_log() {
    let (disk, mut log) = fresh(LogConfig::default());
    let size = log
        .append_as_leader(&sized(3, 30), by_leader(4))
        .unwrap()
        .size_bytes;
    for _ in 0..5 {
        log.append_as_leader(&sized(3, 30), by_leader(4)).unwrap();
    }
    drop(log);
    let file = disk
        .open(&dir().join(&files(&disk, ".log")[0]), OpenHow::Write)
        .unwrap();
    let leader_epoch_at = 12;
    let fourth = u64::from(size) * 3 + leader_epoch_at;
    file.write_at(&3_i32.to_be_bytes(), fourth).unwrap();
    let (log, report) = reopen(&disk, LogConfig::default(), recovering(0));

    assert_eq!(log.log_end(), Offset(9));
    assert_eq!(
        report.tail_cut.unwrap().why,
        "a batch of leader epoch 3 behind one of 4"
    );
}

/// BC-084, first half.
#[test]
fn a_recovery_point_behind_the_end_is_pulled_back() {
    let (disk, log) = written(LogConfig::default());
    drop(log);
    let file = disk
        .open(&dir().join(&files(&disk, ".log")[0]), OpenHow::Write)
        .unwrap();
    file.set_len(file.len().unwrap() / 2).unwrap();
    let (log, _) = reopen(&disk, LogConfig::default(), recovering(1_000));

    assert_eq!(log.log_end(), Offset(60));
    assert_eq!(log.recovery_point(), Offset(60));
}

/// BC-084, second half.
#[test]
fn a_log_that_ends_before_its_start_begins_anew_there() {
    let (disk, mut log) = written(small_segments());
    log.append_as_leader(&sequenced(9, 0, 0, 1), by_leader(3))
        .unwrap();
    drop(log);
    let opening = Opening {
        log_start: Offset(500),
        high_watermark: Offset(500),
        ..recovering(0)
    };
    let (mut log, _) = reopen(&disk, small_segments(), opening);

    assert_eq!((log.log_start(), log.log_end()), (Offset(500), Offset(500)));
    assert_eq!(log.bounds().high_watermark, Offset(500));
    assert_eq!(log.latest_epoch(), None);
    assert_eq!(append(&mut log, &sequenced(9, 0, 7, 1)).first, Offset(500));
}

#[test]
fn leftovers_of_a_crash_are_tidied() {
    let (disk, log) = written(LogConfig::default());
    drop(log);
    for name in [
        "00000000000000000000.log.deleted",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000077.index",
    ] {
        disk.open(&dir().join(name), OpenHow::CreateNew)
            .unwrap()
            .write_at(b"x", 0)
            .unwrap();
    }
    let (_log, _) = reopen(&disk, LogConfig::default(), recovering(0));
    for suffix in [".deleted", ".tmp", "77.index"] {
        assert_eq!(files(&disk, suffix), Vec::<String>::new());
    }
}

#[test]
fn epochs_are_built_anew_when_their_checkpoint_is_torn() {
    for damage in [None, Some(&b""[..]), Some(b"0\n2\n0 0\n5"), Some(b"\xff\xfe")] {
        for opening in [recovering(0), clean()] {
            let (disk, mut log) = fresh(small_segments());
            append(&mut log, &values(3));
            log.append_as_leader(&values(3), by_leader(5)).unwrap();
            let job = log.close().unwrap().unwrap();
            log.synced(job.run().unwrap());
            let shown = log.view().epochs();
            assert_eq!(
                shown.entries()[1],
                EpochStart {
                    epoch: LeaderEpoch(5),
                    start: Offset(3)
                }
            );
            drop(log);
            let path = dir().join("leader-epoch-checkpoint");
            disk.remove_file(&path).unwrap();
            if let Some(bytes) = damage {
                disk.open(&path, OpenHow::CreateNew)
                    .unwrap()
                    .write_at(bytes, 0)
                    .unwrap();
            }
            let (log, _) = reopen(&disk, small_segments(), opening);
            assert_eq!(log.view().epochs(), shown);
        }
    }
}

#[test]
fn producers_come_back_from_the_snapshot_and_what_followed() {
    for opening in [recovering(0), recovering(60)] {
        let (disk, mut log) = fresh(small_segments());
        for n in 0..60 {
            append(&mut log, &sequenced(9, 0, n, 1));
        }
        assert!(1 < files(&disk, ".snapshot").len());
        drop(log);
        let (mut log, _) = reopen(&disk, small_segments(), opening);

        append(&mut log, &sequenced(9, 0, 60, 1));
        assert_eq!(log.log_end(), Offset(61));
        append(&mut log, &sequenced(9, 0, 59, 1));
        assert_eq!(log.log_end(), Offset(61));
        refusal(log.append_as_leader(&sequenced(9, 0, 62, 1), by_leader(0)));
    }
}

#[test]
fn a_damaged_snapshot_is_dropped_and_an_older_one_used() {
    let (disk, mut log) = fresh(small_segments());
    for n in 0..60 {
        append(&mut log, &sequenced(9, 0, n, 1));
    }
    let job = log.close().unwrap().unwrap();
    log.synced(job.run().unwrap());
    drop(log);
    let newest = files(&disk, ".snapshot").pop().unwrap();
    disk.flip_bit(&dir().join(&newest), 9, 2).unwrap();
    let (mut log, _) = reopen(&disk, small_segments(), clean());

    assert!(!files(&disk, ".snapshot").contains(&newest));
    append(&mut log, &sequenced(9, 0, 60, 1));
    refusal(log.append_as_leader(&sequenced(9, 0, 62, 1), by_leader(0)));
}

#[test]
fn a_lost_index_is_built_anew_even_after_a_clean_end() {
    let (disk, mut log) = written(small_segments());
    let job = log.close().unwrap().unwrap();
    log.synced(job.run().unwrap());
    let before = read_all(&log.view(), Offset::ZERO);
    drop(log);
    let names = files(&disk, ".index");
    let bytes: Vec<_> = names
        .iter()
        .map(|name| disk.read_file(&dir().join(name), 1 << 20).unwrap())
        .collect();
    for name in &names {
        disk.remove_file(&dir().join(name)).unwrap();
    }
    let (mut log, report) = reopen(&disk, small_segments(), clean());

    assert_eq!(report.rebuilt_segments as usize, names.len());
    assert_eq!(read_all(&log.view(), Offset::ZERO), before);
    log.release_idle().unwrap();
    for (name, bytes) in names.iter().zip(bytes) {
        assert_eq!(
            disk.read_file(&dir().join(name), 1 << 20).unwrap(),
            bytes,
            "{name}"
        );
    }
}

/// What the disk of a log looked like, and what had been promised about it.
#[derive(Clone, Debug)]
enum Step {
    Append(usize, usize),
    Sync,
    Truncate(u8),
    Checkpoint,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..6_usize, 1..200_usize).prop_map(|(count, size)| Step::Append(count, size)),
        2 => Just(Step::Sync),
        1 => (0..100_u8).prop_map(Step::Truncate),
        1 => Just(Step::Checkpoint),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    /// Power is lost at any moment: what was synced is there, nothing that is served was not written, and the log goes
    /// on. A recovery point is checkpointed only after the sync that moved it.
    #[test]
    fn nothing_synced_is_lost_and_nothing_else_is_served(steps in steps(), seed in any::<u64>()) {
        let config = small_segments();
        let (disk, mut log) = fresh(config.clone());
        sync(&mut log);
        let mut synced = read_all(&log.view(), Offset::ZERO);
        let mut checkpointed = Offset::ZERO;
        let mut epoch = 0;
        for step in steps {
            match step {
                Step::Append(count, size) => {
                    log.append_as_leader(&sized(count, size), by_leader(epoch)).unwrap();
                    publish_all(&mut log);
                }
                Step::Sync => {
                    sync(&mut log);
                    synced = read_all(&log.view(), Offset::ZERO);
                }
                Step::Truncate(percent) => {
                    // As a follower does: to the end of a batch, and its recovery point is checkpointed again.
                    let end = log.log_end().0 * i64::from(percent) / 100;
                    let bases: Vec<_> = spans(&log.view()).iter().map(|span| span.0).collect();
                    let end = bases.into_iter().rev().find(|base| *base <= end).unwrap_or(0);
                    log.truncate_to(Offset(end)).unwrap();
                    sync(&mut log);
                    log.begin_epoch(LeaderEpoch(epoch + 1));
                    epoch += 1;
                    sync(&mut log);
                    synced = read_all(&log.view(), Offset::ZERO);
                    checkpointed = checkpointed.min(log.recovery_point());
                }
                Step::Checkpoint => checkpointed = log.recovery_point(),
            }
        }
        let written = read_all(&log.view(), Offset::ZERO);
        drop(log);
        disk.crash(seed);
        let (mut log, _) = reopen(&disk, config.clone(), recovering(checkpointed.0));
        let found = read_all(&log.view(), Offset::ZERO);

        prop_assert!(found.len() >= synced.len() && found[..synced.len()] == synced[..], "synced bytes are lost");
        prop_assert!(written.starts_with(&found), "bytes that were never written are served");
        let end = log.log_end();
        append(&mut log, &values(2));
        prop_assert_eq!(log.log_end().0, end.0 + 2);
        prop_assert_eq!(batches(&log.view(), end).len(), 1);
    }

    /// Any cut of the last file, with any garbage behind the cut: the whole batches before it are served.
    #[test]
    fn any_torn_tail_ends_at_a_whole_batch(cut in 0..6_000_u64, garbage in proptest::collection::vec(any::<u8>(), 0..90)) {
        let (disk, mut log) = fresh(LogConfig { index_interval_bytes: 200, ..LogConfig::default() });
        for n in 0..40 {
            append(&mut log, &sized(n % 4 + 1, 30));
        }
        let written = read_all(&log.view(), Offset::ZERO);
        drop(log);
        let file = disk.open(&dir().join(&files(&disk, ".log")[0]), OpenHow::Write).unwrap();
        let cut = cut.min(written.len() as u64);
        file.set_len(cut).unwrap();
        file.write_at(&garbage, cut).unwrap();
        let (log, _) = reopen(&disk, LogConfig::default(), recovering(0));

        let whole: usize = Batches::new(written.slice(..cut as usize)).map(|b| b.unwrap().bytes.len()).sum();
        let found = read_all(&log.view(), Offset::ZERO);
        // The garbage may happen to be what was there.
        prop_assert!(whole <= found.len() && written.starts_with(&found), "{} of {whole}", found.len());
    }

    /// Whatever is in the files, opening neither panics nor serves a batch with a wrong checksum.
    #[test]
    fn no_damage_panics(flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u16>(), 0..8_u8), 1..12), clean_end in any::<bool>()) {
        let (disk, mut log) = fresh(small_segments());
        for n in 0..30 {
            append(&mut log, &sequenced(9, 0, n * 3, 3));
        }
        let job = log.close().unwrap().unwrap();
        log.synced(job.run().unwrap());
        drop(log);
        let names: Vec<_> = disk.list(&dir()).unwrap().into_iter().filter(|e| 0 < e.size_bytes).collect();
        for (which, at, bit) in flips {
            let entry = which.get(&names);
            disk.flip_bit(&dir().join(&entry.name), u64::from(at) % entry.size_bytes, bit).unwrap();
        }
        let opening = if clean_end { clean() } else { recovering(0) };
        match Log::open(&host_on(disk.clone()), &dir(), small_segments(), opening, NOW) {
            Ok((log, _)) if !clean_end => batches(&log.view(), Offset::ZERO).iter().for_each(|b| b.check().unwrap()),
            // What is trusted is not checked; where it cannot even be walked, nothing is deleted.
            Ok(_) => {}
            Err(e) => prop_assert!(clean_end && matches!(e, LogFault::Damaged { .. }), "{e}"),
        }
    }
}

#[test]
fn opening_an_empty_directory_begins_a_log() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/logs/orders-0")).unwrap();
    let (mut log, _) = reopen(&disk, LogConfig::default(), recovering(0));
    assert_eq!(log.topic(), None);
    append(&mut log, &values(1));
    assert_eq!(log.log_end(), Offset(1));
}

fn put(disk: &SimDisk, base: i64, bytes: &[u8]) {
    let path = dir().join(format!("{base:020}.log"));
    disk.open(&path, OpenHow::CreateNew)
        .unwrap()
        .write_at(bytes, 0)
        .unwrap();
}

/// Somebody copies a file into the directory that has the name of a segment and holds something else. It moved the log
/// end: up, so that offsets were skipped, or down, so that records were gone.
#[test]
fn a_file_that_only_has_the_name_of_a_segment_moves_no_end() {
    for opening in [clean(), recovering(0), recovering(120)] {
        for (base, bytes) in [(7, &b"junk\n"[..]), (7, b""), (700, b"junk\n"), (700, b"")] {
            let (disk, mut log) = written(small_segments());
            let job = log.close().unwrap().unwrap();
            log.synced(job.run().unwrap());
            let before = read_all(&log.view(), Offset::ZERO);
            drop(log);
            put(&disk, base, bytes);
            let (mut log, _) = reopen(&disk, small_segments(), opening);

            assert_eq!(log.log_end(), Offset(120), "{base} {bytes:?} {opening:?}");
            assert_eq!(read_all(&log.view(), Offset::ZERO), before);
            assert_eq!(append(&mut log, &values(1)).first, Offset(120));
        }
    }
}

#[test]
fn a_file_that_only_has_the_name_of_a_segment_is_set_aside_and_told() {
    let (disk, mut log) = fresh(small_segments());
    assert!(log.close().unwrap().is_some());
    drop(log);
    put(&disk, 700, b"junk\n");
    let (mut log, report) = reopen(&disk, small_segments(), clean());

    assert_eq!((log.log_start(), log.log_end()), (Offset::ZERO, Offset::ZERO));
    let stray = dir().join("00000000000000000700.log.stray");
    assert_eq!(report.set_aside, std::slice::from_ref(&stray));
    assert_eq!(disk.read_file(&stray, 100).unwrap(), b"junk\n");
    assert_eq!(append(&mut log, &values(1)).first, Offset::ZERO);
}

#[test]
fn a_foreign_file_before_the_oldest_segment_costs_no_record() {
    let (disk, mut log) = fresh(small_segments());
    log.restart_at(Offset(500)).unwrap();
    for _ in 0..40 {
        append(&mut log, &sized(3, 30));
    }
    let job = log.close().unwrap().unwrap();
    log.synced(job.run().unwrap());
    let before = read_all(&log.view(), Offset(500));
    drop(log);
    put(&disk, 200, b"junk\n");
    let opening = Opening {
        log_start: Offset(500),
        ..clean()
    };
    let (log, _) = reopen(&disk, small_segments(), opening);

    assert_eq!((log.log_start(), log.log_end()), (Offset(500), Offset(620)));
    assert_eq!(read_all(&log.view(), Offset(500)), before);
}

/// One record of a producer, a millisecond after the one before.
fn nth(n: i32) -> Batch {
    let state = ProducerState {
        id: 9,
        epoch: 0,
        base_sequence: n,
    };
    let mut builder = BatchBuilder::new(Codec::None).producer(state);
    builder.append(NOW.0 + i64::from(n), None, Some(b"v"), &[]);
    parsed(builder)
}

/// Everything that readers can find out.
fn found(log: &mut Log) -> (Bytes, Arc<EpochHistory>, Vec<Option<TimestampedOffset>>) {
    publish_all(log);
    let view = log.view();
    let times = (0..60).map(|n| view.offset_for_timestamp(NOW.0 + n, log.log_end()).unwrap());
    (read_all(&view, Offset::ZERO), view.epochs(), times.collect())
}

/// Every broker was restarted while its disk was full. The indexes behind the recovery point had no room, so no log was
/// opened, and nobody served what all of them had.
#[test]
fn a_log_is_opened_and_read_on_a_full_disk_and_written_to_when_there_is_room() {
    let config = LogConfig {
        segment_bytes: 1_000,
        index_interval_bytes: 100,
        ..LogConfig::default()
    };
    for room in (-400..400).step_by(4) {
        let (disk, mut log) = fresh(config.clone());
        for n in 0..60 {
            log.append_as_leader(&nth(n), by_leader(n / 20)).unwrap();
        }
        let written = found(&mut log);
        drop(log);
        let entries = disk.list(&dir()).unwrap();
        let used: u64 = entries.iter().map(|entry| entry.size_bytes).sum();
        disk.remove_file(&dir().join("leader-epoch-checkpoint")).unwrap();
        disk.set_capacity(used.checked_add_signed(room));

        let (mut log, report) = reopen(&disk, config.clone(), recovering(0));

        assert_eq!(report.tail_cut, None, "room {room}");
        assert!(found(&mut log) == written, "room {room}");
        let repeated = log.append_as_leader(&nth(59), by_leader(2)).unwrap();
        assert_eq!(repeated.outcome, AppendOutcome::Duplicate, "room {room}");
        let refused = log.append_as_leader(&sized(1, 900), by_leader(2));
        assert!(
            matches!(refused, Err(AppendError::Fault(LogFault::DiskFull { .. }))),
            "{refused:?}"
        );
        // An idle one may keep what there is no room for; then the process is killed, and what was synced is trusted.
        let _ = log.release_idle();
        assert!(!log.holds_files(), "room {room}");
        drop(log);
        disk.set_capacity(None);
        let (mut log, _) = reopen(&disk, config.clone(), recovering(60));
        assert!(
            found(&mut log) == written,
            "room {room}: no part of an index counts"
        );
        let next = log.append_as_leader(&nth(60), by_leader(3)).unwrap();
        assert_eq!(next.outcome, AppendOutcome::Written, "room {room}");
        let synced = log.close().unwrap().unwrap().run().unwrap();
        log.synced(synced);
        let (log, report) = reopen(&disk, config.clone(), clean());
        assert_eq!(
            (log.log_end(), report),
            (Offset(61), OpenReport::default()),
            "room {room}"
        );
    }
}
