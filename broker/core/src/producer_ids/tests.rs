//! Claims about producer ids, one test each (T-12).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::*;
use crate::testing::at;

fn block(first: i64) -> Block {
    Block {
        first: ProducerId(first),
        count: 1000,
    }
}

#[test]
fn the_first_client_may_come_before_the_first_block() {
    let mut ids = ProducerIds::default();
    assert_eq!(ids.take(at(0)), (Err(NoneAtHand), Some(Effect::AskForBlock)));
    assert_eq!(ids.take(at(1)), (Err(NoneAtHand), None), "one question at a time");
    ids.granted(block(5000), at(2));
    assert_eq!(ids.take(at(3)), (Ok(ProducerId(5000)), None));
}

#[test]
fn the_next_block_is_asked_for_before_the_present_one_ends() {
    let mut ids = ProducerIds::default();
    assert_eq!(ids.ask(at(0)), Some(Effect::AskForBlock));
    ids.granted(block(0), at(0));
    let asked: Vec<i64> = (0..1000)
        .filter(|_| ids.take(at(1)).1 == Some(Effect::AskForBlock))
        .collect();
    assert_eq!(asked, [899], "when a tenth is left");
    ids.granted(block(7000), at(2));
    assert_eq!(ids.take(at(3)).0, Ok(ProducerId(7000)));
}

#[test]
fn a_refused_question_is_asked_again_a_little_later() {
    let mut ids = ProducerIds::default();
    let _ = ids.ask(at(0));
    ids.refused(at(10));
    assert_eq!(ids.ask(at(59)), None);
    assert_eq!(ids.next_retry(), Some(at(60)));
    assert_eq!(ids.ask(at(60)), Some(Effect::AskForBlock));
}

#[test]
fn no_id_is_handed_out_twice() {
    let mut ids = ProducerIds::default();
    let _ = ids.ask(at(0));
    ids.granted(
        Block {
            first: ProducerId(10),
            count: 3,
        },
        at(0),
    );
    let taken: Vec<i64> = (0..3).map(|_| ids.take(at(0)).0.unwrap().0).collect();
    assert_eq!(taken, [10, 11, 12]);
    assert_eq!(ids.take(at(0)).0, Err(NoneAtHand));
}

#[test]
fn an_impossible_block_is_a_refusal() {
    let mut ids = ProducerIds::default();
    let _ = ids.ask(at(0));
    ids.granted(
        Block {
            first: ProducerId(i64::MAX),
            count: 1000,
        },
        at(0),
    );
    assert_eq!(ids.take(at(0)).0, Err(NoneAtHand));
    assert!(ids.next_retry().is_some());
}
