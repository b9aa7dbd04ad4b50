//! Numbers that are found out at the moment at which somebody looks.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// What was found out so far.
#[derive(Default)]
pub struct Gathered {
    families: Vec<MetricFamily>,
}

impl Gathered {
    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauge_of(name, help, &[], value);
    }

    /// The same with labels, of whose values there must be few.
    pub fn gauge_of(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = labelled(labels);
        metric.set_gauge(gauge);
        self.put(name, help, MetricType::GAUGE, metric);
    }

    /// Something that only goes up; its name ends with `_total`.
    pub fn counter_of(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.put_counter(name, help, labels, value as f64);
    }

    /// Seconds that only become more; its name ends with `_seconds_total`.
    pub fn seconds_total(&mut self, name: &str, help: &str, seconds: f64) {
        self.put_counter(name, help, &[], seconds);
    }

    fn put_counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        let mut counter = Counter::default();
        counter.set_value(value);
        let mut metric = labelled(labels);
        metric.set_counter(counter);
        self.put(name, help, MetricType::COUNTER, metric);
    }

    fn put(&mut self, name: &str, help: &str, kind: MetricType, metric: Metric) {
        // A name stands in the text once, with all its values below it. Siblings mostly follow each other.
        let mut latest_first = self.families.iter_mut().rev();
        if let Some(family) = latest_first.find(|family| family.name() == name) {
            family.mut_metric().push(metric);
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(vec![metric]);
        self.families.push(family);
    }

    pub(crate) fn into_families(self) -> Vec<MetricFamily> {
        self.families
    }
}

pub(crate) fn labelled(labels: &[(&str, &str)]) -> Metric {
    let mut metric = Metric::default();
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    metric.set_label(pairs.collect());
    metric
}
