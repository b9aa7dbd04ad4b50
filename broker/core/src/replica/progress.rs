//! How far one follower is, as its fetches tell the leader (F-29, F-30).

use std::time::Duration;

use metadata::ids::{BrokerEpoch, LeaderEpoch};

use crate::offsets::{LogEnd, LogStart};
use crate::time::Moment;

/// A follower's state at the leader. Everything is unknown until it fetches under the present leadership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Where its log ends: the offset it asked for last.
    pub log_end: Option<LogEnd>,
    /// Where its log starts, as it said last.
    pub log_start: Option<LogStart>,
    /// The incarnation that fetched last.
    pub broker_epoch: Option<BrokerEpoch>,
    /// The last time at which it is known to have held everything the leader held then.
    caught_up_at: Option<Moment>,
    last_fetch: Option<LastFetch>,
}

/// The fetch before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastFetch {
    at: Moment,
    /// Where the leader's log ended when it was answered.
    leader_end: LogEnd,
}

/// One fetch of a follower, as the read path saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerFetch {
    /// The leadership under which it was read: what was read under another one says nothing of this one.
    pub leader_epoch: LeaderEpoch,
    /// The incarnation that fetches; old versions do not tell.
    pub broker_epoch: Option<BrokerEpoch>,
    /// The offset asked for: everything below is in its log.
    pub fetch_offset: LogEnd,
    /// Where its log starts.
    pub log_start: LogStart,
    /// Where the leader's log ended when the fetch was read.
    pub leader_end: LogEnd,
    /// When it was read.
    pub at: Moment,
}

impl Progress {
    /// A follower that nothing is known of. An in-sync one counts as caught up at `at`, so that it has the whole lag
    /// time to fetch for the first time.
    #[must_use]
    pub fn of_in_sync_follower(at: Moment) -> Self {
        Self {
            caught_up_at: Some(at),
            ..Self::default()
        }
    }

    /// Takes in a fetch (F-29).
    pub fn fetched(&mut self, fetch: FollowerFetch) {
        if fetch.leader_end <= fetch.fetch_offset {
            self.caught_up_at = self.caught_up_at.max(Some(fetch.at));
        } else if let Some(last) = self.last_fetch
            && last.leader_end <= fetch.fetch_offset
        {
            self.caught_up_at = self.caught_up_at.max(Some(last.at));
        }
        self.log_end = Some(fetch.fetch_offset);
        self.log_start = Some(fetch.log_start);
        self.broker_epoch = fetch.broker_epoch;
        self.last_fetch = Some(LastFetch {
            at: fetch.at,
            leader_end: fetch.leader_end,
        });
    }

    /// In sync: at the leader's end, or there within the last `lag_max` (F-30).
    #[must_use]
    pub fn is_caught_up(&self, leader_end: LogEnd, lag_max: Duration, now: Moment) -> bool {
        self.log_end == Some(leader_end) || self.caught_up_at.is_some_and(|at| now.since(at) <= lag_max)
    }
}
