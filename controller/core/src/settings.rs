//! What the operator decides about decisions: timeouts, defaults, and the file that topic configuration falls back on.

use std::sync::Arc;
use std::time::Duration;

use metadata::config::{ControllerSettings, NodeConfig, TopicDefaults};

/// The settings of a controller, as far as decisions depend on them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cluster that this controller belongs to.
    pub cluster_id: String,
    /// `broker.session.timeout.ms`: a broker that is silent for longer is fenced (R1.30).
    pub session_timeout: Duration,
    /// `broker.session.disconnect.grace.ms`: how long a broken stream is waited for.
    pub disconnect_grace: Duration,
    /// `metadata.max.idle.interval.ms`: a no-op is written after so much silence; `None` is never.
    pub idle_interval: Option<Duration>,
    /// How long a quorum's acknowledgement makes its leader the active controller: nobody else can be elected in it.
    pub quorum_lease: Duration,
    /// How long the lease may be lapsed before the leader stops being active.
    pub demotion_after: Duration,
    /// How often leadership goes back to preferred replicas by itself (R3.72); `None` is never.
    pub rebalance_interval: Option<Duration>,
    /// What a topic gets whose creator does not say.
    pub topics: TopicDefaults,
    /// This controller's own file, the last word on topic configuration (R4.21).
    pub node: Arc<NodeConfig>,
}

impl Settings {
    /// The settings of a controller of this cluster.
    #[must_use]
    pub fn from_config(cluster_id: String, config: &ControllerSettings, node: Arc<NodeConfig>) -> Self {
        Self {
            cluster_id,
            session_timeout: config.session_timeout,
            disconnect_grace: config.disconnect_grace,
            idle_interval: config.idle_interval,
            quorum_lease: config.election.longest,
            demotion_after: config.election.longest,
            rebalance_interval: config.rebalance_interval,
            topics: config.topics.clone(),
            node,
        }
    }
}
