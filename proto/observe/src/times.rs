//! How long something takes: counts in buckets that grow with the time, read as quantiles of the recent past.
//!
//! Kafka shows quantiles of a sample that fades; operators chart them by `quantile`. A bucket is an eighth of its
//! power of two wide, so a quantile is right to one part in eight, whatever the load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host::{Clock, Monotonic};
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Metric, MetricFamily, MetricType, Quantile, Summary};

use crate::gathered::labelled;

/// Buckets for each power of two.
const STEPS: u64 = 8;
/// Microseconds up to 2^27, two minutes; what is longer counts as that.
const POWERS: u64 = 27;
const BUCKETS: usize = (STEPS * (POWERS - 2)) as usize;
const QUANTILES: [f64; 4] = [0.5, 0.95, 0.99, 0.999];
/// How old the counts are at least that the quantiles start from.
const WINDOW: Duration = Duration::from_secs(60);

/// How long one thing takes.
pub struct Times {
    buckets: Box<[AtomicU64]>,
    sum_us: AtomicU64,
    window: Mutex<Window>,
}

/// Counts of earlier, taken when somebody looked.
struct Window {
    older: Vec<u64>,
    newer: Vec<u64>,
    newer_at: Option<Monotonic>,
}

impl std::fmt::Debug for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Times").finish_non_exhaustive()
    }
}

impl Default for Times {
    fn default() -> Times {
        Times {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum_us: AtomicU64::new(0),
            window: Mutex::new(Window {
                older: vec![0; BUCKETS],
                newer: vec![0; BUCKETS],
                newer_at: None,
            }),
        }
    }
}

impl Times {
    /// It took so long this time.
    pub fn record(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// How often it was recorded.
    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    fn counts(&self) -> Vec<u64> {
        let counts = self.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        counts.collect()
    }

    fn summary(&self, now: Monotonic) -> Summary {
        let counts = self.counts();
        let recent = self.window.lock().recent(&counts, now);
        let mut summary = Summary::default();
        summary.set_sample_count(counts.iter().sum());
        summary.set_sample_sum(self.sum_us.load(Ordering::Relaxed) as f64 / 1_000.0);
        let quantiles = QUANTILES.map(|share| {
            let mut quantile = Quantile::default();
            quantile.set_quantile(share);
            quantile.set_value(quantile_ms(&recent, share));
            quantile
        });
        summary.set_quantile(quantiles.to_vec());
        summary
    }
}

impl Window {
    /// What was counted since one to two windows ago, given what is counted now.
    fn recent(&mut self, counts: &[u64], now: Monotonic) -> Vec<u64> {
        let begun = *self.newer_at.get_or_insert(now);
        if WINDOW <= now.since(begun) {
            self.older = std::mem::replace(&mut self.newer, counts.to_vec());
            self.newer_at = Some(now);
        }
        let recent = counts.iter().zip(&self.older).map(|(now, then)| now - then);
        recent.collect()
    }
}

fn bucket_of(us: u64) -> usize {
    if us < STEPS {
        return us as usize;
    }
    let power = u64::from(us.ilog2());
    let step = (us >> (power - 3)) % STEPS;
    let bucket = STEPS * (power - 2) + step;
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// The first microsecond that is behind the bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket + 1;
    }
    let (power, step) = (bucket / STEPS + 2, bucket % STEPS);
    (STEPS + step + 1) << (power - 3)
}

/// The end of the bucket in which the quantile lies, in milliseconds; no number where nothing was counted.
fn quantile_ms(counts: &[u64], share: f64) -> f64 {
    let all: u64 = counts.iter().sum();
    let wanted = (share * all as f64).ceil() as u64;
    let mut seen = 0;
    for (bucket, count) in counts.iter().enumerate() {
        seen += count;
        if 0 < *count && wanted <= seen {
            return end_of(bucket) as f64 / 1_000.0;
        }
    }
    f64::NAN
}

/// The same thing for each value of a label.
#[derive(Clone)]
pub struct TimesGroup {
    inner: Arc<Inner>,
}

struct Inner {
    desc: Desc,
    label: String,
    clock: Arc<dyn Clock>,
    members: Mutex<BTreeMap<String, Arc<Times>>>,
}

impl std::fmt::Debug for TimesGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimesGroup")
            .field("desc", &self.inner.desc)
            .finish_non_exhaustive()
    }
}

impl TimesGroup {
    pub(crate) fn new(name: &str, help: &str, label: &str, clock: Arc<dyn Clock>) -> TimesGroup {
        let labels = if label.is_empty() {
            Vec::new()
        } else {
            vec![label.to_owned()]
        };
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, Default::default());
        TimesGroup {
            inner: Arc::new(Inner {
                desc: desc.expect("the name is a good one"),
                label: label.to_owned(),
                clock,
                members: Mutex::default(),
            }),
        }
    }

    /// The times of one value; whoever records keeps it.
    pub fn of(&self, value: &str) -> Arc<Times> {
        let mut members = self.inner.members.lock();
        Arc::clone(members.entry(value.to_owned()).or_default())
    }
}

impl Collector for TimesGroup {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.inner.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = self.inner.clock.now();
        let members = self.inner.members.lock();
        let metric = |(value, times): (&String, &Arc<Times>)| -> Metric {
            let pair = [(self.inner.label.as_str(), value.as_str())];
            let labels: &[_] = if value.is_empty() { &[] } else { &pair };
            let mut metric = labelled(labels);
            metric.set_summary(times.summary(now));
            metric
        };
        let metrics: Vec<Metric> = members.iter().map(metric).collect();
        if metrics.is_empty() {
            return Vec::new();
        }
        let mut family = MetricFamily::default();
        family.set_name(self.inner.desc.fq_name.clone());
        family.set_help(self.inner.desc.help.clone());
        family.set_field_type(MetricType::SUMMARY);
        family.set_metric(metrics);
        vec![family]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_behind_what_it_holds_and_at_most_an_eighth_later() {
        for us in (0..100_000).chain([1 << 20, (1 << 26) + 12_345]) {
            let end = end_of(bucket_of(us));
            assert!(us < end, "{us} is in the bucket that ends at {end}");
            assert!(end <= us + 1 + us / 8, "{us} is in the bucket that ends at {end}");
        }
    }

    #[test]
    fn what_takes_for_ever_counts_as_two_minutes() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(end_of(BUCKETS - 1), 1 << POWERS);
    }

    #[test]
    fn quantiles_are_of_the_last_one_to_two_minutes() {
        let times = Times::default();
        let at = |seconds: u64| Monotonic(Duration::from_secs(seconds).as_nanos() as u64);
        let median = |now| times.summary(now).get_quantile()[0].value();
        assert!(median(at(0)).is_nan(), "nothing was counted");

        times.record(Duration::from_millis(100));
        assert!((100.0..113.0).contains(&median(at(1))));
        assert!((100.0..113.0).contains(&median(at(61))));

        // The slow one is now older than the window.
        assert!(median(at(122)).is_nan());
        times.record(Duration::from_millis(1));
        assert!((1.0..1.2).contains(&median(at(123))));
        assert_eq!(times.count(), 2);
    }

    #[test]
    fn a_quantile_that_few_reach_is_theirs() {
        let times = Times::default();
        (0..99).for_each(|_| times.record(Duration::from_millis(1)));
        times.record(Duration::from_millis(50));
        let summary = times.summary(Monotonic(0));
        let values: Vec<f64> = summary.get_quantile().iter().map(|q| q.value()).collect();
        assert!(values[2] < 1.2, "99 of 100 take 1 ms: {values:?}");
        assert!((50.0..57.0).contains(&values[3]), "{values:?}");
        assert_eq!(summary.sample_count(), 100);
        assert!((summary.sample_sum() - 149.0).abs() < 0.001);
    }
}
