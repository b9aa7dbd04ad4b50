//! One log line per change of state that an operator cares about, as it is committed. Only the active controller
//! tells them: the others would say the same, and again after every restart.

use metadata::delta::Delta;
use metadata::image::Image;

/// Tells what a committed batch changed in brokers and topics.
pub fn changes(before: &Image, delta: &Delta) {
    for (broker, after) in &delta.brokers {
        match (before.brokers.get(broker), after) {
            (_, None) => tracing::info!(%broker, "broker unregistered"),
            (held, Some(after)) if held.is_none_or(|held| held.epoch != after.epoch) => {
                tracing::info!(%broker, epoch = %after.epoch, "broker registered");
            }
            (Some(held), Some(after)) => {
                let epoch = after.epoch;
                if held.fenced != after.fenced {
                    let change = if after.fenced {
                        "broker fenced"
                    } else {
                        "broker unfenced"
                    };
                    tracing::info!(%broker, %epoch, "{change}");
                }
                if !held.in_controlled_shutdown && after.in_controlled_shutdown {
                    tracing::info!(%broker, %epoch, "broker shutting down in order");
                }
            }
            (None, Some(_)) => {}
        }
    }
    for (id, topic) in &delta.topics_created {
        tracing::info!(topic = topic.name, %id, partitions = topic.partitions.len(), "topic created");
    }
    for (id, topic) in &delta.topics_deleted {
        tracing::info!(topic = topic.name, %id, "topic deleted");
    }
    let elected = |partition: &&metadata::delta::PartitionDelta| {
        partition
            .before
            .as_ref()
            .is_some_and(|before| before.leader_epoch != partition.after.leader_epoch)
    };
    let leaders_changed = delta.partitions.values().filter(elected).count();
    if 0 < leaders_changed {
        tracing::info!(partitions = leaders_changed, "leaders changed");
    }
}
