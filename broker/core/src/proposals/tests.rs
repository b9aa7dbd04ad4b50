//! Claims about the way of proposals to the controller, one test each (R3.56).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use metadata::ids::{LeaderEpoch, PartitionEpoch};

use super::*;
use crate::testing::{at, partition};

fn proposal(index: i32, epoch: i32) -> Proposal {
    Proposal {
        partition: partition(index),
        leader_epoch: LeaderEpoch(0),
        partition_epoch: PartitionEpoch(epoch),
        in_sync: Vec::new(),
    }
}

#[test]
fn one_request_is_on_its_way_and_the_next_takes_all_that_waits() {
    let mut proposals = Proposals::default();
    proposals.submit(proposal(0, 1));
    assert_eq!(proposals.next_request(at(0)).unwrap(), [proposal(0, 1)]);
    proposals.submit(proposal(1, 1));
    proposals.submit(proposal(2, 1));
    assert_eq!(proposals.next_request(at(1)), None);
    proposals.answered();
    assert_eq!(
        proposals.next_request(at(2)).unwrap(),
        [proposal(1, 1), proposal(2, 1)]
    );
}

#[test]
fn a_request_that_failed_as_a_whole_is_sent_again_after_50_ms() {
    let mut proposals = Proposals::default();
    proposals.submit(proposal(0, 1));
    proposals.submit(proposal(1, 1));
    let _ = proposals.next_request(at(0));
    proposals.submit(proposal(1, 2));
    proposals.failed(at(10));
    assert_eq!(proposals.next_request(at(59)), None);
    assert_eq!(proposals.next_send(), Some(at(60)));
    assert_eq!(
        proposals.next_request(at(60)).unwrap(),
        [proposal(0, 1), proposal(1, 2)],
        "the newer one of a partition counts"
    );
}

/// A leader proposes the same again when it was refused for a passing reason (F-33), and a follower that is not eligible
/// is proposed again with its next fetch: neither may become a tight loop.
#[test]
fn a_proposal_that_was_answered_just_now_waits_a_moment_before_it_goes_again() {
    let mut proposals = Proposals::default();
    proposals.submit(proposal(0, 1));
    let _ = proposals.next_request(at(100));
    proposals.answered();
    proposals.submit(proposal(0, 1));
    assert_eq!(proposals.next_request(at(149)), None);
    assert_eq!(proposals.next_request(at(150)).unwrap(), [proposal(0, 1)]);
    proposals.answered();
    proposals.submit(proposal(0, 2));
    assert_eq!(
        proposals.next_request(at(151)).unwrap(),
        [proposal(0, 2)],
        "another one goes at once"
    );
}
