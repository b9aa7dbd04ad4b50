//! JoinGroup (G-6 to G-16).

use std::collections::BTreeSet;

use super::names::{InstanceId, MemberId, ReplyId};
use super::request::{Join, Joined, Protocol, Refusal, Reply};
use super::state::{Group, Member, State};
use super::timers::Timer;
use super::work::{Then, Work};

/// How long a newcomer waits for its first generation. It has no session yet that would tell that it has gone.
const NEWCOMER_WAITS: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// No name on the wire is longer, in bytes.
const NAME_BYTES_MAX: usize = 32_767;

/// Each protocol once, the first one counts (G-10).
pub(super) fn without_repetitions(protocols: &mut Vec<Protocol>) {
    let mut seen = BTreeSet::new();
    protocols.retain(|protocol| seen.insert(protocol.name.clone()));
}

impl Group {
    /// Answers a join, now or when the generation is complete.
    pub(super) fn join(&mut self, work: &mut Work<'_>, to: ReplyId, join: Join) {
        if !self.has_room_for(&join.member, work.settings.members_max) {
            self.remove(work, &join.member, Refusal::GroupFull);
            work.refuse_join(to, Refusal::GroupFull, MemberId::default());
            return;
        }
        if !self.suits(&join.protocol_type, &join.protocols) {
            work.refuse_join(to, Refusal::InconsistentProtocol, join.member);
            return;
        }
        if join.member.is_empty() {
            self.join_anew(work, to, join);
        } else if self.pending.contains(&join.member) && join.instance.is_none() {
            let member = join.member.clone();
            self.admit(work, to, join, member);
        } else {
            self.join_again(work, to, join);
        }
    }

    /// While a rebalance is prepared those who have joined are counted, so that the last to come must go (G-11).
    fn has_room_for(&self, member: &MemberId, max: usize) -> bool {
        let known = self.members.get(member);
        match self.state {
            State::Empty => true,
            State::Preparing => {
                known.is_some_and(|member| member.joining.is_some()) || self.joining_count() < max
            }
            State::Completing | State::Stable => known.is_some() || self.members.len() < max,
        }
    }

    fn join_anew(&mut self, work: &mut Work<'_>, to: ReplyId, join: Join) {
        let begins = join
            .instance
            .as_ref()
            .map_or(join.client.id.as_str(), InstanceId::as_str);
        // A client may call itself what fills the field alone.
        let room = NAME_BYTES_MAX.saturating_sub(join.unique.len() + 1);
        let begins = &begins[..begins.floor_char_boundary(room)];
        let member = MemberId::from(format!("{begins}-{}", join.unique));
        let held = join
            .instance
            .as_ref()
            .and_then(|instance| self.instances.get(instance));
        match held.cloned() {
            Some(before) => self.replace_static(work, to, join, &before, member),
            None if join.instance.is_none() && join.abilities.joins_in_two_steps => {
                let session = super::state::millis(join.session_timeout_ms);
                self.pending.insert(member.clone());
                work.timers.set(
                    Timer::Session(self.id.clone(), member.clone()),
                    work.at.now.after(session),
                );
                work.refuse_join(to, Refusal::MemberIdRequired, member);
            }
            None => self.admit(work, to, join, member),
        }
    }

    /// Takes a newcomer in.
    fn admit(&mut self, work: &mut Work<'_>, to: ReplyId, join: Join, id: MemberId) {
        if self.members.is_empty() {
            self.protocol_type = join.protocol_type;
        }
        if let Some(instance) = &join.instance {
            self.instances.insert(instance.clone(), id.clone());
        }
        self.pending.remove(&id);
        self.leader.get_or_insert_with(|| id.clone());
        if self.window.is_some() {
            self.has_newcomers = true;
        }
        let member = Member {
            id: id.clone(),
            instance: join.instance,
            client: join.client,
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            protocols: join.protocols,
            assignment: bytes::Bytes::new(),
            joining: Some(to),
            syncing: None,
            is_new: true,
        };
        self.members.insert(id.clone(), member);
        let until = work.at.now.after(NEWCOMER_WAITS);
        work.timers.set(Timer::Session(self.id.clone(), id), until);
        self.rebalance(work);
    }

    fn join_again(&mut self, work: &mut Work<'_>, to: ReplyId, join: Join) {
        let member = match self.member(&join.member, join.instance.as_ref()) {
            Ok(member) => member,
            Err(why) => return work.refuse_join(to, why, join.member),
        };
        let is_unchanged = member.protocols == join.protocols;
        let must_rebalance = match self.state {
            State::Empty => return work.refuse_join(to, Refusal::UnknownMember, join.member),
            State::Preparing => true,
            // The answer was lost: it is given once more (G-14).
            State::Completing => !is_unchanged,
            // A leader that joins again wants to assign again (G-15).
            State::Stable => self.is_led_by(&join.member) || !is_unchanged,
        };
        if must_rebalance {
            let id = join.member.clone();
            self.update(work, to, join, &id);
            self.rebalance(work);
        } else {
            work.reply(to, Reply::Join(Ok(self.joined(&join.member))));
        }
    }

    /// A member says anew what it can do, and waits.
    fn update(&mut self, work: &mut Work<'_>, to: ReplyId, join: Join, id: &MemberId) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        member.protocols = join.protocols;
        member.client = join.client;
        member.session_timeout_ms = join.session_timeout_ms;
        member.rebalance_timeout_ms = join.rebalance_timeout_ms;
        // It asked before on a connection that it has left.
        if let Some(before) = member.joining.replace(to) {
            work.refuse_join(before, Refusal::RebalanceInProgress, id.clone());
        }
    }

    /// A static member is back under a new id, and the old one is fenced (G-12).
    fn replace_static(
        &mut self,
        work: &mut Work<'_>,
        to: ReplyId,
        join: Join,
        old: &MemberId,
        new: MemberId,
    ) {
        let Some(instance) = join.instance.clone() else {
            return;
        };
        let leader_before = self.leader.clone();
        let Some(before) = self.exchange(work, &instance, old, &new) else {
            return;
        };
        let skips = join.abilities.can_skip_assignment;
        self.update(work, to, join, &new);
        self.heard(work, &new);
        if self.state != State::Stable || self.elected_protocol() != self.protocol {
            // Completing: the leader assigns to the old id, so the new one would get nothing.
            self.rebalance(work);
            return;
        }
        let record = self.record(|member| member.assignment.clone());
        work.append(
            vec![record],
            Then::Replace {
                group: self.id.clone(),
                instance,
                before: Box::new(before),
                now: new,
                leader_before,
                skips,
            },
        );
    }

    /// Gives a static member's place to another id. Gives the member as it was.
    fn exchange(
        &mut self,
        work: &mut Work<'_>,
        instance: &InstanceId,
        old: &MemberId,
        new: &MemberId,
    ) -> Option<Member> {
        let mut member = self.members.remove(old)?;
        work.timers.cancel(&Timer::Session(self.id.clone(), old.clone()));
        if let Some(waiting) = member.joining.take() {
            work.refuse_join(waiting, Refusal::FencedInstance, old.clone());
        }
        if let Some(to) = member.syncing.take() {
            work.reply(to, Reply::Sync(Err(Refusal::FencedInstance)));
        }
        let before = member.clone();
        member.id = new.clone();
        self.members.insert(new.clone(), member);
        self.instances.insert(instance.clone(), new.clone());
        if self.unsynced.remove(old) {
            self.unsynced.insert(new.clone());
        }
        if self.is_led_by(old) {
            self.leader = Some(new.clone());
        }
        Some(before)
    }

    /// The change of a static member is written: it keeps its part, and nobody has to rebalance.
    pub(super) fn replaced(
        &mut self,
        work: &mut Work<'_>,
        now: &MemberId,
        leader_before: Option<MemberId>,
        skips: bool,
    ) {
        if self.state != State::Stable {
            // A rebalance has begun meanwhile; its end answers.
            return;
        }
        let told = if skips {
            Joined {
                skip_assignment: self.is_led_by(now),
                ..self.joined(now)
            }
        } else {
            // Without the word to skip the assignment a leader would assign: it is told that the old one still leads.
            Joined {
                leader: leader_before.unwrap_or_default(),
                members: Vec::new(),
                ..self.joined(now)
            }
        };
        let waiting = self.members.get_mut(now).and_then(|member| member.joining.take());
        if let Some(waiting) = waiting {
            work.reply(waiting, Reply::Join(Ok(told)));
            self.heard(work, now);
        }
    }

    /// The change of a static member could not be written: the old id has its place again.
    pub(super) fn not_replaced(
        &mut self,
        work: &mut Work<'_>,
        instance: &InstanceId,
        before: Member,
        now: &MemberId,
        why: Refusal,
    ) {
        if self.instances.get(instance) != Some(now) {
            return;
        }
        let waiting = self.members.get_mut(now).and_then(|member| member.joining.take());
        if let Some(waiting) = waiting {
            work.refuse_join(waiting, why, now.clone());
        }
        let old = before.id.clone();
        if self.exchange(work, instance, now, &old).is_some() {
            self.members.insert(old.clone(), before);
            self.heard(work, &old);
        }
    }

    /// The group itself could not be written: nobody is in it.
    pub(super) fn not_begun(&mut self, work: &mut Work<'_>, why: Refusal) {
        let all: Vec<MemberId> = self.members.keys().chain(&self.pending).cloned().collect();
        for member in all {
            self.remove(work, &member, why);
        }
        work.timers.cancel(&Timer::Join(self.id.clone()));
        work.timers.cancel(&Timer::Sync(self.id.clone()));
        self.window = None;
        self.state = State::Empty;
    }
}
