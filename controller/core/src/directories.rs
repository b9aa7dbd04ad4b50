//! In which log directory of its broker a new replica lies: in the one that holds the fewest (R3.80).
//!
//! The controller chooses. Kafka's controller leaves the choice to a broker with several directories, which tells it
//! later (R3.81); until it has, a directory that fails is not known to have held the replica, and the partition keeps
//! a leader that cannot serve. Here there is no such time, and nothing to be told.
//!
//! Must not: look at a disk. How full the directories are is not known here, and does not count in Kafka either.

use std::collections::BTreeMap;

use metadata::ids::{BrokerId, DirectoryId};
use metadata::image::Image;

/// The directories that one decision gives to new replicas: the image is counted once for each broker, and what was
/// chosen counts from then on. So thousands of new partitions cost no more than a look at what is there.
pub(crate) struct Directories<'a> {
    image: &'a Image,
    brokers: BTreeMap<BrokerId, Fewest>,
}

impl<'a> Directories<'a> {
    /// Nothing is chosen yet.
    pub(crate) fn of(image: &'a Image) -> Self {
        Self {
            image,
            brokers: BTreeMap::new(),
        }
    }

    /// That of one more replica on a broker. Only where the broker is not registered it is `UNASSIGNED`.
    pub(crate) fn for_new(&mut self, broker: BrokerId) -> DirectoryId {
        let image = self.image;
        let Some(registered) = image.brokers.get(&broker) else {
            return DirectoryId::UNASSIGNED;
        };
        self.brokers
            .entry(broker)
            .or_insert_with(|| Fewest::of(image, broker, &registered.directories))
            .next_place()
    }
}

/// The directories of one broker in the order of its registration, and how many of its replicas lie in each.
pub(crate) struct Fewest(Vec<(DirectoryId, usize)>);

impl Fewest {
    /// What the image says of these directories, which need not be those that the broker has registered yet.
    pub(crate) fn of(image: &Image, broker: BrokerId, directories: &[DirectoryId]) -> Self {
        let mut held: Vec<(DirectoryId, usize)> = directories.iter().map(|it| (*it, 0)).collect();
        // Where there is nothing to choose, nothing is counted: a broker may hold very many replicas.
        if 1 < held.len() {
            for id in image.lookup().assigned_to(broker) {
                let lies_in = image.partition(id).and_then(|it| it.directory_on(broker));
                if let Some((_, replicas)) = held.iter_mut().find(|(it, _)| Some(*it) == lies_in) {
                    *replicas += 1;
                }
            }
        }
        Self(held)
    }

    /// The directory for one more replica, which counts from then on; of several with the fewest, the one that was
    /// registered first. `MIGRATING` where there is none, until the broker registers some.
    pub(crate) fn next_place(&mut self) -> DirectoryId {
        // The first of equals.
        let Some((directory, replicas)) = self.0.iter_mut().min_by_key(|(_, replicas)| *replicas) else {
            return DirectoryId::MIGRATING;
        };
        *replicas += 1;
        *directory
    }
}
