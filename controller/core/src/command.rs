//! What the controller can be asked, and what it answers. Commands are imperative; entropy comes inside them.
//!
//! Holds the shapes only: each operation has its own module.

use metadata::ids::{
    BrokerEpoch, BrokerId, DirectoryId, IncarnationId, LeaderEpoch, MetadataOffset, PartitionEpoch,
    PartitionId, ProducerId, TopicId,
};
use metadata::record::{ConfigResource, Endpoint, LeaderRecovery, LevelRange};

use crate::refusal::Refusal;

/// Something to be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make a broker process part of the cluster, fenced (R1.1).
    RegisterBroker(RegisterBroker),
    /// Take note of a broker's life sign and of what it wants (R1.20).
    Heartbeat(Heartbeat),
    /// Fence a broker that was silent for a session timeout (R1.30).
    SessionLapsed {
        /// Which.
        broker: BrokerId,
        /// Its incarnation when it was last heard.
        epoch: BrokerEpoch,
    },
    /// Fence a broker whose session stream broke and did not come back in time.
    StreamBroken {
        /// Which.
        broker: BrokerId,
        /// Its incarnation when it was last heard.
        epoch: BrokerEpoch,
    },
    /// Fence a broker that took leave without being let go.
    TookLeave {
        /// Which.
        broker: BrokerId,
        /// Its incarnation when it took leave.
        epoch: BrokerEpoch,
    },
    /// Create topics (R2.1).
    CreateTopics(CreateTopics),
    /// Delete topics (R2.40).
    DeleteTopics(DeleteTopics),
    /// Change in-sync sets as their leaders wish (R3.50).
    AlterPartition(AlterPartition),
    /// Give a block of producer ids away (R4.70).
    AllocateProducerIds {
        /// To whom.
        broker: BrokerId,
        /// To which incarnation.
        epoch: BrokerEpoch,
    },
    /// Give leadership back to preferred replicas (R3.72).
    ElectPreferredLeaders,
    /// Give topics more partitions (R2.30).
    CreatePartitions(CreatePartitions),
    /// Change configurations (R4.10).
    AlterConfigs(AlterConfigs),
    /// Elect leaders because somebody asked for it (R3.70).
    ElectLeaders(ElectLeaders),
}

/// A broker process that wants to take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterBroker {
    /// Its `node.id`.
    pub broker: BrokerId,
    /// The cluster it believes to be in; `None` when it does not know yet.
    pub cluster_id: Option<String>,
    /// The process.
    pub incarnation: IncarnationId,
    /// Where it can be reached.
    pub endpoints: Vec<Endpoint>,
    /// What it can run with.
    pub features: Vec<(String, LevelRange)>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// Its online log directories.
    pub directories: Vec<DirectoryId>,
    /// The epoch in its clean-shutdown mark; `None` after an unclean stop (R1.15).
    pub previous_epoch: Option<BrokerEpoch>,
    /// The processes since that mark that never heard of an epoch, and so have served nothing.
    pub unserved: Vec<IncarnationId>,
}

/// A broker's life sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whose.
    pub broker: BrokerId,
    /// Of which incarnation.
    pub epoch: BrokerEpoch,
    /// Every record below is applied; `None` before the first (R1.11).
    pub applied_end: Option<MetadataOffset>,
    /// It wants to be fenced, or stay so.
    pub want_fence: bool,
    /// It wants to shut down in order.
    pub want_shutdown: bool,
    /// Directories that failed.
    pub offline_directories: Vec<DirectoryId>,
}

/// Topics to be created: each for itself, all in one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopics {
    /// The topics.
    pub topics: Vec<NewTopic>,
    /// Check everything, write nothing (R2.9).
    pub validate_only: bool,
    /// Zero or less is refused (R0.4).
    pub timeout_ms: i32,
    /// Random bits, from which topic ids and placements are drawn.
    pub entropy: u128,
}

/// One topic to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name, as given.
    pub name: String,
    /// How many partitions; `None` is `num.partitions`.
    pub partitions: Option<i32>,
    /// How many replicas; `None` is `default.replication.factor`.
    pub replication_factor: Option<i32>,
    /// Replicas by hand; goes with neither of the two above.
    pub assignments: Vec<Assignment>,
    /// Configuration as given; a key given twice has its last value.
    pub configs: Vec<(String, Option<String>)>,
}

/// The replicas of one partition, by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Which partition, as given.
    pub partition: i32,
    /// Its replicas, preferred leader first.
    pub replicas: Vec<BrokerId>,
}

/// Topics to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTopics {
    /// The topics.
    pub topics: Vec<TopicRef>,
    /// Zero or less is refused (R0.4).
    pub timeout_ms: i32,
}

/// A topic by name or by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicRef {
    /// By name.
    Name(String),
    /// By id.
    Id(TopicId),
}

/// More partitions for topics: each for itself, all in one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePartitions {
    /// The topics.
    pub topics: Vec<MorePartitions>,
    /// Check everything, write nothing.
    pub validate_only: bool,
    /// Zero or less is refused (R0.4).
    pub timeout_ms: i32,
    /// Random bits, from which placements are drawn.
    pub entropy: u128,
}

/// One topic that is to have more partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MorePartitions {
    /// Its name, as given.
    pub name: String,
    /// How many it is to have, those that it has included.
    pub count: i32,
    /// The replicas of each new partition, by hand; an empty list is by hand as well (R2.30).
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// Configurations to be changed: each resource for itself, all or nothing of it, all in one batch (R4.11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterConfigs {
    /// What is to change.
    pub resources: Vec<ConfigAlteration>,
    /// Check everything, write nothing.
    pub validate_only: bool,
}

/// What is to change about one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigAlteration {
    /// Whose configuration.
    pub resource: ConfigResource,
    /// How.
    pub wish: ConfigWish,
}

/// A wish for the overrides of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigWish {
    /// These and no others from now on (R4.15).
    Replace(Vec<(String, String)>),
    /// The others stay; no key comes twice.
    Adjust(Vec<(String, ConfigOperation)>),
}

/// What happens to the value of one key (R4.10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOperation {
    /// It becomes this.
    Set(String),
    /// It is not overridden any more.
    Delete,
    /// The entries of this list are added, those that are not there yet.
    Append(String),
    /// The entries of this list are taken out, those that are there.
    Subtract(String),
}

/// Elections that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectLeaders {
    /// Which leader is to be found.
    pub kind: ElectionKind,
    /// For which partitions, by topic name and index; `None` is for all.
    pub partitions: Option<Vec<(String, i32)>>,
    /// Zero or less is refused (R0.4).
    pub timeout_ms: i32,
}

/// Which leader an election is to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionKind {
    /// The preferred replica.
    Preferred,
    /// Any live replica, at the price of lost records, where there is no leader.
    Unclean,
}

/// Wishes of one leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterPartition {
    /// The leader.
    pub broker: BrokerId,
    /// Its incarnation.
    pub epoch: BrokerEpoch,
    /// One wish per partition.
    pub partitions: Vec<InSyncProposal>,
}

/// A leader's wish for one in-sync set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSyncProposal {
    /// Which partition.
    pub partition: PartitionId,
    /// The leadership that it was made in.
    pub leader_epoch: LeaderEpoch,
    /// The state that it was made on.
    pub partition_epoch: PartitionEpoch,
    /// The in-sync set from now on.
    pub in_sync: Vec<InSyncMember>,
    /// Whether the leader has recovered from an unclean election.
    pub recovery: LeaderRecovery,
}

/// A member of a proposed in-sync set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InSyncMember {
    /// Which broker.
    pub broker: BrokerId,
    /// The incarnation that fetched; `None` skips the check.
    pub epoch: Option<BrokerEpoch>,
}

/// What was decided, for whoever asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The broker is registered.
    Registered {
        /// Under this epoch.
        epoch: BrokerEpoch,
    },
    /// The broker's standing.
    Heartbeat(HeartbeatReply),
    /// One result per topic name, in the order in which names first came up.
    TopicsCreated(Vec<TopicCreation>),
    /// One result per topic.
    TopicsDeleted(Vec<TopicDeletion>),
    /// One result per partition, in the order of the request.
    PartitionsAltered(Vec<PartitionOutcome>),
    /// A block of producer ids.
    ProducerIds {
        /// The first.
        first: ProducerId,
        /// How many.
        count: i32,
    },
    /// One result per topic name, in the order in which names first came up.
    PartitionsCreated(Vec<MorePartitionsOutcome>),
    /// Why not, per resource, in the order of the request.
    ConfigsAltered(Vec<Option<Refusal>>),
    /// One result per partition, in the order of the request; of an election for all only those that were elected or
    /// could not be (R3.71).
    LeadersElected(Vec<ElectionOutcome>),
    /// Nothing to say.
    Done,
}

/// What became of one topic that was to have more partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MorePartitionsOutcome {
    /// The name, as given.
    pub name: String,
    /// Why not.
    pub refused: Option<Refusal>,
}

/// What became of one election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionOutcome {
    /// The topic, as given.
    pub topic: String,
    /// The partition, as given.
    pub partition: i32,
    /// Why there is no other leader.
    pub refused: Option<Refusal>,
}

/// A broker's standing after a heartbeat (R1.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// It has applied its own registration.
    pub is_caught_up: bool,
    /// It is fenced.
    pub is_fenced: bool,
    /// It may stop now.
    pub should_shut_down: bool,
}

/// What became of one topic to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicCreation {
    /// The name, as given.
    pub name: String,
    /// What was made, or why not.
    pub result: Result<TopicMade, Refusal>,
}

/// A topic that was created, or with `validate_only` would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicMade {
    /// Its identity.
    pub topic: TopicId,
    /// How many partitions.
    pub partitions: i32,
    /// How many replicas of each.
    pub replication_factor: i32,
}

/// What became of one topic to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDeletion {
    /// Its name, if it was given or found.
    pub name: Option<String>,
    /// Its id, if it was given or found.
    pub topic: Option<TopicId>,
    /// Why not.
    pub refused: Option<Refusal>,
}

/// What became of a leader's wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOutcome {
    /// Which partition.
    pub partition: PartitionId,
    /// The state after the change, or why it stays as it was.
    pub result: Result<PartitionStanding, Refusal>,
}

/// A partition as its leader must know it (R3.53).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStanding {
    /// Who leads.
    pub leader: Option<BrokerId>,
    /// In which leadership.
    pub leader_epoch: LeaderEpoch,
    /// Who is in sync.
    pub in_sync: Vec<BrokerId>,
    /// Whether the leader is recovering.
    pub recovery: LeaderRecovery,
    /// Which state this is.
    pub epoch: PartitionEpoch,
}
