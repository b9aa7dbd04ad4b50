//! From one generation to the next (G-17 to G-20).

use super::names::{MemberId, ReplyId};
use super::request::{Joined, Refusal, Reply};
use super::state::{Group, Member, State, Window};
use super::timers::Timer;
use super::work::{Then, Work};

impl Group {
    /// Begins a rebalance, or looks whether the one under way is complete.
    pub(super) fn rebalance(&mut self, work: &mut Work<'_>) {
        if self.state != State::Preparing {
            self.prepare(work);
        } else if self.window.is_none() && self.all_have_joined() {
            self.complete(work);
        }
    }

    fn prepare(&mut self, work: &mut Work<'_>) {
        if self.state == State::Completing {
            // Whoever waits for an assignment of this generation must join the next one.
            self.fail_syncs(work, Refusal::RebalanceInProgress);
        }
        work.timers.cancel(&Timer::Sync(self.id.clone()));
        let is_first = self.state == State::Empty;
        self.enter(State::Preparing, work.at.wall_ms);
        if is_first {
            let part = work.settings.initial_rebalance_delay;
            let left = self.rebalance_timeout().saturating_sub(part);
            self.window = Some(Window { part, left });
            work.timers
                .set(Timer::Join(self.id.clone()), work.at.now.after(part));
        } else if self.all_have_joined() {
            self.complete(work);
        } else {
            self.await_joins(work);
        }
    }

    fn await_joins(&self, work: &mut Work<'_>) {
        let until = work.at.now.after(self.rebalance_timeout());
        work.timers.set(Timer::Join(self.id.clone()), until);
    }

    /// Members had their time to join. Before the first generation it is extended while others keep coming.
    pub(super) fn join_time_is_over(&mut self, work: &mut Work<'_>) {
        if self.state != State::Preparing {
            return;
        }
        match self.window {
            Some(Window { part, left }) if self.has_newcomers && !left.is_zero() => {
                self.has_newcomers = false;
                let next = work.settings.initial_rebalance_delay.min(left);
                self.window = Some(Window {
                    part: next,
                    left: left.saturating_sub(part),
                });
                work.timers
                    .set(Timer::Join(self.id.clone()), work.at.now.after(next));
            }
            _ => self.complete(work),
        }
    }

    /// Ends the preparation: those who joined make the next generation. Static members keep their place without.
    fn complete(&mut self, work: &mut Work<'_>) {
        work.timers.cancel(&Timer::Join(self.id.clone()));
        self.window = None;
        self.has_newcomers = false;
        let is_silent = |member: &&Member| member.joining.is_none() && member.instance.is_none();
        let silent: Vec<MemberId> = self
            .members
            .values()
            .filter(is_silent)
            .map(|m| m.id.clone())
            .collect();
        for member in silent {
            self.remove(work, &member, Refusal::UnknownMember);
        }
        if !self.elect_a_joined_leader() && !self.members.is_empty() {
            // Only static members that did not come back: their sessions decide.
            self.await_joins(work);
            return;
        }
        self.generation = self.generation.next();
        self.unsynced.clear();
        if self.members.is_empty() {
            self.protocol = None;
            self.enter(State::Empty, work.at.wall_ms);
            work.append(vec![self.record(|member| member.assignment.clone())], Then::Rest);
            return;
        }
        self.protocol = self.elected_protocol();
        self.enter(State::Completing, work.at.wall_ms);
        self.tell_the_joined(work);
        let until = work.at.now.after(self.rebalance_timeout());
        work.timers.set(Timer::Sync(self.id.clone()), until);
    }

    fn tell_the_joined(&mut self, work: &mut Work<'_>) {
        let members: Vec<MemberId> = self.members.keys().cloned().collect();
        for id in members {
            let answer = self.joined(&id);
            self.unsynced.insert(id.clone());
            let Some(member) = self.members.get_mut(&id) else {
                continue;
            };
            member.is_new = false;
            if let Some(waiting) = member.joining.take() {
                work.reply(waiting, Reply::Join(Ok(answer)));
            }
            self.heard(work, &id);
        }
    }

    /// What a member is told of the present generation.
    pub(super) fn joined(&self, member: &MemberId) -> Joined {
        let members = if self.is_led_by(member) {
            self.joined_members()
        } else {
            Vec::new()
        };
        Joined {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone().unwrap_or_default(),
            leader: self.leader.clone().unwrap_or_default(),
            member: member.clone(),
            skip_assignment: false,
            members,
        }
    }

    /// Keeps the leader if it has joined, else takes another one who has.
    fn elect_a_joined_leader(&mut self) -> bool {
        let has_joined = |id: &MemberId| {
            self.members
                .get(id)
                .is_some_and(|member| member.joining.is_some())
        };
        if self.leader.as_ref().is_some_and(has_joined) {
            return true;
        }
        let mut joined = self.members.values().filter(|member| member.joining.is_some());
        let next = joined.next().map(|member| member.id.clone());
        let found = next.is_some();
        if found {
            self.leader = next;
        }
        found
    }

    /// A member has shown that it lives: its session begins anew.
    pub(super) fn heard(&self, work: &mut Work<'_>, member: &MemberId) {
        if let Some(known) = self.members.get(member) {
            let until = work.at.now.after(known.session_timeout());
            work.timers
                .set(Timer::Session(self.id.clone(), member.clone()), until);
        }
    }

    /// Takes a member, or an id that was handed out, out of the group; what it waits for is refused.
    pub(super) fn remove(&mut self, work: &mut Work<'_>, member: &MemberId, why: Refusal) {
        work.timers
            .cancel(&Timer::Session(self.id.clone(), member.clone()));
        self.pending.remove(member);
        self.unsynced.remove(member);
        let Some(gone) = self.members.remove(member) else {
            return;
        };
        if let Some(waiting) = gone.joining {
            work.refuse_join(waiting, why, MemberId::default());
        }
        if let Some(to) = gone.syncing {
            work.reply(to, Reply::Sync(Err(why)));
        }
        if let Some(instance) = gone.instance
            && self.instances.get(&instance) == Some(member)
        {
            self.instances.remove(&instance);
        }
        if self.is_led_by(member) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// Nobody gets an assignment of this generation.
    pub(super) fn fail_syncs(&mut self, work: &mut Work<'_>, why: Refusal) {
        let mut waiting: Vec<(MemberId, ReplyId)> = Vec::new();
        for member in self.members.values_mut() {
            member.assignment = bytes::Bytes::new();
            waiting.extend(member.syncing.take().map(|to| (member.id.clone(), to)));
        }
        for (member, to) in waiting {
            work.reply(to, Reply::Sync(Err(why)));
            // Silence was excused while it waited.
            self.heard(work, &member);
        }
    }

    /// A member was silent for its session, or an id that was handed out was not used.
    pub(super) fn session_is_over(&mut self, work: &mut Work<'_>, member: &MemberId) {
        if self.pending.contains(member) {
            self.remove(work, member, Refusal::UnknownMember);
            if self.state == State::Preparing {
                self.rebalance(work);
            }
            return;
        }
        let Some(known) = self.members.get(member) else {
            return;
        };
        // Waiting for the others is no silence, except for those who never got an id and may have gone.
        if !known.is_new && (known.joining.is_some() || known.syncing.is_some()) {
            return;
        }
        self.remove(work, member, Refusal::UnknownMember);
        if self.state != State::Empty {
            self.rebalance(work);
        }
    }

    /// Members had their time to ask for their assignment (G-21).
    pub(super) fn sync_time_is_over(&mut self, work: &mut Work<'_>) {
        if !matches!(self.state, State::Completing | State::Stable) || self.unsynced.is_empty() {
            return;
        }
        for member in std::mem::take(&mut self.unsynced) {
            self.remove(work, &member, Refusal::UnknownMember);
        }
        self.rebalance(work);
    }
}
