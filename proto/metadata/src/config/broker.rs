//! What a broker does with its configuration, as types.

use std::path::PathBuf;
use std::time::Duration;

use super::error::{ConfigError, Problem};
use super::listeners::{BrokerListener, broker_listeners};
use super::metrics_listener::{MetricsListener, metrics_listener};
use super::node::{NodeConfig, Role};
use super::voters::{ControllerAddress, controllers};
use crate::ids::BrokerId;

/// The settings of a broker. Topic settings come from [`super::TopicSettings`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSettings {
    /// `node.id`.
    pub node_id: BrokerId,
    /// `cluster.id`; without it the broker takes the controllers' word.
    pub cluster_id: Option<String>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// `listeners` and `advertised.listeners`.
    pub listeners: Vec<BrokerListener>,
    /// The name of the listener that brokers use among themselves; it is one of the advertised.
    pub inter_broker_listener: String,
    /// `controller.quorum.voters`, else `controller.quorum.bootstrap.servers`; never empty.
    pub controllers: Vec<ControllerAddress>,
    /// The first of `controller.listener.names`, for what is told about the controllers.
    pub controller_listener: String,
    /// `log.dirs`, else `log.dir`; never empty.
    pub log_dirs: Vec<PathBuf>,
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// `initial.broker.registration.timeout.ms`.
    pub registration_timeout: Duration,
    /// Limits on connections and requests.
    pub limits: ConnectionLimits,
    /// What a topic gets whose creator does not say.
    pub topics: TopicDefaults,
    /// `replica.lag.time.max.ms`.
    pub replica_lag_max: Duration,
    /// How this broker fetches from leaders.
    pub replica_fetch: ReplicaFetchSettings,
    /// `replica.high.watermark.checkpoint.interval.ms`.
    pub high_watermark_checkpoint_interval: Duration,
    /// `producer.id.expiration.ms`.
    pub producer_expiration: Duration,
    /// `metrics.listener`.
    pub metrics: Option<MetricsListener>,
}

/// Limits on connections and requests that hold as long as the broker runs. `max.connections` and
/// `max.connections.per.ip` can change meanwhile: see [`super::broker_value`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// `socket.request.max.bytes`: a longer frame closes the connection.
    pub request_bytes_max: u32,
    /// `connections.max.idle.ms`; `None` is never.
    pub idle: Option<Duration>,
    /// `max.request.partition.size.limit` (DescribeTopicPartitions).
    pub described_partitions_max: u32,
    /// `fetch.max.bytes`.
    pub fetch_bytes_max: u32,
    /// `max.incremental.fetch.session.cache.slots`.
    pub fetch_sessions_max: u32,
}

/// What a topic gets whose creator does not say, and what clients may do to topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDefaults {
    /// `num.partitions`.
    pub partitions: u32,
    /// `default.replication.factor`.
    pub replication_factor: u16,
    /// `auto.create.topics.enable`.
    pub auto_create: bool,
    /// `delete.topic.enable`.
    pub deletable: bool,
}

/// How a broker fetches from leaders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaFetchSettings {
    /// `replica.fetch.backoff.ms`.
    pub backoff: Duration,
    /// `replica.fetch.max.bytes`, of one partition.
    pub partition_bytes_max: u32,
    /// `replica.fetch.response.max.bytes`.
    pub response_bytes_max: u32,
    /// `replica.fetch.min.bytes`.
    pub bytes_min: u32,
    /// `replica.fetch.wait.max.ms`.
    pub wait_max: Duration,
    /// `replica.socket.timeout.ms`.
    pub answer_timeout: Duration,
    /// `num.replica.fetchers`.
    pub connections_per_leader: u32,
}

impl BrokerSettings {
    /// The settings of a node that is a broker.
    ///
    /// # Errors
    /// Everything in which keys, each good by itself, are at odds.
    pub fn from_config(config: &NodeConfig) -> Result<Self, Vec<ConfigError>> {
        expect_role(config, Role::Broker)?;
        let mut errors = Vec::new();
        let (listeners, inter_broker_listener) = broker_listeners(config, &mut errors);
        let settings = Self {
            node_id: BrokerId(config.node_id().0),
            cluster_id: cluster_id(config, &mut errors),
            rack: config.text("broker.rack"),
            listeners,
            inter_broker_listener,
            controllers: controllers(config, &mut errors),
            controller_listener: controller_listener(config),
            log_dirs: log_dirs(config, &mut errors),
            heartbeat_interval: positive_millis(config, "broker.heartbeat.interval.ms", &mut errors),
            session_timeout: positive_millis(config, "broker.session.timeout.ms", &mut errors),
            registration_timeout: positive_millis(
                config,
                "initial.broker.registration.timeout.ms",
                &mut errors,
            ),
            limits: ConnectionLimits::read(config),
            topics: TopicDefaults::read(config, &mut errors),
            replica_lag_max: positive_millis(config, "replica.lag.time.max.ms", &mut errors),
            replica_fetch: ReplicaFetchSettings::read(config, &mut errors),
            high_watermark_checkpoint_interval: positive_millis(
                config,
                "replica.high.watermark.checkpoint.interval.ms",
                &mut errors,
            ),
            producer_expiration: config.millis("producer.id.expiration.ms"),
            metrics: metrics_listener(config, &mut errors),
        };
        below(
            config,
            "broker.heartbeat.interval.ms",
            "broker.session.timeout.ms",
            &mut errors,
        );
        below(
            config,
            "replica.fetch.wait.max.ms",
            "replica.lag.time.max.ms",
            &mut errors,
        );
        if settings.replica_fetch.answer_timeout < settings.replica_fetch.wait_max {
            let given = settings.replica_fetch.answer_timeout.as_millis().to_string();
            let allowed = "no less than replica.fetch.wait.max.ms";
            errors.push(ConfigError::conflict(
                "replica.socket.timeout.ms",
                &given,
                allowed,
            ));
        }
        if errors.is_empty() {
            Ok(settings)
        } else {
            Err(errors)
        }
    }
}

impl ConnectionLimits {
    fn read(config: &NodeConfig) -> Self {
        let idle = config.integer("connections.max.idle.ms");
        Self {
            request_bytes_max: count(config, "socket.request.max.bytes"),
            idle: u64::try_from(idle).ok().map(Duration::from_millis),
            described_partitions_max: count(config, "max.request.partition.size.limit"),
            fetch_bytes_max: count(config, "fetch.max.bytes"),
            fetch_sessions_max: count(config, "max.incremental.fetch.session.cache.slots"),
        }
    }
}

impl TopicDefaults {
    pub(super) fn read(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> Self {
        let replication_factor = positive(config, "default.replication.factor", errors);
        let fits = u16::try_from(replication_factor)
            .ok()
            .filter(|factor| *factor <= i16::MAX as u16);
        if fits.is_none() {
            let given = replication_factor.to_string();
            let allowed = "a whole number from 1 to 32767";
            errors.push(ConfigError::new(
                "default.replication.factor",
                Some(&given),
                Problem::OutOfRange,
                allowed,
            ));
        }
        Self {
            partitions: count(config, "num.partitions"),
            replication_factor: fits.unwrap_or(1),
            auto_create: config.truth("auto.create.topics.enable"),
            deletable: config.truth("delete.topic.enable"),
        }
    }
}

impl ReplicaFetchSettings {
    fn read(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> Self {
        Self {
            backoff: config.millis("replica.fetch.backoff.ms"),
            partition_bytes_max: count(config, "replica.fetch.max.bytes"),
            response_bytes_max: count(config, "replica.fetch.response.max.bytes"),
            bytes_min: positive(config, "replica.fetch.min.bytes", errors),
            wait_max: positive_millis(config, "replica.fetch.wait.max.ms", errors),
            answer_timeout: positive_millis(config, "replica.socket.timeout.ms", errors),
            connections_per_leader: count(config, "num.replica.fetchers"),
        }
    }
}

/// A key of 32 bits that its table keeps from being negative.
pub(super) fn count(config: &NodeConfig, key: &str) -> u32 {
    u32::try_from(config.integer(key)).unwrap_or_else(|_| panic!("the tables keep {key} from being negative"))
}

/// A key of 32 bits that must be 1 or more although its table does not say so.
fn positive(config: &NodeConfig, key: &str, errors: &mut Vec<ConfigError>) -> u32 {
    let number = config.integer(key);
    if number < 1 {
        let text = number.to_string();
        errors.push(ConfigError::new(
            key,
            Some(&text),
            Problem::OutOfRange,
            "a whole number of 1 or more",
        ));
    }
    u32::try_from(number).unwrap_or(1)
}

/// A time that must be longer than nothing although its table does not say so.
pub(super) fn positive_millis(config: &NodeConfig, key: &str, errors: &mut Vec<ConfigError>) -> Duration {
    let number = config.integer(key);
    if number < 1 {
        let text = number.to_string();
        errors.push(ConfigError::new(
            key,
            Some(&text),
            Problem::OutOfRange,
            "a whole number of 1 or more",
        ));
    }
    config.millis(key)
}

/// Refuses `lesser` where it is not below `greater`.
pub(super) fn below(config: &NodeConfig, lesser: &str, greater: &str, errors: &mut Vec<ConfigError>) {
    let (small, large) = (config.integer(lesser), config.integer(greater));
    if large <= small {
        let allowed = format!("less than {greater}, which is {large}");
        errors.push(ConfigError::conflict(lesser, &small.to_string(), allowed));
    }
}

/// Refuses a file that was written for the other program; nothing else in it can be right then.
pub(super) fn expect_role(config: &NodeConfig, role: Role) -> Result<(), Vec<ConfigError>> {
    let (word, program) = match role {
        Role::Broker => ("broker", "millrace-broker"),
        Role::Controller => ("controller", "millrace-controller"),
    };
    if config.role() == role {
        return Ok(());
    }
    let given = config.given_text("process.roles").unwrap_or_default();
    Err(vec![ConfigError::conflict(
        "process.roles",
        given,
        format!("{word}, since this is {program}"),
    )])
}

/// A broker need not be told how the controllers' listener is called.
fn controller_listener(config: &NodeConfig) -> String {
    let names = config.list("controller.listener.names");
    names
        .into_iter()
        .next()
        .unwrap_or_else(|| "CONTROLLER".to_owned())
}

/// The cluster id: what Kafka and the file systems of the nodes can carry.
pub(super) fn cluster_id(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> Option<String> {
    let id = config.text("cluster.id")?;
    let plain = id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    if !plain || id.len() > 249 {
        let allowed = "up to 249 letters, digits, '_', '-' and '.'";
        errors.push(ConfigError::new(
            "cluster.id",
            Some(&id),
            Problem::OutOfRange,
            allowed,
        ));
    }
    Some(id)
}

/// The directories for data. Where one is inside another is for the shell to find, which can look.
pub(super) fn log_dirs(config: &NodeConfig, errors: &mut Vec<ConfigError>) -> Vec<PathBuf> {
    let key = if config.given_text("log.dirs").is_some() {
        "log.dirs"
    } else {
        "log.dir"
    };
    let dirs: Vec<PathBuf> = config.list(key).into_iter().map(PathBuf::from).collect();
    if dirs.is_empty() {
        errors.push(ConfigError::missing(key, "at least one directory must be given"));
    }
    dirs
}
