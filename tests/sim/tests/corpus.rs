//! Seeds that every build must get through: a fixed corpus that reaches every required mark, fresh seeds, and the proof
//! that a seed decides everything.
#![allow(
    clippy::print_stdout,
    reason = "a failing seed is printed with its replay command"
)]

use std::time::{Duration, Instant};

use sim::marks::{Mark, Marks};
use sim::plan::Limits;
use sim::run::{command, run};

/// Seeds that reach every required mark together.
const FIXED: std::ops::Range<u64> = 1..31;
/// Fresh seeds of one run of the tests, if the time allows.
const FRESH: u64 = 200;
/// The time that fresh seeds may take. What did not fit is printed, never hidden.
const FRESH_MAX: Duration = Duration::from_secs(150);

/// Reached only in rarer runs than those of the corpus: named here so that nobody takes them for covered.
const NOT_REQUIRED: &[Mark] = &[Mark::TwoQuorumLeaders, Mark::TailLost, Mark::SequenceRefused];

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
    for seed in FIXED {
        marks.add(&must_hold(seed, &Limits::default()).marks);
    }
    let missing: Vec<&str> = marks
        .missing()
        .filter(|mark| !NOT_REQUIRED.contains(mark))
        .map(Mark::name)
        .collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

#[test]
fn fresh_seeds_hold() {
    use host::Entropy;
    let (first, begun) = (host::OsEntropy.below(1 << 40), Instant::now());
    let mut done = 0;
    for seed in first..first + FRESH {
        if FRESH_MAX < begun.elapsed() {
            break;
        }
        must_hold(seed, &Limits::default());
        done += 1;
    }
    println!("{done} of {FRESH} fresh seeds from {first} on");
    assert!(0 < done, "not one seed fits into the time");
}

#[test]
fn a_seed_decides_everything() {
    for seed in [3, 7, 21] {
        let (one, other) = (run(seed, &Limits::default()), run(seed, &Limits::default()));
        assert_eq!(one.tally, other.tally, "seed {seed}");
        assert_eq!(one.story, other.story, "seed {seed}");
    }
}
