//! Fetches that wait at a partition for something to happen. Waking is an event, never a poll (F-14).
//!
//! Must not: know what a fetch waits for. Whoever is woken looks again.

use std::sync::Arc;

use broker_core::fetch::{Bound, Wake, woken_by};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The waiting fetches of one partition.
#[derive(Debug, Default)]
pub struct Waits {
    waiting: Mutex<Vec<(Bound, Arc<Notify>)>>,
}

impl Waits {
    /// Registers a fetch that waits for this bound, until it is withdrawn.
    pub fn add(&self, bound: Bound, fetch: &Arc<Notify>) {
        self.waiting.lock().push((bound, Arc::clone(fetch)));
    }

    /// Takes a fetch out.
    pub fn withdraw(&self, fetch: &Arc<Notify>) {
        self.waiting
            .lock()
            .retain(|(_, waiting)| !Arc::ptr_eq(waiting, fetch));
    }

    /// Something happened here.
    pub fn wake(&self, wake: Wake) {
        let waiting = self.waiting.lock();
        for (_, fetch) in waiting.iter().filter(|(bound, _)| woken_by(wake, *bound)) {
            // A permit is stored when nobody waits at this moment, so that no event is lost.
            fetch.notify_one();
        }
    }
}
