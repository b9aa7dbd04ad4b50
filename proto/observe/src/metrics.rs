//! The registry: what a process counts, by name.

use std::fmt;
use std::sync::Arc;

use host::Clock;
use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::{Opts, Registry, TextEncoder};

use crate::gathered::Gathered;
use crate::times::{Times, TimesGroup};

/// Counts up. A clone counts the same.
pub type Counter = prometheus::IntCounter;

/// A number that goes up and down. A clone is the same.
pub type Gauge = prometheus::IntGauge;

/// All metrics of a process.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    gatherers: Arc<Mutex<Vec<Gatherer>>>,
    clock: Arc<dyn Clock>,
}

/// Finds numbers out when somebody looks.
type Gatherer = Box<dyn Fn(&mut Gathered) + Send>;

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Nothing is counted yet but what is known of every process: its memory, files, threads and processor time.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Metrics {
        let metrics = Metrics {
            registry: Registry::new(),
            gatherers: Arc::default(),
            clock,
        };
        metrics.gathered(of_process);
        metrics
    }

    /// A counter; its name ends with `_total`.
    ///
    /// # Panics
    /// If the name is taken or is no name, here and below: names are constants of the caller.
    pub fn counter(&self, name: &str, help: &str) -> Counter {
        self.kept(Counter::new(name, help))
    }

    /// A counter that has siblings with other values of the label.
    pub fn counter_of(&self, name: &str, help: &str, label: (&str, &str)) -> Counter {
        self.kept(Counter::with_opts(
            Opts::new(name, help).const_label(label.0, label.1),
        ))
    }

    /// A number that whoever changes it sets.
    pub fn gauge(&self, name: &str, help: &str) -> Gauge {
        self.kept(Gauge::new(name, help))
    }

    /// The same, with siblings that have other values of the label.
    pub fn gauge_of(&self, name: &str, help: &str, label: (&str, &str)) -> Gauge {
        self.kept(Gauge::with_opts(
            Opts::new(name, help).const_label(label.0, label.1),
        ))
    }

    /// How long something takes, in milliseconds: count, sum, and quantiles of the last one to two minutes.
    pub fn times(&self, name: &str, help: &str) -> Arc<Times> {
        let group = self.times_of(name, help, "");
        group.of("")
    }

    /// The same for each value of a label; a value that was never asked for is not shown. With an empty name of the
    /// label there is none.
    pub fn times_of(&self, name: &str, help: &str, label: &str) -> TimesGroup {
        let group = TimesGroup::new(name, help, label, Arc::clone(&self.clock));
        self.register(group.clone());
        group
    }

    /// Numbers that are found out together, when somebody looks.
    pub fn gathered(&self, gather: impl Fn(&mut Gathered) + Send + 'static) {
        self.gatherers.lock().push(Box::new(gather));
    }

    fn kept<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let made = made.expect("the name is a good one");
        self.register(made.clone());
        made
    }

    fn register(&self, collector: impl Collector + 'static) {
        let registered = self.registry.register(Box::new(collector));
        registered.expect("every name is taken once");
    }

    /// Everything in Prometheus' text form, version 0.0.4.
    ///
    /// # Errors
    /// When something that was gathered has no form, for people.
    pub fn text(&self) -> Result<String, String> {
        let mut families = self.registry.gather();
        let mut gathered = Gathered::default();
        for gather in &*self.gatherers.lock() {
            gather(&mut gathered);
        }
        families.extend(gathered.into_families());
        TextEncoder::new()
            .encode_to_string(&families)
            .map_err(|error| error.to_string())
    }
}

/// Under the names that every Prometheus client uses.
fn of_process(gathered: &mut Gathered) {
    let Ok(usage) = host::usage_of_this_process() else {
        return;
    };
    let rows = [
        (
            "process_resident_memory_bytes",
            "Memory in RAM.",
            usage.resident_bytes as f64,
        ),
        ("process_open_fds", "Open descriptors.", usage.open_files as f64),
        (
            "process_max_fds",
            "Descriptors that may be open.",
            usage.open_files_max as f64,
        ),
        ("process_threads", "Threads.", usage.threads as f64),
    ];
    for (name, help, value) in rows {
        gathered.gauge(name, help, value);
    }
    gathered.seconds_total(
        "process_cpu_seconds_total",
        "Processor time of all threads.",
        usage.cpu.as_secs_f64(),
    );
}
