//! All fetch sessions of a broker, and who gives way when there are too many (F-20).

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Answered, Ask, Listing, Naming, PartitionKey, Session, SessionEpoch, SessionId, Wanted};
use crate::time::Moment;

/// A session that was not used for so long gives way to anyone; one that is older than this may give way to one that
/// is bigger (F-20).
const EVICTION_AGE: Duration = Duration::from_secs(120);

/// For each slot the cache holds so many partitions, in whichever sessions: what a reader names is remembered whether
/// it exists or not, so that the number of sessions alone bounds no memory.
const PARTITIONS_PER_SLOT: usize = 500;

/// Why a session cannot be continued; a session that there is stays as it is (F-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// There is no such session, or it gave way just now (70).
    #[error("there is no fetch session {0:?}")]
    NotFound(SessionId),
    /// It is at another request (71).
    #[error("fetch session {session:?} is at epoch {held:?}, not {given:?}")]
    OtherEpoch {
        /// Which.
        session: SessionId,
        /// Expected.
        held: SessionEpoch,
        /// As given.
        given: SessionEpoch,
    },
    /// It names topics the other way (106).
    #[error("fetch session {session:?} names topics {held:?}")]
    OtherNaming {
        /// Which.
        session: SessionId,
        /// As it began.
        held: Naming,
    },
}

/// Who reads in a session: followers displace consumers (F-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Consumer,
    Follower,
}

/// What one request reads, and how its answer is put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context {
    /// Every partition is answered; there is no session.
    Full {
        /// In request order.
        partitions: Vec<(PartitionKey, Wanted)>,
    },
    /// Every partition is answered, and remembered in this new session.
    Created {
        /// The new session.
        session: SessionId,
        /// In request order.
        partitions: Vec<(PartitionKey, Wanted)>,
    },
    /// What is new is answered.
    Incremental {
        /// The session.
        session: SessionId,
        /// In the session's order.
        partitions: Vec<(PartitionKey, Wanted)>,
    },
    /// The session was left without partitions and is closed: the answer is empty and names no session (F-18).
    Emptied,
}

impl Context {
    /// What to read, in order.
    #[must_use]
    pub fn partitions(&self) -> &[(PartitionKey, Wanted)] {
        match self {
            Self::Full { partitions }
            | Self::Created { partitions, .. }
            | Self::Incremental { partitions, .. } => partitions,
            Self::Emptied => &[],
        }
    }

    /// The session to name in the answer.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Created { session, .. } | Self::Incremental { session, .. } => Some(*session),
            Self::Full { .. } | Self::Emptied => None,
        }
    }
}

/// One fetch request, as the cache must know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it wants of the cache.
    pub ask: Ask,
    /// How it names topics.
    pub naming: Naming,
    /// Who reads.
    pub reader: ReaderKind,
    /// Partitions it lists.
    pub wanted: Vec<(PartitionKey, Wanted)>,
    /// Partitions it no longer wants.
    pub forgotten: Vec<PartitionKey>,
}

/// Who sends a fetch request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderKind {
    /// A consumer.
    Consumer,
    /// A follower.
    Follower,
}

/// All sessions of a broker.
#[derive(Clone, Debug)]
pub struct Cache {
    /// `max.incremental.fetch.session.cache.slots`.
    slots: usize,
    /// How many partitions all sessions together may hold.
    partitions_max: usize,
    entries: BTreeMap<SessionId, Entry>,
    /// How many sessions had to give way, ever.
    evictions: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    session: Session,
    standing: Standing,
    created_at: Moment,
    used_at: Moment,
}

impl Cache {
    /// A cache of so many sessions.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            slots,
            partitions_max: slots.saturating_mul(PARTITIONS_PER_SLOT),
            entries: BTreeMap::new(),
            evictions: 0,
        }
    }

    /// Finds out what a request reads. `fresh` is a random number for the case that a session begins; the nearest free
    /// id from there on is taken.
    ///
    /// # Errors
    /// A [`SessionRefusal`]: the whole request is answered with it.
    pub fn context(&mut self, request: Request, fresh: i32, now: Moment) -> Result<Context, SessionRefusal> {
        let Request {
            ask,
            naming,
            reader,
            wanted,
            forgotten,
        } = request;
        match ask {
            Ask::Sessionless { drop } => {
                self.remove(drop);
                Ok(Context::Full { partitions: wanted })
            }
            Ask::Begin { drop } => {
                self.remove(drop);
                Ok(self.begin(naming, reader, wanted, fresh, now))
            }
            Ask::Continue { session, epoch } => self.go_on(session, epoch, naming, wanted, &forgotten, now),
        }
    }

    fn remove(&mut self, session: Option<SessionId>) {
        if let Some(session) = session {
            self.entries.remove(&session);
        }
    }

    fn begin(
        &mut self,
        naming: Naming,
        reader: ReaderKind,
        wanted: Vec<(PartitionKey, Wanted)>,
        fresh: i32,
        now: Moment,
    ) -> Context {
        let standing = match reader {
            ReaderKind::Consumer => Standing::Consumer,
            ReaderKind::Follower => Standing::Follower,
        };
        if !self.make_room(standing, wanted.len(), now) {
            return Context::Full { partitions: wanted };
        }
        let id = self.free_id(fresh);
        let session = Session::new(naming, wanted.clone());
        self.entries.insert(
            id,
            Entry {
                session,
                standing,
                created_at: now,
                used_at: now,
            },
        );
        assert!(self.entries.len() <= self.slots, "never more sessions than slots");
        assert!(
            self.partitions() <= self.partitions_max,
            "never more partitions than there is room for"
        );
        Context::Created {
            session: id,
            partitions: wanted,
        }
    }

    fn free_id(&self, fresh: i32) -> SessionId {
        let mut id = SessionId((fresh & i32::MAX).max(1));
        while self.entries.contains_key(&id) {
            id = SessionId(id.0.checked_add(1).unwrap_or(1));
        }
        id
    }

    /// Whether there is room for one more of so many partitions, if need be by evicting others (F-20).
    fn make_room(&mut self, newcomer: Standing, size: usize, now: Moment) -> bool {
        if self.slots == 0 || self.partitions_max < size {
            return false;
        }
        let mut held = self.partitions();
        while self.slots <= self.entries.len() || self.partitions_max - size < held {
            let Some(victim) = self.victim(newcomer, size, now) else {
                return false;
            };
            let Some(entry) = self.entries.remove(&victim) else {
                return false;
            };
            held -= entry.session.len();
            self.evictions += 1;
        }
        true
    }

    /// Who gives way to a newcomer, if anybody must.
    fn victim(&self, newcomer: Standing, size: usize, now: Moment) -> Option<SessionId> {
        let idle = self
            .entries
            .iter()
            .min_by_key(|(id, entry)| (entry.used_at, **id));
        match idle {
            Some((id, entry)) if EVICTION_AGE < now.since(entry.used_at) => Some(*id),
            _ => self.displaced_by(newcomer, size, now),
        }
    }

    /// The least session among those that a newcomer may displace, if the newcomer is not less than it: followers come
    /// before consumers, then size counts.
    fn displaced_by(&self, newcomer: Standing, size: usize, now: Moment) -> Option<SessionId> {
        let may_be_displaced = |entry: &Entry| {
            let is_old = EVICTION_AGE < now.since(entry.created_at);
            is_old || newcomer == Standing::Follower && entry.standing == Standing::Consumer
        };
        self.entries
            .iter()
            .filter(|(_, entry)| may_be_displaced(entry))
            .map(|(id, entry)| (entry.standing, entry.session.len(), *id))
            .min()
            .filter(|(standing, held_size, _)| (*standing, *held_size) <= (newcomer, size))
            .map(|(_, _, id)| id)
    }

    fn go_on(
        &mut self,
        id: SessionId,
        epoch: SessionEpoch,
        naming: Naming,
        wanted: Vec<(PartitionKey, Wanted)>,
        forgotten: &[PartitionKey],
        now: Moment,
    ) -> Result<Context, SessionRefusal> {
        let entry = self.entries.get_mut(&id).ok_or(SessionRefusal::NotFound(id))?;
        let session = &mut entry.session;
        if session.epoch != epoch {
            return Err(SessionRefusal::OtherEpoch {
                session: id,
                held: session.epoch,
                given: epoch,
            });
        }
        if session.naming != naming {
            return Err(SessionRefusal::OtherNaming {
                session: id,
                held: session.naming,
            });
        }
        let held_before = session.len();
        session.update(wanted, forgotten);
        if session.is_empty() {
            self.entries.remove(&id);
            return Ok(Context::Emptied);
        }
        session.epoch = epoch.following();
        entry.used_at = now;
        let grew = held_before < session.len();
        if grew && self.partitions_max < self.partitions() {
            // As if it had been evicted: its reader begins anew, and finds out there whether others give way to it.
            self.entries.remove(&id);
            self.evictions += 1;
            return Err(SessionRefusal::NotFound(id));
        }
        let session = &self.entries[&id].session;
        let partitions = session
            .in_order()
            .map(|(key, wanted)| (key.clone(), *wanted))
            .collect();
        Ok(Context::Incremental {
            session: id,
            partitions,
        })
    }

    /// Takes note of one partition's answer and says whether the answer lists it (F-19).
    pub fn answered(&mut self, context: &Context, key: &PartitionKey, answer: Answered) -> Listing {
        let Some(entry) = context.session().and_then(|id| self.entries.get_mut(&id)) else {
            return Listing::Listed;
        };
        let listing = entry.session.answered(key, answer);
        match context {
            Context::Incremental { .. } => listing,
            Context::Full { .. } | Context::Created { .. } | Context::Emptied => Listing::Listed,
        }
    }

    /// How many sessions there are, for the metric.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many partitions all sessions hold, for the metric.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.entries.values().map(|entry| entry.session.len()).sum()
    }

    /// How many sessions had to give way, ever, for the metric.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions
    }
}
