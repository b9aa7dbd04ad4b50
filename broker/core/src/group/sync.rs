//! SyncGroup and Heartbeat (G-21, G-22).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::names::{Generation, MemberId, ReplyId};
use super::request::{Heartbeat, Refusal, Reply, Sync, Synced};
use super::state::{Group, State};
use super::timers::Timer;
use super::work::{Then, Work};

impl Group {
    /// Answers a sync, now or when the leader's assignment is written.
    pub(super) fn sync(&mut self, work: &mut Work<'_>, to: ReplyId, sync: Sync) {
        if let Err(why) = self.admits_sync(&sync) {
            work.reply(to, Reply::Sync(Err(why)));
            return;
        }
        self.unsynced.remove(&sync.member);
        if self.unsynced.is_empty() {
            work.timers.cancel(&Timer::Sync(self.id.clone()));
        }
        if self.state == State::Stable {
            let synced = self.synced(&sync.member);
            work.reply(to, Reply::Sync(Ok(synced)));
            return;
        }
        let Some(member) = self.members.get_mut(&sync.member) else {
            return;
        };
        // It asked before on a connection that it has left.
        if let Some(before) = member.syncing.replace(to) {
            work.reply(before, Reply::Sync(Err(Refusal::RebalanceInProgress)));
        }
        if self.is_led_by(&sync.member) {
            let parts = parts(&sync.assignments);
            let record = self.record(|member| part_of(&parts, &member.id));
            work.append(
                vec![record],
                Then::Assign {
                    group: self.id.clone(),
                    generation: self.generation,
                    assignments: sync.assignments,
                },
            );
        }
    }

    fn admits_sync(&self, sync: &Sync) -> Result<(), Refusal> {
        self.member(&sync.member, sync.instance.as_ref())?;
        if sync.generation != self.generation {
            return Err(Refusal::IllegalGeneration);
        }
        let is_other_type = sync
            .protocol_type
            .as_ref()
            .is_some_and(|given| *given != self.protocol_type);
        let is_other_protocol = sync.protocol.is_some() && sync.protocol != self.protocol;
        if is_other_type || is_other_protocol {
            return Err(Refusal::InconsistentProtocol);
        }
        match self.state {
            State::Empty => Err(Refusal::UnknownMember),
            State::Preparing => Err(Refusal::RebalanceInProgress),
            State::Completing | State::Stable => Ok(()),
        }
    }

    fn synced(&self, member: &MemberId) -> Synced {
        let assignment = self.members.get(member).map(|member| member.assignment.clone());
        Synced {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone().unwrap_or_default(),
            assignment: assignment.unwrap_or_default(),
        }
    }

    /// The leader's assignment is written, if this is still its generation.
    pub(super) fn assigned(
        &mut self,
        work: &mut Work<'_>,
        generation: Generation,
        assignments: &[(MemberId, Bytes)],
    ) {
        if self.state != State::Completing || self.generation != generation {
            return;
        }
        let parts = parts(assignments);
        for member in self.members.values_mut() {
            member.assignment = part_of(&parts, &member.id);
        }
        self.enter(State::Stable, work.at.wall_ms);
        let members: Vec<MemberId> = self.members.keys().cloned().collect();
        for id in members {
            let waiting = self.members.get_mut(&id).and_then(|member| member.syncing.take());
            if let Some(to) = waiting {
                work.reply(to, Reply::Sync(Ok(self.synced(&id))));
                // Its silence was excused while it waited.
                self.heard(work, &id);
            }
        }
    }

    /// The leader's assignment could not be written, if this is still its generation: it is made again.
    pub(super) fn not_assigned(&mut self, work: &mut Work<'_>, generation: Generation, why: Refusal) {
        if self.state != State::Completing || self.generation != generation {
            return;
        }
        self.fail_syncs(work, why);
        self.rebalance(work);
    }

    /// Answers a heartbeat.
    pub(super) fn heartbeat(&mut self, work: &mut Work<'_>, heartbeat: &Heartbeat) -> Result<(), Refusal> {
        self.member(&heartbeat.member, heartbeat.instance.as_ref())?;
        if heartbeat.generation != self.generation {
            return Err(Refusal::IllegalGeneration);
        }
        match self.state {
            State::Empty => Err(Refusal::UnknownMember),
            State::Preparing => {
                self.heard(work, &heartbeat.member);
                Err(Refusal::RebalanceInProgress)
            }
            State::Completing | State::Stable => {
                self.heard(work, &heartbeat.member);
                Ok(())
            }
        }
    }
}

/// The parts by member. A member that stands there twice gets the last one.
fn parts(assignments: &[(MemberId, Bytes)]) -> BTreeMap<&MemberId, &Bytes> {
    assignments.iter().map(|(member, part)| (member, part)).collect()
}

/// A member's part; whoever the leader forgot gets none.
fn part_of(parts: &BTreeMap<&MemberId, &Bytes>, member: &MemberId) -> Bytes {
    parts.get(member).map(|part| (*part).clone()).unwrap_or_default()
}
