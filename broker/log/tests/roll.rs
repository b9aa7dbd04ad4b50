//! When a segment ends, and what stands in its files then (L-6 to L-15).

#![allow(clippy::unwrap_used)]

mod support;

use host::{Disk, WallMs};
use partition_log::{LeaderAppend, LeaderEpoch, LogConfig, Offset, SyncNeed};
use support::*;
use wire::batch::BatchBuilder;
use wire::codec::Codec;

fn bases(disk: &host::SimDisk) -> Vec<i64> {
    files(disk, ".log")
        .iter()
        .map(|name| name.trim_end_matches(".log").parse().unwrap())
        .collect()
}

#[test]
fn l11_a_segment_ends_before_it_would_be_too_large() {
    let size = values(1).bytes.len() as u32;
    let (disk, mut log) = fresh(LogConfig {
        segment_bytes: size * 3,
        ..LogConfig::default()
    });
    let rolled: Vec<_> = (0..7)
        .map(|_| append(&mut log, &values(1)).sync == SyncNeed::Background)
        .collect();

    assert_eq!(rolled, [false, false, false, true, false, false, true]);
    assert_eq!(bases(&disk), [0, 3, 6]);
    assert_eq!(
        files(&disk, ".snapshot"),
        ["00000000000000000003.snapshot", "00000000000000000006.snapshot"]
    );
    assert_eq!(spans(&log.view()).len(), 7);
}

#[test]
fn l12_age_goes_by_the_time_of_the_records() {
    let (disk, mut log) = fresh(LogConfig {
        segment_ms: 1_000,
        ..LogConfig::default()
    });
    append(&mut log, &at_time(NOW.0));
    append(&mut log, &at_time(NOW.0 + 1_000));
    assert_eq!(bases(&disk), [0]);
    append(&mut log, &at_time(NOW.0 + 1_001));
    assert_eq!(bases(&disk), [0, 2]);
    append(&mut log, &at_time(NOW.0));
    assert_eq!(bases(&disk), [0, 2]);
}

#[test]
fn l12_without_times_age_goes_by_the_clock() {
    let (disk, mut log) = fresh(LogConfig {
        segment_ms: 1_000,
        ..LogConfig::default()
    });
    append(&mut log, &at_time(-1));
    let at = |ms| LeaderAppend {
        now: WallMs(NOW.0 + ms),
        ..by_leader(0)
    };
    log.append_as_leader(&at_time(-1), at(1_000)).unwrap();
    assert_eq!(bases(&disk), [0]);
    log.append_as_leader(&at_time(-1), at(1_001)).unwrap();
    assert_eq!(bases(&disk), [0, 2]);
}

#[test]
fn l12_age_survives_a_restart() {
    let config = LogConfig {
        segment_ms: 1_000,
        ..LogConfig::default()
    };
    let (disk, mut log) = fresh(config.clone());
    append(&mut log, &at_time(NOW.0));
    drop(log);
    let (mut log, _) = reopen(&disk, config, recovering(0));
    append(&mut log, &at_time(NOW.0 + 1_001));
    assert_eq!(bases(&disk), [0, 1]);
}

#[test]
fn l12_jitter_shortens_the_age_and_stays_below_its_limit() {
    let config = LogConfig {
        segment_ms: 1_000,
        segment_jitter_ms: 500,
        ..LogConfig::default()
    };
    let (_disk, mut log) = fresh(config);
    let mut begun = 0;
    let mut spans = std::collections::BTreeSet::new();
    for time in (0..20_000).step_by(25) {
        if append(&mut log, &at_time(NOW.0 + time)).sync == SyncNeed::Background {
            spans.insert(time - begun);
            begun = time;
        }
    }
    assert!(5 < spans.len(), "{spans:?}");
    assert!(spans.iter().all(|ms| (500..=1_025).contains(ms)), "{spans:?}");
}

#[test]
fn l13_a_full_index_ends_the_segment() {
    // Seven offset entries fit, or five time entries of which the last is kept free.
    let config = LogConfig {
        index_interval_bytes: 0,
        segment_index_bytes: 60,
        ..LogConfig::default()
    };
    for (direction, second) in [(-1, 8), (1, 5)] {
        let (disk, mut log) = fresh(config.clone());
        for n in 0..10 {
            append(&mut log, &at_time(NOW.0 + n * direction));
        }
        assert_eq!(bases(&disk), [0, second]);
    }
}

#[test]
fn l14_offsets_of_a_segment_span_31_bits() {
    let (disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &values(1));
    let fetched = |base: i64| {
        let mut builder = BatchBuilder::new(Codec::None).base_offset(base).leader_epoch(0);
        builder.append(NOW.0, None, Some(b"v"), &[]);
        builder.build()
    };
    log.append_as_follower(&fetched(i64::from(i32::MAX)), LeaderEpoch(0), NOW)
        .unwrap();
    assert_eq!(bases(&disk), [0]);
    log.append_as_follower(&fetched(i64::from(i32::MAX) + 1), LeaderEpoch(0), NOW)
        .unwrap();
    assert_eq!(bases(&disk), [0, i64::from(i32::MAX) + 1]);
    assert_eq!(
        batches(&log.view(), Offset(5))[0].header.base_offset,
        i64::from(i32::MAX)
    );
}

#[test]
fn l6_l7_the_index_files_have_kafkas_entries() {
    let (disk, mut log) = fresh(LogConfig {
        index_interval_bytes: 150,
        ..LogConfig::default()
    });
    // Batches of 69 bytes; an entry whenever more than 150 bytes lie behind the last one.
    let size = at_time(NOW.0).bytes.len() as u32;
    assert_eq!(size, 69);
    for ms in [10, 20, 5, 40, 7, 7, 7, 30] {
        append(&mut log, &at_time(NOW.0 + ms));
    }
    sync(&mut log);
    let read = |suffix: &str| {
        disk.read_file(&dir().join(&files(&disk, suffix)[0]), 1_000)
            .unwrap()
    };
    let offsets: Vec<_> = read(".index")
        .chunks(8)
        .map(|e| {
            (
                u32::from_be_bytes(e[..4].try_into().unwrap()),
                u32::from_be_bytes(e[4..].try_into().unwrap()),
            )
        })
        .collect();
    let times: Vec<_> = read(".timeindex")
        .chunks(12)
        .map(|e| {
            (
                i64::from_be_bytes(e[..8].try_into().unwrap()) - NOW.0,
                u32::from_be_bytes(e[8..].try_into().unwrap()),
            )
        })
        .collect();

    assert_eq!(offsets, [(3, 207), (6, 414)]);
    assert_eq!(times, [(40, 3)]);
}

#[test]
fn a_rolled_segment_has_its_largest_time_as_last_entry() {
    let (disk, mut log) = fresh(LogConfig {
        segment_bytes: 200,
        ..LogConfig::default()
    });
    for ms in [10, 30, 20] {
        append(&mut log, &at_time(NOW.0 + ms));
    }
    let bytes = disk
        .read_file(&dir().join("00000000000000000000.timeindex"), 1_000)
        .unwrap();
    assert_eq!(
        bytes,
        [&(NOW.0 + 30).to_be_bytes()[..], &1_u32.to_be_bytes()].concat()
    );
    assert_eq!(
        disk.read_file(&dir().join("00000000000000000000.index"), 1_000)
            .unwrap(),
        []
    );
}
