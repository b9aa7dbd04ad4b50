//! A replica that leads: it knows how far its followers are, moves the watermark, and asks for changes of the in-sync
//! set. Two laws stand above everything here:
//! 1. the watermark never passes the log end of anyone who is, or may already be, in sync (F-34);
//! 2. the watermark never moves while the in-sync set is below its minimum (F-35).

use std::collections::BTreeMap;
use std::time::Duration;

use metadata::ids::{BrokerId, LeaderEpoch, PartitionEpoch};

use super::assignment::{Assignment, Standing};
use super::in_sync::{InSync, IsrAnswer, IsrRefusal, Member, PartitionState, Proposal};
use super::progress::{FollowerFetch, Progress};
use super::{Effect, FollowerRefusal};
use crate::mutants::{self, Mutant};
use crate::offsets::{HighWatermark, LogEnd, LogFacts, Offset};
use crate::produce::{Acks, ProduceRefusal, WaitOutcome, WaiterId, Waiters};
use crate::time::Moment;

/// The state of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leading {
    assignment: Assignment,
    pub(super) log: LogFacts,
    /// Where the log ended when this leadership began.
    epoch_start: LogEnd,
    in_sync: InSync,
    /// The newest partition epoch known, from the image or from an answer of the controller (R5.54).
    partition_epoch: PartitionEpoch,
    /// Every replica but this one.
    followers: BTreeMap<BrokerId, Progress>,
    waiters: Waiters,
    /// Requests to delete records, by the log start that every replica must have reached. Apart, for they are rare.
    pub(super) deletions: Box<Waiters>,
    lag_max: Duration,
    next_shrink_check: Moment,
}

impl Leading {
    /// Begins to lead: the epoch is written at the log's end, and nothing that an earlier leadership learned of the
    /// followers counts any longer (F-37).
    pub(super) fn start(
        assignment: Assignment,
        log: LogFacts,
        lag_max: Duration,
        at: Moment,
    ) -> (Self, Vec<Effect>) {
        let mut leading = Self {
            in_sync: InSync::confirmed(assignment.state.in_sync.clone()),
            partition_epoch: assignment.state.epoch,
            followers: followers(&assignment, at),
            epoch_start: log.end,
            log,
            waiters: Waiters::default(),
            deletions: Box::default(),
            lag_max,
            next_shrink_check: at.after(lag_max / 2),
            assignment,
        };
        let mut effects = leading.epoch_started();
        effects.extend(leading.advance_watermark(at));
        (leading, effects)
    }

    /// Leads again under a newer epoch without having followed in between: the log was not touched by anyone else, so
    /// those who wait go on waiting.
    pub(super) fn restarted(&mut self, new: Assignment, at: Moment) -> Vec<Effect> {
        self.in_sync = InSync::confirmed(new.state.in_sync.clone());
        self.partition_epoch = new.state.epoch;
        self.followers = followers(&new, at);
        self.epoch_start = self.log.end;
        self.assignment = new;
        let mut effects = self.epoch_started();
        effects.extend(self.advance_watermark(at));
        effects
    }

    fn epoch_started(&self) -> Vec<Effect> {
        let leader_epoch = self.assignment.state.leader_epoch;
        vec![
            Effect::EpochStarted {
                leader_epoch,
                at: self.epoch_start,
            },
            Effect::RoleChanged,
        ]
    }

    /// Whether `new` leaves this leadership as it is: the same one, or an older state than is known (R5.54).
    pub(super) fn keeps_leading(&self, new: &Assignment) -> bool {
        new.state.epoch < self.partition_epoch
            || new.is_led_by_me() && new.state.leader_epoch == self.assignment.state.leader_epoch
    }

    /// Takes in what the image says of the same leadership. The peers' registrations and the minimum always count; the
    /// partition's own state only if it is newer than what is known. An equal one says nothing new, and a change that
    /// is on its way stays on its way.
    pub(super) fn refreshed(&mut self, new: Assignment, at: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        let newer = self.partition_epoch < new.state.epoch;
        self.assignment.registrations.clone_from(&new.registrations);
        self.assignment.min_in_sync = new.min_in_sync;
        if newer {
            let before = self.in_sync.members().to_vec();
            self.in_sync = InSync::confirmed(new.state.in_sync.clone());
            self.partition_epoch = new.state.epoch;
            self.keep_followers_of(&new);
            self.assignment = new;
            if self.in_sync.members() != before {
                effects.push(Effect::InSyncChanged {
                    in_sync: self.in_sync.members().to_vec(),
                });
            }
        }
        effects.extend(self.advance_watermark(at));
        effects
    }

    /// Replicas may come and go within one leadership (R3.61).
    fn keep_followers_of(&mut self, new: &Assignment) {
        let others = || {
            new.state
                .replicas
                .iter()
                .copied()
                .filter(|broker| *broker != new.me)
        };
        self.followers
            .retain(|broker, _| others().any(|other| other == *broker));
        for broker in others() {
            self.followers.entry(broker).or_default();
        }
    }

    /// The leadership is over: everyone who waits is told (F-38).
    pub(super) fn ended(mut self, outcome: WaitOutcome) -> Vec<Effect> {
        let told = self
            .waiters
            .drain()
            .into_iter()
            .chain(self.deletions.drain())
            .map(|waiter| Effect::Completed { waiter, outcome });
        std::iter::once(Effect::RoleChanged).chain(told).collect()
    }

    pub(super) fn appended(&mut self, end: LogEnd, at: Moment) -> Vec<Effect> {
        assert!(self.log.end <= end, "an append never shortens a log");
        self.log.end = end;
        self.advance_watermark(at)
    }

    pub(super) fn follower_fetched(
        &mut self,
        follower: BrokerId,
        fetch: FollowerFetch,
    ) -> Result<Vec<Effect>, FollowerRefusal> {
        let held = self.assignment.state.leader_epoch;
        if fetch.leader_epoch != held {
            return Err(FollowerRefusal::OtherLeadership {
                held,
                given: fetch.leader_epoch,
            });
        }
        let registered = self.assignment.registrations.get(&follower);
        let progress = self
            .followers
            .get_mut(&follower)
            .ok_or(FollowerRefusal::NotAReplica(follower))?;
        if let (Some(registered), Some(given)) = (registered, fetch.broker_epoch)
            && given < registered.epoch
        {
            return Err(FollowerRefusal::StaleBrokerEpoch {
                held: registered.epoch,
                given,
            });
        }
        progress.fetched(fetch);
        let mut effects = self.expand_by(follower);
        effects.extend(self.advance_watermark(fetch.at));
        effects.extend(self.release_deletions());
        Ok(effects)
    }

    /// Asks for `follower` to join, if it holds everything that is committed and everything below this leadership, and
    /// its incarnation may be in sync (F-31, R3.57).
    fn expand_by(&mut self, follower: BrokerId) -> Vec<Effect> {
        let progress = self.followers[&follower];
        let holds_enough = progress
            .log_end
            .is_some_and(|end| self.log.watermark.0 <= end.0 && self.epoch_start <= end)
            || mutants::is_selected(Mutant::IsrExpandedBelowWatermark);
        let may_join = self.in_sync.is_settled()
            && !self.in_sync.maximal_contains(follower)
            && self.is_eligible(follower, &progress);
        if !(holds_enough && may_join) {
            return Vec::new();
        }
        let wished = self.in_sync.expand(vec![follower]);
        vec![self.propose(&wished)]
    }

    /// Whether this incarnation of a follower may be in sync, as far as is known here (R3.57).
    fn is_eligible(&self, follower: BrokerId, progress: &Progress) -> bool {
        self.assignment
            .registrations
            .get(&follower)
            .is_some_and(|registered| {
                registered.standing == Standing::Active
                    && progress
                        .broker_epoch
                        .is_none_or(|fetched| fetched == registered.epoch)
            })
    }

    fn propose(&self, wished: &[BrokerId]) -> Effect {
        let epoch_of = |broker: BrokerId| {
            if broker == self.assignment.me {
                return self
                    .assignment
                    .registrations
                    .get(&broker)
                    .map(|registered| registered.epoch);
            }
            self.followers
                .get(&broker)
                .and_then(|progress| progress.broker_epoch)
        };
        let member = |broker: &BrokerId| Member {
            broker: *broker,
            epoch: epoch_of(*broker),
        };
        Effect::ProposeIsr(Proposal {
            partition: self.assignment.partition,
            leader_epoch: self.assignment.state.leader_epoch,
            partition_epoch: self.partition_epoch,
            in_sync: wished.iter().map(member).collect(),
        })
    }

    pub(super) fn isr_answered(&mut self, answer: IsrAnswer, at: Moment) -> Vec<Effect> {
        let Some(asked) = self.in_sync.asked() else {
            return Vec::new();
        };
        // What the image has said since then is newer than this answer.
        if answer.leader_epoch != self.assignment.state.leader_epoch
            || answer.partition_epoch != self.partition_epoch
        {
            return Vec::new();
        }
        match answer.outcome {
            Ok(state) => self.isr_confirmed(state, at),
            Err(IsrRefusal::Ineligible | IsrRefusal::NotAttempted) => {
                self.in_sync.revert();
                self.advance_watermark(at)
            }
            Err(
                IsrRefusal::UnknownTopic
                | IsrRefusal::UnknownPartition
                | IsrRefusal::FencedLeaderEpoch
                | IsrRefusal::StalePartitionEpoch
                | IsrRefusal::Invalid
                | IsrRefusal::NewLeaderElected,
            ) => {
                self.in_sync.await_metadata();
                Vec::new()
            }
            Err(IsrRefusal::Unexpected) => vec![self.propose(&asked)],
        }
    }

    fn isr_confirmed(&mut self, state: PartitionState, at: Moment) -> Vec<Effect> {
        let other_leadership = state.leader_epoch != self.assignment.state.leader_epoch
            || state.leader != Some(self.assignment.me);
        if other_leadership || state.epoch < self.partition_epoch {
            self.in_sync.await_metadata();
            return Vec::new();
        }
        let changed = self.in_sync.members() != state.in_sync;
        self.in_sync = InSync::confirmed(state.in_sync);
        self.partition_epoch = state.epoch;
        let mut effects = Vec::new();
        if changed {
            effects.push(Effect::InSyncChanged {
                in_sync: self.in_sync.members().to_vec(),
            });
        }
        effects.extend(self.advance_watermark(at));
        effects
    }

    pub(super) fn tick(&mut self, now: Moment) -> Vec<Effect> {
        if now < self.next_shrink_check {
            return Vec::new();
        }
        self.next_shrink_check = now.after(self.lag_max / 2);
        let mut effects = self.shrink(now);
        effects.extend(self.advance_watermark(now));
        effects
    }

    /// Asks for members that fell behind to leave (F-30). The set may fall below its minimum by that: the watermark
    /// then stands still, and the controller remembers who still has everything.
    fn shrink(&mut self, now: Moment) -> Vec<Effect> {
        if !self.in_sync.is_settled() {
            return Vec::new();
        }
        let fell_behind = |broker: &BrokerId| {
            self.followers
                .get(broker)
                .is_some_and(|progress| !progress.is_caught_up(self.log.end, self.lag_max, now))
        };
        let leaving: Vec<BrokerId> = self
            .in_sync
            .members()
            .iter()
            .copied()
            .filter(fell_behind)
            .collect();
        if leaving.is_empty() {
            return Vec::new();
        }
        let wished = self.in_sync.shrink(leaving);
        vec![self.propose(&wished)]
    }

    /// Moves the watermark up as far as both laws allow, and releases those who waited for it.
    fn advance_watermark(&mut self, now: Moment) -> Vec<Effect> {
        let ignores_min = mutants::is_selected(Mutant::WatermarkIgnoresMinIsr);
        if self.is_under_min_in_sync() && !ignores_min {
            return Vec::new();
        }
        let Some(candidate) = self.watermark_candidate(now) else {
            return Vec::new();
        };
        if candidate <= self.log.watermark.0 {
            return Vec::new();
        }
        assert!(
            ignores_min || !self.is_under_min_in_sync(),
            "no watermark moves below min.insync.replicas"
        );
        assert!(
            candidate <= self.log.end.0,
            "only what is written can be committed"
        );
        assert!(
            self.is_held_in_sync(candidate),
            "no watermark passes an in-sync replica"
        );
        self.log.watermark = HighWatermark(candidate);
        let outcome = self.outcome_of_replicated();
        let released = self.waiters.release(candidate).into_iter();
        std::iter::once(Effect::WatermarkMoved {
            to: self.log.watermark,
        })
        .chain(released.map(|waiter| Effect::Completed { waiter, outcome }))
        .collect()
    }

    /// The least log end among the leader, everyone who is or may already be in sync, and whoever is about to join:
    /// caught up and eligible (F-34). Nothing while one of the first two is unknown.
    fn watermark_candidate(&self, now: Moment) -> Option<Offset> {
        let mut least = self.log.end;
        for (broker, progress) in &self.followers {
            let counts = self.in_sync.maximal_contains(*broker)
                || progress.is_caught_up(self.log.end, self.lag_max, now)
                    && self.is_eligible(*broker, progress);
            if counts {
                least = least.min(progress.log_end?);
            }
        }
        Some(least.0)
    }

    /// Whether everyone who is, or may already be, in sync holds everything before `offset`.
    fn is_held_in_sync(&self, offset: Offset) -> bool {
        self.in_sync
            .maximal()
            .filter_map(|member| self.followers.get(&member))
            .all(|progress| progress.log_end.is_some_and(|end| offset <= end.0))
    }

    fn is_under_min_in_sync(&self) -> bool {
        self.in_sync.members().len() < self.assignment.min_in_sync.0
    }

    fn outcome_of_replicated(&self) -> WaitOutcome {
        if self.in_sync.maximal().count() < self.assignment.min_in_sync.0 {
            WaitOutcome::NotEnoughReplicasAfterAppend
        } else {
            WaitOutcome::Replicated
        }
    }

    pub(super) fn admits(
        &self,
        acks: Acks,
        is_repeated: impl FnOnce() -> bool,
    ) -> Result<LeaderEpoch, ProduceRefusal> {
        let (in_sync, required) = (self.in_sync.members().len(), self.assignment.min_in_sync.0);
        if acks == Acks::All && in_sync < required && !is_repeated() {
            return Err(ProduceRefusal::NotEnoughReplicas { in_sync, required });
        }
        Ok(self.assignment.state.leader_epoch)
    }

    pub(super) fn await_replication(&mut self, waiter: WaiterId, required: Offset) -> Vec<Effect> {
        assert!(
            required <= self.log.end.0,
            "only what is appended can be waited for"
        );
        let waits = !mutants::is_selected(Mutant::AcknowledgedBeforeReplicated);
        if required <= self.log.watermark.0 || !waits {
            return vec![Effect::Completed {
                waiter,
                outcome: self.outcome_of_replicated(),
            }];
        }
        self.waiters.add(waiter, required);
        Vec::new()
    }

    pub(super) fn forget(&mut self, waiter: WaiterId) {
        self.waiters.forget(waiter);
        self.deletions.forget(waiter);
    }

    pub(super) fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// What its own log holds.
    #[must_use]
    pub fn log(&self) -> LogFacts {
        self.log
    }

    /// Where this leadership began: no follower that ends before it may join (F-31), and no offset below the watermark
    /// that lies before it is final (L-49).
    #[must_use]
    pub fn epoch_start(&self) -> LogEnd {
        self.epoch_start
    }

    /// Who is in sync.
    #[must_use]
    pub fn in_sync(&self) -> &InSync {
        &self.in_sync
    }

    /// How far the followers are.
    #[must_use]
    pub fn followers(&self) -> &BTreeMap<BrokerId, Progress> {
        &self.followers
    }

    /// When it looks for followers that fell behind next.
    #[must_use]
    pub fn next_shrink_check(&self) -> Moment {
        self.next_shrink_check
    }

    /// How many produce waits are open.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }
}

fn followers(assignment: &Assignment, at: Moment) -> BTreeMap<BrokerId, Progress> {
    let state = &assignment.state;
    let others = state.replicas.iter().filter(|broker| **broker != assignment.me);
    others
        .map(|broker| {
            let in_sync = state.in_sync.contains(broker);
            (
                *broker,
                if in_sync {
                    Progress::of_in_sync_follower(at)
                } else {
                    Progress::default()
                },
            )
        })
        .collect()
}
