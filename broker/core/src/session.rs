//! Fetch sessions (KIP-227): what a reader said in earlier requests, so that it need not say it again, and what it was
//! told, so that it is told only what is new (F-18 to F-21).
//!
//! Holds names and numbers; must not read, and must not know the wire.

mod cache;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use metadata::ids::{BrokerId, LeaderEpoch, PartitionIndex, TopicId};

pub use self::cache::{Cache, Context, ReaderKind, Request, SessionRefusal};
use crate::offsets::{HighWatermark, LogStart, Offset};

/// Names a session. Never 0: that means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i32);

/// Counts the requests of a session, from 1; after the largest comes 1 again (F-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionEpoch(pub i32);

impl SessionEpoch {
    /// Of the first request after the one that created the session.
    pub const FIRST: Self = Self(1);

    /// The epoch of the request after this.
    #[must_use]
    pub fn following(self) -> Self {
        Self(self.0.checked_add(1).unwrap_or(1))
    }
}

/// What a request wants of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A full request without a session; the one named is dropped.
    Sessionless {
        /// To be dropped.
        drop: Option<SessionId>,
    },
    /// A full request that begins a session; the one named is dropped.
    Begin {
        /// To be dropped.
        drop: Option<SessionId>,
    },
    /// An incremental request.
    Continue {
        /// Which session.
        session: SessionId,
        /// The request's epoch.
        epoch: SessionEpoch,
    },
}

impl Ask {
    /// From the two numbers as they stand in a request: id 0 is none; epoch -1 ends, 0 begins, others continue.
    #[must_use]
    pub fn of_request(id: i32, epoch: i32) -> Self {
        let named = (id != 0).then_some(SessionId(id));
        match (named, epoch) {
            (drop, -1) => Self::Sessionless { drop },
            (drop, 0) => Self::Begin { drop },
            (named, epoch) => Self::Continue {
                session: named.unwrap_or(SessionId(0)),
                epoch: SessionEpoch(epoch),
            },
        }
    }
}

/// How a request names topics; a session keeps to one way (F-18's error 106).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// By name: Fetch below version 13.
    ByName,
    /// By identity.
    ById,
}

/// A topic as a request names it. An identity that is not known yet stays as it is and is looked up each time (F-21).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicKey {
    /// By identity.
    Id(TopicId),
    /// By name.
    Name(Arc<str>),
}

/// A partition as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionKey {
    /// The topic.
    pub topic: TopicKey,
    /// The partition.
    pub index: PartitionIndex,
}

/// What a request says of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// From where.
    pub offset: Offset,
    /// How much at most; a negative size is answered with an error of its own (F-10).
    pub max_bytes: i32,
    /// The leader epoch the reader believes in.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Epoch of the reader's last record.
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// Where a follower's log starts.
    pub log_start: Option<LogStart>,
}

/// What is answered for one partition, as far as the session must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It was read.
    Read {
        /// Whether records come with it.
        records: Records,
        /// The watermark told.
        watermark: HighWatermark,
        /// The log start told.
        log_start: LogStart,
        /// Something else that must be told: a preferred replica, a diverging epoch.
        notice: Notice,
    },
    /// It has an error.
    Failed,
}

/// Whether an answer carries records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// It does.
    Some,
    /// It does not.
    None,
}

/// Whether an answer carries news besides records and offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// No.
    None,
    /// Another replica should be asked (F-45).
    PreferredReplica(BrokerId),
    /// The histories differ (F-22).
    Diverging,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    naming: Naming,
    /// Of the next request.
    epoch: SessionEpoch,
    /// By name; each knows its place in the order.
    partitions: BTreeMap<PartitionKey, Cached>,
    /// The order in which they are read: who got records goes to the back (F-11).
    order: BTreeMap<u64, PartitionKey>,
    next_place: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cached {
    place: u64,
    wanted: Wanted,
    /// What the reader was told last; unknown before the first answer and after an error.
    watermark: Option<HighWatermark>,
    log_start: Option<LogStart>,
}

impl Session {
    fn new(naming: Naming, wanted: Vec<(PartitionKey, Wanted)>) -> Self {
        let mut session = Self {
            naming,
            epoch: SessionEpoch::FIRST,
            partitions: BTreeMap::new(),
            order: BTreeMap::new(),
            next_place: 0,
        };
        session.update(wanted, &[]);
        session
    }

    /// Takes in what an incremental request adds, changes and forgets.
    fn update(&mut self, wanted: Vec<(PartitionKey, Wanted)>, forgotten: &[PartitionKey]) {
        for (key, wanted) in wanted {
            match self.partitions.get_mut(&key) {
                Some(cached) => cached.wanted = wanted,
                None => {
                    let place = self.place_at_the_back(key.clone());
                    let cached = Cached {
                        place,
                        wanted,
                        watermark: None,
                        log_start: None,
                    };
                    self.partitions.insert(key, cached);
                }
            }
        }
        for key in forgotten {
            if let Some(cached) = self.partitions.remove(key) {
                self.order.remove(&cached.place);
            }
        }
    }

    fn place_at_the_back(&mut self, key: PartitionKey) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.order.insert(place, key);
        place
    }

    /// Partitions in the order in which they are to be read.
    pub fn in_order(&self) -> impl Iterator<Item = (&PartitionKey, &Wanted)> {
        self.order.values().map(|key| (key, &self.partitions[key].wanted))
    }

    /// Takes note of what a partition is answered, and says whether an incremental answer must list it (F-19). Full
    /// answers list everything, and take note all the same.
    fn answered(&mut self, key: &PartitionKey, answer: Answered) -> Listing {
        let Some(cached) = self.partitions.get_mut(key) else {
            return Listing::Listed;
        };
        let Answered::Read {
            records,
            watermark,
            log_start,
            notice,
        } = answer
        else {
            // Once it recovers, that must be told, even if nothing has moved since.
            cached.watermark = None;
            return Listing::Listed;
        };
        let moved = cached.watermark != Some(watermark) || cached.log_start != Some(log_start);
        cached.watermark = Some(watermark);
        cached.log_start = Some(log_start);
        if records == Records::Some {
            let old_place = cached.place;
            self.order.remove(&old_place);
            let place = self.place_at_the_back(key.clone());
            self.partitions.get_mut(key).expect("it was there just now").place = place;
        }
        let listed = moved || records == Records::Some || notice != Notice::None;
        if listed { Listing::Listed } else { Listing::Omitted }
    }

    /// How many partitions it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }
}

/// Whether an answer lists a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// It does.
    Listed,
    /// There is nothing new to tell.
    Omitted,
}
