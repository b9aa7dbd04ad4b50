//! What a controller counts, under the names that Kafka's operators chart, and what probes are told of it.
//!
//! Must not: be asked for a decision, or keep the driver waiting: what can be found out of the published state is found
//! out when somebody looks.

mod gauges;
#[cfg(test)]
mod tests;
mod watched;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host::{Clock, Monotonic};
use metadata::delta::Delta;
use metadata::image::Partition;
use observe::{Counter, Metrics, Times};

pub use gauges::gauges;
pub use watched::Watch;

/// Everything that is counted.
pub struct ControllerMetrics {
    /// By name, for the endpoint.
    pub metrics: Metrics,
    /// Controllers that became active, as far as this one saw it.
    pub new_active: Counter,
    /// Elections of leaders that were not in sync.
    pub unclean_elections: Counter,
    /// Elections of eligible replicas.
    pub eligible_elections: Counter,
    /// Commands that were begun.
    pub commands: Counter,
    /// Decisions that failed, and records that cannot be replayed.
    pub errors: Counter,
    /// Brokers that were given up because they were silent, their stream broke, or they left without being let go.
    pub silent_brokers: Counter,
    /// How long commands wait for the driver.
    pub queue_time: Arc<Times>,
    /// How long the driver takes for one event.
    pub processing_time: Arc<Times>,
    clock: Arc<dyn Clock>,
    /// When a batch was last applied, in nanoseconds of the clock.
    applied_at: AtomicU64,
}

impl std::fmt::Debug for ControllerMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerMetrics").finish_non_exhaustive()
    }
}

impl ControllerMetrics {
    /// Nothing is counted yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<ControllerMetrics> {
        let metrics = Metrics::new(Arc::clone(&clock));
        let of = |kind: &str, name: &str, help: &str| {
            metrics.counter(&format!("kafka_controller_{kind}_{name}"), help)
        };
        let of_controller = |name: &str, help: &str| of("kafkacontroller", name, help);
        let times = |name: &str, help: &str| {
            metrics.times(&format!("kafka_controller_controllereventmanager_{name}"), help)
        };
        Arc::new(ControllerMetrics {
            new_active: of_controller(
                "newactivecontrollerscount_total",
                "Controllers that became active.",
            ),
            unclean_elections: of(
                "controllerstats",
                "uncleanleaderelections_total",
                "Elections of leaders that were not in sync.",
            ),
            eligible_elections: of(
                "controllerstats",
                "electionfromeligibleleaderreplicas_total",
                "Elections of replicas that were not in sync, yet known to hold all committed records.",
            ),
            commands: of_controller("eventqueueoperationsstartedcount_total", "Commands begun."),
            errors: of_controller(
                "metadataerrorcount_total",
                "Decisions that failed, and records that cannot be replayed.",
            ),
            silent_brokers: of_controller(
                "timedoutbrokerheartbeatcount_total",
                "Brokers given up because they were silent, their stream broke, or they left without being let go.",
            ),
            queue_time: times(
                "eventqueuetimems",
                "How long commands wait for the driver, in milliseconds.",
            ),
            processing_time: times(
                "eventqueueprocessingtimems",
                "How long the driver takes for one event, in milliseconds.",
            ),
            applied_at: AtomicU64::new(clock.now().0),
            clock,
            metrics,
        })
    }

    /// A committed batch was applied.
    pub fn applied(&self, delta: &Delta) {
        for partition in delta.partitions.values() {
            let Some(before) = &partition.before else { continue };
            match election(before, &partition.after) {
                Some(Election::Unclean) => self.unclean_elections.inc(),
                Some(Election::Eligible) => self.eligible_elections.inc(),
                Some(Election::InSync) | None => {}
            }
        }
    }

    /// The log moves on.
    pub fn progressed(&self) {
        self.applied_at.store(self.clock.now().0, Ordering::Relaxed);
    }

    /// When it last did.
    pub fn applied_at(&self) -> Monotonic {
        Monotonic(self.applied_at.load(Ordering::Relaxed))
    }
}

/// Whom a partition got for its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Election {
    InSync,
    Eligible,
    Unclean,
}

fn election(before: &Partition, after: &Partition) -> Option<Election> {
    let leader = after
        .leader
        .filter(|_| after.leader_epoch != before.leader_epoch)?;
    Some(if before.in_sync.contains(&leader) {
        Election::InSync
    } else if before.eligible.contains(&leader) {
        Election::Eligible
    } else {
        Election::Unclean
    })
}
