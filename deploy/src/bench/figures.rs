//! What was measured, as numbers.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest time that is told apart, and the exactness: three digits from a microsecond to a minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// Times in ns, each kept to three digits.
#[derive(Debug, Clone)]
pub struct Times(Histogram<u64>);

impl Times {
    /// None yet.
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(1_000, LONGEST_NS, 3).expect("the bounds are in order"))
    }

    /// Takes a time in ns; one beyond the longest counts as the longest.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Takes over the times of another.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// The usual figures; none where nothing was recorded.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e6;
        (!self.0.is_empty()).then(|| Quantiles {
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: self.0.max() as f64 / 1e6,
        })
    }
}

/// Times in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half took less.
    pub p50_ms: f64,
    /// One in a hundred took longer.
    pub p99_ms: f64,
    /// One in a thousand took longer.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn quantiles_are_of_all_that_was_taken() {
        let (mut one, mut other) = (Times::new(), Times::new());
        assert_eq!(one.quantiles(), None);
        (1..=900).for_each(|ms| one.record(ms * 1_000_000));
        (901..=1000).for_each(|ms| other.record(ms * 1_000_000));
        one.merge(&other);
        let quantiles = one.quantiles().unwrap();
        assert!((499.0..=502.0).contains(&quantiles.p50_ms), "{quantiles:?}");
        assert!((989.0..=992.0).contains(&quantiles.p99_ms), "{quantiles:?}");
        assert!((999.0..=1001.0).contains(&quantiles.max_ms), "{quantiles:?}");
    }
}
