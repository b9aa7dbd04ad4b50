//! Claims about reading, one test each.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use metadata::uuid::Uuid;
use proptest::prelude::*;

use super::*;
use crate::offsets::HighWatermark;
use crate::replica::Replica;
use crate::testing::{TOPIC, assignment, at, log, partition};

const CONSUMER: Reader = Reader::Consumer {
    origin: Origin::Known,
    isolation: Isolation::ReadUncommitted,
};
const OLD_CONSUMER: Reader = Reader::Consumer {
    origin: Origin::Unknown,
    isolation: Isolation::ReadUncommitted,
};
const NO_CLAIM: Claim = Claim {
    leader_epoch: None,
    topic: None,
};
/// What broker 1 leads in, and who leads.
const HINT: LeaderHint = LeaderHint {
    leader: Some(BrokerId(1)),
    epoch: LeaderEpoch(5),
};

fn follower(id: i32) -> Reader {
    Reader::Follower {
        id: BrokerId(id),
        epoch: Some(BrokerEpoch(100 + i64::from(id))),
    }
}

fn claim(epoch: i32) -> Claim {
    Claim {
        leader_epoch: Some(LeaderEpoch(epoch)),
        topic: None,
    }
}

/// What broker `me` answers; broker 1 leads replicas 1, 2, 3 in epoch 5.
fn asked_of(me: i32, reader: Reader, claim: Claim) -> Result<Bound, FetchRefusal> {
    let seen = assignment(me, Some(1), &[1, 2, 3], 1);
    let (replica, _) = Replica::opened(seen, log(10, 5), Duration::from_secs(30), at(0));
    admit(&replica.view(), replica.assignment(), reader, claim)
}

/// F-7.
#[test]
fn followers_see_everything_and_consumers_what_is_committed() {
    assert_eq!(asked_of(1, follower(2), NO_CLAIM), Ok(Bound::LogEnd));
    assert_eq!(asked_of(1, CONSUMER, NO_CLAIM), Ok(Bound::Watermark));
    let committed = Reader::Consumer {
        origin: Origin::Known,
        isolation: Isolation::ReadCommitted,
    };
    assert_eq!(asked_of(1, committed, NO_CLAIM), Ok(Bound::LastStable));
}

/// F-2.
#[test]
fn another_identity_under_the_same_name_is_refused() {
    let given = TopicId(Uuid(9));
    let other = Claim {
        leader_epoch: None,
        topic: Some(given),
    };
    assert_eq!(
        asked_of(1, CONSUMER, other),
        Err(FetchRefusal::InconsistentTopicId { held: TOPIC, given })
    );
}

/// F-3: the epoch comes before the question who leads.
#[test]
fn a_claimed_epoch_is_compared_first() {
    for me in [1, 2] {
        assert_eq!(
            asked_of(me, follower(3), claim(4)),
            Err(FetchRefusal::FencedLeaderEpoch {
                given: LeaderEpoch(4),
                hint: HINT
            })
        );
        let unknown = FetchRefusal::UnknownLeaderEpoch {
            given: LeaderEpoch(6),
            held: LeaderEpoch(5),
        };
        assert_eq!(asked_of(me, follower(3), claim(6)), Err(unknown));
    }
    assert_eq!(asked_of(1, CONSUMER, claim(5)), Ok(Bound::Watermark));
}

/// F-4.
#[test]
fn a_follower_serves_only_consumers_that_can_be_sent_on() {
    assert_eq!(asked_of(2, CONSUMER, NO_CLAIM), Ok(Bound::Watermark));
    assert_eq!(
        asked_of(2, OLD_CONSUMER, NO_CLAIM),
        Err(FetchRefusal::NotLeader { hint: HINT })
    );
    assert_eq!(
        asked_of(2, follower(3), NO_CLAIM),
        Err(FetchRefusal::NotLeader { hint: HINT })
    );
}

/// F-5, F-29.
#[test]
fn a_stranger_and_a_former_incarnation_are_refused() {
    let refusal = FetchRefusal::NotAReplica {
        reader: BrokerId(9),
        given: Some(LeaderEpoch(5)),
        hint: HINT,
    };
    assert_eq!(asked_of(1, follower(9), claim(5)), Err(refusal));
    let former = Reader::Follower {
        id: BrokerId(2),
        epoch: Some(BrokerEpoch(7)),
    };
    let (held, given) = (BrokerEpoch(102), BrokerEpoch(7));
    assert_eq!(
        asked_of(1, former, NO_CLAIM),
        Err(FetchRefusal::StaleBrokerEpoch {
            held,
            given,
            hint: HINT
        })
    );
}

#[test]
fn an_offline_log_serves_nobody() {
    let seen = assignment(1, Some(1), &[1], 1);
    let replica = Replica::offline(seen, Duration::from_secs(30));
    assert_eq!(
        admit(&replica.view(), replica.assignment(), CONSUMER, NO_CLAIM),
        Err(FetchRefusal::LogOffline)
    );
}

/// L-44: both ends of the log are in range, and what lies between watermark and log end is empty, not an error.
#[test]
fn only_offsets_outside_of_the_log_are_out_of_range() {
    let (start, end) = (LogStart(Offset(5)), LogEnd(Offset(9)));
    for (asked, fine) in [(4, false), (5, true), (9, true), (10, false)] {
        assert_eq!(check_range(Offset(asked), start, end).is_ok(), fine, "{asked}");
    }
}

/// F-22.
#[test]
fn histories_that_part_are_told_where() {
    let (start, end) = (LogStart(Offset(2)), LogEnd(Offset(9)));
    let found = |epoch, end| {
        Some(EpochEnd {
            epoch: LeaderEpoch(epoch),
            end: Offset(end),
        })
    };
    let compare = |asked, found| divergence(LeaderEpoch(4), Offset(asked), found, start, end);
    assert_eq!(compare(6, found(4, 6)), Ok(None), "it ends where ours does");
    assert_eq!(compare(5, found(4, 6)), Ok(None), "it is behind");
    assert_eq!(
        compare(7, found(4, 6)),
        Ok(found(4, 6)),
        "it has more of that epoch than we do"
    );
    assert_eq!(
        compare(6, found(3, 6)),
        Ok(found(3, 6)),
        "we never had that epoch"
    );
    assert!(compare(6, None).is_err(), "our history has no answer");
    assert!(
        compare(1, found(3, 6)).is_err(),
        "before the log: checked before the histories"
    );
}

fn sizes(request_max: u64, min: u64) -> Sizes {
    Sizes {
        request_max: Some(request_max),
        broker_max: 1000,
        quota_max: u64::MAX,
        min,
    }
}

/// F-10, F-11.
#[test]
fn the_first_partition_with_records_may_exceed_the_budget_and_no_other() {
    let mut budget = Budget::of(sizes(100, 1));
    assert_eq!(budget.next_partition(60), Ok(Allowance::OneBatchOrUpTo(60)));
    budget.took(0);
    assert_eq!(
        budget.next_partition(60),
        Ok(Allowance::OneBatchOrUpTo(60)),
        "nothing so far"
    );
    budget.took(70);
    assert_eq!(budget.next_partition(60), Ok(Allowance::UpTo(30)));
    budget.took(30);
    assert_eq!(budget.next_partition(60), Ok(Allowance::UpTo(0)));
    assert_eq!(budget.next_partition(-1), Err(NegativeSize(-1)), "F-10 [L]");
}

/// F-10: the least of request, broker and quota.
#[test]
fn the_tightest_limit_counts_and_the_minimum_is_never_above_it() {
    let sizes = Sizes {
        request_max: Some(5000),
        broker_max: 1000,
        quota_max: 300,
        min: 700,
    };
    let budget = Budget::of(sizes);
    assert_eq!(
        budget.next_partition(i32::MAX),
        Ok(Allowance::OneBatchOrUpTo(300))
    );
    assert_eq!(budget.min(), 300);
}

/// F-12.
#[test]
fn an_answer_goes_out_at_once_when_there_is_something_to_tell() {
    let wait = Duration::from_millis(500);
    let mut budget = Budget::of(sizes(100, 50));
    assert!(!budget.answers_at_once(wait, 1, Outcome::Plain));
    assert!(budget.answers_at_once(Duration::ZERO, 1, Outcome::Plain));
    assert!(budget.answers_at_once(wait, 0, Outcome::Plain));
    assert!(budget.answers_at_once(wait, 1, Outcome::News));
    budget.took(50);
    assert!(budget.answers_at_once(wait, 1, Outcome::Plain));
}

proptest! {
    /// F-11: whatever the partitions hold, the answer stays within the budget, but for the first batch of the first
    /// partition that has one; and some records come if there are any and the budget is not empty.
    #[test]
    fn an_answer_stays_within_its_budget(
        max in 1..500u64,
        partitions in prop::collection::vec((1..300i32, prop::collection::vec(1..200u64, 0..6)), 1..8),
    ) {
        let mut budget = Budget::of(sizes(max, 1));
        let mut first = None;
        for (partition_max, batches) in &partitions {
            let (at_least_one, limit) = match budget.next_partition(*partition_max).unwrap() {
                Allowance::OneBatchOrUpTo(limit) => (true, limit),
                Allowance::UpTo(limit) => (false, limit),
            };
            let mut bytes = 0;
            for (n, batch) in batches.iter().enumerate() {
                if limit < bytes + batch && !(n == 0 && at_least_one) { break; }
                bytes += batch;
            }
            budget.took(bytes);
            if first.is_none() && bytes > 0 { first = Some(batches[0]); }
        }
        let any = partitions.iter().any(|(_, batches)| !batches.is_empty());
        prop_assert_eq!(any, 0 < budget.given());
        prop_assert!(budget.given() <= max.max(first.unwrap_or(0)));
    }
}

// --- waiting -----------------------------------------------------------------------------------------------------

fn position(offset: i64, segment: i64, byte: u64) -> Position {
    Position {
        offset: Offset(offset),
        segment: Offset(segment),
        byte,
    }
}

fn looked(now_leader: i32, bound: Position, change: impl FnOnce(&mut Reached<'_>)) -> Watched {
    let seen = assignment(1, Some(now_leader), &[1, 2, 3], 1);
    let (replica, _) = Replica::opened(seen, log(10, 5), Duration::from_secs(30), at(0));
    let view = replica.view();
    let mut reached = Reached {
        view: Some(&view),
        bound,
        diverging: None,
        throttled: Throttled::No,
    };
    change(&mut reached);
    let awaited = Awaited {
        partition: partition(0),
        from: position(5, 0, 500),
        bound: Bound::Watermark,
        max: 100,
        leader_epoch: LeaderEpoch(5),
        at_leader: AtLeader::Yes,
    };
    awaited.look(&reached)
}

/// F-13.
#[test]
fn a_waiting_fetch_counts_bytes_up_to_its_bound() {
    assert_eq!(looked(1, position(5, 0, 500), |_| {}), Watched::Bytes(0));
    assert_eq!(looked(1, position(7, 0, 560), |_| {}), Watched::Bytes(60));
    assert_eq!(
        looked(1, position(9, 0, 900), |_| {}),
        Watched::Bytes(100),
        "the partition's limit"
    );
}

/// F-13, F-38.
#[test]
fn a_waiting_fetch_is_answered_when_the_world_changed() {
    let bound = position(5, 0, 500);
    assert_eq!(looked(2, bound, |_| {}), Watched::Answer, "no longer the leader");
    assert_eq!(looked(1, bound, |now| now.view = None), Watched::Answer, "gone");
    assert_eq!(
        looked(1, position(4, 0, 400), |_| {}),
        Watched::Answer,
        "truncated"
    );
    assert_eq!(
        looked(1, position(6, 6, 0), |_| {}),
        Watched::Answer,
        "a segment was rolled"
    );
    let diverging = Some(EpochEnd {
        epoch: LeaderEpoch(4),
        end: Offset(3),
    });
    assert_eq!(looked(1, bound, |now| now.diverging = diverging), Watched::Answer);
}

/// F-16.
#[test]
fn a_throttled_replica_adds_nothing_to_a_wait() {
    let bound = position(9, 0, 900);
    assert_eq!(
        looked(1, bound, |now| now.throttled = Throttled::Yes),
        Watched::Bytes(0)
    );
}

#[test]
fn a_waiting_fetch_is_due_when_all_partitions_together_have_enough() {
    assert!(!is_due([Watched::Bytes(30), Watched::Bytes(19)], 50));
    assert!(is_due([Watched::Bytes(30), Watched::Bytes(20)], 50));
    assert!(is_due([Watched::Bytes(0), Watched::Answer], 50));
}

/// F-14.
#[test]
fn followers_wake_on_appends_and_consumers_on_the_watermark() {
    assert!(woken_by(Wake::Appended, Bound::LogEnd));
    assert!(!woken_by(Wake::Appended, Bound::Watermark));
    assert!(!woken_by(Wake::WatermarkMoved, Bound::LogEnd));
    assert!(woken_by(Wake::WatermarkMoved, Bound::Watermark));
    assert!(woken_by(Wake::WatermarkMoved, Bound::LastStable));
    assert!(woken_by(Wake::RoleChanged, Bound::LogEnd));
}

// --- ListOffsets -------------------------------------------------------------------------------------------------

fn leader_log(watermark: i64) -> LeaderLog {
    LeaderLog {
        log: log(20, watermark),
        epoch_start: LogEnd(Offset(10)),
        last_stable: Offset(12),
    }
}

const UNCOMMITTED: Asker = Asker::Consumer(Isolation::ReadUncommitted);

/// L-48, L-50.
#[test]
fn the_end_of_a_log_depends_on_who_asks() {
    assert_eq!(leader_log(15).latest(UNCOMMITTED), Ok(Offset(15)));
    assert_eq!(
        leader_log(15).latest(Asker::Consumer(Isolation::ReadCommitted)),
        Ok(Offset(12))
    );
    assert_eq!(leader_log(15).latest(Asker::Replica), Ok(Offset(20)));
    assert_eq!(
        leader_log(15).by_time(UNCOMMITTED, Some(Offset(14))),
        Ok(Some(Offset(14)))
    );
    assert_eq!(
        leader_log(15).by_time(UNCOMMITTED, Some(Offset(15))),
        Ok(None),
        "not to be read yet"
    );
}

/// L-49.
#[test]
fn a_new_leader_cannot_tell_the_end_before_its_watermark_reaches_its_epoch() {
    let early = leader_log(8);
    assert!(early.latest(UNCOMMITTED).is_err());
    assert!(
        early.by_time(UNCOMMITTED, Some(Offset(9))).is_err(),
        "beyond what may be read"
    );
    assert_eq!(early.by_time(UNCOMMITTED, Some(Offset(3))), Ok(Some(Offset(3))));
    assert_eq!(early.latest(Asker::Replica), Ok(Offset(20)));
    assert_eq!(early.log.watermark, HighWatermark(Offset(8)));
}
