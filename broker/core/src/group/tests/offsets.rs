//! Committed offsets: who may commit, when they count, when they go.

use std::collections::BTreeSet;

use metadata::ids::TopicId;
use metadata::uuid::Uuid;

use super::bench::{Bench, GROUP, commit, fetch, settings};
use crate::group::{Commit, CommittedOffset, Fetch, Generation, Outcome, Refusal, Reply, Request, Stability};

#[test]
fn an_offset_counts_when_it_is_committed() {
    let mut bench = Bench::new(settings());

    let to = bench.ask(Request::Commit(commit(0, 7)));
    assert!(bench.answer(to).is_none());
    assert_eq!(bench.fetched(0), None);
    bench.written();

    assert_eq!(bench.answer(to), Some(&Reply::Commit(Ok(vec![Ok(())]))));
    assert_eq!(bench.fetched(0), Some(7));
    assert_eq!(bench.state(), "Empty", "a simple group is there");
}

#[test]
fn outcomes_that_come_in_another_order_count_in_that_of_the_log() {
    let mut bench = Bench::new(settings());
    bench.ask(Request::Commit(commit(0, 1)));
    let second = bench.ask(Request::Commit(commit(0, 2)));

    bench.outcome(1, Outcome::Committed);
    assert!(bench.answer(second).is_none());
    bench.outcome(0, Outcome::Committed);

    assert_eq!(bench.fetched(0), Some(2));
}

#[test]
fn what_is_refused_never_counts_and_what_is_overdue_counts_once_it_is_committed() {
    let mut bench = Bench::new(settings());
    let refused = bench.ask(Request::Commit(commit(0, 1)));
    let overdue = bench.ask(Request::Commit(commit(1, 2)));

    bench.outcome(0, Outcome::Refused(Refusal::WriteUnavailable));
    bench.outcome(0, Outcome::Overdue);

    for to in [refused, overdue] {
        assert_eq!(
            bench.answer(to),
            Some(&Reply::Commit(Err(Refusal::WriteUnavailable)))
        );
    }
    assert_eq!((bench.fetched(0), bench.fetched(1)), (None, None));
    bench.outcome(0, Outcome::Committed);
    assert_eq!((bench.fetched(0), bench.fetched(1)), (None, Some(2)));
}

#[test]
fn a_stable_fetch_waits_for_what_is_being_written() {
    let mut bench = Bench::new(settings());
    bench.ask(Request::Commit(commit(0, 7)));

    let stable = bench.ask(Request::Fetch(fetch(0, Stability::AfterPendingWrites)));
    assert!(bench.answer(stable).is_none());
    bench.written();

    assert_eq!(bench.offset_in(stable), Some(Some(7)));
}

#[test]
fn who_may_commit_depends_on_the_group() {
    let mut bench = Bench::new(settings());
    let commits = |member: &str, generation: i32| {
        Request::Commit(Commit {
            member: member.into(),
            generation: Generation(generation),
            ..commit(0, 1)
        })
    };
    let result = |bench: &mut Bench, request: Request| {
        let to = bench.ask(request);
        bench.written();
        match bench.answer(to) {
            Some(Reply::Commit(result)) => result.as_ref().map(|_| ()).map_err(|why| *why),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        result(&mut bench, commits("m", 5)),
        Err(Refusal::IllegalGeneration),
        "no group"
    );
    assert_eq!(result(&mut bench, commits("m", -1)), Ok(()), "a simple group");
    let member = bench.stable("a");
    for (who, generation, expected) in [
        (member.as_str(), 1, Ok(())),
        (&member, 2, Err(Refusal::IllegalGeneration)),
        (&member, -1, Err(Refusal::IllegalGeneration)),
        ("stranger", 1, Err(Refusal::UnknownMember)),
        ("", -1, Err(Refusal::UnknownMember)),
    ] {
        assert_eq!(
            result(&mut bench, commits(who, generation)),
            expected,
            "{who} {generation}"
        );
    }
    let again = bench.ask(Request::Join(super::bench::join("a", &member)));
    assert_eq!(bench.joined(again).generation, Generation(2));
    assert_eq!(
        result(&mut bench, commits(&member, 2)),
        Err(Refusal::RebalanceInProgress)
    );
}

#[test]
fn a_member_that_commits_lives() {
    let mut bench = Bench::new(settings());
    let member = bench.stable("a");
    for offset in 0..3 {
        bench.pass(9);
        bench.ask(Request::Commit(Commit {
            member: member.as_str().into(),
            generation: Generation(1),
            ..commit(0, offset)
        }));
        bench.written();
    }
    assert_eq!(bench.beat(&member, 1), Ok(()));
}

#[test]
fn metadata_is_measured_in_units_and_refused_alone() {
    let mut bench = Bench::new(settings());
    let offset = |partition, metadata: &str| CommittedOffset {
        metadata: metadata.to_owned(),
        ..commit(partition, 1).offsets.remove(0)
    };
    let to = bench.ask(Request::Commit(Commit {
        offsets: vec![offset(0, "éééééééé"), offset(1, "nine unit")],
        ..commit(0, 1)
    }));
    bench.written();

    assert_eq!(
        bench.answer(to),
        Some(&Reply::Commit(Ok(vec![Ok(()), Err(Refusal::MetadataTooLarge)])))
    );
    assert_eq!((bench.fetched(0), bench.fetched(1)), (Some(1), None));
}

#[test]
fn a_topic_that_is_gone_takes_its_offsets_along() {
    let mut bench = Bench::new(settings());
    let (gone, kept) = (TopicId(Uuid(1)), TopicId(Uuid(2)));
    for (partition, topic) in [(0, gone), (1, kept)] {
        let mut commit = commit(partition, 5);
        commit.offsets[0].topic_id = Some(topic);
        bench.ask(Request::Commit(commit));
    }
    bench.written();
    assert_eq!(bench.shard.topics(), BTreeSet::from([gone, kept]));

    bench.topics_deleted(BTreeSet::from([gone]));
    bench.written();

    assert_eq!(bench.fetched(0), None);
    assert_eq!(bench.fetched_of(Some(kept), 1), Some(5));
    assert_eq!(bench.successor().fetched(0), None, "its successor knows it too");
}

/// The coordinator heard late that a topic was gone: a commit for the next one of its name was on its way into the log, and
/// the tombstone for the old one would have come behind it, under the same key.
#[test]
fn what_is_being_written_for_the_next_topic_of_a_name_stays() {
    let mut bench = Bench::new(settings());
    let (before, next) = (TopicId(Uuid(1)), TopicId(Uuid(2)));
    let of = |topic| {
        let mut commit = commit(0, 5);
        commit.offsets[0].topic_id = Some(topic);
        Request::Commit(commit)
    };
    bench.ask(of(before));
    bench.written();
    bench.ask(of(next));

    bench.topics_deleted(BTreeSet::from([before]));
    bench.written();

    assert_eq!(bench.fetched_of(Some(next), 0), Some(5));
    assert_eq!(bench.successor().fetched_of(Some(next), 0), Some(5));
}

#[test]
fn what_is_being_written_for_a_topic_that_is_gone_goes_too() {
    let mut bench = Bench::new(settings());
    let gone = TopicId(Uuid(1));
    let mut late = commit(0, 5);
    late.offsets[0].topic_id = Some(gone);
    bench.ask(Request::Commit(late));

    bench.topics_deleted(BTreeSet::from([gone]));
    bench.written();

    assert_eq!(bench.shard.topics(), BTreeSet::new());
}

#[test]
fn another_topic_of_the_same_name_inherits_nothing() {
    let mut bench = Bench::new(settings());
    let mut first = commit(0, 5);
    first.offsets[0].topic_id = Some(TopicId(Uuid(1)));
    bench.ask(Request::Commit(first));
    bench.written();

    assert_eq!(bench.fetched_of(Some(TopicId(Uuid(2))), 0), None);
}

/// The metadata knew that a topic was gone, its coordinator had not heard of it yet, and told what was committed for it.
#[test]
fn nothing_is_told_of_a_topic_that_is_gone_before_it_is_forgotten() {
    let mut bench = Bench::new(settings());
    let mut first = commit(0, 5);
    first.offsets[0].topic_id = Some(TopicId(Uuid(1)));
    bench.ask(Request::Commit(first));
    bench.written();

    assert_eq!(bench.fetched_of(None, 0), None);
}

#[test]
fn only_an_empty_group_is_deleted_and_everything_of_it_goes() {
    let mut bench = Bench::new(settings());
    let member = bench.stable("a");
    bench.ask(Request::Commit(Commit {
        member: member.as_str().into(),
        generation: Generation(1),
        ..commit(0, 1)
    }));
    bench.written();
    let busy = bench.ask(Request::Delete(GROUP.into()));
    assert_eq!(
        bench.answer(busy),
        Some(&Reply::Delete(Err(Refusal::NonEmptyGroup)))
    );
    bench.left(&[&member]);

    let deleted = bench.ask(Request::Delete(GROUP.into()));
    bench.written();

    assert_eq!(bench.answer(deleted), Some(&Reply::Delete(Ok(()))));
    assert_eq!((bench.state(), bench.fetched(0)), ("Dead", None));
    assert_eq!(bench.successor().shard.group_count(), 0);
    let again = bench.ask(Request::Delete(GROUP.into()));
    assert_eq!(
        bench.answer(again),
        Some(&Reply::Delete(Err(Refusal::GroupNotFound)))
    );
}

#[test]
fn everything_is_fetched_topic_by_topic() {
    let mut bench = Bench::new(settings());
    for (partition, offset) in [(1, 11), (0, 10)] {
        bench.ask(Request::Commit(commit(partition, offset)));
    }
    bench.written();

    let to = bench.ask(Request::Fetch(Fetch {
        topics: None,
        ..fetch(0, Stability::Any)
    }));

    let Some(Reply::Fetch(topics)) = bench.answer(to) else {
        panic!("no answer")
    };
    assert_eq!(topics.len(), 1);
    let partitions: Vec<i32> = topics[0].partitions.iter().map(|(index, _)| *index).collect();
    assert_eq!(partitions, [0, 1]);
}
