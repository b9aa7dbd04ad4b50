//! What a change of the metadata asks of each partition on this broker, and which lane a partition belongs to. A pure
//! function of the image before and the image after, so that any number of batches may be taken in at once.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use metadata::delta::Delta;
use metadata::ids::{BrokerId, PartitionId, PartitionIndex};
use metadata::image::{Image, Partition};
use metadata::record::ConfigResource;

use crate::replica::{Assignment, MinInSync};

/// What a lane does with one of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The topic is gone: stop, and delete the log.
    Delete(PartitionId),
    /// The replica moved to other brokers: stop, and delete the log.
    Stop(PartitionId),
    /// A replica comes to this broker: open its log, or create one, and take up its role.
    Create(Assignment),
    /// This broker leads under this epoch from now on.
    Lead(Assignment),
    /// Another broker leads, or nobody, under this epoch from now on.
    Follow(Assignment),
    /// Same leadership; members, peers or the minimum are others.
    Refresh(Assignment),
    /// Same assignment; what is configured for its log is not.
    Configure(PartitionId),
}

impl Action {
    /// Which partition it is about.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        match self {
            Self::Delete(partition) | Self::Stop(partition) | Self::Configure(partition) => *partition,
            Self::Create(assignment)
            | Self::Lead(assignment)
            | Self::Follow(assignment)
            | Self::Refresh(assignment) => assignment.partition,
        }
    }

    /// Kafka's order: replicas go before others come, and leaders lead before followers ask them.
    fn rank(&self) -> u8 {
        match self {
            Self::Delete(_) => 0,
            Self::Stop(_) => 1,
            Self::Create(assignment) if assignment.is_led_by_me() => 2,
            Self::Lead(_) => 3,
            Self::Refresh(_) | Self::Configure(_) => 4,
            Self::Create(_) => 5,
            Self::Follow(_) => 6,
        }
    }
}

/// What leads from `before` to `after` on this broker, one action a partition at most, in the order in which they are
/// to be carried out. `configured` is this broker's own `min.insync.replicas`.
#[must_use]
pub fn plan(before: &Image, after: &Image, me: BrokerId, configured: MinInSync) -> Vec<Action> {
    let delta = Delta::between(before, after);
    let reconfigured = reconfigured(&delta, after, me);
    let mut touched = touched(&delta, after, me);
    touched.extend(&reconfigured);
    let mut actions: Vec<Action> = touched
        .into_iter()
        .filter_map(|partition| {
            let unchanged = || {
                reconfigured
                    .contains(&partition)
                    .then_some(Action::Configure(partition))
            };
            action(before, after, partition, me, configured).or_else(unchanged)
        })
        .collect();
    actions.sort_by_key(|action| (action.rank(), action.partition()));
    actions
}

/// Everything held here for whose log something else may be configured now: topics act live, and so do the values of
/// brokers that topics fall back on (R4.20).
fn reconfigured(delta: &Delta, after: &Image, me: BrokerId) -> BTreeSet<PartitionId> {
    let is_for_all = |resource: &ConfigResource| match resource {
        ConfigResource::ClusterDefault => true,
        ConfigResource::Broker(broker) => *broker == me,
        ConfigResource::Topic(_) | ConfigResource::Group(_) | ConfigResource::ClientMetrics(_) => false,
    };
    if delta.configs.keys().any(is_for_all) {
        return after.lookup().assigned_to(me).collect();
    }
    let topics = delta.configs.keys().filter_map(|resource| match resource {
        ConfigResource::Topic(name) => after.topic_named(name),
        _ => None,
    });
    let held = topics.flat_map(|topic| {
        let here = topic
            .partitions
            .iter()
            .filter(|(_, state)| state.replicas.contains(&me));
        here.map(|(index, _)| PartitionId {
            topic: topic.id,
            index: *index,
        })
    });
    held.collect()
}

/// Everything held here before or after that may have changed.
fn touched(delta: &Delta, after: &Image, me: BrokerId) -> BTreeSet<PartitionId> {
    let mut touched: BTreeSet<PartitionId> = delta.partitions.keys().copied().collect();
    for (topic, gone) in &delta.topics_deleted {
        touched.extend(gone.partitions.keys().map(|index| PartitionId {
            topic: *topic,
            index: *index,
        }));
    }
    // Registrations matter to leaders alone.
    if !delta.brokers.is_empty() {
        touched.extend(after.lookup().led_by(me));
    }
    touched
}

fn action(
    before: &Image,
    after: &Image,
    partition: PartitionId,
    me: BrokerId,
    configured: MinInSync,
) -> Option<Action> {
    let held = Assignment::of(before, partition, me, configured);
    let Some(now) = Assignment::of(after, partition, me, configured) else {
        held?;
        return Some(match after.partition(partition) {
            Some(_) => Action::Stop(partition),
            None => Action::Delete(partition),
        });
    };
    let Some(held) = held else {
        return Some(Action::Create(now));
    };
    let leadership = |state: &Partition| (state.leader, state.leader_epoch);
    if leadership(&held.state) == leadership(&now.state) {
        return (held != now).then_some(Action::Refresh(now));
    }
    Some(if now.is_led_by_me() {
        Action::Lead(now)
    } else {
        Action::Follow(now)
    })
}

/// Why a log on the disk is not this broker's to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// The cluster has no such partition.
    Unknown,
    /// Other brokers hold it.
    Elsewhere,
}

/// Whether, and why, a log found on the disk under the name of this partition of this topic is one that the first image
/// does not give to this broker: it is set aside, never deleted (L-22). One of an earlier topic of the name shows when it
/// is opened.
#[must_use]
pub fn stray(image: &Image, topic: &str, index: PartitionIndex, me: BrokerId) -> Option<Stray> {
    let named = image.topic_named(topic);
    match named.and_then(|topic| topic.partitions.get(&index)) {
        None => Some(Stray::Unknown),
        Some(state) if !state.replicas.contains(&me) => Some(Stray::Elsewhere),
        Some(_) => None,
    }
}

/// The lane of a partition, below `lanes`. Partitions of one topic go round the lanes, and topics begin at different
/// ones, for most clusters have few busy topics with many partitions.
#[must_use]
pub fn lane_of(partition: PartitionId, lanes: NonZeroUsize) -> usize {
    let folded = partition.topic.0.0 ^ (partition.topic.0.0 >> 64);
    let low = u64::try_from(folded & u128::from(u64::MAX)).expect("64 bits fit");
    let index = u64::try_from(partition.index.0).expect("partition indexes are never negative");
    let lanes = u64::try_from(lanes.get()).expect("a count of lanes fits");
    usize::try_from(low.wrapping_add(index) % lanes).expect("it is below a usize")
}
