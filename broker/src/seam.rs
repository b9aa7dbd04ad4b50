//! Translations where two crates have their own type for the same number.
//!
//! Must not: change a value.

use broker_core::lifecycle::CleanStop;
use broker_core::offsets::{HighWatermark, LogEnd, LogFacts, LogStart, Offset};
use metadata::ids::{BrokerEpoch, DirectoryId, IncarnationId, LeaderEpoch, TopicId};
use metadata::uuid::Uuid;
use partition_log::{Bounds, CleanShutdown};

/// An offset of the log, as the core has it.
pub fn to_core(offset: partition_log::Offset) -> Offset {
    Offset(offset.0)
}

/// An offset of the core, as the log has it.
pub fn to_log(offset: Offset) -> partition_log::Offset {
    partition_log::Offset(offset.0)
}

/// An epoch as the log has it.
pub fn epoch_to_log(epoch: LeaderEpoch) -> partition_log::LeaderEpoch {
    partition_log::LeaderEpoch(epoch.0)
}

/// An epoch as the core has it.
pub fn epoch_to_core(epoch: partition_log::LeaderEpoch) -> LeaderEpoch {
    LeaderEpoch(epoch.0)
}

/// What the core must know of a log.
pub fn facts(bounds: Bounds) -> LogFacts {
    LogFacts::recovered(
        LogStart(to_core(bounds.log_start)),
        LogEnd(to_core(bounds.log_end)),
        HighWatermark(to_core(bounds.high_watermark)),
    )
}

/// A topic's identity as the log has it.
pub fn topic_to_log(topic: TopicId) -> partition_log::TopicId {
    partition_log::TopicId(topic.0.to_bytes())
}

/// A topic's identity as the core has it.
pub fn topic_to_core(topic: partition_log::TopicId) -> TopicId {
    TopicId(Uuid::from_bytes(topic.0))
}

/// A topic's identity from the wire.
pub fn topic_from_wire(id: wire::Uuid) -> TopicId {
    TopicId(Uuid::from_bytes(id.0))
}

/// A topic's identity for the wire.
pub fn topic_to_wire(id: TopicId) -> wire::Uuid {
    wire::Uuid(id.0.to_bytes())
}

/// A directory's identity as the image has it.
pub fn directory_to_image(id: partition_log::DirectoryId) -> DirectoryId {
    DirectoryId(Uuid::from_bytes(id.0))
}

/// A process's identity as the image has it.
pub fn incarnation_to_image(id: partition_log::IncarnationId) -> IncarnationId {
    IncarnationId(Uuid::from_bytes(id.0))
}

/// The mark of an orderly stop as the core has it; nothing where it does not say whose it is.
pub fn clean_stop_to_core(mark: &CleanShutdown) -> Option<CleanStop> {
    Some(CleanStop {
        epoch: BrokerEpoch(mark.broker_epoch?),
        unserved: mark.unserved.iter().copied().map(incarnation_to_image).collect(),
    })
}

/// The mark of an orderly stop as the log has it.
pub fn clean_stop_to_log(stop: &CleanStop) -> CleanShutdown {
    let to_log = |id: &IncarnationId| partition_log::IncarnationId(id.0.to_bytes());
    CleanShutdown {
        broker_epoch: Some(stop.epoch.0),
        unserved: stop.unserved.iter().map(to_log).collect(),
    }
}
