//! What all lanes share: the machine, the directories, the readers' side, and the ways out.
//!
//! Must not: hold anything that a lane would have to wait for.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker_core::produce::WaiterId;
use broker_core::replica::{MinInSync, Proposal};
use broker_core::time::Moment;
use host::{Clock, WallMs};
use metadata::config::{Layer, Layers, NodeConfig, TopicSettings, broker_value};
use metadata::ids::{BrokerId, PartitionId};
use metadata::image::Image;
use metadata::record::ConfigResource;
use partition_log::LogConfig;
use tokio::sync::mpsc::UnboundedSender;

use super::dirs::{DirIndex, Dirs};
use super::hosted::Partitions;
use super::settings;
use super::sync::SyncThreads;
use crate::metrics::BrokerMetrics;
use crate::replication::FetchOrder;

/// Files that are to be removed after a while.
#[derive(Debug)]
pub enum Doomed {
    /// A partition's renamed directory.
    Partition(DirIndex, PathBuf),
    /// Renamed files of a segment.
    Files(Vec<PathBuf>),
}

/// What all lanes share.
pub struct Shared {
    /// This broker.
    pub me: BrokerId,
    /// Its file.
    pub config: Arc<NodeConfig>,
    /// Its clocks.
    pub clock: Arc<dyn Clock>,
    /// Its directories.
    pub dirs: Arc<Dirs>,
    /// What readers see.
    pub partitions: Arc<Partitions>,
    /// What is counted.
    pub metrics: Arc<BrokerMetrics>,
    /// `replica.lag.time.max.ms`.
    pub lag_max: Duration,
    /// Threads that sync.
    pub syncs: SyncThreads,
    /// Where proposals for in-sync sets go.
    pub proposals: UnboundedSender<Proposal>,
    /// Where the wish to fetch goes.
    pub fetching: UnboundedSender<FetchOrder>,
    /// Where files go that are to be removed, with the time until then.
    pub doomed: UnboundedSender<(Duration, Doomed)>,
    /// Names waits.
    pub next_waiter: AtomicU64,
}

impl Shared {
    /// The time on the core's clock.
    pub fn now(&self) -> Moment {
        Moment::from_start(Duration::from_nanos(self.clock.now().0))
    }

    /// The time that is written down.
    pub fn wall(&self) -> WallMs {
        self.clock.wall()
    }

    /// A name for a wait that no other has.
    pub fn waiter(&self) -> WaiterId {
        WaiterId(self.next_waiter.fetch_add(1, Ordering::Relaxed))
    }

    /// What holds for a topic on this broker.
    pub fn topic_settings(&self, image: &Image, partition: PartitionId) -> TopicSettings {
        let given = |resource: ConfigResource| image.configs.get(&resource).map(|values| &**values);
        let name = image.topics.get(&partition.topic).map(|topic| topic.name.clone());
        let topic = name.and_then(|name| given(ConfigResource::Topic(name)));
        let (own, cluster) = (
            given(ConfigResource::Broker(self.me)),
            given(ConfigResource::ClusterDefault),
        );
        let layers = Layers {
            topic: &topic as &dyn Layer,
            node_dynamic: &own,
            cluster: &cluster,
            node: &self.config,
        };
        TopicSettings::effective(&layers)
    }

    /// What holds for a topic's log on this broker.
    pub fn log_config(&self, image: &Image, partition: PartitionId) -> LogConfig {
        let given = |resource: ConfigResource| image.configs.get(&resource).map(|values| &**values);
        let (own, cluster) = (
            given(ConfigResource::Broker(self.me)),
            given(ConfigResource::ClusterDefault),
        );
        let expiration = broker_value("producer.id.expiration.ms", &self.config, &own, &cluster).integer();
        let expiration = expiration.and_then(|millis| u64::try_from(millis).ok());
        let expiration = Duration::from_millis(expiration.expect("the tables keep it positive"));
        settings::log_config(&self.topic_settings(image, partition), expiration)
    }
}

/// This broker's own `min.insync.replicas`, where no other says anything.
pub fn configured_min_in_sync(config: &NodeConfig) -> MinInSync {
    MinInSync(usize::try_from(config.integer("min.insync.replicas")).unwrap_or(1))
}
