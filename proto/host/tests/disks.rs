//! What every disk promises, asked of the real one and of the simulated one; and what only a simulated one can do.

#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, IoSlice};
use std::path::{Path, PathBuf};

use host::{Disk, EntryKind, OpenHow, OsDisk, SimDisk, SyncFault, WallMs, replace_file};

fn each_disk(check: impl Fn(&dyn Disk, PathBuf)) {
    let real = tempfile::tempdir().unwrap();
    check(&OsDisk, real.path().to_owned());
    let simulated = SimDisk::new();
    simulated.create_dir_all(Path::new("/d")).unwrap();
    check(&simulated, PathBuf::from("/d"));
}

#[test]
fn what_is_written_by_position_is_read_by_position() {
    each_disk(|disk, dir| {
        let file = disk.open(&dir.join("a"), OpenHow::CreateNew).unwrap();
        file.write_at(b"hello", 2).unwrap();
        file.write_vectored_at(&[IoSlice::new(b"wor"), IoSlice::new(b"ld")], 7)
            .unwrap();
        assert_eq!(file.append(b"!").unwrap(), 12);

        let mut bytes = [9; 13];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"\0\0helloworld!");
        assert_eq!(file.read_at(&mut bytes, 13).unwrap(), 0);
        assert_eq!(
            file.read_exact_at(&mut bytes, 1).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
        file.set_len(3).unwrap();
        assert_eq!(file.len().unwrap(), 3);
    });
}

#[test]
fn opening_respects_what_exists() {
    each_disk(|disk, dir| {
        let path = dir.join("a");
        assert_eq!(
            disk.open(&path, OpenHow::Read).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            disk.open(&path, OpenHow::Write).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        disk.open(&path, OpenHow::CreateNew)
            .unwrap()
            .write_at(b"x", 0)
            .unwrap();
        assert_eq!(
            disk.open(&path, OpenHow::CreateNew).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(
            disk.open(&path, OpenHow::CreateOrWrite).unwrap().len().unwrap(),
            1
        );
        assert!(
            disk.open(&path, OpenHow::Read)
                .unwrap()
                .write_at(b"y", 0)
                .is_err()
        );
    });
}

#[test]
fn a_directory_lists_its_own_names_sorted() {
    each_disk(|disk, dir| {
        disk.create_dir_all(&dir.join("b/c")).unwrap();
        disk.open(&dir.join("a"), OpenHow::CreateNew)
            .unwrap()
            .write_at(b"xyz", 0)
            .unwrap();
        disk.open(&dir.join("b/inner"), OpenHow::CreateNew).unwrap();

        let names: Vec<_> = disk
            .list(&dir)
            .unwrap()
            .into_iter()
            .map(|e| (e.name, e.kind, e.size_bytes))
            .collect();
        assert_eq!(
            names,
            [
                ("a".into(), EntryKind::File, 3),
                ("b".into(), EntryKind::Directory, 0)
            ]
        );
    });
}

#[test]
fn renaming_a_directory_takes_its_files_along_and_removing_it_too() {
    each_disk(|disk, dir| {
        disk.create_dir_all(&dir.join("old")).unwrap();
        let open = disk.open(&dir.join("old/f"), OpenHow::CreateNew).unwrap();
        open.write_at(b"1", 0).unwrap();
        disk.rename(&dir.join("old"), &dir.join("new")).unwrap();
        assert_eq!(disk.read_file(&dir.join("new/f"), 10).unwrap(), b"1");

        disk.remove_dir_all(&dir.join("new")).unwrap();
        assert!(!disk.exists(&dir.join("new/f")).unwrap());
        let mut byte = [0];
        open.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(&byte, b"1");
    });
}

#[test]
fn a_lock_excludes_until_it_is_dropped() {
    each_disk(|disk, dir| {
        let path = dir.join(".lock");
        let held = disk.lock(&path).unwrap();
        assert_eq!(disk.lock(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(held);
        disk.lock(&path).unwrap();
    });
}

#[test]
fn a_replaced_file_has_the_new_contents_and_leaves_no_other_name() {
    each_disk(|disk, dir| {
        let path = dir.join("checkpoint");
        replace_file(disk, &path, b"first, and longer").unwrap();
        replace_file(disk, &path, b"second").unwrap();

        assert_eq!(disk.read_file(&path, 100).unwrap(), b"second");
        assert_eq!(disk.list(&dir).unwrap().len(), 1);
        assert_eq!(
            disk.read_file(&path, 5).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
    });
}

#[test]
fn a_crash_keeps_what_was_synced_and_at_most_a_prefix_of_the_rest() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/d")).unwrap();
        let file = disk.open(Path::new("/d/f"), OpenHow::CreateNew).unwrap();
        file.write_at(b"synced", 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/")).unwrap_err();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_at(b"-one", 6).unwrap();
        file.write_at(b"-two", 10).unwrap();
        disk.crash(seed);

        assert!(file.len().is_err(), "a handle does not survive the machine");
        let bytes = disk.read_file(Path::new("/d/f"), 100).unwrap();
        assert!(
            b"synced-one-two".starts_with(&bytes[..]) && 6 <= bytes.len(),
            "{bytes:?}"
        );
        lengths.insert(bytes.len());
    }
    assert!(
        lengths.contains(&6) && lengths.contains(&14) && 4 < lengths.len(),
        "{lengths:?}"
    );
}

#[test]
fn a_replacement_survives_any_crash_as_old_or_new() {
    for seed in 0..32 {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/d")).unwrap();
        replace_file(&disk, Path::new("/d/c"), b"old").unwrap();
        let torn = disk.open(Path::new("/d/c.tmp"), OpenHow::CreateNew).unwrap();
        torn.write_at(b"new", 0).unwrap();
        disk.rename(Path::new("/d/c.tmp"), Path::new("/d/other")).unwrap();
        disk.crash(seed);

        assert_eq!(disk.read_file(Path::new("/d/c"), 10).unwrap(), b"old");
    }
}

#[test]
fn a_new_name_is_lost_unless_its_directory_was_synced() {
    let kept = (0..32).filter(|seed| {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/d")).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        let file = disk.open(Path::new("/d/f"), OpenHow::CreateNew).unwrap();
        file.sync_data().unwrap();
        disk.crash(*seed);
        disk.exists(Path::new("/d/f")).unwrap()
    });
    let kept = kept.count();
    assert!(0 < kept && kept < 32, "{kept} of 32 kept");
}

#[test]
fn a_full_disk_takes_a_prefix_and_recovers_when_space_is_there() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    let file = disk.open(Path::new("/d/f"), OpenHow::CreateNew).unwrap();
    disk.set_capacity(Some(4));

    assert_eq!(
        file.write_at(b"123456", 0).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(file.len().unwrap(), 4);
    assert_eq!(disk.free_bytes(Path::new("/d")).unwrap(), 0);
    file.write_at(b"abcd", 0).unwrap();
    disk.set_capacity(None);
    file.write_at(b"123456", 0).unwrap();
}

#[test]
fn a_failed_or_lying_sync_saves_nothing() {
    for fault in [SyncFault::Fails, SyncFault::Lies] {
        let lost = (0..16).filter(|seed| {
            let disk = SimDisk::new();
            disk.create_dir_all(Path::new("/d")).unwrap();
            let file = disk.open(Path::new("/d/f"), OpenHow::CreateNew).unwrap();
            disk.sync_dir(Path::new("/d")).unwrap();
            file.write_at(b"x", 0).unwrap();
            disk.fail_next_sync(fault);
            assert_eq!(file.sync_data().is_err(), fault == SyncFault::Fails);
            disk.crash(*seed);
            disk.read_file(Path::new("/d/f"), 1).unwrap().is_empty()
        });
        assert!(0 < lost.count(), "{fault:?}");
    }
}

#[test]
fn a_flipped_bit_is_seen_before_and_after_a_crash() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk.set_wall(WallMs(77));
    let file = disk.open(Path::new("/d/f"), OpenHow::CreateNew).unwrap();
    file.write_at(&[0, 0], 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    disk.flip_bit(Path::new("/d/f"), 1, 3).unwrap();

    assert_eq!(file.modified().unwrap(), WallMs(77));
    assert_eq!(disk.read_file(Path::new("/d/f"), 2).unwrap(), [0, 8]);
    disk.crash(0);
    assert_eq!(disk.read_file(Path::new("/d/f"), 2).unwrap(), [0, 8]);
    assert_eq!(
        disk.flip_bit(Path::new("/d/f"), 2, 0).unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
}

#[test]
fn a_bit_that_is_flipped_before_the_sync_is_flipped_after_a_crash_that_kept_the_write() {
    for seed in 0..20 {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/d")).unwrap();
        let file = disk.open(Path::new("/d/f"), OpenHow::CreateNew).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_at(&[0, 0, 0], 0).unwrap();
        disk.flip_bit(Path::new("/d/f"), 1, 0).unwrap();

        disk.crash(seed);

        let kept = disk.read_file(Path::new("/d/f"), 10).unwrap();
        assert_eq!(kept, [0, 1, 0][..kept.len()], "seed {seed}");
    }
}

#[test]
fn the_next_write_to_a_file_of_a_kind_is_damaged_and_no_other() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    let [log, index] = ["/d/f.log", "/d/f.index"].map(|name| {
        let file = disk.open(Path::new(name), OpenHow::CreateNew);
        file.unwrap()
    });
    disk.damage_next_write(".log", 3);
    index.write_at(&[7, 7], 0).unwrap();
    log.write_at(&[7, 7], 0).unwrap();
    log.write_at(&[7, 7], 2).unwrap();

    assert_eq!(disk.read_file(Path::new("/d/f.index"), 10).unwrap(), [7, 7]);
    assert_eq!(disk.read_file(Path::new("/d/f.log"), 10).unwrap(), [7, 15, 7, 7]);
}
