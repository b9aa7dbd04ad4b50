//! Claims about fetching from a leader, one test each. Convergence of whole logs stands in `tests/laws.rs`.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::*;
use crate::testing::{at, partition};

const EPOCH: LeaderEpoch = LeaderEpoch(7);

fn fetcher() -> Fetcher {
    Fetcher::of(BrokerId(1), Duration::from_secs(1))
}

fn local(end: i64, last_epoch: Option<i32>) -> LocalLog {
    LocalLog {
        start: LogStart(Offset(0)),
        end: LogEnd(Offset(end)),
        last_epoch: last_epoch.map(LeaderEpoch),
    }
}

/// Follows `orders-0` from offset 10, whose last record is of epoch 6.
fn following() -> Fetcher {
    let mut fetcher = fetcher();
    let effects = fetcher.follow(partition(0), EPOCH, local(10, Some(6)), HighWatermark(Offset(5)));
    assert_eq!(effects, []);
    fetcher
}

fn sent(fetcher: &mut Fetcher, milliseconds: u64) -> Plan {
    match fetcher.next(at(milliseconds)) {
        Next::Send(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn answer(fetcher: &mut Fetcher, plan: &Plan, answer: Answer, milliseconds: u64) -> Vec<Effect> {
    fetcher.answered(
        plan.request,
        &BTreeMap::from([(partition(0), answer)]),
        at(milliseconds),
    )
}

fn records() -> Answer {
    Answer::Records {
        watermark: HighWatermark(Offset(12)),
        log_start: LogStart(Offset(0)),
    }
}

fn epoch_end(epoch: i32, end: i64) -> EpochEnd {
    EpochEnd {
        epoch: LeaderEpoch(epoch),
        end: Offset(end),
    }
}

/// F-22, F-25.
#[test]
fn a_fetch_asks_from_the_logs_end_and_says_its_last_epoch() {
    let mut fetcher = following();
    let plan = sent(&mut fetcher, 0);
    let asked = Fetch {
        offset: Offset(10),
        leader_epoch: EPOCH,
        last_fetched_epoch: Some(LeaderEpoch(6)),
        log_start: LogStart(Offset(0)),
    };
    assert_eq!(plan.fetches, [(partition(0), asked)]);
    assert_eq!(fetcher.next(at(0)), Next::Wait, "it is asked for already");

    let effects = answer(&mut fetcher, &plan, records(), 1);
    assert!(matches!(
        effects[..],
        [Effect::Append {
            at: LogEnd(Offset(10)),
            ..
        }]
    ));
    assert_eq!(fetcher.next(at(1)), Next::Wait, "first the append");
    fetcher.appended(partition(0), EPOCH, Outcome::Done(local(12, Some(7))), at(0));
    assert_eq!(sent(&mut fetcher, 2).fetches[0].1.offset, Offset(12));
}

/// F-14: what was appended is reported to the leader at once, however many requests rest there.
#[test]
fn an_appended_partition_never_waits_for_the_long_poll_of_another() {
    let mut fetcher = following();
    let _ = fetcher.follow(partition(1), EPOCH, local(10, Some(6)), HighWatermark(Offset(5)));
    let both = sent(&mut fetcher, 0);
    assert_eq!(both.fetches.len(), 2);
    let _ = fetcher.follow(partition(2), EPOCH, local(10, Some(6)), HighWatermark(Offset(5)));
    let resting = sent(&mut fetcher, 1);
    assert_eq!(resting.fetches.len(), 1);

    let effects = answer(&mut fetcher, &both, records(), 2);
    assert_eq!(effects.len(), 1, "the other partition has nothing new");
    assert_eq!(
        fetcher.next(at(2)),
        Next::Wait,
        "the other one does not take the place"
    );
    fetcher.appended(partition(0), EPOCH, Outcome::Done(local(12, Some(7))), at(0));

    let next = sent(&mut fetcher, 3);
    assert!(
        next.fetches
            .iter()
            .any(|(id, fetch)| *id == partition(0) && fetch.offset == Offset(12))
    );
    assert_eq!(next.fetches.len(), 2);
}

/// F-26, F-27: also when only the epoch is new, and the same offset is asked for again.
#[test]
fn an_answer_to_what_was_asked_before_is_ignored() {
    let mut fetcher = following();
    let old = sent(&mut fetcher, 0);
    let _ = fetcher.follow(
        partition(0),
        LeaderEpoch(8),
        local(10, Some(6)),
        HighWatermark(Offset(5)),
    );
    assert_eq!(answer(&mut fetcher, &old, records(), 1), []);
    let new = sent(&mut fetcher, 1);
    fetcher.unfollow(partition(0));
    assert_eq!(answer(&mut fetcher, &new, records(), 2), []);
    assert!(fetcher.is_idle());
}

/// F-23, three cases: same epoch, another epoch, no epoch of ours.
#[test]
fn a_diverging_log_is_cut_where_the_histories_part() {
    let log_end = LogEnd(Offset(10));
    let point = |theirs, ours| truncation_point(theirs, ours, log_end).0.0;
    assert_eq!(
        point(epoch_end(5, 8), Some(epoch_end(5, 9))),
        8,
        "the leader's end of the common epoch"
    );
    assert_eq!(
        point(epoch_end(5, 9), Some(epoch_end(5, 8))),
        8,
        "or ours, whichever is less"
    );
    assert_eq!(
        point(epoch_end(5, 9), Some(epoch_end(4, 6))),
        6,
        "ours ends in an older epoch"
    );
    assert_eq!(point(epoch_end(5, 7), None), 7, "nothing of ours is that old");
    assert_eq!(
        point(epoch_end(5, 50), Some(epoch_end(5, 60))),
        10,
        "never beyond the log"
    );
}

/// F-23: after the cut the comparison goes on with the new last epoch, until the leader has no objection.
#[test]
fn a_cut_log_is_compared_again() {
    let mut fetcher = following();
    let plan = sent(&mut fetcher, 0);
    let diverging = Answer::Diverging {
        theirs: epoch_end(5, 9),
        ours: Some(epoch_end(4, 6)),
    };
    let cut = Effect::TruncateTo {
        partition: partition(0),
        leader_epoch: EPOCH,
        to: LogEnd(Offset(6)),
    };
    assert_eq!(answer(&mut fetcher, &plan, diverging, 1), [cut]);
    fetcher.truncated(partition(0), EPOCH, Outcome::Done(local(6, Some(4))), at(0));
    let again = sent(&mut fetcher, 2).fetches[0].1;
    assert_eq!(
        (again.offset, again.last_fetched_epoch),
        (Offset(6), Some(LeaderEpoch(4)))
    );
}

/// F-23: only without a history does the watermark decide.
#[test]
fn a_log_without_a_history_is_cut_to_its_watermark_first() {
    let mut fetcher = fetcher();
    let effects = fetcher.follow(partition(0), EPOCH, local(10, None), HighWatermark(Offset(5)));
    let cut = Effect::TruncateTo {
        partition: partition(0),
        leader_epoch: EPOCH,
        to: LogEnd(Offset(5)),
    };
    assert_eq!(effects, [cut]);
    assert_eq!(fetcher.next(at(0)), Next::Wait);
    fetcher.truncated(partition(0), EPOCH, Outcome::Done(local(5, None)), at(0));
    assert_eq!(sent(&mut fetcher, 0).fetches[0].1.offset, Offset(5));
}

/// F-24: the leader's log ends before ours.
#[test]
fn out_of_range_above_the_leaders_end_cuts_the_log() {
    let mut fetcher = following();
    let plan = sent(&mut fetcher, 0);
    let ask = Effect::AskLeaderEnd {
        partition: partition(0),
        leader_epoch: EPOCH,
    };
    assert_eq!(
        answer(&mut fetcher, &plan, Answer::Failed(Failure::OutOfRange), 1),
        [ask]
    );
    let cut = Effect::TruncateTo {
        partition: partition(0),
        leader_epoch: EPOCH,
        to: LogEnd(Offset(4)),
    };
    assert_eq!(
        fetcher.leader_end(partition(0), EPOCH, Ok(LogEnd(Offset(4))), at(2)),
        [cut]
    );
}

/// F-24: the leader's log begins after ours ends.
#[test]
fn out_of_range_below_the_leaders_start_begins_anew() {
    let mut fetcher = following();
    let plan = sent(&mut fetcher, 0);
    let _ = answer(&mut fetcher, &plan, Answer::Failed(Failure::OutOfRange), 1);
    let ask = Effect::AskLeaderStart {
        partition: partition(0),
        leader_epoch: EPOCH,
    };
    assert_eq!(
        fetcher.leader_end(partition(0), EPOCH, Ok(LogEnd(Offset(90))), at(2)),
        [ask]
    );
    let start = LogStart(Offset(50));
    let restart = Effect::RestartAt {
        partition: partition(0),
        leader_epoch: EPOCH,
        start,
    };
    assert_eq!(
        fetcher.leader_start(partition(0), EPOCH, Ok(start), at(3)),
        [restart]
    );
    let anew = LocalLog {
        start,
        end: LogEnd(Offset(50)),
        last_epoch: None,
    };
    fetcher.truncated(partition(0), EPOCH, Outcome::Done(anew), at(0));
    assert_eq!(sent(&mut fetcher, 4).fetches[0].1.offset, Offset(50));
}

/// F-24: it was in range after all, by now.
#[test]
fn out_of_range_within_the_leaders_log_goes_on_from_the_own_end() {
    let mut fetcher = following();
    let plan = sent(&mut fetcher, 0);
    let _ = answer(&mut fetcher, &plan, Answer::Failed(Failure::OutOfRange), 1);
    let _ = fetcher.leader_end(partition(0), EPOCH, Ok(LogEnd(Offset(90))), at(2));
    assert_eq!(
        fetcher.leader_start(partition(0), EPOCH, Ok(LogStart(Offset(0))), at(3)),
        []
    );
    assert_eq!(
        fetcher.next(at(3)),
        Next::WaitUntil(at(23)),
        "not in a tight loop"
    );
    assert_eq!(sent(&mut fetcher, 23).fetches[0].1.offset, Offset(10));
}

/// F-26.
#[test]
fn a_fenced_epoch_waits_for_metadata() {
    let mut fetcher = following();
    let plan = sent(&mut fetcher, 0);
    assert_eq!(
        answer(&mut fetcher, &plan, Answer::Failed(Failure::FencedLeaderEpoch), 1),
        []
    );
    assert_eq!(fetcher.next(at(100_000)), Next::Wait);
    let _ = fetcher.follow(
        partition(0),
        LeaderEpoch(8),
        local(10, Some(6)),
        HighWatermark(Offset(5)),
    );
    assert_eq!(
        sent(&mut fetcher, 100_001).fetches[0].1.leader_epoch,
        LeaderEpoch(8)
    );
}

/// A leader that has not heard of its election yet is asked again soon, and less often the longer it takes.
#[test]
fn a_passing_failure_backs_off_longer_each_time_up_to_the_configured_time() {
    let mut fetcher = following();
    let mut now = 0;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let plan = sent(&mut fetcher, now);
        let _ = answer(&mut fetcher, &plan, Answer::Failed(Failure::Passing), now);
        let Next::WaitUntil(until) = fetcher.next(at(now)) else {
            panic!("no back-off")
        };
        pauses.push(until.since(at(now)).as_millis());
        now = u64::try_from(until.since_start().as_millis()).unwrap();
    }
    assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1000, 1000]);
    let plan = sent(&mut fetcher, now);
    let _ = answer(&mut fetcher, &plan, records(), now);
    fetcher.appended(partition(0), EPOCH, Outcome::Done(local(12, Some(7))), at(0));
    let plan = sent(&mut fetcher, now);
    let _ = answer(&mut fetcher, &plan, Answer::Failed(Failure::Passing), now);
    assert_eq!(
        fetcher.next(at(now)),
        Next::WaitUntil(at(now + 20)),
        "a good answer ends the series"
    );
}

#[test]
fn a_leader_that_cannot_be_reached_is_left_alone_for_a_while() {
    let mut fetcher = following();
    let plan = sent(&mut fetcher, 0);
    fetcher.unreachable(plan.request, at(5));
    assert_eq!(fetcher.next(at(5)), Next::WaitUntil(at(25)));
    let plan = sent(&mut fetcher, 25);
    fetcher.unreachable(plan.request, at(25));
    assert_eq!(fetcher.next(at(25)), Next::WaitUntil(at(65)));
}

/// A partition that is followed anew must not wait for the end of a long poll.
#[test]
fn a_new_partition_is_asked_for_beside_the_request_that_rests_at_the_leader() {
    let mut fetcher = following();
    let resting = sent(&mut fetcher, 0);
    let _ = fetcher.follow(partition(1), EPOCH, local(0, None), HighWatermark(Offset(0)));
    let second = sent(&mut fetcher, 1);
    assert_ne!(second.request, resting.request);
    assert_eq!(second.fetches.len(), 1);
    assert_eq!(second.fetches[0].0, partition(1));
    let _ = fetcher.follow(partition(2), EPOCH, local(0, None), HighWatermark(Offset(0)));
    assert_eq!(fetcher.next(at(2)), Next::Wait, "two requests at most");
}

/// The leader reads in request order and may run out of bytes.
#[test]
fn each_request_begins_one_partition_later() {
    let mut fetcher = fetcher();
    for index in 0..3 {
        let _ = fetcher.follow(partition(index), EPOCH, local(0, None), HighWatermark(Offset(0)));
    }
    let mut firsts = Vec::new();
    for _ in 0..4 {
        let plan = sent(&mut fetcher, 0);
        firsts.push(plan.fetches[0].0.index.0);
        let _ = fetcher.answered(plan.request, &BTreeMap::new(), at(0));
    }
    assert_eq!(firsts, [0, 1, 2, 0]);
}

/// F-26, F-25.
#[test]
fn a_failed_append_is_fetched_again_given_up_or_started_from_the_real_end() {
    for (failure, next) in [
        (Outcome::Refused, Next::WaitUntil(at(21))),
        (Outcome::Failed, Next::Wait),
        (Outcome::NoRoom, Next::WaitUntil(at(1001))),
    ] {
        let mut fetcher = following();
        let plan = sent(&mut fetcher, 0);
        let _ = answer(&mut fetcher, &plan, records(), 1);
        fetcher.appended(partition(0), EPOCH, failure, at(1));
        assert_eq!(fetcher.next(at(1)), next, "{failure:?}");
        let given_up = fetcher.given_up().count();
        assert_eq!(given_up, usize::from(failure == Outcome::Failed));
    }
    let mut fetcher = following();
    let plan = sent(&mut fetcher, 0);
    let _ = answer(&mut fetcher, &plan, records(), 1);
    fetcher.appended(partition(0), EPOCH, Outcome::LogMoved(local(3, Some(2))), at(1));
    assert_eq!(sent(&mut fetcher, 1).fetches[0].1.offset, Offset(3));
}

/// L-55: what cannot be cut cannot be followed, until the replica is followed anew.
#[test]
fn a_failed_cut_is_tried_again_for_want_of_room_and_given_up_otherwise() {
    for (outcome, next, given_up) in [
        (Outcome::NoRoom, Next::WaitUntil(at(1001)), 0),
        (Outcome::Failed, Next::Wait, 1),
    ] {
        let mut fetcher = fetcher();
        let _ = fetcher.follow(partition(0), EPOCH, local(10, None), HighWatermark(Offset(5)));
        fetcher.truncated(partition(0), EPOCH, outcome, at(1));
        assert_eq!(fetcher.next(at(1)), next, "{outcome:?}");
        assert_eq!(fetcher.given_up().count(), given_up);
    }
}
