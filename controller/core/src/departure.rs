//! What a broker's coming and going does to its partitions (R1.6, R1.32, R3.80).
//!
//! Only partition changes: whoever calls adds the registration's own record, before or after.

use std::collections::BTreeSet;

use metadata::ids::{BrokerEpoch, BrokerId, DirectoryId, PartitionId};
use metadata::image::{Image, Partition};
use metadata::record::{BrokerRegistrationChanged, Record};

use crate::directories::Fewest;
use crate::election::{Election, Movement, PartitionChange};
use crate::mutants::{self, Mutant};
use crate::rules::TopicRules;
use crate::settings::Settings;

/// A broker leaves in order, or is not heard any more: out of every in-sync set, leaderships elsewhere.
#[must_use]
pub fn leave(image: &Image, settings: &Settings, broker: BrokerId) -> Vec<Record> {
    let movement = Movement {
        leaving: Some(broker),
        ..Movement::default()
    };
    changes(image, settings, movement, image.lookup().in_sync_on(broker))
}

/// How the former process of a broker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// In order: what it had counts.
    Clean,
    /// Not in order: what it had is not trusted.
    Unclean,
}

/// A new process takes the place of a broker's former one: it is in no in-sync set, and after an unclean stop in no
/// eligible set either (R1.6).
///
/// A replica in a directory that the new process does not have gets another one, that with the fewest (R3.80), or it
/// would join in-sync sets and could never lead (R3.12). It begins empty there, so however orderly the stop was, it is
/// not eligible. So does one that was placed while the broker had no directory left. One that is `UNASSIGNED` stays so:
/// nobody here knows where it lies.
#[must_use]
pub fn restart(
    image: &Image,
    settings: &Settings,
    broker: BrokerId,
    stop: Stop,
    directories: &[DirectoryId],
) -> Vec<Record> {
    let mut fewest = Fewest::of(image, broker, directories);
    let is_displaced = |partition: &Partition| {
        let lies_in = partition.directory_on(broker);
        lies_in.is_some_and(|it| it != DirectoryId::UNASSIGNED && !directories.contains(&it))
    };
    let lookup = image.lookup();
    let mut partitions: BTreeSet<PartitionId> = lookup.in_sync_on(broker).collect();
    if stop == Stop::Unclean {
        partitions.extend(lookup.eligible_on(broker));
    }
    let displaced = |id: &PartitionId| image.partition(*id).is_some_and(|it| is_displaced(it));
    partitions.extend(lookup.assigned_to(broker).filter(displaced));
    let leaving = Movement {
        leaving: Some(broker),
        ..Movement::default()
    };
    let unclean = Movement {
        unclean: Some(broker),
        ..Movement::default()
    };
    each_change(image, settings, partitions.into_iter(), |change, partition| {
        if is_displaced(partition) {
            return change.moving(unclean).emptied_into(broker, fewest.next_place());
        }
        change.moving(match stop {
            Stop::Clean => leaving,
            Stop::Unclean => unclean,
        })
    })
}

/// A broker becomes active: it may lead what has no leader.
#[must_use]
pub fn arrive(image: &Image, settings: &Settings, broker: BrokerId) -> Vec<Record> {
    let movement = Movement {
        arriving: Some(broker),
        ..Movement::default()
    };
    changes(image, settings, movement, image.lookup().leaderless())
}

/// The rules have changed: what has no leader may get one.
#[must_use]
pub fn elect_leaderless(image: &Image, settings: &Settings) -> Vec<Record> {
    changes(image, settings, Movement::default(), image.lookup().leaderless())
}

/// Fencing: partitions first, the fence last. A long list is split over several batches, and every prefix must be a
/// state that the cluster can live in (R1.32).
#[must_use]
pub fn fence(image: &Image, settings: &Settings, broker: BrokerId, epoch: BrokerEpoch) -> Vec<Record> {
    let mut records = leave(image, settings, broker);
    let fence = standing(broker, epoch, |change| change.fenced = Some(true));
    match mutants::is_selected(Mutant::FenceBeforeMovingLeaders) {
        true => records.insert(0, fence),
        false => records.push(fence),
    }
    records
}

/// Directories of a broker went offline: the registration forgets them, and their partitions lose the broker
/// (R3.82).
#[must_use]
pub fn lose_directories(
    image: &Image,
    settings: &Settings,
    broker: BrokerId,
    offline: &[DirectoryId],
) -> Vec<Record> {
    let Some(registration) = image.brokers.get(&broker) else {
        return Vec::new();
    };
    let is_lost = |directory: &DirectoryId| offline.contains(directory);
    if !registration.directories.iter().any(is_lost) {
        return Vec::new();
    }
    let online = registration.directories.iter().copied().filter(|it| !is_lost(it));
    let online: Vec<DirectoryId> = online.collect();
    let mut records = vec![standing(broker, registration.epoch, |change| {
        change.directories = Some(online);
    })];
    let movement = Movement {
        leaving: Some(broker),
        ..Movement::default()
    };
    let lies_there = |id: &PartitionId| {
        image
            .partition(*id)
            .and_then(|partition| partition.directory_on(broker))
            .is_some_and(|directory| is_lost(&directory))
    };
    let partitions = image.lookup().assigned_to(broker).filter(lies_there);
    records.extend(changes(image, settings, movement, partitions));
    records
}

/// A record that changes a registration in place.
#[must_use]
pub fn standing(
    broker: BrokerId,
    epoch: BrokerEpoch,
    set: impl FnOnce(&mut BrokerRegistrationChanged),
) -> Record {
    let mut change = BrokerRegistrationChanged {
        broker,
        epoch,
        fenced: None,
        in_controlled_shutdown: None,
        directories: None,
    };
    set(&mut change);
    Record::BrokerRegistrationChanged(change)
}

fn changes(
    image: &Image,
    settings: &Settings,
    movement: Movement,
    partitions: impl Iterator<Item = PartitionId>,
) -> Vec<Record> {
    each_change(image, settings, partitions, |change, _| change.moving(movement))
}

fn each_change(
    image: &Image,
    settings: &Settings,
    partitions: impl Iterator<Item = PartitionId>,
    mut shape: impl for<'a> FnMut(PartitionChange<'a>, &Partition) -> PartitionChange<'a>,
) -> Vec<Record> {
    let mut rules = TopicRules::of(image, settings);
    partitions
        .filter_map(|id| {
            let topic = image.topics.get(&id.topic)?;
            let partition = topic.partitions.get(&id.index)?;
            let change = PartitionChange::of(id, partition, image, rules.election(topic));
            shape(change, partition).record()
        })
        .map(Record::PartitionChanged)
        .collect()
}

/// Leadership back to preferred replicas, at most `limit` of them (R3.72).
#[must_use]
pub fn elect_preferred(image: &Image, settings: &Settings, limit: usize) -> Vec<Record> {
    let mut rules = TopicRules::of(image, settings);
    let mut records = Vec::new();
    for topic in image.topics.values() {
        for (index, partition) in &topic.partitions {
            if records.len() == limit {
                return records;
            }
            if partition.leader == partition.replicas.first().copied() {
                continue;
            }
            let id = PartitionId {
                topic: topic.id,
                index: *index,
            };
            let change = PartitionChange::of(id, partition, image, rules.election(topic))
                .electing(Election::Preferred)
                .record();
            records.extend(change.map(Record::PartitionChanged));
        }
    }
    records
}
