//! How many requests wait: to be started, or for others.

use observe::{Gauge, Metrics};

/// The numbers of those that wait.
pub struct Waiting {
    to_start: Gauge,
    fetches: Gauge,
    produces: Gauge,
}

/// Counts somebody as waiting until it is dropped.
#[derive(Debug)]
pub struct WaitCount(Gauge);

impl WaitCount {
    fn of(gauge: &Gauge) -> WaitCount {
        gauge.inc();
        WaitCount(gauge.clone())
    }
}

impl Drop for WaitCount {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Waiting {
    pub(super) fn new(metrics: &Metrics) -> Waiting {
        let delayed = |operation: &str| {
            metrics.gauge_of(
                "kafka_server_delayedoperationpurgatory_purgatorysize",
                "Requests that wait for other brokers, or for more data.",
                ("delayedOperation", operation),
            )
        };
        Waiting {
            to_start: metrics.gauge(
                "kafka_network_requestchannel_requestqueuesize",
                "Requests that were read and wait for earlier ones of their connection.",
            ),
            fetches: delayed("Fetch"),
            produces: delayed("Produce"),
        }
    }

    /// A request was read and is not started yet.
    pub fn to_start(&self) -> WaitCount {
        WaitCount::of(&self.to_start)
    }

    /// A fetch waits for more data.
    pub fn fetch(&self) -> WaitCount {
        WaitCount::of(&self.fetches)
    }

    /// A Produce request waits for followers.
    pub fn produce(&self) -> WaitCount {
        WaitCount::of(&self.produces)
    }
}
