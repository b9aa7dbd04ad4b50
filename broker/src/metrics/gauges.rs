//! What is found out of the state of the node when somebody looks: partitions, leaders, in-sync sets.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use broker_core::replica::Serving;
use observe::{Gathered, Metrics};
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeMetrics};

use super::idle::IdleShare;
use crate::node::Node;
use crate::storage::hosted::Hosted;

/// Of all partitions here.
#[derive(Default)]
struct Replicas {
    hosted: usize,
    led: usize,
    under_replicated: usize,
    under_min: usize,
    at_min: usize,
    offline: usize,
    reassigning: usize,
    lag_max: u64,
}

impl Replicas {
    fn count(&mut self, hosted: &Hosted) {
        let seen = hosted.seen.load();
        let (state, min) = (&seen.assignment.state, seen.assignment.min_in_sync.0);
        self.hosted += 1;
        match seen.view.serving {
            Serving::Offline => self.offline += 1,
            Serving::Follower { .. } => {
                self.lag_max = self.lag_max.max(hosted.lag.load(Ordering::Relaxed));
            }
            Serving::Leader { .. } => {
                // While replicas are being moved, those that are on their way are not missed.
                let wanted = state.replicas.len().saturating_sub(state.adding.len());
                self.led += 1;
                self.under_replicated += usize::from(state.in_sync.len() < wanted);
                self.under_min += usize::from(state.in_sync.len() < min);
                self.at_min += usize::from(state.in_sync.len() == min);
                self.reassigning += usize::from(!state.adding.is_empty() || !state.removing.is_empty());
            }
        }
    }

    fn show(&self, gathered: &mut Gathered) {
        let rows = [
            ("partitioncount", "Partitions with a replica here.", self.hosted),
            ("leadercount", "Partitions that this broker leads.", self.led),
            (
                "underreplicatedpartitions",
                "Led partitions with fewer in-sync replicas than replicas.",
                self.under_replicated,
            ),
            (
                "underminisrpartitioncount",
                "Led partitions with fewer in-sync replicas than min.insync.replicas.",
                self.under_min,
            ),
            (
                "atminisrpartitioncount",
                "Led partitions with exactly min.insync.replicas in sync.",
                self.at_min,
            ),
            (
                "offlinereplicacount",
                "Replicas here whose log cannot be used.",
                self.offline,
            ),
            (
                "reassigningpartitions",
                "Led partitions whose replicas are being moved.",
                self.reassigning,
            ),
        ];
        for (name, help, count) in rows {
            gathered.gauge(&format!("kafka_server_replicamanager_{name}"), help, count as f64);
        }
        gathered.gauge_of(
            "kafka_server_replicafetchermanager_maxlag",
            "Committed records of a leader that the follower here that lacks most still lacks.",
            &[("clientId", "Replica")],
            self.lag_max as f64,
        );
    }
}

/// Shows the state of a node for as long as it lives. Must be called inside the runtime that serves its connections.
pub fn gauges(metrics: &Metrics, node: &Arc<Node>) {
    show_idle(metrics, node);
    let node: Weak<Node> = Arc::downgrade(node);
    metrics.gathered(move |gathered| {
        if let Some(node) = node.upgrade() {
            gather(&node, gathered);
        }
    });
}

/// Connections are served by the threads of the runtime, what they ask of logs by the lanes: as in Kafka network
/// threads stand before request handlers.
fn show_idle(metrics: &Metrics, node: &Arc<Node>) {
    let (clock, counts) = (Arc::clone(&node.clock), Arc::clone(&node.metrics));
    let runtime = Handle::current().metrics();
    let shares = Mutex::new((IdleShare::new(clock.now()), IdleShare::new(clock.now())));
    // The counts hold what gathers them: they must not be held in turn.
    let counts = Arc::downgrade(&counts);
    metrics.gathered(move |gathered| {
        let Some(counts) = counts.upgrade() else { return };
        let (network, handlers) = &mut *shares.lock();
        let now = clock.now();
        gathered.gauge(
            "kafka_network_socketserver_networkprocessoravgidle_percent",
            "The share of their time, 0 to 1, that the threads that serve connections have nothing to do.",
            network.look(now, at_work(&runtime)),
        );
        gathered.gauge(
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "The share of their time, 0 to 1, that the threads that own the logs have nothing to do.",
            handlers.look(now, counts.lanes.seen()),
        );
    });
}

/// The threads of a runtime, and how long they have all been at work.
fn at_work(runtime: &RuntimeMetrics) -> (usize, Duration) {
    let threads = runtime.num_workers();
    let busy = (0..threads).map(|thread| runtime.worker_total_busy_duration(thread));
    (threads, busy.sum())
}

fn gather(node: &Node, gathered: &mut Gathered) {
    let mut replicas = Replicas::default();
    node.partitions.each(|hosted| replicas.count(hosted));
    replicas.show(gathered);
    of_dirs(node, gathered);
    gathered.gauge(
        "kafka_log_logmanager_remaininglogstorecover",
        "Logs that were not closed in order and are not recovered yet.",
        node.dirs.recovery().left() as f64,
    );
    let (sessions, partitions) = node.fetch_sessions.size();
    gathered.gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions that are kept.",
        sessions as f64,
    );
    gathered.gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "Partitions in all fetch sessions.",
        partitions as f64,
    );
    gathered.gauge(
        "kafka_server_socket_server_metrics_connection_count",
        "Connections that are open.",
        node.connections.count() as f64,
    );
    let image = node.published.load();
    gathered.gauge(
        "kafka_server_broker_metadata_metrics_last_applied_record_offset",
        "The last metadata offset that answers are made from.",
        (image.image.next_offset.0 - 1) as f64,
    );
}

/// Asks the disks.
fn of_dirs(node: &Node, gathered: &mut Gathered) {
    gathered.gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that do not work any more.",
        node.dirs.failed().len() as f64,
    );
    for (_, standing) in node.dirs.standings() {
        let path = standing.path.display().to_string();
        let mut gauge = |name: &str, help: &str, value: f64| {
            gathered.gauge_of(name, help, &[("logDirectory", &path)], value);
        };
        gauge(
            "kafka_log_logmanager_logdirectoryoffline",
            "1 where the directory does not work any more.",
            f64::from(u8::from(standing.space.is_none())),
        );
        let Some(space) = standing.space else { continue };
        gauge(
            "millrace_log_directory_usable_bytes",
            "What may still be written to the disk of the directory.",
            space.free_bytes as f64,
        );
        gauge(
            "millrace_log_directory_total_bytes",
            "The size of the disk of the directory.",
            space.total_bytes as f64,
        );
    }
}
