//! The records of the metadata log, past tense: what was decided, never what was asked.
//!
//! Holds the shapes only. How a record is encoded is in [`crate::codec`], what it changes in [`crate::image`].

use crate::ids::{
    BrokerEpoch, BrokerId, DirectoryId, IncarnationId, MetadataOffset, PartitionId, PartitionIndex,
    ProducerId, TopicId,
};
use crate::image::Partition;

/// One fact of the metadata log. A published (type, version) keeps its meaning for ever: a change is a new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Nothing happened; shows that the log moves (`metadata.max.idle.interval.ms`).
    NoOp,
    /// A broker process registered, or registered again (R1.3, R1.5).
    BrokerRegistered(BrokerRegistered),
    /// A registration changed in place: fenced, unfenced, shutting down, directories (R5.70).
    BrokerRegistrationChanged(BrokerRegistrationChanged),
    /// A registration was removed by an operator (R1.40).
    BrokerUnregistered {
        /// Whose.
        broker: BrokerId,
        /// The incarnation that was removed.
        epoch: BrokerEpoch,
    },
    /// A topic was created; its partitions follow in the same batch.
    TopicCreated {
        /// The new topic's identity.
        topic: TopicId,
        /// Its name, valid by R2.3.
        name: String,
    },
    /// A topic was deleted with its partitions and configs (R2.43).
    TopicDeleted {
        /// Which.
        topic: TopicId,
    },
    /// A partition was created.
    PartitionCreated(PartitionCreated),
    /// A partition changed; adds one to its partition epoch (R3.1).
    PartitionChanged(PartitionChanged),
    /// One configuration value was set or removed.
    ConfigChanged {
        /// Whose configuration.
        resource: ConfigResource,
        /// Kafka's key.
        key: String,
        /// The text as given; `None` removes the key.
        value: Option<String>,
    },
    /// A feature was finalised at a level; level 0 removes it (R4.83).
    FeatureLevelSet {
        /// Kafka's feature name.
        name: String,
        /// The level from now on.
        level: i16,
    },
    /// A block of producer ids was given away; ids below `next` are never given again (R4.70).
    ProducerIdsAllocated {
        /// To whom.
        broker: BrokerId,
        /// To which incarnation.
        broker_epoch: BrokerEpoch,
        /// First id of the next block.
        next: ProducerId,
    },
    /// The eligible leader replicas of a topic, or of all, were cleared (R3.34), except where no replica is in sync.
    EligibleReplicasCleared {
        /// Which topic; `None` is every one.
        topic: Option<TopicId>,
    },
}

/// A network address under a listener name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Listener name, upper case as configured (`PLAINTEXT`).
    pub listener: String,
    /// Advertised host.
    pub host: String,
    /// Advertised port.
    pub port: u16,
    /// How the listener is secured.
    pub security: SecurityProtocol,
}

/// How a listener is secured. Numbers on the wire are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecurityProtocol {
    /// 0
    Plaintext,
    /// 1
    Ssl,
    /// 2
    SaslPlaintext,
    /// 3
    SaslSsl,
}

/// The levels of a feature that a node can run with, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelRange {
    /// Lowest.
    pub min: i16,
    /// Highest.
    pub max: i16,
}

/// A registration as it stands after the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerRegistered {
    /// Whose.
    pub broker: BrokerId,
    /// Of this incarnation; kept when the same incarnation registers again (R1.5).
    pub epoch: BrokerEpoch,
    /// The offset of the record that registered this incarnation; `None` is this record's own (a dump carries it).
    pub registered_at: Option<MetadataOffset>,
    /// The process.
    pub incarnation: IncarnationId,
    /// Where it can be reached, one per listener.
    pub endpoints: Vec<Endpoint>,
    /// What it can run with, sorted by name.
    pub features: Vec<(String, LevelRange)>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// The log directories that are online.
    pub directories: Vec<DirectoryId>,
    /// New incarnations start fenced (R1.3).
    pub fenced: bool,
    /// Set while a controlled shutdown runs.
    pub in_controlled_shutdown: bool,
}

/// What of a registration changed. `None` is "as before".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerRegistrationChanged {
    /// Whose.
    pub broker: BrokerId,
    /// Must be the current one, else the log is damaged (R5.70).
    pub epoch: BrokerEpoch,
    /// Fenced or not from now on.
    pub fenced: Option<bool>,
    /// In controlled shutdown or not from now on.
    pub in_controlled_shutdown: Option<bool>,
    /// The log directories that are online from now on.
    pub directories: Option<Vec<DirectoryId>>,
}

/// Whether a leader was elected with all committed data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderRecovery {
    /// The leader had everything.
    #[default]
    Recovered,
    /// The leader may lack committed data: it was elected uncleanly (R3.14).
    Recovering,
}

/// A new partition, or in a dump the present state of an old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionCreated {
    /// Which.
    pub partition: PartitionId,
    /// Its whole state. A partition that was just created has both epochs at 0 and nothing eligible (R2.5).
    pub state: Partition,
}

/// What of a partition changed. `None` is "as before".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionChanged {
    /// Which.
    pub partition: PartitionId,
    /// The in-sync replicas; may become empty only while eligible leader replicas are kept (R3.17).
    pub in_sync: Option<Vec<BrokerId>>,
    /// The leader. `Some` adds one to the leader epoch, even when it names the same leader (R3.2).
    pub leader: Option<LeaderChange>,
    /// The eligible leader replicas (R3.30).
    pub eligible: Option<Vec<BrokerId>>,
    /// The last known leader, kept while there is none (R3.16).
    pub last_known_leader: Option<Option<BrokerId>>,
    /// The replicas.
    pub replicas: Option<Vec<BrokerId>>,
    /// Their directories; goes with `replicas`, or alone when a directory was assigned.
    pub directories: Option<Vec<DirectoryId>>,
    /// Replicas being added by a reassignment.
    pub adding: Option<Vec<BrokerId>>,
    /// Replicas being removed by a reassignment.
    pub removing: Option<Vec<BrokerId>>,
    /// Whether the leader is recovering from an unclean election.
    pub recovery: Option<LeaderRecovery>,
}

impl PartitionChanged {
    /// A change of nothing, to be filled in.
    #[must_use]
    pub fn of(partition: PartitionId) -> Self {
        Self {
            partition,
            in_sync: None,
            leader: None,
            eligible: None,
            last_known_leader: None,
            replicas: None,
            directories: None,
            adding: None,
            removing: None,
            recovery: None,
        }
    }

    /// True when no field is set: such a record is never written (R3.10).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::of(self.partition)
    }
}

/// Who leads from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderChange {
    /// This broker.
    To(BrokerId),
    /// Nobody: no replica may lead (R1.26).
    Nobody,
}

/// Whose configuration a value belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigResource {
    /// A topic, by name; the values vanish with the topic.
    Topic(String),
    /// One broker.
    Broker(BrokerId),
    /// Every broker that has no value of its own.
    ClusterDefault,
    /// A group.
    Group(String),
    /// A client metrics subscription.
    ClientMetrics(String),
}

/// A partition's position as text needs both parts of its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Topic name.
    pub topic: String,
    /// Partition.
    pub partition: PartitionIndex,
}
