//! Dynamic members: joining, assigning, leaving, falling silent.

use std::time::Duration;

use super::bench::{Bench, OLD, join, protocol, settings, sync};
use crate::group::{Generation, Outcome, Protocol, Refusal, Reply, Request, Settings};

#[test]
fn the_first_member_is_told_its_id_waits_for_others_and_leads() {
    let mut bench = Bench::new(settings());

    let (to, member) = bench.enter("a");
    assert_eq!(member, "a-of-a");
    bench.pass(2);
    assert!(bench.answer(to).is_none(), "others may still come");
    bench.pass(1);

    let joined = bench.joined(to);
    assert_eq!(
        (joined.generation, joined.leader.as_str()),
        (Generation(1), "a-of-a")
    );
    assert_eq!(joined.members.len(), 1);
}

#[test]
fn the_wait_for_others_is_prolonged_while_they_come_but_not_beyond_the_rebalance_timeout() {
    let mut bench = Bench::new(settings());
    let hasty = |name: &str, member: &str| {
        Request::Join(crate::group::Join {
            rebalance_timeout_ms: 5_000,
            abilities: OLD,
            ..join(name, member)
        })
    };

    let first = bench.ask(hasty("a", ""));
    bench.pass(2);
    bench.ask(hasty("b", ""));
    bench.pass(2);
    assert!(bench.answer(first).is_none(), "b has come in the first part");
    bench.ask(hasty("c", ""));
    bench.pass(1);

    assert_eq!(bench.joined(first).members.len(), 3, "five seconds are over");
}

#[test]
fn a_part_is_given_when_the_assignment_is_written() {
    let mut bench = Bench::new(settings());
    let (to, member) = bench.enter("a");
    bench.pass(3);
    bench.written();
    let generation = bench.joined(to).generation;

    let synced = bench.ask(Request::Sync(sync(&member, generation, &[(&member, "all")])));
    assert!(bench.answer(synced).is_none());
    assert_eq!(bench.state(), "CompletingRebalance");
    bench.written();

    assert!(matches!(bench.answer(synced), Some(Reply::Sync(Ok(part))) if &part.assignment[..] == b"all"));
    assert_eq!(bench.state(), "Stable");
}

#[test]
fn an_assignment_that_cannot_be_written_is_made_again() {
    let mut bench = Bench::new(settings());
    let (to, member) = bench.enter("a");
    bench.pass(3);
    bench.written();
    let generation = bench.joined(to).generation;
    let synced = bench.ask(Request::Sync(sync(&member, generation, &[])));

    bench.outcome(0, Outcome::Refused(Refusal::WriteUnavailable));

    assert_eq!(
        bench.answer(synced),
        Some(&Reply::Sync(Err(Refusal::WriteUnavailable)))
    );
    assert_eq!(
        bench.beat(&member, generation.0),
        Err(Refusal::RebalanceInProgress)
    );
    let again = bench.ask(Request::Join(join("a", &member)));
    assert_eq!(bench.joined(again).generation, Generation(2));
}

#[test]
fn a_newcomer_makes_the_others_join_again_and_the_leader_stays() {
    let mut bench = Bench::new(settings());
    let leader = bench.stable("a");

    let (newcomer, _) = bench.enter("b");
    assert_eq!(bench.beat(&leader, 1), Err(Refusal::RebalanceInProgress));
    assert!(bench.answer(newcomer).is_none());
    let again = bench.ask(Request::Join(join("a", &leader)));

    let (told, also) = (bench.joined(again), bench.joined(newcomer));
    assert_eq!((told.generation, also.generation), (Generation(2), Generation(2)));
    assert_eq!(
        (told.members.len(), also.members.len()),
        (2, 0),
        "only the leader sees all"
    );
    assert_eq!(also.leader.as_str(), leader);
}

#[test]
fn who_does_not_join_again_in_time_is_out() {
    let mut bench = Bench::new(settings());
    let leader = bench.stable("a");
    let (newcomer, id) = bench.enter("b");
    let beats = 6;
    for _ in 0..beats {
        bench.pass(9);
        assert_eq!(bench.beat(&leader, 1), Err(Refusal::RebalanceInProgress));
    }
    assert!(bench.answer(newcomer).is_none());

    bench.pass(6);

    assert_eq!(bench.joined(newcomer).leader.as_str(), id);
    assert_eq!(bench.beat(&leader, 1), Err(Refusal::UnknownMember));
}

#[test]
fn a_silent_member_is_out_after_its_session_and_one_that_speaks_is_not() {
    let mut bench = Bench::new(settings());
    let member = bench.stable("a");
    for _ in 0..3 {
        bench.pass(9);
        assert_eq!(bench.beat(&member, 1), Ok(()));
    }

    bench.pass(10);
    bench.written();

    assert_eq!(bench.state(), "Empty");
    assert_eq!(bench.beat(&member, 1), Err(Refusal::UnknownMember));
}

#[test]
fn time_in_which_nobody_could_be_heard_is_excused() {
    let mut bench = Bench::new(settings());
    let member = bench.stable("a");

    bench.shard.excuse(Duration::from_secs(30));
    bench.pass(35);

    assert_eq!(bench.beat(&member, 1), Ok(()));
}

#[test]
fn an_id_that_is_not_used_is_forgotten() {
    let mut bench = Bench::new(settings());
    let first = bench.ask(Request::Join(join("a", "")));
    let member = bench.not_joined(first).1.to_owned();
    bench.written();
    assert_eq!(bench.state(), "Empty");

    bench.pass(10);

    let late = bench.ask(Request::Join(join("a", &member)));
    assert_eq!(bench.not_joined(late), (Refusal::UnknownMember, member.as_str()));
}

#[test]
fn members_that_never_ask_for_their_part_are_out() {
    let mut bench = Bench::new(settings());
    let (to, member) = bench.enter("a");
    bench.pass(3);
    bench.joined(to);
    for _ in 0..6 {
        bench.pass(9);
        assert_eq!(bench.beat(&member, 1), Ok(()));
    }

    bench.pass(6);
    bench.written();

    assert_eq!(bench.state(), "Empty");
}

#[test]
fn the_protocol_with_the_most_votes_among_those_that_all_know_wins() {
    let mut bench = Bench::new(settings());
    let knows = |name: &str, protocols: &[&str]| {
        Request::Join(crate::group::Join {
            protocols: protocols
                .iter()
                .map(|protocol| super::bench::protocol(protocol, name))
                .collect(),
            abilities: OLD,
            ..join(name, "")
        })
    };

    let first = bench.ask(knows("a", &["x", "a", "b"]));
    bench.ask(knows("b", &["b", "a"]));
    bench.ask(knows("c", &["b", "y", "a"]));
    bench.pass(6);

    let joined = bench.joined(first);
    assert_eq!(joined.protocol, "b");
    assert_eq!(
        &joined.members[0].metadata[..],
        b"a",
        "what a says of itself for b"
    );
    let stranger = bench.ask(knows("d", &["y"]));
    assert_eq!(bench.not_joined(stranger).0, Refusal::InconsistentProtocol);
}

#[test]
fn a_protocol_that_stands_twice_counts_once() {
    let mut bench = Bench::new(settings());
    let twice = bench.ask(Request::Join(crate::group::Join {
        protocols: vec![protocol("range", "1"), protocol("range", "2")],
        abilities: OLD,
        ..join("a", "")
    }));
    bench.pass(3);
    assert_eq!(&bench.joined(twice).members[0].metadata[..], b"1");
}

#[test]
fn a_full_group_takes_nobody() {
    let mut bench = Bench::new(Settings {
        members_max: 1,
        ..settings()
    });
    let leader = bench.stable("a");

    let second = bench.ask(Request::Join(join("b", "")));

    assert_eq!(bench.not_joined(second), (Refusal::GroupFull, ""));
    assert_eq!(bench.beat(&leader, 1), Ok(()));
}

#[test]
fn the_last_one_to_leave_ends_the_generation() {
    let mut bench = Bench::new(settings());
    let member = bench.stable("a");

    assert_eq!(
        bench.left(&[&member, &member]),
        [Ok(()), Err(Refusal::UnknownMember)]
    );

    assert_eq!(bench.state(), "Empty");
    let (to, _) = bench.enter("a");
    bench.pass(3);
    assert_eq!(
        bench.joined(to).generation,
        Generation(3),
        "being empty was the second"
    );
}

#[test]
fn a_join_that_is_asked_again_is_answered_again() {
    let mut bench = Bench::new(settings());
    let (leader, follower) = bench.pair();

    let same = bench.ask(Request::Join(join("b", &follower)));
    assert_eq!(
        bench.joined(same).generation,
        Generation(2),
        "nothing has changed"
    );
    let again = bench.ask(Request::Join(join("a", &leader)));

    assert!(
        bench.answer(again).is_none(),
        "a leader that joins again wants to assign again"
    );
    assert_eq!(bench.beat(&follower, 2), Err(Refusal::RebalanceInProgress));
}

#[test]
fn what_is_wrong_with_a_join_is_said_in_order() {
    let mut bench = Bench::new(settings());
    let nameless = bench.ask(Request::Join(crate::group::Join {
        group: "".into(),
        session_timeout_ms: 1,
        ..join("a", "")
    }));
    assert_eq!(bench.not_joined(nameless).0, Refusal::InvalidGroupId);
    for (timeout, allowed) in [
        (5_999, false),
        (6_000, true),
        (1_800_000, true),
        (1_800_001, false),
    ] {
        let to = bench.ask(Request::Join(crate::group::Join {
            session_timeout_ms: timeout,
            ..join(&timeout.to_string(), "")
        }));
        assert_eq!(
            bench.not_joined(to).0 != Refusal::InvalidSessionTimeout,
            allowed,
            "{timeout}"
        );
    }
    let stranger = bench.ask(Request::Join(join("a", "stranger")));
    assert_eq!(bench.not_joined(stranger), (Refusal::UnknownMember, "stranger"));
}

#[test]
fn a_group_that_cannot_be_written_has_nobody_in_it() {
    let mut bench = Bench::new(settings());
    let to = bench.ask(Request::Join(crate::group::Join {
        abilities: OLD,
        ..join("a", "")
    }));

    bench.outcome(0, Outcome::Refused(Refusal::WriteUnavailable));

    assert_eq!(bench.not_joined(to).0, Refusal::WriteUnavailable);
    assert_eq!(bench.shard.group_count(), 0);
}

/// Comparing every name with every name of every member took minutes, in which no group of the lane moved.
#[test]
fn protocols_by_the_hundred_thousand_are_compared_at_once() {
    let mut bench = Bench::new(settings());
    let many = |first: &'static str| (0..100_000).map(move |n| protocol(&format!("{first}{n}"), "m"));
    let joins = |name: &str, protocols: Vec<Protocol>| {
        Request::Join(crate::group::Join {
            protocols,
            abilities: OLD,
            ..join(name, "")
        })
    };
    let first = bench.ask(joins("a", many("a").collect()));

    let stranger = bench.ask(joins("b", many("b").collect()));
    let other = bench.ask(joins("c", many("c").chain([protocol("a99999", "m")]).collect()));
    bench.pass(60);

    assert_eq!(bench.not_joined(stranger).0, Refusal::InconsistentProtocol);
    assert_eq!(bench.joined(other).protocol, "a99999");
    assert_eq!(bench.joined(first).protocol, "a99999");
}

#[test]
fn a_member_of_the_longest_name_gets_an_id_that_fits() {
    let mut bench = Bench::new(settings());
    let name = "ü".repeat(16_383) + "x";

    let first = bench.ask(Request::Join(crate::group::Join {
        unique: "0123".repeat(9),
        ..join(&name, "")
    }));

    let (why, member) = bench.not_joined(first);
    assert_eq!((why, member.len() <= 32_767), (Refusal::MemberIdRequired, true));
}
