//! Partitions by the part that a broker plays in them: which follow it, which it leads, which have no leader.
//!
//! Derived from the topics and kept in step by replay; never a second source of truth.

use imbl::OrdSet;

use crate::ids::{BrokerId, PartitionId, PartitionIndex, TopicId};
use crate::image::Partition;
use crate::uuid::Uuid;

type ByBroker = OrdSet<(BrokerId, PartitionId)>;

/// The index. Asking costs no more than the answer is long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    assigned: ByBroker,
    in_sync: ByBroker,
    eligible: ByBroker,
    led: ByBroker,
    leaderless: OrdSet<PartitionId>,
}

impl Lookup {
    /// Partitions with a replica on this broker, in order.
    pub fn assigned_to(&self, broker: BrokerId) -> impl Iterator<Item = PartitionId> + '_ {
        of(&self.assigned, broker)
    }

    /// Partitions that have this broker in sync, in order.
    pub fn in_sync_on(&self, broker: BrokerId) -> impl Iterator<Item = PartitionId> + '_ {
        of(&self.in_sync, broker)
    }

    /// Partitions that have this broker among the eligible leader replicas, in order.
    pub fn eligible_on(&self, broker: BrokerId) -> impl Iterator<Item = PartitionId> + '_ {
        of(&self.eligible, broker)
    }

    /// Partitions that this broker leads, in order.
    pub fn led_by(&self, broker: BrokerId) -> impl Iterator<Item = PartitionId> + '_ {
        of(&self.led, broker)
    }

    /// Partitions without a leader, in order.
    pub fn leaderless(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.leaderless.iter().copied()
    }

    /// How many partitions are without a leader.
    #[must_use]
    pub fn leaderless_count(&self) -> usize {
        self.leaderless.len()
    }

    /// Replaces what was known of a partition.
    pub(crate) fn replace(&mut self, id: PartitionId, before: Option<&Partition>, after: Option<&Partition>) {
        if let Some(partition) = before {
            self.each_part(partition, |set, broker| {
                set.remove(&(broker, id));
            });
            self.leaderless.remove(&id);
        }
        if let Some(partition) = after {
            self.each_part(partition, |set, broker| {
                set.insert((broker, id));
            });
            if partition.leader.is_none() {
                self.leaderless.insert(id);
            }
        }
    }

    fn each_part(&mut self, partition: &Partition, change: impl Fn(&mut ByBroker, BrokerId)) {
        for broker in &partition.replicas {
            change(&mut self.assigned, *broker);
        }
        for broker in &partition.in_sync {
            change(&mut self.in_sync, *broker);
        }
        for broker in &partition.eligible {
            change(&mut self.eligible, *broker);
        }
        if let Some(leader) = partition.leader {
            change(&mut self.led, leader);
        }
    }
}

fn of(set: &ByBroker, broker: BrokerId) -> impl Iterator<Item = PartitionId> + '_ {
    let at = |topic, index| {
        let index = PartitionIndex(index);
        (broker, PartitionId { topic, index })
    };
    let first = at(TopicId(Uuid::ZERO), 0);
    let last = at(TopicId(Uuid(u128::MAX)), i32::MAX);
    set.range(first..=last).map(|(_, partition)| *partition)
}
