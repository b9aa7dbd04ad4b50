//! What a controller does with its configuration, as types.

use std::path::PathBuf;
use std::time::Duration;

use super::broker::{TopicDefaults, below, cluster_id, expect_role, log_dirs, positive_millis};
use super::error::{ConfigError, Problem};
use super::listeners::{Endpoint, controller_listeners};
use super::metrics_listener::{MetricsListener, metrics_listener};
use super::node::{NodeConfig, Role};
use super::voters::{VOTERS, Voter, voters};
use crate::ids::ControllerId;

/// The settings of a controller. Topic settings come from [`super::TopicSettings`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerSettings {
    /// `node.id`; it is one of the voters.
    pub node_id: ControllerId,
    /// `cluster.id`; without it the controllers choose one at their first start.
    pub cluster_id: Option<String>,
    /// Where this controller listens for its peers and for brokers; never empty.
    pub listeners: Vec<Endpoint>,
    /// `controller.quorum.voters`, by id; this node is among them.
    pub voters: Vec<Voter>,
    /// `metadata.log.dir`, else the first of the log directories.
    pub metadata_dir: PathBuf,
    /// How long a controller waits for a leader before it stands for election.
    pub election: ElectionTimeout,
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// `broker.session.disconnect.grace.ms`.
    pub disconnect_grace: Duration,
    /// `metadata.max.idle.interval.ms`; `None` is never.
    pub idle_interval: Option<Duration>,
    /// `leader.imbalance.check.interval.seconds`; `None` where `auto.leader.rebalance.enable` is false.
    pub rebalance_interval: Option<Duration>,
    /// When snapshots are taken.
    pub snapshots: SnapshotSettings,
    /// What a topic gets whose creator does not say.
    pub topics: TopicDefaults,
    /// `metrics.listener`.
    pub metrics: Option<MetricsListener>,
}

/// The range from which an election timeout is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElectionTimeout {
    /// `controller.quorum.election.timeout.ms`.
    pub shortest: Duration,
    /// `controller.quorum.fetch.timeout.ms`.
    pub longest: Duration,
}

/// When snapshots are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub bytes_between: u64,
    /// `metadata.log.max.snapshot.interval.ms`; `None` is any age.
    pub age_max: Option<Duration>,
}

impl ControllerSettings {
    /// The settings of a node that is a controller.
    ///
    /// # Errors
    /// Everything in which keys, each good by itself, are at odds.
    pub fn from_config(config: &NodeConfig) -> Result<Self, Vec<ConfigError>> {
        expect_role(config, Role::Controller)?;
        let mut errors = Vec::new();
        let dirs = log_dirs(config, &mut errors);
        let metadata_dir = config.text("metadata.log.dir").map(PathBuf::from);
        let settings = Self {
            node_id: ControllerId(config.node_id().0),
            cluster_id: cluster_id(config, &mut errors),
            listeners: controller_listeners(config, &mut errors),
            voters: own_voters(config, &mut errors),
            metadata_dir: metadata_dir.or_else(|| dirs.first().cloned()).unwrap_or_default(),
            election: ElectionTimeout::read(config, &mut errors),
            heartbeat_interval: positive_millis(config, "broker.heartbeat.interval.ms", &mut errors),
            session_timeout: positive_millis(config, "broker.session.timeout.ms", &mut errors),
            disconnect_grace: config.millis("broker.session.disconnect.grace.ms"),
            idle_interval: nonzero(config.millis("metadata.max.idle.interval.ms")),
            rebalance_interval: config.truth("auto.leader.rebalance.enable").then(|| {
                let seconds = config.integer("leader.imbalance.check.interval.seconds");
                Duration::from_secs(u64::try_from(seconds).expect("the tables keep it positive"))
            }),
            snapshots: SnapshotSettings {
                bytes_between: u64::try_from(
                    config.integer("metadata.log.max.record.bytes.between.snapshots"),
                )
                .expect("the tables keep it from being negative"),
                age_max: nonzero(config.millis("metadata.log.max.snapshot.interval.ms")),
            },
            topics: TopicDefaults::read(config, &mut errors),
            metrics: metrics_listener(config, &mut errors),
        };
        below(
            config,
            "broker.heartbeat.interval.ms",
            "broker.session.timeout.ms",
            &mut errors,
        );
        if errors.is_empty() {
            Ok(settings)
        } else {
            Err(errors)
        }
    }
}

impl ElectionTimeout {
    // Kafka's own defaults, one and two seconds, would make every failover slower than a second, so ours are others. The
    // range is widened where a single end is given.
    fn read(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> Self {
        const SHORTEST: &str = "controller.quorum.election.timeout.ms";
        const LONGEST: &str = "controller.quorum.fetch.timeout.ms";
        // A leader speaks one and a half times in it; below this a busy machine would elect for nothing.
        const FLOOR: Duration = Duration::from_millis(100);
        let given = |key| config.given_text(key).map(|_| config.millis(key));
        let (usual_shortest, usual_longest) = (config.millis(SHORTEST), config.millis(LONGEST));
        let (shortest, longest) = match (given(SHORTEST), given(LONGEST)) {
            (None, None) => (usual_shortest, usual_longest),
            (Some(shortest), None) => (shortest, usual_longest.max(shortest * 2)),
            (None, Some(longest)) => (usual_shortest.min(longest / 2), longest),
            (Some(shortest), Some(longest)) => (shortest, longest),
        };
        let key = if given(SHORTEST).is_some() {
            SHORTEST
        } else {
            LONGEST
        };
        let shown = config.given_text(key).unwrap_or_default();
        if shortest < FLOOR {
            let least = if key == SHORTEST { FLOOR } else { FLOOR * 2 };
            let allowed = format!("a whole number of {} or more", least.as_millis());
            errors.push(ConfigError::new(key, Some(shown), Problem::OutOfRange, allowed));
        } else if longest <= shortest {
            errors.push(ConfigError::conflict(
                key,
                shown,
                format!("less than {LONGEST}, which is {}", longest.as_millis()),
            ));
        }
        Self { shortest, longest }
    }
}

fn own_voters(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> Vec<Voter> {
    let before = errors.len();
    let voters = voters(config, errors);
    if before < errors.len() {
        return voters;
    }
    if voters.is_empty() {
        let allowed =
            "all controllers, this one included, must be given as id@host:port, separated by commas";
        errors.push(ConfigError::missing(VOTERS, allowed));
    } else if !voters.iter().any(|voter| voter.id.0 == config.node_id().0) {
        let given = config.given_text(VOTERS).unwrap_or_default();
        let allowed = format!(
            "this controller must be among the voters; its node.id is {}",
            config.node_id()
        );
        errors.push(ConfigError::conflict(VOTERS, given, allowed));
    }
    voters
}

fn nonzero(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}
