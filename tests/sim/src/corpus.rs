//! Seeds that every build must get through, and the rare branches that they must be seen to reach.

use crate::marks::{Mark, Marks};

/// The seeds of the corpus.
pub const SEEDS: std::ops::Range<u64> = 1..31;

/// What becomes of a damaged batch. Damage meets somebody too seldom for the corpus: runs that do little else must reach it.
pub const OF_ROT: &[Mark] = &[
    Mark::RotRefusedByConsumer,
    Mark::RotRefusedByFollower,
    Mark::RotCutOff,
];

/// Reached only in rarer runs than those of the corpus: named here so that nobody takes them for covered.
pub const NOT_REQUIRED: &[Mark] = &[Mark::TwoQuorumLeaders, Mark::TailLost, Mark::LogBegunAnew];

/// The names of the required marks that were not reached.
#[must_use]
pub fn missing(marks: &Marks) -> Vec<&'static str> {
    let is_required = |mark: &Mark| !NOT_REQUIRED.contains(mark) && !OF_ROT.contains(mark);
    let missing = marks.missing().filter(is_required);
    missing.map(Mark::name).collect()
}
