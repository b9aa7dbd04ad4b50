//! What followers are given, event by event.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use metadata::batch::MetadataBatch;
use metadata::ids::{MetadataOffset, Term};
use metadata::record::Record;

use super::*;

const LIMITS: Limits = Limits {
    tail_bytes_max: 100,
    look_bytes_max: 20,
};

/// Three batches of two records and ten bytes each: terms 1, 1 and 4. A batch is called by the offset behind it.
fn feed() -> Feed<i64> {
    let mut feed = Feed::new(Arc::default(), LIMITS);
    for term in [1, 1, 4] {
        push(&mut feed, term, 10);
    }
    feed
}

fn push(feed: &mut Feed<i64>, term: u64, size_bytes: usize) {
    let mut image = Image::clone(feed.image());
    let batch = MetadataBatch {
        decided_in_term: Term(term),
        base_offset: image.next_offset,
        provenance: Default::default(),
        records: vec![Record::NoOp, Record::NoOp],
    };
    image.apply(&batch, Term(term)).unwrap();
    feed.push(image.next_offset.0, size_bytes, Arc::new(image));
}

fn at(next_offset: i64, last_term: u64) -> DumpHeader {
    DumpHeader {
        next_offset: MetadataOffset(next_offset),
        last_term: Term(last_term),
    }
}

#[test]
fn a_follower_is_given_what_follows_its_position() {
    let Next::Batches(batches, end) = feed().after(at(2, 1)) else {
        panic!("batches are held")
    };
    assert_eq!((batches, end), (vec![4, 6], at(6, 4)));
}

#[test]
fn one_look_hands_out_no_more_than_its_limit() {
    let Next::Batches(batches, end) = feed().after(at(0, 0)) else {
        panic!("batches are held")
    };
    assert_eq!((batches, end), (vec![2, 4], at(4, 1)));
}

#[test]
fn one_look_hands_out_a_batch_that_is_larger_than_its_limit() {
    let mut feed = feed();
    push(&mut feed, 4, 70);
    assert!(matches!(feed.after(at(6, 4)), Next::Batches(batches, _) if batches == [8]));
}

#[test]
fn a_follower_that_is_ahead_is_given_nothing() {
    assert!(matches!(feed().after(at(8, 4)), Next::Nothing));
    assert!(matches!(feed().after(at(6, 4)), Next::Nothing));
}

#[test]
fn a_follower_of_another_lineage_is_given_the_image() {
    assert!(matches!(feed().after(at(4, 3)), Next::OtherLineage(_)));
    assert!(matches!(feed().after(at(3, 1)), Next::OtherLineage(_)));
}

#[test]
fn a_follower_behind_what_is_held_is_given_the_image() {
    let mut feed = feed();
    push(&mut feed, 4, 80);

    assert!(matches!(feed.after(at(0, 0)), Next::Snapshot(_)));
    assert!(matches!(feed.after(at(2, 1)), Next::Batches(..)));
}

#[test]
fn a_snapshot_begins_the_feed_anew() {
    let mut feed = feed();
    let image = Arc::clone(feed.image());
    feed.replace(image);

    assert!(matches!(feed.after(at(2, 1)), Next::Snapshot(_)));
    assert!(matches!(feed.after(at(6, 4)), Next::Nothing));
    assert!(matches!(feed.after(at(6, 3)), Next::OtherLineage(_)));
}

#[test]
fn another_lineage_is_told_with_the_first_word_and_cured_by_the_image() {
    let feed = feed();
    let mut stream = Subscription::begin(&feed, at(4, 3));

    assert!(stream.lineage_differs());
    assert!(matches!(stream.next(&feed), Give::Snapshot(_)));
    assert_eq!(stream.position(), at(6, 4));
    assert!(matches!(stream.next(&feed), Give::Nothing));
}

#[test]
fn another_lineage_that_shows_later_ends_the_stream() {
    let mut feed = Feed::new(Arc::default(), LIMITS);
    push(&mut feed, 1, 10);
    let mut stream = Subscription::begin(&feed, at(4, 3));
    assert!(!stream.lineage_differs());
    assert!(matches!(stream.next(&feed), Give::Nothing));

    push(&mut feed, 4, 10);
    assert!(matches!(stream.next(&feed), Give::FollowAgain));
}
