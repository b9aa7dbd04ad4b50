//! Claims about waits, one test each.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::*;
use crate::testing::{at, partition};

#[test]
fn a_watermark_releases_what_it_covers_in_offset_order() {
    let mut waiters = Waiters::default();
    waiters.add(WaiterId(1), Offset(20));
    waiters.add(WaiterId(2), Offset(10));
    waiters.add(WaiterId(3), Offset(21));

    assert_eq!(waiters.release(Offset(20)), [WaiterId(2), WaiterId(1)]);
    assert_eq!(waiters.release(Offset(20)), []);
    assert_eq!(waiters.drain(), [WaiterId(3)]);
}

#[test]
fn a_forgotten_waiter_is_told_nothing() {
    let mut waiters = Waiters::default();
    waiters.add(WaiterId(1), Offset(10));
    waiters.add(WaiterId(2), Offset(10));
    waiters.forget(WaiterId(1));
    waiters.forget(WaiterId(7));
    assert_eq!(waiters.release(Offset(10)), [WaiterId(2)]);
    assert!(waiters.is_empty());
}

/// F-42: the answer comes when the last partition has its outcome.
#[test]
fn a_request_waits_for_all_of_its_partitions() {
    let mut pending = Pending::until(at(1000));
    pending.wait_for(WaiterId(1), partition(0));
    pending.wait_for(WaiterId(2), partition(1));

    assert_eq!(
        pending.completed(WaiterId(2), WaitOutcome::Replicated),
        Verdict::Waiting
    );
    assert_eq!(
        pending.completed(WaiterId(1), WaitOutcome::Replicated),
        Verdict::Answer
    );
    assert_eq!(pending.into_outcomes().len(), 2);
}

/// F-42: if every partition failed on append there is nothing to wait for.
#[test]
fn a_request_that_waits_for_nothing_is_answered_at_once() {
    assert_eq!(Pending::until(at(1000)).verdict(), Verdict::Answer);
}

/// F-41: at the deadline, those that still wait are timed out, and the others keep their outcome.
#[test]
fn only_what_still_waits_is_timed_out() {
    let mut pending = Pending::until(at(1000));
    pending.wait_for(WaiterId(1), partition(0));
    pending.wait_for(WaiterId(2), partition(1));
    let _ = pending.completed(WaiterId(1), WaitOutcome::Replicated);

    assert_eq!(pending.expire(at(999)), []);
    assert_eq!(
        pending.expire(at(1000)),
        [(partition(1), WaiterId(2))],
        "its replica must forget it"
    );
    assert_eq!(
        pending.completed(WaiterId(2), WaitOutcome::Replicated),
        Verdict::Answer,
        "too late"
    );
    let outcomes = pending.into_outcomes();
    assert_eq!(outcomes[&partition(0)], WaitOutcome::Replicated);
    assert_eq!(outcomes[&partition(1)], WaitOutcome::TimedOut);
}

/// F-42 [L]: of a partition that stands twice in a request, the later counts, and there is one answer.
#[test]
fn a_partition_named_twice_waits_for_the_later() {
    let mut pending = Pending::until(at(1000));
    pending.wait_for(WaiterId(1), partition(0));
    pending.wait_for(WaiterId(2), partition(0));

    assert_eq!(
        pending.completed(WaiterId(1), WaitOutcome::Replicated),
        Verdict::Waiting
    );
    assert_eq!(
        pending.completed(WaiterId(2), WaitOutcome::Replicated),
        Verdict::Answer
    );
}
