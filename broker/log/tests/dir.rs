//! A log directory: whose it is, what it remembers, what it deletes.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;

use host::{Disk, OpenHow, OsDisk, SimDisk};
use partition_log::{
    CleanShutdown, DirOwner, Log, LogConfig, LogDir, LogDirError, LogHost, Offset, Opening, TopicPartition,
};
use support::*;

fn owner(cluster: &str, node_id: i32) -> DirOwner {
    DirOwner {
        cluster_id: cluster.into(),
        node_id,
    }
}

fn orders() -> TopicPartition {
    TopicPartition {
        topic: "orders".into(),
        partition: 0,
    }
}

fn open(host: &LogHost) -> LogDir {
    LogDir::open(host, Path::new("/logs"), &owner("abc", 1)).unwrap()
}

#[test]
fn a_new_directory_gets_an_identity_and_keeps_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("logs");
    let host = host_on(OsDisk);
    assert_eq!(LogDir::identity(&host, &path).unwrap(), None);
    let first = LogDir::open(&host, &path, &owner("abc", 1)).unwrap();
    let id = first.id();
    assert!(matches!(
        LogDir::open(&host, &path, &owner("abc", 1)),
        Err(LogDirError::InUse { .. })
    ));
    drop(first);

    let text = std::str::from_utf8(&OsDisk.read_file(&path.join("meta.properties"), 1_000).unwrap())
        .unwrap()
        .to_owned();
    assert_eq!(
        text,
        format!("cluster.id=abc\ndirectory.id={id}\nnode.id=1\nversion=1\n")
    );
    assert_eq!(LogDir::open(&host, &path, &owner("abc", 1)).unwrap().id(), id);
    assert_eq!(LogDir::identity(&host, &path).unwrap().unwrap().directory_id, id);
}

#[test]
fn a_directory_of_another_cluster_or_node_is_refused_and_not_touched() {
    let disk = SimDisk::new();
    let host = host_on(disk.clone());
    drop(open(&host));
    let before = disk.read_file(Path::new("/logs/meta.properties"), 1_000).unwrap();

    let other = LogDir::open(&host, Path::new("/logs"), &owner("xyz", 1)).unwrap_err();
    assert!(
        matches!(&other, LogDirError::OtherCluster { held, given, .. } if held == "abc" && given == "xyz")
    );
    let other = LogDir::open(&host, Path::new("/logs"), &owner("abc", 2)).unwrap_err();
    assert_eq!(other.to_string(), "/logs belongs to node 1, not to 2");
    assert_eq!(
        disk.read_file(Path::new("/logs/meta.properties"), 1_000).unwrap(),
        before
    );
    disk.open(Path::new("/logs/meta.properties"), OpenHow::Write)
        .unwrap()
        .set_len(3)
        .unwrap();
    let damaged = LogDir::open(&host, Path::new("/logs"), &owner("abc", 1)).unwrap_err();
    assert!(matches!(damaged, LogDirError::UnreadableIdentity { .. }));
}

#[test]
fn checkpoints_have_kafkas_names_and_text_and_come_back() {
    let disk = SimDisk::new();
    let host = host_on(disk.clone());
    let mut dir = open(&host);
    dir.write_recovery_points(&[(orders(), Offset(7))]).unwrap();
    dir.write_log_starts(&[(orders(), Offset(2))]).unwrap();
    dir.write_high_watermarks(&[(orders(), Offset(6))]).unwrap();
    drop(dir);

    for (name, text) in [
        ("recovery-point-offset-checkpoint", "0\n1\norders 0 7\n"),
        ("log-start-offset-checkpoint", "0\n1\norders 0 2\n"),
        ("replication-offset-checkpoint", "0\n1\norders 0 6\n"),
    ] {
        let bytes = disk.read_file(&Path::new("/logs").join(name), 1_000).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), text);
    }
    disk.crash(3);
    let expected = Opening {
        recover_from: Some(Offset(7)),
        log_start: Offset(2),
        high_watermark: Offset(6),
    };
    assert_eq!(open(&host).opening(&orders()), expected);
    let unknown = TopicPartition {
        topic: "other".into(),
        partition: 0,
    };
    assert_eq!(open(&host).opening(&unknown).recover_from, Some(Offset(0)));
}

#[test]
fn the_clean_marker_is_used_up_by_the_next_start() {
    let disk = SimDisk::new();
    let host = host_on(disk.clone());
    let mut dir = open(&host);
    assert_eq!(dir.clean_shutdown(), None);
    let mark = CleanShutdown {
        broker_epoch: Some(42),
        unserved: Vec::new(),
    };
    dir.mark_clean(&mark).unwrap();
    drop(dir);
    let bytes = disk
        .read_file(Path::new("/logs/.kafka_cleanshutdown"), 100)
        .unwrap();
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "{\"version\":0,\"brokerEpoch\":42}"
    );

    let mark = Some(&mark);
    assert_eq!(open(&host).clean_shutdown(), mark, "a start that went no further");
    let mut dir = open(&host);
    assert_eq!(dir.clean_shutdown(), mark);
    dir.take_into_use().unwrap();
    assert_eq!(dir.opening(&orders()).recover_from, None);
    disk.crash(9);
    let dir = open(&host);
    assert_eq!(dir.clean_shutdown(), None);
    assert_eq!(dir.opening(&orders()).recover_from, Some(Offset(0)));
}

#[test]
fn a_partition_lives_across_restarts_until_it_is_deleted() {
    let disk = SimDisk::new();
    let host = host_on(disk.clone());
    let mut dir = open(&host);
    let path = dir.partition_path(&orders());
    let mut log = Log::create(&host, &path, LogConfig::default(), TOPIC, NOW).unwrap();
    append(&mut log, &values(3));
    drop(log);
    let found = dir.partitions().unwrap();
    assert_eq!(
        (found.len(), &found[0].partition, &found[0].path),
        (1, &orders(), &path)
    );
    let (log, _) = Log::open(&host, &path, LogConfig::default(), dir.opening(&orders()), NOW).unwrap();
    assert_eq!((log.topic(), log.log_end()), (Some(TOPIC), Offset(3)));

    let renamed = dir.delete_partition(&orders()).unwrap();
    assert!(
        renamed.to_str().unwrap().starts_with("/logs/orders-0.")
            && renamed.to_str().unwrap().ends_with("-delete")
    );
    assert_eq!(dir.partitions().unwrap(), []);
    assert_eq!(
        dir.unfinished_deletions().unwrap(),
        std::slice::from_ref(&renamed)
    );
    dir.remove(&renamed).unwrap();
    dir.remove(&renamed).unwrap();
    assert_eq!(
        dir.unfinished_deletions().unwrap(),
        Vec::<std::path::PathBuf>::new()
    );
}

#[test]
fn a_stray_partition_is_kept_and_not_listed() {
    let disk = SimDisk::new();
    let host = host_on(disk.clone());
    let mut dir = open(&host);
    let name = "t".repeat(249);
    let long = TopicPartition {
        topic: name,
        partition: 11,
    };
    for partition in [orders(), long] {
        Log::create(
            &host,
            &dir.partition_path(&partition),
            LogConfig::default(),
            TOPIC,
            NOW,
        )
        .unwrap();
        let stray = dir.set_aside_as_stray(&partition).unwrap();
        assert!(stray.file_name().unwrap().len() <= 255);
        assert!(disk.exists(&stray.join("partition.metadata")).unwrap());
    }
    assert_eq!(dir.partitions().unwrap(), []);
    assert_eq!(
        dir.unfinished_deletions().unwrap(),
        Vec::<std::path::PathBuf>::new()
    );
}

/// A mark that could not be lowered on a full disk counted as lowered, and was never written down.
#[test]
fn what_a_full_disk_kept_from_being_written_is_still_owed() {
    let disk = SimDisk::new();
    let host = host_on(disk.clone());
    let mut dir = open(&host);
    dir.write_recovery_points(&[(orders(), Offset(9))]).unwrap();
    let held = |dir: &LogDir| dir.opening(&orders()).recover_from;

    disk.set_capacity(Some(0));
    assert!(dir.lower_recovery_point(&orders(), Offset(4)).is_err());
    assert!(dir.forget(&orders()).is_err());
    dir.note_recovery_point(&orders(), Offset(4));
    assert!(dir.write_noted_recovery_points().is_err());
    disk.set_capacity(None);
    dir.lower_recovery_point(&orders(), Offset(4)).unwrap();
    drop(dir);
    let mut dir = open(&host);
    assert_eq!(held(&dir), Some(Offset(4)));

    disk.set_capacity(Some(0));
    assert!(dir.forget(&orders()).is_err());
    disk.set_capacity(None);
    dir.forget(&orders()).unwrap();
    drop(dir);
    assert_eq!(held(&open(&host)), Some(Offset(0)));
}
