//! Why a command is not carried out: the caller is wrong or late. Part of the contract, one variant per kind, with
//! what was held and what was given. The text is for people.
//!
//! Must not name Kafka's error codes: a broker chooses them.

use metadata::ids::{
    BrokerEpoch, BrokerId, IncarnationId, LeaderEpoch, PartitionEpoch, PartitionId, TopicId,
};

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// This controller is not the active one, or stopped being so before the result was certain: ask again, there
    /// or elsewhere. What was asked may still have happened.
    #[error("this controller is not the active one")]
    NotActive,
    /// R1.1.
    #[error("this is cluster {held}, not {given}")]
    InconsistentClusterId {
        /// Ours.
        held: String,
        /// Theirs.
        given: String,
    },
    /// R1.1.
    #[error("broker {broker} is in use by another live process (incarnation {held}, epoch {epoch})")]
    DuplicateBrokerRegistration {
        /// The id.
        broker: BrokerId,
        /// Who holds it.
        held: IncarnationId,
        /// Under which epoch.
        epoch: BrokerEpoch,
    },
    /// R1.1.
    #[error("broker {broker} cannot register: {reason}")]
    InvalidRegistration {
        /// The id.
        broker: BrokerId,
        /// Why not.
        reason: String,
    },
    /// A finalised feature that the broker cannot run with (R1.1).
    #[error("broker {broker} cannot register: {feature} is finalised at {level} and it runs {offered}")]
    UnsupportedVersion {
        /// The id.
        broker: BrokerId,
        /// Which feature.
        feature: String,
        /// The finalised level.
        level: i16,
        /// What the broker offers, in words.
        offered: String,
    },
    /// The broker is not registered under this epoch (R1.21).
    #[error("broker {broker} is {}, not under epoch {given}", held_epoch(*.held))]
    StaleBrokerEpoch {
        /// Whose.
        broker: BrokerId,
        /// The registered epoch, if any.
        held: Option<BrokerEpoch>,
        /// The epoch given.
        given: BrokerEpoch,
    },
    /// No such registration.
    #[error("broker {0} is not registered")]
    BrokerNotRegistered(BrokerId),
    /// R0.4.
    #[error("the timeout of {timeout_ms} ms was over before the request was looked at")]
    TimedOut {
        /// As given.
        timeout_ms: i32,
    },
    /// No topic of this name.
    #[error("there is no topic {name:?}")]
    UnknownTopic {
        /// As given.
        name: String,
    },
    /// No topic of this id.
    #[error("there is no topic with id {0}")]
    UnknownTopicId(TopicId),
    /// No such partition.
    #[error("there is no partition {0}")]
    UnknownPartition(PartitionId),
    /// R2.3.
    #[error("topic {name} exists")]
    TopicExists {
        /// Its name.
        name: String,
    },
    /// R2.3.
    #[error("{name:?} cannot name a topic: {reason}")]
    InvalidTopicName {
        /// As given.
        name: String,
        /// Why not.
        reason: String,
    },
    /// R2.3.
    #[error("{given} as the number of partitions: {reason}")]
    InvalidPartitions {
        /// As given.
        given: i32,
        /// What is allowed.
        reason: String,
    },
    /// R2.21.
    #[error("replication factor {given}: {reason}")]
    InvalidReplicationFactor {
        /// As given, or the default.
        given: i32,
        /// What is allowed.
        reason: String,
    },
    /// R2.3.
    #[error("{0}")]
    InvalidReplicaAssignment(String),
    /// R2.3.
    #[error("{0}")]
    InvalidConfig(String),
    /// The request contradicts itself or what its sender may ask.
    #[error("{0}")]
    InvalidRequest(String),
    /// The request is larger than one request may be (R0.7, R2.2).
    #[error("{0}")]
    PolicyViolation(String),
    /// R2.40.
    #[error("topic deletion is disabled")]
    TopicDeletionDisabled,
    /// The caller knows a later state than this controller, which is therefore not the right one to ask (R3.51).
    #[error(
        "partition {partition} is at leader epoch {leader_epoch} and partition epoch {epoch} here, behind the request"
    )]
    StaleControllerView {
        /// Which.
        partition: PartitionId,
        /// Held.
        leader_epoch: LeaderEpoch,
        /// Held.
        epoch: PartitionEpoch,
    },
    /// R3.51.
    #[error("partition {partition} is at leader epoch {held}, past {given}")]
    FencedLeaderEpoch {
        /// Which.
        partition: PartitionId,
        /// Held.
        held: LeaderEpoch,
        /// Given.
        given: LeaderEpoch,
    },
    /// R3.51.
    #[error("partition {partition} is at partition epoch {held}, past {given}")]
    StalePartitionEpoch {
        /// Which.
        partition: PartitionId,
        /// Held.
        held: PartitionEpoch,
        /// Given.
        given: PartitionEpoch,
    },
    /// R3.51.
    #[error("broker {broker} cannot be in sync for {partition}: {reason}")]
    IneligibleReplica {
        /// Which partition.
        partition: PartitionId,
        /// The first member that cannot.
        broker: BrokerId,
        /// Why not.
        reason: String,
    },
    /// The change was made, and the sender leads no more (R3.54).
    #[error("broker {leader} leads {partition} now")]
    NewLeaderElected {
        /// Which partition.
        partition: PartitionId,
        /// The new leader.
        leader: BrokerId,
    },
    /// R4.70.
    #[error("no producer ids are left")]
    ProducerIdsExhausted,
    /// R3.70.
    #[error("the preferred leader of {0} cannot lead")]
    PreferredLeaderNotAvailable(PartitionId),
    /// R3.70.
    #[error("no replica of {0} can lead")]
    EligibleLeadersNotAvailable(PartitionId),
    /// R3.70.
    #[error("{0} has the leader it should have")]
    ElectionNotNeeded(PartitionId),
    /// R4.80.
    #[error("{0}")]
    InvalidUpdateVersion(String),
    /// Nothing can be decided for now.
    #[error("{0}")]
    Unavailable(String),
    /// The decision failed: a defect of ours. Nothing was changed (R0.7).
    #[error("the decision failed: {0}")]
    DecisionFailed(String),
}

fn held_epoch(held: Option<BrokerEpoch>) -> String {
    match held {
        Some(epoch) => format!("registered under epoch {epoch}"),
        None => "not registered".to_owned(),
    }
}
