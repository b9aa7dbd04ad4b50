//! What markers do to a log: last stable offset, aborted transactions, restarts (F-7, F-8, T-6, L-9).

#![allow(clippy::unwrap_used)]

mod support;

use host::Disk;
use partition_log::{AbortedTransaction, LeaderAppend, Log, LogConfig, Offset, Origin, ProducerId};
use support::*;
use wire::batch::{Batch, BatchBuilder, ProducerState};
use wire::codec::Codec;

fn data(id: i64, base_sequence: i32) -> Batch {
    let producer = ProducerState {
        id,
        epoch: 0,
        base_sequence,
    };
    let mut builder = BatchBuilder::new(Codec::None).producer(producer).transactional();
    builder.append(NOW.0, None, Some(b"v"), &[]);
    parsed(builder)
}

/// 0 aborts, 1 commits.
fn marker(id: i64, kind: u8) -> Batch {
    let producer = ProducerState {
        id,
        epoch: 0,
        base_sequence: -1,
    };
    let mut builder = BatchBuilder::new(Codec::None)
        .producer(producer)
        .transactional()
        .control();
    builder.append(NOW.0, Some(&[0, 0, 0, kind]), Some(&[0, 0, 0, 0, 0, 5]), &[]);
    parsed(builder)
}

fn append_marker(log: &mut Log, marker: &Batch) {
    let append = LeaderAppend {
        origin: Origin::Coordinator,
        ..by_leader(0)
    };
    log.append_as_leader(marker, append).unwrap();
    publish_all(log);
}

fn aborted(log: &Log, from: i64, upto: i64) -> Vec<(i64, i64)> {
    let found = log
        .view()
        .aborted_transactions(Offset(from), Offset(upto))
        .unwrap();
    found
        .into_iter()
        .map(
            |AbortedTransaction {
                 producer: ProducerId(id),
                 first,
             }| (id, first.0),
        )
        .collect()
}

#[test]
fn the_stable_offset_waits_for_open_transactions_and_aborted_ones_are_named() {
    let (disk, mut log) = fresh(LogConfig {
        segment_bytes: 400,
        ..LogConfig::default()
    });
    append(&mut log, &values(3));
    append(&mut log, &data(1, 0));
    append(&mut log, &data(2, 0));
    append(&mut log, &values(2));
    assert_eq!(log.bounds().last_stable, Offset(3));

    append_marker(&mut log, &marker(1, 0));
    assert_eq!(log.bounds().last_stable, Offset(4));
    append_marker(&mut log, &marker(2, 1));
    assert_eq!(log.bounds().last_stable, Offset(9));
    assert_eq!(aborted(&log, 0, 9), [(1, 3)]);
    assert_eq!(aborted(&log, 8, 9), []);
    // A marker above the watermark decides nothing yet.
    assert_eq!(log.last_stable_below(Offset(7)), Offset(7));

    let indexes: Vec<_> = files(&disk, ".txnindex");
    let before: Vec<_> = indexes
        .iter()
        .map(|name| disk.read_file(&dir().join(name), 1_000).unwrap())
        .collect();
    drop(log);
    let (log, _) = reopen(&disk, LogConfig::default(), recovering(0));
    assert_eq!(aborted(&log, 0, 9), [(1, 3)]);
    let after: Vec<_> = indexes
        .iter()
        .map(|name| disk.read_file(&dir().join(name), 1_000).unwrap())
        .collect();
    assert_eq!(before, after);
}

#[test]
fn recovery_from_the_middle_of_a_segment_names_each_aborted_transaction_once() {
    let (disk, mut log) = fresh(LogConfig {
        index_interval_bytes: 100,
        ..LogConfig::default()
    });
    for n in 0..5 {
        append(&mut log, &data(1, n));
        append_marker(&mut log, &marker(1, 0));
        append(&mut log, &values(2));
    }
    sync(&mut log);
    let (point, before) = (log.recovery_point(), aborted(&log, 0, 20));
    append(&mut log, &data(1, 5));
    append_marker(&mut log, &marker(1, 0));
    drop(log);
    let (log, report) = reopen(&disk, LogConfig::default(), recovering(point.0));

    assert!(report.scanned_bytes < log.view().size_bytes() / 2, "{report:?}");
    assert_eq!(aborted(&log, 0, 22), [before, vec![(1, 20)]].concat());
}

#[test]
fn a_cut_marker_opens_its_transaction_again() {
    let (_disk, mut log) = fresh(LogConfig::default());
    append(&mut log, &data(1, 0));
    append_marker(&mut log, &marker(1, 0));
    log.truncate_to(Offset(1)).unwrap();

    assert_eq!(log.last_stable_below(Offset(1)), Offset(0));
    assert_eq!(aborted(&log, 0, 9), []);
    append_marker(&mut log, &marker(1, 1));
    assert_eq!(log.bounds().last_stable, Offset(2));
    assert_eq!(aborted(&log, 0, 9), []);
}

#[test]
fn a_follower_learns_transactions_from_what_it_fetches() {
    let (_disk, mut leader) = fresh(LogConfig::default());
    append(&mut leader, &data(1, 0));
    append(&mut leader, &data(2, 0));
    append_marker(&mut leader, &marker(2, 0));
    let fetched = read_all(&leader.view(), Offset::ZERO);
    let (_disk, mut follower) = fresh(LogConfig::default());
    follower
        .append_as_follower(&fetched, partition_log::LeaderEpoch(0), NOW)
        .unwrap();

    assert_eq!(follower.last_stable_below(Offset(3)), Offset(0));
    assert_eq!(aborted(&follower, 0, 3), [(2, 1)]);
}
