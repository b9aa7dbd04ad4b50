//! What this broker counts, under the names that Kafka's operators chart.
//!
//! Counting is an atomic addition on something that whoever counts holds already; what can be found out from the state
//! of the node is found out when somebody looks. Must not: be asked for a decision.

mod gauges;
mod idle;
mod requests;
#[cfg(test)]
mod tests;
mod traffic;
mod waiting;
mod watched;

use std::sync::Arc;

use host::Clock;
use observe::{Counter, Metrics, Times};

pub use gauges::gauges;
pub use idle::Work;
pub use requests::{AskedBy, Requests, Sent, Stages};
pub use traffic::{TopicTraffic, Traffic};
pub use waiting::{WaitCount, Waiting};
pub use watched::{Health, State, Watch};

/// Everything that is counted.
pub struct BrokerMetrics {
    /// By name, for the endpoint.
    pub metrics: Metrics,
    /// For what takes its time.
    pub clock: Arc<dyn Clock>,
    /// Requests and their times.
    pub requests: Requests,
    /// Requests that wait.
    pub waiting: Waiting,
    /// What the lanes do of their time.
    pub lanes: Work,
    /// Records and bytes, in all and by topic.
    pub traffic: Arc<Traffic>,
    /// Changes of in-sync sets that this broker, as a leader, brought about.
    pub in_sync: InSyncCounts,
    /// How long it took to make a log durable.
    pub syncs: Arc<Times>,
    /// Connections accepted so far.
    pub connections: Counter,
    /// Times at which the controller fenced this broker.
    pub fenced: Counter,
}

/// Changes of in-sync sets.
pub struct InSyncCounts {
    /// Sets that shrank.
    pub shrinks: Counter,
    /// Sets that grew.
    pub expands: Counter,
    /// Proposals that the controller refused.
    pub failed: Counter,
}

impl std::fmt::Debug for BrokerMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokerMetrics").finish_non_exhaustive()
    }
}

impl BrokerMetrics {
    /// Nothing is counted yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<BrokerMetrics> {
        let metrics = Metrics::new(Arc::clone(&clock));
        let of_replicas = |name: &str, help: &str| {
            metrics.counter(&format!("kafka_server_replicamanager_{name}_total"), help)
        };
        Arc::new(BrokerMetrics {
            clock,
            requests: Requests::new(&metrics),
            waiting: Waiting::new(&metrics),
            lanes: Work::default(),
            traffic: Traffic::new(&metrics),
            in_sync: InSyncCounts {
                shrinks: of_replicas("isrshrinks", "In-sync sets of led partitions that shrank."),
                expands: of_replicas("isrexpands", "In-sync sets of led partitions that grew."),
                failed: of_replicas(
                    "failedisrupdates",
                    "Proposals of another in-sync set that the controller refused.",
                ),
            },
            syncs: metrics.times(
                "kafka_log_logflushstats_logflushrateandtimems",
                "How long it takes to make a log durable, in milliseconds.",
            ),
            connections: metrics.counter(
                "kafka_server_socket_server_metrics_connection_creation_total",
                "Connections accepted.",
            ),
            fenced: metrics.counter(
                "millrace_broker_fenced_total",
                "Times at which the controller fenced this broker while it served.",
            ),
            metrics,
        })
    }
}
