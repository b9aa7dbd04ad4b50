//! A new leader: everything that was committed is there, and members go on as if nothing had happened.

use super::bench::{Bench, GROUP, commit, join, settings};
use crate::group::{Commit, Generation, Record, Refusal, Request};

#[test]
fn members_generation_and_offsets_outlive_the_coordinator() {
    let mut bench = Bench::new(settings());
    let (leader, follower) = bench.pair();
    bench.ask(Request::Commit(Commit {
        member: leader.as_str().into(),
        generation: Generation(2),
        ..commit(0, 42)
    }));
    bench.written();

    let mut next = bench.successor();

    assert_eq!(next.described(), bench.described());
    assert_eq!(next.fetched(0), Some(42));
    assert_eq!((next.beat(&leader, 2), next.beat(&follower, 2)), (Ok(()), Ok(())));
    assert_eq!(next.beat(&leader, 1), Err(Refusal::IllegalGeneration));
}

#[test]
fn what_was_not_committed_is_not_there() {
    let mut bench = Bench::new(settings());
    bench.ask(Request::Commit(commit(0, 1)));
    bench.written();
    bench.ask(Request::Commit(commit(0, 2)));

    assert_eq!(bench.successor().fetched(0), Some(1));
}

#[test]
fn members_have_a_whole_session_to_come_back() {
    let mut bench = Bench::new(settings());
    let member = bench.stable("a");
    bench.pass(9);

    let mut next = bench.successor();
    next.pass(9);
    assert_eq!(next.beat(&member, 1), Ok(()));
    next.pass(10);
    next.written();

    assert_eq!(next.state(), "Empty");
}

#[test]
fn a_member_that_joins_again_at_the_successor_meets_its_group() {
    let mut bench = Bench::new(settings());
    let (leader, follower) = bench.pair();
    let mut next = bench.successor();

    let again = next.ask(Request::Join(join("a", &leader)));
    assert_eq!(next.beat(&follower, 2), Err(Refusal::RebalanceInProgress));
    next.ask(Request::Join(join("b", &follower)));

    assert_eq!(next.joined(again).generation, Generation(3));
    assert_eq!(next.joined(again).members.len(), 2);
}

#[test]
fn a_tombstone_of_a_group_spares_offsets_that_came_later() {
    let mut bench = Bench::new(settings());
    let tombstone = Record::Group {
        group: GROUP.into(),
        value: None,
    };
    bench.ask(Request::Commit(commit(0, 1)));
    bench.written();

    bench.shard.replay(tombstone);

    assert_eq!((bench.fetched(0), bench.state()), (Some(1), "Empty"));
}

#[test]
fn a_join_during_a_deletion_is_not_swept_away() {
    let mut bench = Bench::new(settings());
    let member = bench.stable("a");
    bench.left(&[&member]);
    bench.ask(Request::Delete(GROUP.into()));

    let (to, _) = bench.enter("b");
    bench.written();
    bench.pass(3);

    assert_eq!(bench.joined(to).members.len(), 1);
}
