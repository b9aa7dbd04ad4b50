//! What the operator decides about decisions: timeouts, defaults, and the rules of topic configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use metadata::image::Image;

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
    /// How long a quorum's acknowledgement makes its leader the active controller.
    pub quorum_lease: Duration,
    /// How long the lease may be lapsed before the leader stops being active: the longest election timeout.
    pub demotion_after: Duration,
    /// `num.partitions`.
    pub partitions_default: u32,
    /// `default.replication.factor`.
    pub replication_factor_default: u16,
    /// `delete.topic.enable`.
    pub topics_deletable: bool,
    /// What topics are configured with.
    pub topics: Arc<dyn TopicRules>,
}

/// The configuration of topics, as far as decisions depend on it. Asked with the image that the decision reads.
pub trait TopicRules: fmt::Debug + Send + Sync {
    /// Judges what a new topic would be configured with, each key once.
    ///
    /// # Errors
    /// The reason to refuse it, for people.
    fn validate(&self, image: &Image, given: &BTreeMap<String, String>) -> Result<(), String>;

    /// What holds for a topic that exists, by the precedence of R4.20 with this controller's own file last (R4.21).
    fn election(&self, image: &Image, topic: &str) -> ElectionRules;

    /// This controller's own `min.insync.replicas`, which the first activation makes the cluster's (R5.31).
    fn min_in_sync_default(&self) -> u32;
}

/// What of a topic's configuration decides elections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionRules {
    /// `min.insync.replicas`, before it is capped by the replica count (R3.20).
    pub min_in_sync: u32,
    /// `unclean.leader.election.enable` (R3.40).
    pub unclean: Unclean,
}

/// Whether a replica that may lack committed records can be elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclean {
    /// No: the partition waits.
    Forbidden,
    /// Yes: records may be lost.
    Allowed,
}
