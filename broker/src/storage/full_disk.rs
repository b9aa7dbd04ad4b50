//! A full disk refuses writes and costs nothing else: no log directory goes offline because of it, whatever the broker is
//! doing. What any other fault does to a directory.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;

use broker_core::lanes::Action;
use broker_core::offsets::{HighWatermark, LogEnd, LogStart, Offset};
use broker_core::replica::Serving;
use host::{Disk, OpenHow, SimDisk};
use metadata::ids::{BrokerId, LeaderEpoch, PartitionEpoch};
use metadata::image::Image;
use partition_log::LogFault;

use super::dirs::{DirIndex, Loading};
use super::follower::Work;
use super::hosted::NotHere;
use super::testing::{EPOCH, Follower, ORDERS, batch, clean_stop, dirs_on, image, name};

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

/// Every broker was restarted while its disk was full, and the one that led could not open its log, for its index had no
/// room. Nobody could read what all of them had.
#[test]
fn a_broker_leads_after_a_restart_on_a_full_disk() {
    let follower = Follower::new();
    follower.told(&image("1000000"), Action::Refresh);
    // More than a segment: the index of the first one is written as soon as it is made again.
    follower.append(0, 4_000, b'a');
    let disk = follower.killed();
    let indexes = ["00000000000000000000.index", "00000000000000000000.timeindex"];
    for index in indexes {
        disk.remove_file(&std::path::Path::new("/logs/orders-0").join(index))
            .unwrap();
    }
    disk.set_capacity(Some(0));

    let again = Follower::on(disk);
    again.told(&led_by_me(), Action::Create);

    let serving = again.serving();
    assert!(
        matches!(serving, Some(Serving::Leader { epoch_start, .. }) if epoch_start == LogEnd(Offset(12_000))),
        "{serving:?}"
    );
    assert!(!again.dirs.has_failed(DirIndex(0)));
}

/// A log that lost its tail is durable up to its end and no further, whether or not there was room to write that down.
#[test]
fn what_is_appended_to_a_log_that_lost_its_tail_is_not_trusted_by_a_recovery_point_from_before() {
    let follower = Follower::new();
    follower.append(0, 10, b'a');
    follower.dirs.write_recovery(&follower.marks()).unwrap();
    let disk = follower.killed();
    let log = disk.open(
        std::path::Path::new("/logs/orders-0/00000000000000000000.log"),
        OpenHow::Write,
    );
    log.unwrap().set_len(3 * batch(0, b'a').len() as u64).unwrap();
    disk.set_capacity(Some(0));

    let again = Follower::on(disk);
    again.told(&image("1000000"), Action::Create);
    assert!(
        matches!(again.serving(), Some(Serving::Follower { .. })),
        "it is read"
    );
    assert!(again.dirs.write_recovery(&again.marks()).is_err());
    assert_eq!(again.dirs.written_recovery_point(&name(), DirIndex(0)).0, 30);

    again.disk.set_capacity(None);
    again.append(9, 1, b'b');
    again.assert_durable_before(9);
}

/// What took long to recover is noted as durable at once. That made the checkpoint count as lowered, which no full disk had
/// room for, and a loss of power later nobody checked what was appended meanwhile.
#[test]
fn what_is_appended_to_a_log_that_lost_its_tail_and_took_long_to_recover_is_not_trusted_either() {
    let follower = Follower::new();
    follower.told(&image("1000000"), Action::Refresh);
    follower.append(0, 4_000, b'a');
    follower.told(&image("1"), Action::Refresh);
    follower.append(12_000, 1, b'a');
    follower.dirs.write_recovery(&follower.marks()).unwrap();
    assert_eq!(
        follower.dirs.written_recovery_point(&name(), DirIndex(0)).0,
        12_003
    );
    let disk = follower.killed();
    let dir = std::path::Path::new("/logs/orders-0");
    let files = disk.list(dir).unwrap().into_iter().map(|entry| entry.name);
    let (indexes, mut segments): (Vec<_>, Vec<_>) = files
        .filter(|name| name.ends_with("index") || name.ends_with(".log"))
        .partition(|name| name.ends_with("index"));
    for index in indexes {
        disk.remove_file(&dir.join(index)).unwrap();
    }
    segments.sort();
    let newest = segments.pop().unwrap();
    let end = newest.trim_end_matches(".log").parse::<i64>().unwrap() + 9;
    assert!((9..12_000).contains(&end), "it is the second one: {newest}");
    let log = disk.open(&dir.join(newest), OpenHow::Write).unwrap();
    log.set_len(3 * batch(0, b'a').len() as u64).unwrap();
    disk.set_capacity(Some(0));

    let again = Follower::on(disk);
    again.told(&image("1000000"), Action::Create);
    again.disk.set_capacity(None);
    again.append(end, 7, b'b');
    again.assert_durable_before(end);

    again.disk.crash(1);
    let point = dirs_on(&again.disk).written_recovery_point(&name(), DirIndex(0));
    assert!(point.0 <= end, "{point:?}, synced before {end}");
}

/// Nobody was told which partition was not served, and its clients were told to look for another leader. Later they were
/// told of the disk where there was another leader, too, and not who that is.
#[test]
fn a_partition_whose_log_cannot_be_opened_is_known_as_one() {
    let follower = Follower::on(SimDisk::new());
    follower.disk.set_capacity(Some(0));
    follower.told(&image("1"), Action::Create);
    let found = |image: &Image| {
        let state = &image.topics[&ORDERS.topic].partitions[&ORDERS.index];
        let found = follower.partitions.find(ORDERS, state, BrokerId(1));
        found.map(|hosted| hosted.dir)
    };
    assert_eq!(found(&led_by_me()), Err(NotHere::Unopened));
    assert_eq!(found(&image("1")), Err(NotHere::Unknown), "broker 2 leads");

    follower.told(&image("1"), |assignment| Action::Stop(assignment.partition));
    assert_eq!(found(&led_by_me()), Err(NotHere::Unknown));

    follower.told(&image("1"), Action::Create);
    assert_eq!(found(&led_by_me()), Err(NotHere::Unopened));
    follower.disk.set_capacity(None);
    follower.told(&image("1"), Action::Refresh);
    assert_eq!(found(&led_by_me()), Ok(DirIndex(0)));
    assert_eq!(found(&image("1")), Ok(DirIndex(0)));
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
