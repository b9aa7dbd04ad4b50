//! How long nothing was acknowledged. A gap is counted for each partition by itself: while one broker is gone,
//! the partitions of the others must not hide it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// When each partition acknowledged, in order.
#[derive(Clone, Debug, Default)]
pub struct Acknowledgements(Vec<(Instant, i32)>);

impl Acknowledgements {
    /// One acknowledgement of `partition`, now.
    pub fn record(&mut self, at: Instant, partition: i32) {
        self.0.push((at, partition));
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// How many came between two moments.
    pub fn count_between(&self, from: Instant, to: Instant) -> usize {
        self.0.iter().filter(|(at, _)| (from..to).contains(at)).count()
    }

    /// How many partitions have acknowledged something since then.
    pub fn partitions_since(&self, since: Instant) -> usize {
        let recent = self.0.iter().rev().take_while(|(at, _)| *at >= since);
        recent
            .map(|(_, partition)| partition)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// The longest time without an acknowledgement, over partitions, of gaps that touch the time between `from`
    /// and `to`. A gap that begins before `from` or ends after `to` counts whole, as far as it is known.
    pub fn longest_gap(&self, from: Instant, to: Instant) -> Duration {
        let mut last: BTreeMap<i32, Instant> = BTreeMap::new();
        let mut longest = Duration::ZERO;
        for (at, partition) in &self.0 {
            let before = last.insert(*partition, *at);
            if let Some(before) = before.filter(|before| *at > from && *before < to) {
                longest = longest.max(*at - before);
            }
        }
        // A partition that fell silent is in a gap that has no end yet.
        let silent = last.values().filter(|at| **at < to).map(|at| to - *at);
        longest.max(silent.max().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn a_busy_partition_does_not_hide_a_silent_one() {
        let start = Instant::now();
        let mut acks = Acknowledgements::default();
        for ms in (0..1000).step_by(10) {
            acks.record(at(start, ms), 0);
            if !(200..700).contains(&ms) {
                acks.record(at(start, ms), 1);
            }
        }
        assert_eq!(
            acks.longest_gap(start, at(start, 990)),
            Duration::from_millis(510)
        );
        assert_eq!(
            acks.longest_gap(at(start, 720), at(start, 990)),
            Duration::from_millis(10)
        );
    }

    #[test]
    fn silence_until_the_end_counts() {
        let start = Instant::now();
        let mut acks = Acknowledgements::default();
        acks.record(start, 0);
        assert_eq!(
            acks.longest_gap(start, at(start, 400)),
            Duration::from_millis(400)
        );
    }
}
