//! Static members: they keep their place while they are away, and take it over under a new id.

use super::bench::{Bench, OLD, join, settings, sync};
use crate::group::{Generation, Heartbeat, Join, JoinAbilities, Outcome, Refusal, Reply, Request};

fn named(member: &str, abilities: JoinAbilities, unique: &str) -> Request {
    Request::Join(Join {
        instance: Some("i".into()),
        abilities,
        unique: unique.to_owned(),
        ..join("a", member)
    })
}

/// A stable group of one static member.
fn stable(bench: &mut Bench) -> String {
    let to = bench.ask(named("", super::bench::NEW, "1"));
    bench.pass(3);
    let member = bench.joined(to).member.as_str().to_owned();
    bench.ask(Request::Sync(sync(&member, Generation(1), &[(&member, "all")])));
    bench.written();
    member
}

#[test]
fn a_successor_keeps_the_part_without_a_rebalance_and_the_old_id_is_fenced() {
    let mut bench = Bench::new(settings());
    let old = stable(&mut bench);

    let to = bench.ask(named("", super::bench::NEW, "2"));
    assert!(bench.answer(to).is_none(), "the change must be written first");
    bench.written();

    let joined = bench.joined(to).clone();
    assert_eq!((joined.generation, joined.skip_assignment), (Generation(1), true));
    assert_eq!(joined.members.len(), 1, "it leads now");
    let beat = |member: &str| {
        Request::Heartbeat(Heartbeat {
            group: super::bench::GROUP.into(),
            member: member.into(),
            instance: Some("i".into()),
            generation: Generation(1),
        })
    };
    let (before, now) = (bench.ask(beat(&old)), bench.ask(beat(joined.member.as_str())));
    assert_eq!(
        bench.answer(before),
        Some(&Reply::Heartbeat(Err(Refusal::FencedInstance)))
    );
    assert_eq!(bench.answer(now), Some(&Reply::Heartbeat(Ok(()))));
    let part = bench.ask(Request::Sync(sync(joined.member.as_str(), Generation(1), &[])));
    assert!(matches!(bench.answer(part), Some(Reply::Sync(Ok(part))) if &part.assignment[..] == b"all"));
}

#[test]
fn a_successor_that_cannot_skip_the_assignment_is_told_that_the_old_one_leads() {
    let mut bench = Bench::new(settings());
    let old = stable(&mut bench);

    let to = bench.ask(named("", OLD, "2"));
    bench.written();

    let joined = bench.joined(to);
    assert_eq!((joined.leader.as_str(), joined.members.len()), (old.as_str(), 0));
}

#[test]
fn a_takeover_that_cannot_be_written_leaves_the_old_one_in_place() {
    let mut bench = Bench::new(settings());
    let old = stable(&mut bench);

    let to = bench.ask(named("", super::bench::NEW, "2"));
    bench.outcome(0, Outcome::Refused(Refusal::WriteUnavailable));

    assert_eq!(bench.not_joined(to).0, Refusal::WriteUnavailable);
    assert_eq!(bench.beat(&old, 1), Ok(()));
    assert_eq!(bench.described().unwrap().members[0].assignment, "all");
}

#[test]
fn a_static_member_stays_when_it_does_not_join_again_in_time() {
    let mut bench = Bench::new(settings());
    let to = bench.ask(Request::Join(Join {
        instance: Some("i".into()),
        session_timeout_ms: 600_000,
        ..join("a", "")
    }));
    bench.pass(3);
    let member = bench.joined(to).member.as_str().to_owned();
    bench.ask(Request::Sync(sync(&member, Generation(1), &[])));
    bench.written();

    let (newcomer, id) = bench.enter("b");
    bench.pass(60);

    let joined = bench.joined(newcomer);
    assert_eq!((joined.leader.as_str(), joined.members.len()), (id.as_str(), 2));
}
