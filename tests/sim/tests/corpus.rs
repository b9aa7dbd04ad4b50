//! Seeds that every build must get through: a fixed corpus that reaches every required mark, and the proof that a seed
//! decides everything. Fresh seeds are drawn by `cargo sim`.
#![allow(
    clippy::print_stdout,
    reason = "a failing seed is printed with its replay command"
)]

use sim::corpus;
use sim::marks::Marks;
use sim::plan::Limits;
use sim::run::{command, run};

fn must_hold(seed: u64, limits: &Limits) -> sim::run::Outcome {
    let outcome = run(seed, limits);
    if let Some(violation) = &outcome.violation {
        outcome.story.iter().for_each(|line| println!("{line}"));
        println!("{}\nreplay: {}", outcome.plan, command(seed, limits));
        panic!("seed {seed}: {}: {}", violation.what, violation.how);
    }
    outcome
}

#[test]
fn the_fixed_corpus_holds_and_reaches_every_required_mark() {
    let mut marks = Marks::default();
    for seed in corpus::SEEDS {
        marks.add(&must_hold(seed, &Limits::default()).marks);
    }
    let missing = corpus::missing(&marks);
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

#[test]
fn a_seed_decides_everything() {
    for seed in [3, 7, 21] {
        let (one, other) = (run(seed, &Limits::default()), run(seed, &Limits::default()));
        assert_eq!(one.tally, other.tally, "seed {seed}");
        assert_eq!(one.story, other.story, "seed {seed}");
    }
}

/// A reader whose connection broke with the broker was never told, and stood still.
#[test]
fn readers_outlive_the_broker_that_they_read_from() {
    must_hold(14, &Limits::default());
    must_hold(33, &Limits::default());
}

/// Every Produce that waits for an election looked at all the others when its time was over, and each look put down as
/// many again: the run took all memory.
#[test]
fn requests_that_wait_for_an_election_do_not_multiply() {
    must_hold(36, &Limits::default());
}

/// A broker that was cut off heard of a deleted topic and of the next one of its name in one image, and the lane of the
/// old one deleted the log of the new one.
#[test]
fn the_next_topic_of_a_name_keeps_its_log() {
    must_hold(187, &Limits::default());
}
