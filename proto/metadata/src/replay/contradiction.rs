//! What a record can contradict. Part of what an operator reads when a node stops replaying.

use crate::ids::{BrokerEpoch, BrokerId, MetadataOffset, PartitionId, PartitionIndex, ProducerId, TopicId};
use crate::record::Record;

/// A record that cannot follow from the state before it: the log is damaged, or from another release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record at offset {offset} cannot be replayed: {contradiction}: {record:?}")]
pub struct ReplayError {
    /// The record's offset.
    pub offset: MetadataOffset,
    /// The record.
    pub record: Box<Record>,
    /// What it contradicts.
    pub contradiction: Contradiction,
}

/// What a record contradicts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// No such registration.
    #[error("broker {0} is not registered")]
    UnknownBroker(BrokerId),
    /// Names another incarnation than the registered one (R5.70).
    #[error("broker {broker} is registered with epoch {held}, not {given}")]
    OtherBrokerEpoch {
        /// Whose.
        broker: BrokerId,
        /// Registered.
        held: BrokerEpoch,
        /// In the record.
        given: BrokerEpoch,
    },
    /// A new incarnation must have a higher epoch, and none above its own offset (R1.4).
    #[error("broker {broker} cannot go from epoch {held:?} to {given}")]
    BrokerEpochOutOfOrder {
        /// Whose.
        broker: BrokerId,
        /// Registered, if any.
        held: Option<BrokerEpoch>,
        /// In the record.
        given: BrokerEpoch,
    },
    /// No such topic.
    #[error("there is no topic {0}")]
    UnknownTopic(TopicId),
    /// Configuration of a topic that does not exist.
    #[error("there is no topic named {0}")]
    UnknownTopicName(String),
    /// The id or the name is taken.
    #[error("topic {0} exists")]
    TopicExists(String),
    /// No such partition.
    #[error("there is no partition {0}")]
    UnknownPartition(PartitionId),
    /// Indexes are dense.
    #[error("the next partition is {expected}, not {given}")]
    PartitionOutOfOrder {
        /// The next index.
        expected: PartitionIndex,
        /// In the record.
        given: PartitionIndex,
    },
    /// The partition would break a law of partitions.
    #[error("partition {partition}: {law}")]
    UnlawfulPartition {
        /// Which.
        partition: PartitionId,
        /// The law that it would break.
        law: &'static str,
    },
    /// Blocks of producer ids only go up (R4.70).
    #[error("producer ids below {held} are given away, so {given} cannot be next")]
    ProducerIdsOutOfOrder {
        /// First that was never given away.
        held: ProducerId,
        /// In the record.
        given: ProducerId,
    },
    /// A feature level that this build cannot run with (R4.89).
    #[error("feature {name} at level {level} is not supported here")]
    UnsupportedFeature {
        /// The feature.
        name: String,
        /// Its level.
        level: i16,
    },
}
