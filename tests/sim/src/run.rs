//! One run of a plan, and the search for the shortest one that still fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::marks::Marks;
use crate::plan::{Extra, Limits, Plan};
use crate::world::{Tally, Violation, World};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The plan in words.
    pub plan: String,
    /// How many faults the plan has.
    pub faults: usize,
    /// How long the safety phase is.
    pub safety: Duration,
    /// What it was like.
    pub tally: Tally,
    /// What is wrong, if anything.
    pub violation: Option<Violation>,
    /// Rare branches that were reached.
    pub marks: Marks,
    /// The last things worth telling.
    pub story: Vec<String>,
}

/// Lines of a story that are kept.
const STORY: usize = 60;

/// Runs a seed within limits. A process that panics is a violation: an assertion of the product failed.
#[must_use]
pub fn run(seed: u64, limits: &Limits) -> Outcome {
    let plan = Plan::of(seed, limits);
    let mut world = World::new(plan);
    let panicked = catch_unwind(AssertUnwindSafe(|| world.run())).err();
    let violation = match panicked {
        None => world.violation().cloned(),
        Some(cause) => {
            let text = cause.downcast_ref::<String>().cloned();
            let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let how = text.unwrap_or_else(|| "without a word".to_owned());
            Some(Violation {
                at: world.now(),
                what: "a process panicked".to_owned(),
                how,
            })
        }
    };
    Outcome {
        plan: world.plan().told(),
        faults: world.plan().faults.len(),
        safety: world.plan().safety,
        tally: world.tally().clone(),
        violation,
        marks: world.marks.clone(),
        story: world.story(STORY),
    }
}

/// The least that still fails like `first` did: fewer faults, and a shorter safety phase.
#[must_use]
pub fn shrink(seed: u64, limits: &Limits, first: &Outcome) -> (Limits, Outcome) {
    let kind = |outcome: &Outcome| outcome.violation.as_ref().map(|violation| violation.what.clone());
    let (mut best, mut shortest) = (limits.clone(), first.clone());
    let mut kept: Vec<usize> = limits
        .faults
        .clone()
        .unwrap_or_else(|| (0..first.faults).collect());
    let attempt = |limits: &Limits| {
        let outcome = run(seed, limits);
        (kind(&outcome) == kind(first)).then_some(outcome)
    };
    // Halves first, then one by one.
    let mut size = kept.len().div_ceil(2);
    while 0 < size {
        let mut at = 0;
        while at < kept.len() {
            let end = (at + size).min(kept.len());
            let fewer: Vec<usize> = [&kept[..at], &kept[end..]].concat();
            let limits = Limits {
                faults: Some(fewer.clone()),
                ..best.clone()
            };
            match attempt(&limits) {
                Some(outcome) => (kept, best, shortest) = (fewer, limits, outcome),
                None => at = end,
            }
        }
        size /= 2;
    }
    for extra in Extra::ALL.iter().filter(|extra| !limits.without.contains(extra)) {
        let mut limits = best.clone();
        limits.without.push(*extra);
        if let Some(outcome) = attempt(&limits) {
            (best, shortest) = (limits, outcome);
        }
    }
    for tenths in [3, 5, 7, 9] {
        let limits = Limits {
            safety_max: Some(first.safety * tenths / 10),
            ..best.clone()
        };
        if let Some(outcome) = attempt(&limits) {
            return (limits, outcome);
        }
    }
    (best, shortest)
}

/// The command that runs a seed within limits.
#[must_use]
pub fn command(seed: u64, limits: &Limits) -> String {
    let mut command = format!("cargo sim {seed}");
    if let Some(only) = &limits.only {
        let names: Vec<&str> = only.iter().map(|kind| kind.name()).collect();
        command += &format!(" --only {}", names.join(","));
    }
    if let Some(topology) = limits.topology {
        command += &format!(" --topology {}+{}", topology.controllers, topology.brokers);
    }
    if let Some(faults) = &limits.faults {
        let places: Vec<String> = faults.iter().map(ToString::to_string).collect();
        command += &format!(" --faults {}", places.join(","));
    }
    if let Some(longest) = limits.safety_max {
        command += &format!(" --safety-ms {}", longest.as_millis());
    }
    if !limits.without.is_empty() {
        let names: Vec<&str> = limits.without.iter().map(|extra| extra.name()).collect();
        command += &format!(" --without {}", names.join(","));
    }
    command
}
