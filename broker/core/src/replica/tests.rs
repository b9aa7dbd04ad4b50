//! Claims about one replica, one test each. The laws over random histories stand in `tests/laws.rs`.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use metadata::ids::PartitionEpoch;

use super::*;
use crate::testing::{assignment, at, brokers, log, partition};

const LAG_MAX: Duration = Duration::from_secs(30);
const ONE: WaiterId = WaiterId(1);

/// Broker 1 leads, with these replicas, this log and this minimum.
fn leader(replicas: &[i32], facts: LogFacts, min: usize) -> (Replica, Vec<Effect>) {
    Replica::opened(assignment(1, Some(1), replicas, min), facts, LAG_MAX, at(0))
}

/// Broker 2 follows broker 1.
fn follower(facts: LogFacts) -> Replica {
    Replica::opened(assignment(2, Some(1), &[1, 2, 3], 1), facts, LAG_MAX, at(0)).0
}

/// A follower's registered incarnation fetched at this offset; the leader's log ended there.
fn fetch(follower: i32, offset: i64, leader_end: i64, milliseconds: u64) -> (BrokerId, FollowerFetch) {
    let fetch = FollowerFetch {
        leader_epoch: LeaderEpoch(5),
        broker_epoch: Some(BrokerEpoch(100 + i64::from(follower))),
        fetch_offset: end(offset),
        log_start: LogStart(Offset(0)),
        leader_end: end(leader_end),
        at: at(milliseconds),
    };
    (BrokerId(follower), fetch)
}

fn fetched(replica: &mut Replica, follower: i32, offset: i64, leader_end: i64, ms: u64) -> Vec<Effect> {
    let (follower, fetch) = fetch(follower, offset, leader_end, ms);
    replica.follower_fetched(follower, fetch).unwrap()
}

fn end(offset: i64) -> LogEnd {
    LogEnd(Offset(offset))
}

fn moved(to: i64) -> Effect {
    Effect::WatermarkMoved {
        to: HighWatermark(Offset(to)),
    }
}

fn completed(outcome: WaitOutcome) -> Effect {
    Effect::Completed { waiter: ONE, outcome }
}

fn proposal(effects: &[Effect]) -> (Vec<i32>, PartitionEpoch) {
    let proposed = effects.iter().find_map(|effect| match effect {
        Effect::ProposeIsr(proposal) => Some(proposal),
        _ => None,
    });
    let proposed = proposed.unwrap();
    (
        proposed.in_sync.iter().map(|member| member.broker.0).collect(),
        proposed.partition_epoch,
    )
}

fn accepted(in_sync: &[i32], epoch: i32) -> IsrAnswer {
    let state = PartitionState {
        leader: Some(BrokerId(1)),
        leader_epoch: LeaderEpoch(5),
        in_sync: brokers(in_sync),
        epoch: PartitionEpoch(epoch),
    };
    IsrAnswer {
        leader_epoch: LeaderEpoch(5),
        partition_epoch: PartitionEpoch(epoch - 1),
        outcome: Ok(state),
    }
}

fn refused(refusal: IsrRefusal) -> IsrAnswer {
    let (leader_epoch, partition_epoch) = (LeaderEpoch(5), PartitionEpoch(9));
    IsrAnswer {
        leader_epoch,
        partition_epoch,
        outcome: Err(refusal),
    }
}

fn in_sync(replica: &Replica) -> Vec<i32> {
    let Role::Leading(leading) = replica.role() else {
        panic!("not leading")
    };
    leading
        .in_sync()
        .members()
        .iter()
        .map(|broker| broker.0)
        .collect()
}

fn watermark(replica: &Replica) -> i64 {
    match replica.role() {
        Role::Leading(leading) => leading.log().watermark.0.0,
        Role::Following(following) => following.log().watermark.0.0,
        Role::Offline(_) => panic!("offline"),
    }
}

/// Broker 3 is out of sync: 1 and 2 are in.
fn two_of_three(facts: LogFacts, min: usize) -> Replica {
    let at_start = assignment(1, Some(1), &[1, 2, 3], min).then(|state| {
        state.in_sync = brokers(&[1, 2]);
        state.epoch = PartitionEpoch(9);
    });
    Replica::opened(at_start, facts, LAG_MAX, at(0)).0
}

// --- becoming a leader -------------------------------------------------------------------------------------------

/// F-37, L-54: the epoch is written at the log's end, and the watermark comes from the checkpoint.
#[test]
fn a_new_leader_writes_its_epoch_at_the_logs_end() {
    let (replica, effects) = leader(&[1, 2, 3], log(40, 30), 1);
    let started = Effect::EpochStarted {
        leader_epoch: LeaderEpoch(5),
        at: end(40),
    };
    assert_eq!(effects, [started, Effect::RoleChanged]);
    assert_eq!(watermark(&replica), 30, "nothing is known of the followers yet");
}

/// F-37: who is alone in sync has committed what it has.
#[test]
fn a_single_replica_commits_at_once() {
    let (_, effects) = leader(&[1], log(40, 30), 1);
    assert_eq!(effects.last(), Some(&moved(40)));
}

/// F-35 [L]: one replica with min.insync.replicas 2 works, for the effective minimum is 1.
#[test]
fn the_minimum_is_never_above_the_number_of_replicas() {
    let image = crate::testing::with_orders(crate::testing::cluster(1), &[&[1]]);
    let seen = Assignment::of(&image, partition(0), BrokerId(1), MinInSync(2)).unwrap();
    assert_eq!(seen.min_in_sync, MinInSync(1));
}

#[test]
fn a_saved_watermark_outside_of_the_log_is_brought_back_into_it() {
    let facts = LogFacts::recovered(LogStart(Offset(10)), end(20), HighWatermark(Offset(25)));
    assert_eq!(facts.watermark, HighWatermark(Offset(20)));
    let facts = LogFacts::recovered(LogStart(Offset(10)), end(20), HighWatermark(Offset(5)));
    assert_eq!(facts.watermark, HighWatermark(Offset(10)));
}

// --- the watermark -----------------------------------------------------------------------------------------------

/// F-34: the least of all in-sync log ends.
#[test]
fn the_watermark_is_what_every_in_sync_replica_holds() {
    let (mut replica, _) = leader(&[1, 2, 3], log(10, 0), 1);
    assert_eq!(
        fetched(&mut replica, 2, 10, 10, 1),
        [],
        "nothing is known of broker 3"
    );
    assert_eq!(fetched(&mut replica, 3, 7, 10, 2), [moved(7)]);
    assert_eq!(fetched(&mut replica, 3, 10, 10, 3), [moved(10)]);
}

/// F-35: with fewer in sync than required, consumers stall, and the data stays.
#[test]
fn the_watermark_stands_still_below_the_minimum() {
    let mut replica = two_of_three(log(10, 4), 3);
    assert_eq!(fetched(&mut replica, 2, 10, 10, 1), []);
    assert_eq!(replica.appended(end(12), at(2)), []);
    assert_eq!(watermark(&replica), 4);
}

/// F-34: a caught-up follower that is about to join holds the watermark back, so that it can.
#[test]
fn the_watermark_waits_for_a_caught_up_follower_that_may_join() {
    let mut replica = two_of_three(log(10, 4), 1);
    let _ = fetched(&mut replica, 2, 10, 10, 1);
    assert_eq!(watermark(&replica), 10);
    let _ = fetched(&mut replica, 3, 10, 10, 2);
    let _ = replica.isr_answered(refused(IsrRefusal::Ineligible), at(2));
    let _ = replica.appended(end(20), at(3));
    assert_eq!(
        fetched(&mut replica, 2, 20, 20, 4),
        [],
        "broker 3 was caught up just now"
    );
    let late = 40_000;
    assert_eq!(
        fetched(&mut replica, 2, 20, 20, late),
        [moved(20)],
        "it no longer is"
    );
}

/// BC-024, F-34: while a member is on its way out it still counts, for the controller may keep it.
#[test]
fn a_member_counts_until_its_removal_is_confirmed() {
    let (mut replica, _) = leader(&[1, 2], log(10, 0), 1);
    let effects = replica.tick(at(31_000));
    assert_eq!(proposal(&effects), (vec![1], PartitionEpoch(9)));
    assert_eq!(
        replica.appended(end(11), at(31_001)),
        [],
        "broker 2 is unknown and still in"
    );
    let effects = replica.isr_answered(accepted(&[1], 10), at(31_002));
    assert_eq!(
        effects,
        [
            Effect::InSyncChanged {
                in_sync: brokers(&[1])
            },
            moved(11)
        ]
    );
}

// --- followers ---------------------------------------------------------------------------------------------------

/// F-29: a fetch at the leader's end of the fetch before means that the follower was caught up then.
#[test]
fn a_follower_under_load_is_caught_up_as_of_its_last_fetch() {
    let mut progress = Progress::default();
    progress.fetched(fetch(2, 5, 10, 1000).1);
    assert!(!progress.is_caught_up(end(20), Duration::from_secs(1), at(1000)));
    progress.fetched(fetch(2, 10, 20, 2000).1);
    assert!(
        progress.is_caught_up(end(20), Duration::from_secs(1), at(2000)),
        "as of 1000"
    );
    assert!(!progress.is_caught_up(end(20), Duration::from_secs(1), at(2001)));
}

/// F-29, F-5.
#[test]
fn a_former_incarnation_or_a_stranger_does_not_count() {
    let (mut replica, _) = leader(&[1, 2], log(10, 0), 1);
    let (id, mut stale) = fetch(2, 10, 10, 1);
    stale.broker_epoch = Some(BrokerEpoch(50));
    let refusal = FollowerRefusal::StaleBrokerEpoch {
        held: BrokerEpoch(102),
        given: BrokerEpoch(50),
    };
    assert_eq!(replica.follower_fetched(id, stale), Err(refusal));
    let (stranger, known) = fetch(7, 10, 10, 1);
    assert_eq!(
        replica.follower_fetched(stranger, known),
        Err(FollowerRefusal::NotAReplica(stranger))
    );
    assert_eq!(watermark(&replica), 0);
}

/// What a follower held under an earlier leadership may have been cut off since.
#[test]
fn a_fetch_that_was_read_under_another_leadership_does_not_count() {
    let (mut replica, _) = leader(&[1, 2], log(10, 0), 1);
    let (id, read_before) = fetch(2, 10, 10, 1);
    let again = assignment(1, Some(1), &[1, 2], 1).then(|state| state.leader_epoch = LeaderEpoch(6));
    let _ = replica.assigned(again, at(2));
    let refusal = FollowerRefusal::OtherLeadership {
        held: LeaderEpoch(6),
        given: LeaderEpoch(5),
    };
    assert_eq!(replica.follower_fetched(id, read_before), Err(refusal));
    assert_eq!(watermark(&replica), 0);
}

// --- the in-sync set ---------------------------------------------------------------------------------------------

/// F-31, F-32, R3.50: with the incarnations that fetched.
#[test]
fn a_follower_that_holds_all_that_is_committed_is_proposed() {
    let mut replica = two_of_three(log(10, 10), 1);
    let effects = fetched(&mut replica, 3, 10, 10, 1);
    let member = |broker: i32, epoch: Option<i64>| Member {
        broker: BrokerId(broker),
        epoch: epoch.map(BrokerEpoch),
    };
    let Effect::ProposeIsr(proposal) = &effects[0] else {
        panic!("{effects:?}")
    };
    assert_eq!(
        proposal.in_sync,
        [member(1, Some(101)), member(2, None), member(3, Some(103))]
    );
    assert_eq!(
        (proposal.leader_epoch, proposal.partition_epoch),
        (LeaderEpoch(5), PartitionEpoch(9))
    );
    assert_eq!(fetched(&mut replica, 3, 10, 10, 2), [], "one proposal at a time");
}

/// F-31: behind the watermark, or behind the start of this leadership, a follower may lack committed records.
#[test]
fn a_follower_below_watermark_or_epoch_start_is_not_proposed() {
    let mut replica = two_of_three(log(10, 8), 1);
    assert_eq!(fetched(&mut replica, 3, 7, 10, 1), [], "below the watermark");
    assert_eq!(
        fetched(&mut replica, 3, 9, 10, 2),
        [],
        "below the start of the epoch, which is 10"
    );
    assert_eq!(proposal(&fetched(&mut replica, 3, 10, 10, 3)).0, [1, 2, 3]);
}

/// R3.57.
#[test]
fn a_follower_that_is_not_active_or_not_the_registered_one_is_not_proposed() {
    for standing in [
        Standing::Fenced,
        Standing::ShuttingDown,
        Standing::DirectoryFailed,
    ] {
        let mut replica = two_of_three(log(10, 10), 1);
        let seen = replica.assignment().clone().standing(3, standing);
        let _ = replica.assigned(seen, at(1));
        assert_eq!(fetched(&mut replica, 3, 10, 10, 2), [], "{standing:?}");
    }
    let mut replica = two_of_three(log(10, 10), 1);
    let (id, mut newer) = fetch(3, 10, 10, 1);
    newer.broker_epoch = Some(BrokerEpoch(500));
    assert_eq!(
        replica.follower_fetched(id, newer),
        Ok(vec![]),
        "the image does not know it yet"
    );
}

/// F-32: while it is not known whether a follower joined, it counts as a member.
#[test]
fn a_joining_follower_counts_at_once() {
    let mut replica = two_of_three(log(10, 10), 1);
    let _ = fetched(&mut replica, 3, 10, 10, 1);
    let _ = replica.appended(end(20), at(2));
    let late = 60_000; // No longer caught up, so that only membership can hold the watermark.
    assert_eq!(fetched(&mut replica, 2, 20, 20, late), []);
    assert_eq!(
        replica.isr_answered(accepted(&[1, 2, 3], 10), at(late)),
        [Effect::InSyncChanged {
            in_sync: brokers(&[1, 2, 3])
        }]
    );
    assert_eq!(watermark(&replica), 10);
}

/// F-30: every half of the lag time.
#[test]
fn a_member_that_fell_behind_is_proposed_to_leave() {
    let (mut replica, _) = leader(&[1, 2, 3], log(10, 0), 1);
    assert_eq!(replica.next_tick(), Some(at(15_000)));
    let _ = fetched(&mut replica, 2, 10, 10, 14_000);
    let _ = fetched(&mut replica, 3, 4, 10, 14_000);
    assert_eq!(replica.tick(at(15_000)), [], "30 s are not over");
    let effects = replica.tick(at(30_001));
    assert_eq!(proposal(&effects).0, [1, 2], "broker 2 is at the end of the log");
}

/// F-33, R3.56.
#[test]
fn a_refusal_that_settles_things_reverts_and_may_be_proposed_again() {
    let mut replica = two_of_three(log(10, 10), 1);
    let _ = fetched(&mut replica, 3, 10, 10, 1);
    assert_eq!(replica.isr_answered(refused(IsrRefusal::Ineligible), at(2)), []);
    assert_eq!(in_sync(&replica), [1, 2]);
    assert_eq!(proposal(&fetched(&mut replica, 3, 10, 10, 3)).0, [1, 2, 3]);
}

/// F-33: the change may have been made; only newer metadata can tell.
#[test]
fn a_refusal_that_settles_nothing_waits_for_metadata() {
    for refusal in [
        IsrRefusal::UnknownTopic,
        IsrRefusal::UnknownPartition,
        IsrRefusal::FencedLeaderEpoch,
        IsrRefusal::StalePartitionEpoch,
        IsrRefusal::Invalid,
        IsrRefusal::NewLeaderElected,
    ] {
        let mut replica = two_of_three(log(10, 10), 1);
        let _ = fetched(&mut replica, 3, 10, 10, 1);
        assert_eq!(replica.isr_answered(refused(refusal), at(2)), []);
        let Role::Leading(leading) = replica.role() else {
            panic!()
        };
        assert!(leading.in_sync().maximal_contains(BrokerId(3)), "{refusal:?}");
        assert_eq!(
            fetched(&mut replica, 3, 10, 10, 3),
            [],
            "nothing more is proposed"
        );
        // The same partition epoch, seen again because a peer changed, settles nothing either.
        let same = replica.assignment().clone();
        let _ = replica.assigned(same.clone(), at(4));
        let Role::Leading(leading) = replica.role() else {
            panic!()
        };
        assert!(leading.in_sync().maximal_contains(BrokerId(3)), "{refusal:?}");

        let newer = same.then(|state| state.in_sync = brokers(&[1, 2, 3]));
        assert_eq!(
            replica.assigned(newer, at(5)),
            [Effect::InSyncChanged {
                in_sync: brokers(&[1, 2, 3])
            }]
        );
    }
}

/// F-33: anything else is tried again.
#[test]
fn an_unexpected_refusal_is_answered_with_the_same_proposal() {
    let mut replica = two_of_three(log(10, 10), 1);
    let first = fetched(&mut replica, 3, 10, 10, 1);
    assert_eq!(
        replica.isr_answered(refused(IsrRefusal::Unexpected), at(2)),
        first
    );
}

/// R5.54: an answer may be ahead of the image.
#[test]
fn an_image_older_than_the_last_answer_does_not_count() {
    let mut replica = two_of_three(log(10, 10), 1);
    let seen = replica.assignment().clone();
    let _ = fetched(&mut replica, 3, 10, 10, 1);
    let _ = replica.isr_answered(accepted(&[1, 2, 3], 10), at(2));
    assert_eq!(replica.assigned(seen, at(3)), []);
    assert_eq!(in_sync(&replica), [1, 2, 3]);
}

/// F-33: what the image said meanwhile is newer.
#[test]
fn an_answer_older_than_the_image_does_not_count() {
    let mut replica = two_of_three(log(10, 10), 1);
    let _ = fetched(&mut replica, 3, 10, 10, 1);
    let newer = replica
        .assignment()
        .clone()
        .then(|state| state.in_sync = brokers(&[1]));
    let _ = replica.assigned(newer, at(2));
    assert_eq!(replica.isr_answered(accepted(&[1, 2, 3], 10), at(3)), []);
    assert_eq!(in_sync(&replica), [1]);
}

// --- acks=all ----------------------------------------------------------------------------------------------------

/// R-13 and F-40: only acks=all is held to the minimum.
#[test]
fn acks_all_needs_enough_in_sync_replicas() {
    let replica = two_of_three(log(10, 4), 3);
    let refusal = ProduceRefusal::NotEnoughReplicas {
        in_sync: 2,
        required: 3,
    };
    assert_eq!(replica.admits(Acks::All, || false), Err(refusal));
    assert_eq!(replica.admits(Acks::All, || true), Ok(LeaderEpoch(5)));
    assert_eq!(replica.admits(Acks::Leader, || false), Ok(LeaderEpoch(5)));
    assert_eq!(replica.admits(Acks::Nothing, || false), Ok(LeaderEpoch(5)));
}

/// F-41.
#[test]
fn acks_all_is_answered_when_the_watermark_covers_it() {
    let (mut replica, _) = leader(&[1, 2], log(10, 10), 2);
    let _ = replica.appended(end(12), at(1));
    assert_eq!(replica.await_replication(ONE, Offset(12)), []);
    assert_eq!(fetched(&mut replica, 2, 11, 12, 2), [moved(11)]);
    assert_eq!(
        fetched(&mut replica, 2, 12, 12, 3),
        [moved(12), completed(WaitOutcome::Replicated)]
    );
}

#[test]
fn acks_all_of_a_single_replica_never_waits() {
    let (mut replica, _) = leader(&[1], log(10, 10), 1);
    assert_eq!(replica.appended(end(12), at(1)), [moved(12)]);
    assert_eq!(
        replica.await_replication(ONE, Offset(12)),
        [completed(WaitOutcome::Replicated)]
    );
}

/// F-41 with F-35: once the in-sync set is too small the waiter sees its deadline, not an error [L].
#[test]
fn a_waiter_whose_in_sync_set_shrinks_goes_on_waiting() {
    let (mut replica, _) = leader(&[1, 2], log(10, 10), 2);
    let _ = replica.appended(end(12), at(1));
    let _ = replica.await_replication(ONE, Offset(12));
    let shrunk = replica
        .assignment()
        .clone()
        .then(|state| state.in_sync = brokers(&[1]));
    assert_eq!(
        replica.assigned(shrunk, at(2)),
        [Effect::InSyncChanged {
            in_sync: brokers(&[1])
        }]
    );
    replica.forget(ONE);
    assert_eq!(
        replica.removed(),
        [Effect::RoleChanged],
        "forgotten: nobody is told"
    );
}

/// F-41: the set shrank between the watermark's move and the wait.
#[test]
fn a_covered_wait_below_the_minimum_is_told_so() {
    let (mut replica, _) = leader(&[1, 2], log(10, 10), 2);
    let shrunk = replica
        .assignment()
        .clone()
        .then(|state| state.in_sync = brokers(&[1]));
    let _ = replica.assigned(shrunk, at(2));
    assert_eq!(
        replica.await_replication(ONE, Offset(10)),
        [completed(WaitOutcome::NotEnoughReplicasAfterAppend)]
    );
}

/// F-38.
#[test]
fn a_deposed_leader_tells_those_who_wait_and_follows() {
    let (mut replica, _) = leader(&[1, 2], log(10, 10), 2);
    let _ = replica.appended(end(12), at(1));
    let _ = replica.await_replication(ONE, Offset(12));
    let deposed = replica.assignment().clone().then(|state| {
        state.leader = Some(BrokerId(2));
        state.leader_epoch = LeaderEpoch(6);
    });
    let (leader, epoch) = (Some(BrokerId(2)), LeaderEpoch(6));
    assert_eq!(
        replica.assigned(deposed, at(2)),
        [
            Effect::RoleChanged,
            completed(WaitOutcome::NotLeader { leader, epoch }),
            Effect::StartFetching {
                leader: BrokerId(2),
                leader_epoch: epoch,
                from: end(12)
            },
        ]
    );
    assert_eq!(
        replica.admits(Acks::Leader, || true),
        Err(ProduceRefusal::NotLeader { leader, epoch })
    );
}

/// The log of a leader that leads again was touched by nobody: what waits still stands at its offset.
#[test]
fn waits_survive_an_epoch_of_the_same_leader() {
    let (mut replica, _) = leader(&[1, 2], log(10, 10), 2);
    let _ = replica.appended(end(12), at(1));
    let _ = replica.await_replication(ONE, Offset(12));
    let again = replica
        .assignment()
        .clone()
        .then(|state| state.leader_epoch = LeaderEpoch(6));
    let started = Effect::EpochStarted {
        leader_epoch: LeaderEpoch(6),
        at: end(12),
    };
    assert_eq!(replica.assigned(again, at(2)), [started, Effect::RoleChanged]);
    let (id, mut in_new_epoch) = fetch(2, 12, 12, 3);
    in_new_epoch.leader_epoch = LeaderEpoch(6);
    assert_eq!(
        replica.follower_fetched(id, in_new_epoch),
        Ok(vec![moved(12), completed(WaitOutcome::Replicated)])
    );
}

// --- following ---------------------------------------------------------------------------------------------------

/// F-27: also when only the epoch is new.
#[test]
fn a_new_leadership_restarts_the_fetching() {
    let mut replica = follower(log(10, 4));
    let again = replica
        .assignment()
        .clone()
        .then(|state| state.leader_epoch = LeaderEpoch(6));
    let start = Effect::StartFetching {
        leader: BrokerId(1),
        leader_epoch: LeaderEpoch(6),
        from: end(10),
    };
    assert_eq!(
        replica.assigned(again.clone(), at(1)),
        [start, Effect::RoleChanged]
    );
    let shrunk = again.then(|state| state.in_sync = brokers(&[1]));
    assert_eq!(replica.assigned(shrunk.clone(), at(2)), [], "same leadership");
    let leaderless = shrunk.then(|state| state.leader = None);
    assert_eq!(
        replica.assigned(leaderless, at(3)),
        [Effect::StopFetching, Effect::RoleChanged]
    );
}

/// F-25: the leader's watermark counts up to the own end; it never moves back.
#[test]
fn a_follower_takes_over_what_the_leader_said() {
    let mut replica = follower(log(10, 4));
    let _ = replica.appended(end(20), at(1));
    let said = |replica: &mut Replica, watermark, start| {
        replica.leader_said(HighWatermark(Offset(watermark)), LogStart(Offset(start)))
    };
    assert_eq!(said(&mut replica, 15, 0), [moved(15)]);
    assert_eq!(said(&mut replica, 12, 0), [], "an older answer");
    let dropped = Effect::LogStartMoved {
        to: LogStart(Offset(6)),
    };
    assert_eq!(said(&mut replica, 50, 6), [moved(20), dropped]);
}

#[test]
fn truncation_takes_the_watermark_along() {
    let mut replica = follower(log(10, 8));
    replica.truncated(end(5));
    assert_eq!(watermark(&replica), 5);
}

/// A fetcher may have decided before the role changed.
#[test]
fn what_was_fetched_under_another_leadership_must_not_touch_the_log() {
    let mut replica = follower(log(10, 4));
    assert_eq!(replica.follows(LeaderEpoch(5)), Ok(()));
    let elected = replica.assignment().clone().then(|state| {
        state.leader = Some(BrokerId(2));
        state.leader_epoch = LeaderEpoch(6);
    });
    let effects = replica.assigned(elected, at(1));
    assert_eq!(effects[0], Effect::StopFetching);
    assert!(replica.follows(LeaderEpoch(5)).is_err());
    assert!(replica.follows(LeaderEpoch(6)).is_err(), "it leads");
}

#[test]
fn a_failed_log_serves_nothing_until_it_is_opened_again() {
    let (mut replica, _) = leader(&[1, 2], log(10, 10), 1);
    let _ = replica.appended(end(12), at(1));
    let _ = replica.await_replication(ONE, Offset(12));
    assert_eq!(
        replica.log_failed(),
        [Effect::RoleChanged, completed(WaitOutcome::LogOffline)]
    );
    assert_eq!(
        replica.admits(Acks::Leader, || true),
        Err(ProduceRefusal::LogOffline)
    );
    assert_eq!(replica.view().serving, Serving::Offline);
    let effects = replica.reopened(log(12, 10), at(5));
    assert_eq!(
        effects[0],
        Effect::EpochStarted {
            leader_epoch: LeaderEpoch(5),
            at: end(12)
        }
    );
}

/// Follower `follower` fetched at the leader's end, with its log starting there.
fn fetched_from(replica: &mut Replica, follower: i32, log_start: i64) -> Vec<Effect> {
    let (follower, fetch) = fetch(follower, 10, 10, 1);
    let fetch = FollowerFetch {
        log_start: LogStart(Offset(log_start)),
        ..fetch
    };
    replica.follower_fetched(follower, fetch).unwrap()
}

#[test]
fn a_deletion_waits_until_every_replica_that_is_alive_has_moved_its_start() {
    let (mut replica, _) = leader(&[1, 2, 3], log(10, 10), 1);
    let start = replica.admits_deletion(4).unwrap();
    assert_eq!(replica.log_start_moved(start), []);
    assert_eq!(replica.await_deletion(ONE, start), []);
    assert_eq!(replica.low_watermark(), None, "nothing is known of the followers");
    fetched_from(&mut replica, 2, 4);
    fetched_from(&mut replica, 3, 0);
    assert_eq!(replica.low_watermark(), Some(LogStart(Offset(0))));
    let effects = fetched_from(&mut replica, 3, 5);
    assert_eq!(effects, [completed(WaitOutcome::Replicated)]);
    assert_eq!(replica.low_watermark(), Some(start));
}

#[test]
fn a_deletion_does_not_wait_for_a_replica_that_is_fenced() {
    let assignment = assignment(1, Some(1), &[1, 2], 1).standing(2, Standing::Fenced);
    let (mut replica, _) = Replica::opened(assignment, log(10, 10), LAG_MAX, at(0));
    let start = replica.admits_deletion(-1).unwrap();
    assert_eq!(start, LogStart(Offset(10)));
    assert_eq!(replica.log_start_moved(start), []);
    assert_eq!(
        replica.await_deletion(ONE, start),
        [completed(WaitOutcome::Replicated)]
    );
}

#[test]
fn only_what_is_committed_can_be_deleted_and_only_at_the_leader() {
    let (replica, _) = leader(&[1, 2], log(10, 6), 1);
    for given in [7, 10, -2] {
        let refusal = replica.admits_deletion(given).unwrap_err();
        assert!(
            matches!(refusal, DeletionRefusal::OutOfRange { .. }),
            "{given}: {refusal}"
        );
    }
    let refusal = follower(log(10, 10)).admits_deletion(1).unwrap_err();
    assert!(matches!(refusal, DeletionRefusal::NotLeader { .. }), "{refusal}");
}

#[test]
fn a_leader_that_ends_tells_those_who_delete() {
    let (mut replica, _) = leader(&[1, 2], log(10, 10), 1);
    let start = replica.admits_deletion(4).unwrap();
    assert_eq!(replica.log_start_moved(start), []);
    assert_eq!(replica.await_deletion(ONE, start), []);
    assert!(replica.log_failed().contains(&completed(WaitOutcome::LogOffline)));
}
