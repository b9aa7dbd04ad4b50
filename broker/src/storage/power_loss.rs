//! What a loss of power may leave of a log that was cut shortly before: nothing that was never written.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use broker_core::lanes::Action;
use broker_core::offsets::{LogStart, Offset};
use bytes::Bytes;
use partition_log::{FirstBatch, Log};
use wire::batch::Batches;

use super::dirs::{DirIndex, Loading};
use super::follower::Work;
use super::testing::{Follower, batch, clean_stop, dirs_on, image, name};

/// Whole batches, each as it was appended, without a hole. What was cut may be back: its epoch tells, and the leader's
/// history cuts it again.
fn assert_was_written(log: &Log, seed: u64) {
    let (view, mut at) = (log.view(), partition_log::Offset::ZERO);
    while at < log.log_end() {
        let slice = view
            .read(at, log.log_end(), 1_000_000, FirstBatch::Whole)
            .unwrap();
        let bytes = Bytes::from(slice.unwrap().read().unwrap());
        for found in Batches::new(bytes) {
            let found = found.unwrap_or_else(|error| panic!("seed {seed}, at {at:?}: {error:?}"));
            let appended = [b'a', b'b'].map(|value| batch(at.0, value));
            assert!(
                appended.contains(&found.bytes),
                "seed {seed}, at {at:?}: {found:?}"
            );
            at = partition_log::Offset(found.header.last_offset() + 1);
        }
    }
}

#[test]
fn what_is_appended_after_a_cut_is_not_trusted_by_a_recovery_point_from_before() {
    for seed in 0..48 {
        let follower = Follower::new();
        follower.append(0, 10, b'a');
        follower.dirs.write_recovery(&follower.marks()).unwrap();
        follower.told(&image("1000000"), Action::Refresh);

        follower.work(Work::Truncate(Offset(9)));
        follower.append(9, 10, b'b');
        follower.assert_durable_before(9);
        let log = follower.after_power_loss(seed);

        assert_was_written(&log, seed);
        assert!(
            partition_log::Offset(9) <= log.log_end(),
            "what was synced is there"
        );
    }
}

/// Of what was cut off, nothing comes back behind what was written in its place: nobody would notice, for the epochs of the
/// whole log would be right up to its end.
#[test]
fn what_was_cut_does_not_come_back_behind_what_is_written_in_its_place() {
    for seed in 0..48 {
        let follower = Follower::new();
        follower.append(0, 10, b'a');
        follower.dirs.write_recovery(&follower.marks()).unwrap();
        follower.told(&image("1000000"), Action::Refresh);

        follower.work(Work::Truncate(Offset(9)));
        follower.append(9, 1, b'b');
        let log = follower.after_power_loss(seed);

        assert!(
            log.log_end() <= partition_log::Offset(12),
            "seed {seed}: it ends at {:?}",
            log.log_end()
        );
        assert_was_written(&log, seed);
    }
}

/// BC-006: a process that is killed while it recovers must not throw the work away.
#[test]
fn what_took_long_to_recover_is_not_recovered_again() {
    let follower = Follower::new();
    follower.told(&image("1000000"), Action::Refresh);
    follower.append(0, 3_000, b'a');
    let disk = follower.killed();
    assert_eq!(dirs_on(&disk).written_recovery_point(&name(), DirIndex(0)).0, 0);

    disk.crash(0);
    let again = Follower::on(disk);
    again.told(&image("1000000"), Action::Create);
    assert_eq!(again.dirs.recovery().left(), 0);
    let disk = again.killed();

    assert_eq!(
        dirs_on(&disk).written_recovery_point(&name(), DirIndex(0)).0,
        9_000
    );
}

/// What was just recovered was written down as durable, and a cut right afterwards did not take it back.
#[test]
fn what_is_appended_after_a_recovery_and_a_cut_is_not_trusted() {
    let follower = Follower::new();
    follower.told(&image("1000000"), Action::Refresh);
    follower.append(0, 3_000, b'a');
    let disk = follower.killed();
    let again = Follower::on(disk);
    again.told(&image("1000000"), Action::Create);

    again.work(Work::Truncate(Offset(8_400)));
    again.assert_durable_before(8_400);
    again.append(8_400, 100, b'b');
    again.assert_durable_before(8_400);
}

/// A broker that is asked to stop before it has opened its logs must not say that they are in order: nobody looked.
#[test]
fn logs_that_were_not_opened_are_not_marked_clean() {
    let follower = Follower::new();
    follower.append(0, 3, b'a');
    let disk = follower.killed();

    dirs_on(&disk)
        .mark_clean(&clean_stop(), Loading::Unfinished)
        .unwrap();
    disk.crash(0);
    assert_eq!(dirs_on(&disk).clean_stop(), None);

    let again = Follower::on(disk);
    again.told(&image("1"), Action::Create);
    again.dirs.mark_clean(&clean_stop(), Loading::Finished).unwrap();
    let disk = again.killed();
    let clean = dirs_on(&disk);
    assert_eq!(clean.clean_stop(), Some(clean_stop()));
    // The mark is used up by the start; what was clean and was not touched still is.
    clean.mark_clean(&clean_stop(), Loading::Unfinished).unwrap();
    disk.crash(0);
    assert_eq!(dirs_on(&disk).clean_stop(), Some(clean_stop()));
}

/// A log stays closed where the disk has no room for its indexes, or it is damaged. A mark would have the next start trust
/// it unseen, and without its checkpoints deleted records would come back.
#[test]
fn a_log_that_could_not_be_opened_keeps_its_checkpoints_and_its_directory_is_not_marked_clean() {
    let follower = Follower::new();
    follower.append(0, 3, b'a');
    follower.dirs.write_recovery(&follower.marks()).unwrap();
    follower.dirs.write_high_watermarks(&follower.marks()).unwrap();
    let (disk, index) = (follower.killed(), DirIndex(0));
    let before = dirs_on(&disk).written_recovery_point(&name(), index);
    assert_eq!(before.0, 9);

    disk.crash(0);
    let others = dirs_on(&disk);
    others.write_recovery(&[]).unwrap();
    others.write_high_watermarks(&[]).unwrap();
    others.mark_clean(&clean_stop(), Loading::Finished).unwrap();
    disk.crash(0);

    assert_eq!(dirs_on(&disk).clean_stop(), None);
    assert_eq!(dirs_on(&disk).written_recovery_point(&name(), index), before);
}

#[test]
fn marks_that_were_noted_before_a_cut_are_not_written_after_it() {
    for seed in 0..48 {
        let follower = Follower::new();
        follower.append(0, 10, b'a');
        let marks = follower.marks();
        follower.told(&image("1000000"), Action::Refresh);

        follower.work(Work::Truncate(Offset(9)));
        follower.append(9, 10, b'b');
        follower.dirs.write_recovery(&marks).unwrap();
        follower.assert_durable_before(9);
        assert_was_written(&follower.after_power_loss(seed), seed);
    }
}

#[test]
fn a_log_that_begins_anew_lower_is_not_cut_by_the_start_it_had() {
    let follower = Follower::new();
    follower.work(Work::Restart(LogStart(Offset(90))));
    follower.append(90, 1, b'a');
    follower.dirs.write_recovery(&follower.marks()).unwrap();

    follower.work(Work::Restart(LogStart(Offset(0))));
    follower.append(0, 3, b'b');
    let log = follower.after_power_loss(1);

    assert_eq!((log.log_start().0, log.log_end().0), (0, 9));
    assert_was_written(&log, 1);
}

#[test]
fn a_cut_above_what_is_noted_writes_nothing() {
    let follower = Follower::new();
    follower.append(0, 2, b'a');
    follower.dirs.write_recovery(&follower.marks()).unwrap();
    follower.told(&image("1000000"), Action::Refresh);
    follower.append(6, 4, b'a');

    let before = follower.dirs.cuts();
    follower.work(Work::Truncate(Offset(9)));
    assert_eq!(follower.dirs.cuts(), before);
}

#[test]
fn a_log_created_under_the_name_of_a_deleted_one_inherits_nothing() {
    let follower = Follower::new();
    follower.work(Work::Restart(LogStart(Offset(90))));
    follower.append(90, 1, b'a');
    let marks = follower.marks();
    follower.dirs.write_recovery(&marks).unwrap();

    follower.told(&image("1"), |assignment| Action::Delete(assignment.partition));
    follower.told(&image("1"), Action::Create);
    follower.dirs.write_recovery(&marks).unwrap();
    follower.append(0, 3, b'b');
    let log = follower.after_power_loss(1);

    assert_eq!((log.log_start().0, log.log_end().0), (0, 9));
}
