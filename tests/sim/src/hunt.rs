//! Many runs, one after the other or side by side, until one fails: what they were like, and the seed of the failure.
//!
//! Must not: judge. A run judges itself.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::marks::Marks;
use crate::plan::Limits;
use crate::run::{Outcome, run};
use crate::world::Tally;

/// A run that does less than this proves too little; the median one must do it.
pub const MEDIAN_MIN: Least = Least {
    events: 2_000,
    faults: 3,
    acknowledged: 100,
};

/// The least that the median run must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Things that happened.
    pub events: u64,
    /// Faults that were done.
    pub faults: u64,
    /// Records that were acknowledged.
    pub acknowledged: u64,
}

/// Which seeds to run, and how.
#[derive(Clone, Debug)]
pub struct Order {
    /// The first one; the others follow it.
    pub first: u64,
    /// How many at most.
    pub count: u64,
    /// No run begins after this.
    pub until: Option<Instant>,
    /// How many at a time.
    pub jobs: usize,
    /// What is held fixed.
    pub limits: Limits,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Hunt {
    /// Each seed and what its run was like, by seed.
    pub runs: Vec<(u64, Tally)>,
    /// Rare branches that were reached, all runs together.
    pub marks: Marks,
    /// How long it took.
    pub took: Duration,
    /// The lowest seed whose run failed.
    pub failure: Option<(u64, Outcome)>,
}

/// Runs seeds until there are no more, or one fails; those that have begun are finished.
#[must_use]
pub fn hunt(order: &Order) -> Hunt {
    let begun = Instant::now();
    let (next, stop, found) = (
        AtomicU64::new(0),
        AtomicBool::new(false),
        Mutex::new(Hunt::default()),
    );
    let work = || {
        loop {
            let is_late = order.until.is_some_and(|until| until <= Instant::now());
            let number = next.fetch_add(1, Ordering::Relaxed);
            if is_late || order.count <= number || stop.load(Ordering::Relaxed) {
                return;
            }
            let seed = order.first + number;
            let outcome = run(seed, &order.limits);
            let mut found = found.lock().expect("a run that panics is an outcome");
            found.marks.add(&outcome.marks);
            found.runs.push((seed, outcome.tally.clone()));
            if outcome.violation.is_some() {
                stop.store(true, Ordering::Relaxed);
                if found.failure.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
                    found.failure = Some((seed, outcome));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        (1..order.jobs).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let mut hunt = found.into_inner().expect("a run that panics is an outcome");
    hunt.runs.sort_by_key(|(seed, _)| *seed);
    hunt.took = begun.elapsed();
    hunt
}

impl Hunt {
    /// Events of all runs together.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.runs.iter().map(|(_, tally)| tally.events).sum()
    }

    /// Events in a second.
    #[must_use]
    pub fn events_per_second(&self) -> u64 {
        let per_second = u128::from(self.events()) * 1000 / self.took.as_millis().max(1);
        u64::try_from(per_second).unwrap_or(u64::MAX)
    }

    /// The value that a percentage of the runs does not exceed; zero without runs.
    #[must_use]
    pub fn percentile(&self, percent: usize, of: impl Fn(&Tally) -> u64) -> u64 {
        let mut values: Vec<u64> = self.runs.iter().map(|(_, tally)| of(tally)).collect();
        values.sort_unstable();
        values
            .get(values.len() * percent / 100)
            .or(values.last())
            .copied()
            .unwrap_or(0)
    }

    /// What the runs were like, a line each: events, faults, acknowledged records.
    #[must_use]
    pub fn told(&self) -> Vec<String> {
        let line = |name: &str, of: fn(&Tally) -> u64| {
            let (quarter, median) = (self.percentile(25, of), self.percentile(50, of));
            format!("{name}: {quarter} at 25 %, {median} median")
        };
        vec![
            format!(
                "{} seeds, {} events in {:.1} s, {}/s",
                self.runs.len(),
                self.events(),
                self.took.as_secs_f64(),
                self.events_per_second()
            ),
            line("events", |tally| tally.events),
            line("faults", |tally| tally.faults),
            line("acknowledged records", acknowledged),
        ]
    }

    /// Whether the runs proved enough.
    ///
    /// # Errors
    /// What the median run did too little of.
    pub fn proves_enough(&self) -> Result<(), String> {
        let figures = [
            (
                "events",
                self.percentile(50, |tally| tally.events),
                MEDIAN_MIN.events,
            ),
            (
                "faults",
                self.percentile(50, |tally| tally.faults),
                MEDIAN_MIN.faults,
            ),
            (
                "acknowledged records",
                self.percentile(50, acknowledged),
                MEDIAN_MIN.acknowledged,
            ),
        ];
        match figures.iter().find(|(_, got, least)| got < least) {
            Some((what, got, least)) => Err(format!("the median run has {got} {what}, {least} are needed")),
            None => Ok(()),
        }
    }
}

fn acknowledged(tally: &Tally) -> u64 {
    u64::try_from(tally.acknowledged).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(events: &[u64]) -> Hunt {
        let tally = |events| Tally {
            events,
            faults: 5,
            acknowledged: 200,
            hash: 0,
        };
        Hunt {
            runs: (0..).zip(events.iter().map(|events| tally(*events))).collect(),
            ..Hunt::default()
        }
    }

    #[test]
    fn the_median_decides_whether_enough_was_proved() {
        assert_eq!(of(&[1, 2, 2_000, 5_000]).proves_enough(), Ok(()));
        assert!(of(&[1, 2, 1_999, 5_000]).proves_enough().is_err());
        assert!(of(&[]).proves_enough().is_err());
    }

    #[test]
    fn jobs_share_the_seeds_and_each_is_run_once() {
        let order = Order {
            first: 1,
            count: 4,
            until: None,
            jobs: 2,
            limits: Limits {
                safety_max: Some(Duration::from_millis(100)),
                ..Limits::default()
            },
        };
        let hunt = hunt(&order);
        let seeds: Vec<u64> = hunt.runs.iter().map(|(seed, _)| *seed).collect();
        assert_eq!(seeds, [1, 2, 3, 4]);
    }
}
