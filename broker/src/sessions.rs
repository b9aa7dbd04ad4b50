//! The fetch sessions of this broker, behind one lock: it is held for the time of a lookup, never while reading.
//!
//! Must not: decide; [`broker_core::session`] does.

use broker_core::session::{Answered, Cache, Context, Listing, PartitionKey, Request, SessionRefusal};
use broker_core::time::Moment;
use parking_lot::Mutex;

/// All fetch sessions.
#[derive(Debug)]
pub struct FetchSessions {
    cache: Mutex<Cache>,
}

impl FetchSessions {
    /// No sessions yet, and never more than so many.
    pub fn new(slots: usize) -> FetchSessions {
        FetchSessions {
            cache: Mutex::new(Cache::new(slots)),
        }
    }

    /// How many sessions there are, and how many partitions they hold.
    pub fn size(&self) -> (usize, usize) {
        let cache = self.cache.lock();
        (cache.len(), cache.partitions())
    }

    /// What a request reads.
    ///
    /// # Errors
    /// When its session cannot be continued.
    pub fn context(&self, request: Request, fresh: i32, now: Moment) -> Result<Context, SessionRefusal> {
        self.cache.lock().context(request, fresh, now)
    }

    /// Takes note of an answer's partitions; for each, whether the answer lists it.
    pub fn answered(&self, context: &Context, answers: &[(PartitionKey, Answered)]) -> Vec<Listing> {
        if context.session().is_none() {
            return vec![Listing::Listed; answers.len()];
        }
        let mut cache = self.cache.lock();
        answers
            .iter()
            .map(|(key, answer)| cache.answered(context, key, *answer))
            .collect()
    }
}
