//! The oracle: was every promise kept?
//!
//! It is a pure function over a history of sends and reads, without a clock, threads or IO, so that a
//! simulator can ask the same questions as a test with real processes. What was *acknowledged* must be
//! readable exactly once, at its offset, with its bytes; a partition has one order, and everybody sees it;
//! an idempotent producer leaves no gap and no duplicate; what was read once stays.
//! It must never know how the history came about.

mod check;
mod history;

pub use check::{Anomaly, Class, Verdict, check};
pub use history::{History, Outcome, Partition, Read, Reader, Send};

#[cfg(test)]
mod tests;
