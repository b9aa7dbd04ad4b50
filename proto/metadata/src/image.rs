//! The state that the metadata log adds up to. Structure is shared between versions, so keeping two images (decided
//! and committed) and handing one to every request costs next to nothing.
//!
//! Holds facts only: no soft state (heartbeat times) and no decision. How records change it is in [`crate::replay`].

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use crate::ids::{
    BrokerEpoch, BrokerId, DirectoryId, IncarnationId, LeaderEpoch, MetadataOffset, PartitionEpoch,
    PartitionId, PartitionIndex, ProducerId, Term, TopicId,
};
use crate::lookup::Lookup;
use crate::record::{ConfigResource, Endpoint, LeaderRecovery, LevelRange};

/// The whole metadata of a cluster at one offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The offset that the next record will get: everything below is contained.
    pub next_offset: MetadataOffset,
    /// The term in which the last batch was decided; together with `next_offset` it names a lineage.
    pub last_term: Term,
    /// Registered brokers, fenced ones included.
    pub brokers: OrdMap<BrokerId, Arc<Broker>>,
    /// Topics by identity.
    pub topics: OrdMap<TopicId, Arc<Topic>>,
    /// Topic identities by name.
    pub topic_names: OrdMap<String, TopicId>,
    /// Configuration values as given, per resource and key.
    pub configs: OrdMap<ConfigResource, Arc<BTreeMap<String, String>>>,
    /// Finalised features above level 0.
    pub features: OrdMap<String, i16>,
    /// First producer id that was never given away.
    pub next_producer_id: ProducerId,
    /// Partitions by broker; replay keeps it in step with `topics`.
    pub(crate) lookup: Lookup,
}

/// A registered broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// This incarnation.
    pub epoch: BrokerEpoch,
    /// Offset of the `BrokerRegistered` record itself; a broker is caught up when it has applied it (R1.4, R1.23).
    pub registered_at: MetadataOffset,
    /// The process.
    pub incarnation: IncarnationId,
    /// Where it can be reached.
    pub endpoints: Vec<Endpoint>,
    /// What it can run with, sorted by name.
    pub features: Vec<(String, LevelRange)>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// Online log directories.
    pub directories: Vec<DirectoryId>,
    /// Not trusted with leadership or in-sync membership.
    pub fenced: bool,
    /// Shutting down in order.
    pub in_controlled_shutdown: bool,
}

impl Broker {
    /// Only active brokers may be elected or join an in-sync set (R1.34).
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }

    /// Whether a directory of this broker works, as far as the cluster knows (R3.12). `UNASSIGNED` counts as working:
    /// new replicas are never that (R3.80), and where those of older metadata lie is not known here.
    #[must_use]
    pub fn has_online(&self, directory: DirectoryId) -> bool {
        match directory {
            DirectoryId::UNASSIGNED | DirectoryId::MIGRATING => true,
            chosen => self.directories.contains(&chosen),
        }
    }

    /// The endpoint under a listener name.
    #[must_use]
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints
            .iter()
            .find(|endpoint| endpoint.listener == listener)
    }
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its identity.
    pub id: TopicId,
    /// Its name.
    pub name: String,
    /// Its partitions, indexes dense from 0.
    pub partitions: OrdMap<PartitionIndex, Arc<Partition>>,
}

/// A partition. `in_sync` and `eligible` never overlap, and every member is a replica or was one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// One per replica.
    pub directories: Vec<DirectoryId>,
    /// In sync.
    pub in_sync: Vec<BrokerId>,
    /// Eligible leader replicas: not in sync, yet known to hold all committed data (R3.30).
    pub eligible: Vec<BrokerId>,
    /// Kept while there is no leader (R3.16).
    pub last_known_leader: Option<BrokerId>,
    /// Being added by a reassignment.
    pub adding: Vec<BrokerId>,
    /// Being removed by a reassignment.
    pub removing: Vec<BrokerId>,
    /// Who leads, if anybody.
    pub leader: Option<BrokerId>,
    /// Whether the leader is recovering from an unclean election.
    pub recovery: LeaderRecovery,
    /// Counts leaderships.
    pub leader_epoch: LeaderEpoch,
    /// Counts changes.
    pub epoch: PartitionEpoch,
}

impl Partition {
    /// The directory that holds the replica on this broker; nothing where it has none.
    #[must_use]
    pub fn directory_on(&self, broker: BrokerId) -> Option<DirectoryId> {
        let place = self.replicas.iter().position(|replica| *replica == broker)?;
        self.directories.get(place).copied()
    }
}

impl Image {
    /// A topic by name.
    #[must_use]
    pub fn topic_named(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topic_names.get(name).and_then(|id| self.topics.get(id))
    }

    /// Whether the directory works that holds a broker's replica of a partition (R3.12). Of a broker that is not
    /// registered, nothing does.
    #[must_use]
    pub fn replica_is_online(&self, partition: &Partition, broker: BrokerId) -> bool {
        let directory = partition.directory_on(broker);
        let registered = self.brokers.get(&broker);
        registered.is_some_and(|broker| directory.is_none_or(|directory| broker.has_online(directory)))
    }

    /// A partition by identity.
    #[must_use]
    pub fn partition(&self, id: PartitionId) -> Option<&Arc<Partition>> {
        self.topics
            .get(&id.topic)
            .and_then(|topic| topic.partitions.get(&id.index))
    }

    /// Partitions by the part that brokers play in them.
    #[must_use]
    pub fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    /// The finalised level of a feature, 0 when it is off.
    #[must_use]
    pub fn feature_level(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// One configuration value as it was given.
    #[must_use]
    pub fn config(&self, resource: &ConfigResource, key: &str) -> Option<&str> {
        self.configs.get(resource)?.get(key).map(String::as_str)
    }

    /// True before the first record of a cluster.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next_offset == MetadataOffset(0)
    }
}
