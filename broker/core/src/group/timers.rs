//! When something is to happen if nothing else does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::names::{GroupId, MemberId};
use crate::time::Moment;

/// What a timer is for. There is one of each at most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A member, or an id that was handed out, was silent for too long.
    Session(GroupId, MemberId),
    /// Members had their time to join.
    Join(GroupId),
    /// Members had their time to ask for their assignment.
    Sync(GroupId),
}

/// All timers of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Timers {
    by_moment: BTreeSet<(Moment, Timer)>,
    by_timer: BTreeMap<Timer, Moment>,
}

impl Timers {
    /// Sets a timer, or sets it anew.
    pub fn set(&mut self, timer: Timer, at: Moment) {
        if let Some(before) = self.by_timer.insert(timer.clone(), at) {
            self.by_moment.remove(&(before, timer.clone()));
        }
        self.by_moment.insert((at, timer));
    }

    /// It is needed no longer.
    pub fn cancel(&mut self, timer: &Timer) {
        if let Some(at) = self.by_timer.remove(timer) {
            self.by_moment.remove(&(at, timer.clone()));
        }
    }

    /// Takes out the next one that is due.
    pub fn due(&mut self, now: Moment) -> Option<Timer> {
        let (at, timer) = self.by_moment.first()?;
        if now < *at {
            return None;
        }
        let timer = timer.clone();
        self.cancel(&timer);
        Some(timer)
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Moment> {
        self.by_moment.first().map(|(at, _)| *at)
    }

    /// Everything happens so much later.
    pub fn postpone(&mut self, by: Duration) {
        for at in self.by_timer.values_mut() {
            *at = at.after(by);
        }
        self.by_moment = self
            .by_timer
            .iter()
            .map(|(timer, at)| (*at, timer.clone()))
            .collect();
    }
}
