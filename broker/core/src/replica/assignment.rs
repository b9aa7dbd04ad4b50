//! What the metadata image says about one partition, as a replica needs it: a value of its own, so that a replica
//! never holds on to an image.

use std::collections::BTreeMap;
use std::sync::Arc;

use metadata::ids::{BrokerEpoch, BrokerId, PartitionId};
use metadata::image::{Image, Partition};
use metadata::record::ConfigResource;

/// The configuration key of [`MinInSync`].
const MIN_IN_SYNC_KEY: &str = "min.insync.replicas";

/// `min.insync.replicas` as configured; the effective minimum is never above the number of replicas (F-35).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MinInSync(pub usize);

/// Whether a broker may be in the in-sync set of a partition, as its registration says (R1.34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Unfenced, and not about to leave.
    Active,
    /// Not trusted.
    Fenced,
    /// In controlled shutdown.
    ShuttingDown,
    /// Trusted, but the directory of its replica failed.
    DirectoryFailed,
}

/// The registration of a broker that holds a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its incarnation.
    pub epoch: BrokerEpoch,
    /// Whether it may be in sync.
    pub standing: Standing,
}

/// One partition as the image has it, from the view of one of its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Which partition.
    pub partition: PartitionId,
    /// Which broker looks at it. One of `state.replicas`.
    pub me: BrokerId,
    /// The partition's state.
    pub state: Arc<Partition>,
    /// Effective minimum: at least 1, at most the number of replicas (F-35).
    pub min_in_sync: MinInSync,
    /// Registrations of its replicas, `me` included; a broker that is not registered is missing.
    pub registrations: BTreeMap<BrokerId, Registration>,
}

impl Assignment {
    /// What `image` says about `partition` for `me`: nothing if there is no such partition, or `me` holds no replica of
    /// it. `configured` counts where neither the topic nor a broker resource sets the minimum.
    #[must_use]
    pub fn of(image: &Image, partition: PartitionId, me: BrokerId, configured: MinInSync) -> Option<Self> {
        let state = image.partition(partition)?;
        if !state.replicas.contains(&me) {
            return None;
        }
        let topic = &image.topics.get(&partition.topic)?.name;
        let min = min_in_sync(image, topic, me, configured);
        let registrations = state
            .replicas
            .iter()
            .filter_map(|id| Some((*id, registration(image, state, *id)?)));
        Some(Self {
            partition,
            me,
            state: Arc::clone(state),
            min_in_sync: effective(min, state.replicas.len()),
            registrations: registrations.collect(),
        })
    }

    /// Whether `me` leads.
    #[must_use]
    pub fn is_led_by_me(&self) -> bool {
        self.state.leader == Some(self.me)
    }
}

/// The minimum that can be met at all: as configured, but never more than there are replicas (F-35).
fn effective(configured: MinInSync, replicas: usize) -> MinInSync {
    MinInSync(configured.0.min(replicas).max(1))
}

/// The registration of a broker as a peer of its replica of `partition` sees it.
#[must_use]
pub fn registration(image: &Image, partition: &Partition, broker: BrokerId) -> Option<Registration> {
    image.brokers.get(&broker).map(|registered| Registration {
        epoch: registered.epoch,
        standing: match (registered.fenced, registered.in_controlled_shutdown) {
            (true, _) => Standing::Fenced,
            (false, true) => Standing::ShuttingDown,
            (false, false) if !image.replica_is_online(partition, broker) => Standing::DirectoryFailed,
            (false, false) => Standing::Active,
        },
    })
}

/// `min.insync.replicas` of a topic: its own value, else the broker's, else the cluster's, else `configured` (F-36).
#[must_use]
pub fn min_in_sync(image: &Image, topic: &str, me: BrokerId, configured: MinInSync) -> MinInSync {
    let resources = [
        ConfigResource::Topic(topic.to_owned()),
        ConfigResource::Broker(me),
        ConfigResource::ClusterDefault,
    ];
    let values = resources
        .iter()
        .filter_map(|resource| image.configs.get(resource)?.get(MIN_IN_SYNC_KEY));
    // What cannot be a number was never accepted by the controller; a lower layer then answers.
    values
        .filter_map(|text| text.trim().parse().ok())
        .next()
        .map_or(configured, MinInSync)
}
