//! What is found out of the state of the node when somebody looks: partitions, leaders, in-sync sets.

use std::sync::{Arc, Weak};

use broker_core::replica::Serving;
use observe::{Gathered, Metrics};

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
}

impl Replicas {
    fn count(&mut self, hosted: &Hosted) {
        let seen = hosted.seen.load();
        let (state, min) = (&seen.assignment.state, seen.assignment.min_in_sync.0);
        self.hosted += 1;
        match seen.view.serving {
            Serving::Offline => self.offline += 1,
            Serving::Follower { .. } => {}
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
    }
}

/// Shows the state of a node for as long as it lives.
pub fn gauges(metrics: &Metrics, node: &Arc<Node>) {
    let node: Weak<Node> = Arc::downgrade(node);
    metrics.gathered(move |gathered| {
        if let Some(node) = node.upgrade() {
            gather(&node, gathered);
        }
    });
}

fn gather(node: &Node, gathered: &mut Gathered) {
    let mut replicas = Replicas::default();
    node.partitions.each(|hosted| replicas.count(hosted));
    replicas.show(gathered);
    let offline = node.dirs.failed_ids().len();
    gathered.gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that do not work any more.",
        offline as f64,
    );
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
