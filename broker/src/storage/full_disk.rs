//! A full disk refuses writes and costs nothing else: no log directory goes offline because of it, whatever the broker is
//! doing. What any other fault does to a directory.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use broker_core::lanes::Action;
use broker_core::offsets::{HighWatermark, LogEnd, LogStart, Offset};
use broker_core::replica::Serving;
use host::{Disk, SimDisk};
use metadata::ids::{BrokerId, LeaderEpoch, PartitionEpoch};
use metadata::image::Image;
use partition_log::LogFault;

use super::dirs::{DirIndex, Loading};
use super::follower::Work;
use super::testing::{EPOCH, Follower, ORDERS, batch, clean_stop, dirs_on, image};

/// Broker 1 leads from now on.
fn led_by_me() -> Arc<Image> {
    let mut image = (*image("1000000")).clone();
    let topic = Arc::make_mut(image.topics.get_mut(&ORDERS.topic).unwrap());
    let partition = Arc::make_mut(topic.partitions.get_mut(&ORDERS.index).unwrap());
    partition.leader = Some(BrokerId(1));
    partition.leader_epoch = LeaderEpoch(EPOCH.0 + 1);
    partition.epoch = PartitionEpoch(1);
    Arc::new(image)
}

fn io_fault() -> LogFault {
    LogFault::Io {
        doing: "append to",
        path: "/logs/orders-0".into(),
        source: std::io::Error::other("a broken disk"),
    }
}

/// A broker fails, others take its leaderships over, and their disks are full: all their directories went offline, and
/// stayed so when there was room again.
#[test]
fn a_broker_begins_to_lead_on_a_full_disk() {
    let follower = Follower::new();
    follower.append(0, 3, b'a');
    follower.disk.set_capacity(Some(0));

    follower.told(&led_by_me(), Action::Lead);

    assert!(!follower.dirs.has_failed(DirIndex(0)));
    let serving = follower.serving().unwrap();
    assert!(
        matches!(serving, Serving::Leader { epoch_start, .. } if epoch_start == LogEnd(Offset(9))),
        "{serving:?}"
    );
}

/// A fetch was appended in part, for want of room, and the replica was not told: it began to lead as if it had none of it.
/// Followers could join that lacked it, and a producer that repeated its batch ended the process.
#[test]
fn a_replica_knows_what_came_before_the_disk_was_full() {
    let follower = Follower::new();
    let fetched: Vec<u8> = (0..6_000).flat_map(|n| batch(3 * n, b'a').to_vec()).collect();
    // Its first segment has room, the second one has not.
    follower.disk.set_capacity(Some(1_500_000));
    let log = follower.work(Work::Append {
        from: Offset(0),
        batches: fetched.into(),
        watermark: HighWatermark(Offset(0)),
        log_start: LogStart(Offset(0)),
    });
    assert!(Offset(0) < log.end.0 && log.end.0 < Offset(18_000), "{log:?}");

    follower.told(&led_by_me(), Action::Lead);

    let serving = follower.serving().unwrap();
    assert!(
        matches!(serving, Serving::Leader { epoch_start, .. } if epoch_start == log.end),
        "{serving:?}"
    );
}

#[test]
fn a_replica_that_finds_no_room_is_created_when_there_is_some() {
    for capacity in [0, 10, 50, 100, 150] {
        let disk = SimDisk::new();
        let follower = Follower::on(disk);
        follower.disk.set_capacity(Some(capacity));
        follower.told(&image("1"), Action::Create);
        assert!(!follower.dirs.has_failed(DirIndex(0)), "{capacity}");

        follower.disk.set_capacity(None);
        follower.told(&image("1"), Action::Refresh);
        follower.append(0, 1, b'a');
    }
}

/// What could not be written down for the next start is found again by that start; it must not take the log for one that
/// was closed in order.
#[test]
fn a_log_that_is_closed_on_a_full_disk_is_neither_offline_nor_clean() {
    let follower = Follower::new();
    follower.told(&image("1000000"), Action::Refresh);
    follower.append(0, 3, b'a');
    follower.disk.set_capacity(Some(0));

    let marks = follower.close();

    assert!(!follower.dirs.has_failed(DirIndex(0)));
    assert_eq!(marks.len(), 1, "its checkpoints are kept");
    assert!(marks[0].recovery_point.0 < 9, "{marks:?}");
    assert!(follower.dirs.write_recovery(&marks).is_err());
    follower.disk.set_capacity(None);
    follower.dirs.write_recovery(&marks).unwrap();
    follower
        .dirs
        .mark_clean(&clean_stop(), Loading::Finished)
        .unwrap();
    follower.disk.crash(0);
    assert_eq!(dirs_on(&follower.disk).clean_stop(), None);
}

/// A checkpoint that is refused now and written later costs no recovery at the next start.
#[test]
fn a_directory_whose_checkpoints_were_refused_for_a_while_is_clean_in_the_end() {
    let follower = Follower::new();
    follower.append(0, 3, b'a');
    let marks = follower.marks();
    follower.disk.set_capacity(Some(0));
    assert!(follower.dirs.write_high_watermarks(&marks).is_err());
    assert!(!follower.dirs.has_failed(DirIndex(0)));

    follower.disk.set_capacity(None);
    let marks = follower.close();
    follower.dirs.write_high_watermarks(&marks).unwrap();
    follower
        .dirs
        .mark_clean(&clean_stop(), Loading::Finished)
        .unwrap();
    follower.disk.crash(0);
    assert_eq!(dirs_on(&follower.disk).clean_stop(), Some(clean_stop()));
}

/// One log of a directory met a broken disk. The others there had not touched it yet: they went on fetching, and their
/// leaders took them back into the in-sync sets that the controller had just removed them from.
#[test]
fn a_directory_that_fails_takes_every_log_in_it_out_of_service() {
    let follower = Follower::new();
    follower.append(0, 3, b'a');
    assert!(matches!(follower.serving(), Some(Serving::Follower { .. })));

    follower
        .dirs
        .report(DirIndex(0), "an append failed", &"payments-3", &io_fault());
    assert!(follower.dirs.has_failed(DirIndex(0)));
    follower.directory_failed();

    assert_eq!(follower.serving(), Some(Serving::Offline));
    let marks = follower.close();
    assert_eq!(marks.len(), 1);
    follower.dirs.write_recovery(&marks).unwrap();
}

/// Kafka's rule for a checkpoint, too: who cannot write it has lost the directory (L-55).
#[test]
fn a_checkpoint_that_the_disk_refuses_fails_the_directory() {
    let follower = Follower::new();
    follower
        .disk
        .remove_dir_all(std::path::Path::new("/logs"))
        .unwrap();

    assert!(follower.dirs.write_high_watermarks(&[]).is_err());

    assert!(follower.dirs.has_failed(DirIndex(0)));
    assert_eq!(follower.dirs.failed(), [DirIndex(0)]);
}
