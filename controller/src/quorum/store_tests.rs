//! What a store must still hold after it was closed, lost the power, or was damaged.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::Path;

use bytes::Bytes;
use host::{Disk, OpenHow, OsDisk};
use proptest::prelude::*;

use super::drill::Drill;
use super::log_backend::{Batch, COMMITTED, LogBackend, PURGED, VOTE};
use super::mem_backend::MemMedium;
use super::sled_backend::SledBackend;
use super::store::Unusable;

fn payloads(count: u8) -> Vec<Bytes> {
    (0..count).map(|n| Bytes::from(vec![n; 40])).collect()
}

fn open(dir: &Path) -> Drill {
    Drill::open(&OsDisk, dir).unwrap()
}

fn indexes(drill: &Drill) -> Vec<u64> {
    drill.entries().iter().map(|(index, _)| *index).collect()
}

#[test]
fn a_store_holds_after_a_restart_what_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = open(dir.path());
    first.append(payloads(9)).wait().unwrap();
    first.vote(4).wait().unwrap();
    first.purge(3).wait().unwrap();
    first.truncate(7).wait().unwrap();
    first.append(payloads(1)).wait().unwrap();
    drop(first);

    let again = open(dir.path());

    assert_eq!(indexes(&again), [4, 5, 6, 7]);
    assert_eq!(again.entries()[3].1, payloads(1)[0]);
    assert_eq!(again.voted_term(), Some(4));
}

#[test]
fn an_entry_larger_than_a_value_comes_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let large = Bytes::from((0..1_000_000_u32).flat_map(u32::to_be_bytes).collect::<Vec<_>>());
    let mut first = open(dir.path());
    first.append(payloads(2)).wait().unwrap();
    first.append([large.clone()]).wait().unwrap();
    first.append(payloads(2)).wait().unwrap();
    drop(first);

    let again = open(dir.path());

    assert_eq!(again.entries()[2], (2, large));
    assert_eq!(indexes(&again), [0, 1, 2, 3, 4]);
    let values_of_their_own = OsDisk.list(&dir.path().join("raft/blobs"));
    assert_eq!(
        values_of_their_own.map(|files| files.len()).unwrap_or(0),
        0,
        "such files are never synced"
    );
}

#[test]
fn a_store_that_lost_its_tail_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let medium = MemMedium::default();
    let floor = dir.path().join("floor");
    let mut first = Drill::open_on(medium.open(), &OsDisk, &floor).unwrap();
    first.append(payloads(5)).wait().unwrap();
    drop(first);
    let lost = Batch {
        truncate_from: Some(4),
        ..Batch::default()
    };
    medium.open().apply(&lost).unwrap();

    let refused = Drill::open_on(medium.open(), &OsDisk, &floor).err().unwrap();

    assert!(
        refused
            .to_string()
            .contains("ends at 3, and everything up to 4 was synced")
    );
}

#[test]
fn a_store_that_lost_its_vote_or_all_of_itself_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let floor = dir.path().join("floor");
    let mut first = Drill::open_on(MemMedium::default().open(), &OsDisk, &floor).unwrap();
    first.vote(3).wait().unwrap();
    drop(first);

    let refused = Drill::open_on(MemMedium::default().open(), &OsDisk, &floor);

    assert!(matches!(refused, Err(Unusable::Damaged(_))));
}

#[test]
fn a_store_without_its_floor_is_damaged_unless_it_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let medium = MemMedium::default();
    let mut first = Drill::open_on(medium.open(), &OsDisk, &dir.path().join("floor")).unwrap();
    first.append(payloads(1)).wait().unwrap();
    drop(first);

    let refused = Drill::open_on(medium.open(), &OsDisk, &dir.path().join("another"));

    assert!(matches!(refused, Err(Unusable::Damaged(_))));
}

#[test]
fn a_hole_in_the_log_is_damage() {
    let medium = MemMedium::default();
    let entry = |index: u64| (index, Bytes::from_static(b"x"));
    let holed = Batch {
        append: vec![entry(1), entry(3)],
        ..Batch::default()
    };
    medium.open().apply(&holed).unwrap();

    let refused = medium.open().load().unwrap_err();

    assert_eq!(
        refused.to_string(),
        "a hole in the log: entry 1 is followed by entry 3"
    );
}

#[test]
fn a_flipped_bit_in_the_log_never_opens_as_if_nothing_were() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = open(dir.path());
    first.append(payloads(200)).wait().unwrap();
    drop(first);
    let db = OsDisk.open(&dir.path().join("raft/db"), OpenHow::Write).unwrap();
    let mut at = db.len().unwrap() / 2;
    let mut byte = [0];
    while byte == [0] {
        at -= 1;
        db.read_exact_at(&mut byte, at).unwrap();
    }
    db.write_at(&[byte[0] ^ 0x10], at).unwrap();

    match Drill::open(&OsDisk, dir.path()) {
        Err(_) => {}
        Ok(opened) => assert_eq!(opened.entries().len(), 200),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(u8, u16),
    Truncate(u8),
    Purge(u8),
    Meta(u8),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..20_u8, 0..20_000_u16).prop_map(|(count, size)| Step::Append(count, size)),
        1 => (0..10_u8).prop_map(Step::Truncate),
        1 => (0..30_u8).prop_map(Step::Purge),
        1 => any::<u8>().prop_map(Step::Meta),
        1 => Just(Step::Reopen),
    ]
}

/// The batch of a step, given the first and the next index, which it moves.
fn batch_of(step: &Step, first: &mut u64, next: &mut u64) -> Batch {
    let mut batch = Batch::default();
    match step {
        Step::Append(count, size) => {
            for n in 0..*count {
                batch
                    .append
                    .push((*next, Bytes::from(vec![n; usize::from(*size)])));
                *next += 1;
            }
        }
        Step::Truncate(back) => {
            *next = next.saturating_sub(u64::from(*back)).max(*first);
            batch.truncate_from = Some(*next);
        }
        Step::Purge(by) => {
            let upto = *first + u64::from(*by);
            if upto < *next {
                *first = upto + 1;
                batch.purge_upto = Some(upto);
            }
        }
        Step::Meta(value) => {
            let value = Bytes::from(vec![*value; 3]);
            batch.meta = vec![(VOTE, value.clone()), (PURGED, value.clone()), (COMMITTED, value)];
        }
        Step::Reopen => {}
    }
    batch
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn sled_holds_what_memory_holds_whatever_was_done_and_after_every_reopen(
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("raft");
        let mut memory = MemMedium::default().open();
        let mut sled = SledBackend::open(&OsDisk, &path).unwrap();
        let (mut first, mut next) = (0, 0);
        for step in steps {
            let batch = batch_of(&step, &mut first, &mut next);
            memory.apply(&batch).unwrap();
            sled.apply(&batch).unwrap();
            sled.sync().unwrap();
            if matches!(step, Step::Reopen) {
                drop(sled);
                sled = SledBackend::open(&OsDisk, &path).unwrap();
                sled.load().unwrap();
            }
        }
        let expected = memory.load().unwrap();
        let mut held = sled.load().unwrap();
        held.meta.sort();
        // A chunk that reaches beyond the purge point is kept whole: what is purged may still be there.
        held.entries.retain(|(index, _)| first <= *index);
        prop_assert_eq!(held.entries, expected.entries);
        prop_assert_eq!(held.meta, expected.meta);
    }
}
