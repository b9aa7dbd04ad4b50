//! One partition on this broker: which role it has, and what follows from what happened to it.
//!
//! ```text
//!              assigned: led by me                 log_failed
//!  Following ──────────────────────► Leading ─────────────────► Offline
//!      ▲ ◄────────────────────────────  │  ◄───────────────────    │
//!      │   assigned: led by another     │        reopened          │
//!      └────────────────────────────────┴──────────────────────────┘
//! ```
//!
//! Each call takes in one event and returns what must be done, in order. Must not read a log, send, or know the time.

mod assignment;
mod deletion;
mod in_sync;
mod leading;
mod progress;
#[cfg(test)]
mod tests;

use std::time::Duration;

use metadata::ids::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionId};

pub use self::assignment::{Assignment, MinInSync, Registration, Standing, min_in_sync, registration};
pub use self::deletion::DeletionRefusal;
pub use self::in_sync::{InSync, IsrAnswer, IsrRefusal, Member, PartitionState, Proposal};
pub use self::leading::Leading;
pub use self::progress::{FollowerFetch, Progress};
use crate::offsets::{HighWatermark, LogEnd, LogFacts, LogStart, Offset};
use crate::produce::{Acks, ProduceRefusal, WaitOutcome, WaiterId};
use crate::time::Moment;

/// What must be done. The order is the order in which it must be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write this leader epoch into the log's history, durably, before anything is appended (F-37, L-54).
    EpochStarted {
        /// The leadership that begins.
        leader_epoch: LeaderEpoch,
        /// Its start offset: the log's end.
        at: LogEnd,
    },
    /// Fetch from another broker, from the log's own end; replaces what was fetched before (F-27).
    StartFetching {
        /// From whom.
        leader: BrokerId,
        /// Under which leadership.
        leader_epoch: LeaderEpoch,
        /// From where.
        from: LogEnd,
    },
    /// Fetch no more. Nothing that is still on its way may be appended.
    StopFetching,
    /// Consumers may see everything below: publish, save with the next checkpoint, wake consumers (F-14).
    WatermarkMoved {
        /// The new watermark.
        to: HighWatermark,
    },
    /// The leader dropped its oldest records: drop them here too (F-25).
    LogStartMoved {
        /// The new log start.
        to: LogStart,
    },
    /// Ask the controller for another in-sync set. Never given up: the answer must come back (F-32, R3.56).
    ProposeIsr(Proposal),
    /// The confirmed in-sync set is another one.
    InSyncChanged {
        /// The members now.
        in_sync: Vec<BrokerId>,
    },
    /// A wait of an acks=all produce is over.
    Completed {
        /// Which.
        waiter: WaiterId,
        /// How it ended.
        outcome: WaitOutcome,
    },
    /// Role, leader or leader epoch changed: publish, and let every waiting fetch look again (F-13, F-38).
    RoleChanged,
}

/// What a replica is at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// There is no usable log.
    Offline(Assignment),
    /// This broker leads.
    Leading(Leading),
    /// Another broker leads, or nobody.
    Following(Following),
}

/// A replica that takes what the leader has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Following {
    assignment: Assignment,
    log: LogFacts,
}

/// Why a fetch of a follower does not count (F-5, F-29).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowerRefusal {
    /// This broker does not lead.
    #[error("not the leader")]
    NotLeading,
    /// The fetch was read under another leadership than this.
    #[error("read under leader epoch {given}, {held} has begun")]
    OtherLeadership {
        /// Held.
        held: LeaderEpoch,
        /// As given.
        given: LeaderEpoch,
    },
    /// The broker that fetches holds no replica.
    #[error("broker {0} holds no replica")]
    NotAReplica(BrokerId),
    /// A former incarnation fetches.
    #[error("broker epoch {given} is stale, {held} is registered")]
    StaleBrokerEpoch {
        /// Registered.
        held: BrokerEpoch,
        /// As given.
        given: BrokerEpoch,
    },
}

/// What a fetcher decided under one leadership must not be carried out under another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not following under leader epoch {given}; {held} is known")]
pub struct NotFollowing {
    /// Under which it was decided.
    pub given: LeaderEpoch,
    /// Known now.
    pub held: LeaderEpoch,
}

/// What readers must see of a replica; published whenever it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// What it may serve.
    pub serving: Serving,
    /// Who leads.
    pub leader: Option<BrokerId>,
    /// Under which epoch.
    pub leader_epoch: LeaderEpoch,
}

/// What a replica can give to readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// Nothing.
    Offline,
    /// Everything; `epoch_start` is where the present leadership began (L-49).
    Leader {
        /// The log.
        log: LogFacts,
        /// First offset of this leadership.
        epoch_start: LogEnd,
    },
    /// What consumers may read at a follower (F-4).
    Follower {
        /// The log.
        log: LogFacts,
    },
}

/// One partition on this broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    partition: PartitionId,
    /// `replica.lag.time.max.ms`.
    lag_max: Duration,
    role: Role,
}

impl Replica {
    /// A replica whose log was opened, and what its first role asks for. `lag_max` is `replica.lag.time.max.ms`.
    #[must_use]
    pub fn opened(
        assignment: Assignment,
        log: LogFacts,
        lag_max: Duration,
        at: Moment,
    ) -> (Self, Vec<Effect>) {
        let mut replica = Self {
            partition: assignment.partition,
            lag_max,
            role: Role::Offline(assignment),
        };
        let effects = replica.reopened(log, at);
        (replica, effects)
    }

    /// A replica whose log could not be opened.
    #[must_use]
    pub fn offline(assignment: Assignment, lag_max: Duration) -> Self {
        Self {
            partition: assignment.partition,
            lag_max,
            role: Role::Offline(assignment),
        }
    }

    /// The log of an offline replica can be used (again). Nothing happens to one that is not offline.
    #[must_use]
    pub fn reopened(&mut self, log: LogFacts, at: Moment) -> Vec<Effect> {
        let Role::Offline(assignment) = &self.role else {
            return Vec::new();
        };
        let assignment = assignment.clone();
        if assignment.is_led_by_me() {
            let (leading, effects) = Leading::start(assignment, log, self.lag_max, at);
            self.role = Role::Leading(leading);
            return effects;
        }
        let following = Following { assignment, log };
        let mut effects = following.fetch();
        effects.push(Effect::RoleChanged);
        self.role = Role::Following(following);
        effects
    }

    /// The log failed: nothing can be served until [`Self::reopened`].
    #[must_use]
    pub fn log_failed(&mut self) -> Vec<Effect> {
        let assignment = self.assignment().clone();
        match std::mem::replace(&mut self.role, Role::Offline(assignment)) {
            Role::Offline(_) => Vec::new(),
            Role::Leading(leading) => leading.ended(WaitOutcome::LogOffline),
            Role::Following(_) => vec![Effect::StopFetching, Effect::RoleChanged],
        }
    }

    /// The replica leaves this broker.
    #[must_use]
    pub fn removed(self) -> Vec<Effect> {
        match self.role {
            Role::Offline(_) => Vec::new(),
            Role::Leading(leading) => leading.ended(WaitOutcome::Gone),
            Role::Following(_) => vec![Effect::StopFetching, Effect::RoleChanged],
        }
    }

    /// The image says this now. An older state of the partition than is known already is ignored, except for the
    /// peers' registrations that came with it (R5.54, F-37).
    #[must_use]
    pub fn assigned(&mut self, new: Assignment, at: Moment) -> Vec<Effect> {
        assert!(
            new.partition == self.partition,
            "an assignment is for its own partition"
        );
        match &mut self.role {
            Role::Offline(held) => {
                if held.state.epoch <= new.state.epoch {
                    *held = new;
                }
                Vec::new()
            }
            Role::Leading(leading) if leading.keeps_leading(&new) => leading.refreshed(new, at),
            Role::Leading(leading) if new.is_led_by_me() => leading.restarted(new, at),
            Role::Leading(leading) => {
                let log = leading.log();
                let outcome = WaitOutcome::NotLeader {
                    leader: new.state.leader,
                    epoch: new.state.leader_epoch,
                };
                let following = Following { assignment: new, log };
                let fetch = following.fetch();
                let Role::Leading(deposed) = std::mem::replace(&mut self.role, Role::Following(following))
                else {
                    unreachable!("the role was matched just above")
                };
                let mut effects = deposed.ended(outcome);
                effects.extend(fetch);
                effects
            }
            Role::Following(held) if new.state.epoch < held.assignment.state.epoch => Vec::new(),
            Role::Following(held) if new.is_led_by_me() => {
                let (leading, started) = Leading::start(new, held.log, self.lag_max, at);
                self.role = Role::Leading(leading);
                std::iter::once(Effect::StopFetching).chain(started).collect()
            }
            Role::Following(held) => held.assigned(new),
        }
    }

    /// The log of this broker was written to and ends at `end` now.
    #[must_use]
    pub fn appended(&mut self, end: LogEnd, at: Moment) -> Vec<Effect> {
        match &mut self.role {
            Role::Offline(_) => Vec::new(),
            Role::Leading(leading) => leading.appended(end, at),
            Role::Following(following) => {
                assert!(following.log.end <= end, "an append never shortens a log");
                following.log.end = end;
                Vec::new()
            }
        }
    }

    /// A follower cut its log back to `end`, as its leader's history asks for (F-23). The watermark goes with it: only
    /// here may it move back. A leader never truncates.
    pub fn truncated(&mut self, end: LogEnd) {
        let Role::Following(following) = &mut self.role else {
            assert!(
                !matches!(self.role, Role::Leading(_)),
                "a leader never truncates its log"
            );
            return;
        };
        assert!(end <= following.log.end, "truncation never lengthens a log");
        let log = &mut following.log;
        *log = LogFacts {
            start: LogStart(log.start.0.min(end.0)),
            end,
            watermark: HighWatermark(log.watermark.0.min(end.0)),
        };
    }

    /// A follower dropped its whole log and begins anew where its leader's starts (F-24).
    pub fn wiped(&mut self, start: LogStart) {
        let Role::Following(following) = &mut self.role else {
            assert!(
                !matches!(self.role, Role::Leading(_)),
                "a leader never wipes its log"
            );
            return;
        };
        following.log = LogFacts {
            start,
            end: LogEnd(start.0),
            watermark: HighWatermark(start.0),
        };
    }

    /// Old records were dropped here: retention, or a request to delete them. Never beyond the watermark.
    #[must_use]
    pub fn log_start_moved(&mut self, start: LogStart) -> Vec<Effect> {
        let (Role::Leading(Leading { log, .. }) | Role::Following(Following { log, .. })) = &mut self.role
        else {
            return Vec::new();
        };
        assert!(
            start.0 <= log.watermark.0,
            "only what is committed may be dropped"
        );
        log.start = log.start.max(start);
        match &mut self.role {
            Role::Leading(leading) => leading.release_deletions(),
            Role::Following(_) | Role::Offline(_) => Vec::new(),
        }
    }

    /// Whether what a leader of this epoch sent may change the log: to be asked before every append, truncation or
    /// restart that a fetcher wants, for the role may have changed since it decided.
    ///
    /// # Errors
    /// [`NotFollowing`] when the log is no longer that leader's to change.
    pub fn follows(&self, leader_epoch: LeaderEpoch) -> Result<(), NotFollowing> {
        match &self.role {
            Role::Following(following) if following.assignment.state.leader_epoch == leader_epoch => Ok(()),
            _ => Err(NotFollowing {
                given: leader_epoch,
                held: self.assignment().state.leader_epoch,
            }),
        }
    }

    /// After an append of what the leader sent: what it said of its own log (F-25).
    #[must_use]
    pub fn leader_said(&mut self, watermark: HighWatermark, log_start: LogStart) -> Vec<Effect> {
        match &mut self.role {
            Role::Following(following) => following.leader_said(watermark, log_start),
            Role::Offline(_) | Role::Leading(_) => Vec::new(),
        }
    }

    /// A follower fetched, and its fetch was read without an error and without divergence (F-22, F-29).
    ///
    /// # Errors
    /// A [`FollowerRefusal`]; the replica is then unchanged.
    pub fn follower_fetched(
        &mut self,
        follower: BrokerId,
        fetch: FollowerFetch,
    ) -> Result<Vec<Effect>, FollowerRefusal> {
        match &mut self.role {
            Role::Leading(leading) => leading.follower_fetched(follower, fetch),
            Role::Offline(_) | Role::Following(_) => Err(FollowerRefusal::NotLeading),
        }
    }

    /// The controller answered a proposal (F-33).
    #[must_use]
    pub fn isr_answered(&mut self, answer: IsrAnswer, at: Moment) -> Vec<Effect> {
        match &mut self.role {
            Role::Leading(leading) => leading.isr_answered(answer, at),
            Role::Offline(_) | Role::Following(_) => Vec::new(),
        }
    }

    /// Time has passed: a leader looks for followers that fell behind (F-30).
    #[must_use]
    pub fn tick(&mut self, now: Moment) -> Vec<Effect> {
        match &mut self.role {
            Role::Leading(leading) => leading.tick(now),
            Role::Offline(_) | Role::Following(_) => Vec::new(),
        }
    }

    /// When [`Self::tick`] is due next.
    #[must_use]
    pub fn next_tick(&self) -> Option<Moment> {
        match &self.role {
            Role::Leading(leading) => Some(leading.next_shrink_check()),
            Role::Offline(_) | Role::Following(_) => None,
        }
    }

    /// Whether a batch may be appended here, and under which leader epoch (R-11, R-12, R-13).
    ///
    /// One that the log holds already, as `is_repeated` says, is not refused for want of replicas: it waits for them. The
    /// refusal tells a producer that its batch is in no log, and librdkafka then sends the records again in batches of
    /// another shape, which nothing recognises as repeated.
    ///
    /// # Errors
    /// A [`ProduceRefusal`] with what is known here.
    pub fn admits(
        &self,
        acks: Acks,
        is_repeated: impl FnOnce() -> bool,
    ) -> Result<LeaderEpoch, ProduceRefusal> {
        match &self.role {
            Role::Offline(_) => Err(ProduceRefusal::LogOffline),
            Role::Leading(leading) => leading.admits(acks, is_repeated),
            Role::Following(following) => Err(ProduceRefusal::NotLeader {
                leader: following.assignment.state.leader,
                epoch: following.assignment.state.leader_epoch,
            }),
        }
    }

    /// The same for a batch that was decided under a leadership, as a coordinator's are: it means nothing under another one.
    ///
    /// # Errors
    /// A [`ProduceRefusal`] with what is known here.
    pub fn admits_under(
        &self,
        under: LeaderEpoch,
        acks: Acks,
        is_repeated: impl FnOnce() -> bool,
    ) -> Result<LeaderEpoch, ProduceRefusal> {
        let admitted = self.admits(acks, is_repeated)?;
        if admitted == under {
            return Ok(admitted);
        }
        Err(ProduceRefusal::NotLeader {
            leader: self.assignment().state.leader,
            epoch: admitted,
        })
    }

    /// Waits until every in-sync replica holds everything before `required`; completes at once if so already (F-41).
    #[must_use]
    pub fn await_replication(&mut self, waiter: WaiterId, required: Offset) -> Vec<Effect> {
        let outcome = match &mut self.role {
            Role::Leading(leading) => return leading.await_replication(waiter, required),
            Role::Offline(_) => WaitOutcome::LogOffline,
            Role::Following(following) => WaitOutcome::NotLeader {
                leader: following.assignment.state.leader,
                epoch: following.assignment.state.leader_epoch,
            },
        };
        vec![Effect::Completed { waiter, outcome }]
    }

    /// A waiter's request was answered already: its time was over.
    pub fn forget(&mut self, waiter: WaiterId) {
        if let Role::Leading(leading) = &mut self.role {
            leading.forget(waiter);
        }
    }

    /// Which partition this is.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// What it is at the moment.
    #[must_use]
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The newest assignment that counts.
    #[must_use]
    pub fn assignment(&self) -> &Assignment {
        match &self.role {
            Role::Offline(assignment) => assignment,
            Role::Leading(leading) => leading.assignment(),
            Role::Following(following) => &following.assignment,
        }
    }

    /// What readers must see.
    #[must_use]
    pub fn view(&self) -> View {
        let state = &self.assignment().state;
        View {
            serving: match &self.role {
                Role::Offline(_) => Serving::Offline,
                Role::Leading(leading) => Serving::Leader {
                    log: leading.log(),
                    epoch_start: leading.epoch_start(),
                },
                Role::Following(following) => Serving::Follower { log: following.log },
            },
            leader: state.leader,
            leader_epoch: state.leader_epoch,
        }
    }
}

impl Following {
    /// What the log of this replica is known to hold.
    #[must_use]
    pub fn log(&self) -> LogFacts {
        self.log
    }

    /// Begins to fetch, or stops if nobody leads.
    fn fetch(&self) -> Vec<Effect> {
        let state = &self.assignment.state;
        vec![match state.leader {
            Some(leader) => Effect::StartFetching {
                leader,
                leader_epoch: state.leader_epoch,
                from: self.log.end,
            },
            None => Effect::StopFetching,
        }]
    }

    fn assigned(&mut self, new: Assignment) -> Vec<Effect> {
        let held = &self.assignment.state;
        let same_leadership = held.leader == new.state.leader && held.leader_epoch == new.state.leader_epoch;
        self.assignment = new;
        if same_leadership {
            return Vec::new();
        }
        let mut effects = self.fetch();
        effects.push(Effect::RoleChanged);
        effects
    }

    fn leader_said(&mut self, watermark: HighWatermark, log_start: LogStart) -> Vec<Effect> {
        let mut effects = Vec::new();
        let known = HighWatermark(watermark.0.min(self.log.end.0));
        if self.log.watermark < known {
            self.log.watermark = known;
            effects.push(Effect::WatermarkMoved { to: known });
        }
        let start = LogStart(log_start.0.min(self.log.watermark.0));
        if self.log.start < start {
            self.log.start = start;
            effects.push(Effect::LogStartMoved { to: start });
        }
        effects
    }
}
