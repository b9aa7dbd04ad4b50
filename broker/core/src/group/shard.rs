//! The shard: finds the group, lets it decide, settles writes in the order of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use metadata::ids::TopicId;

use super::Event;
use super::commit;
use super::join::without_repetitions;
use super::names::{GroupId, ReplyId, Stamp, WriteId};
use super::request::{Commit, Fetch, Join, Refusal, Reply, Request, Stability};
use super::state::Group;
use super::timers::{Timer, Timers};
use super::work::{Around, Effect, Outcome, Settings, Then, Write, Writes};
use crate::time::Moment;

/// The groups of one partition of `__consumer_offsets`, on the broker that leads it.
#[derive(Clone, Debug)]
pub struct Shard {
    pub(super) groups: BTreeMap<GroupId, Group>,
    pub(super) around: Around,
}

impl Shard {
    /// A shard without groups.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            groups: BTreeMap::new(),
            around: Around {
                settings,
                timers: Timers::default(),
                writes: Writes::default(),
            },
        }
    }

    /// Takes an event in, and says what must be done.
    #[must_use]
    pub fn step(&mut self, event: Event, at: Stamp) -> Vec<Effect> {
        let mut out = Vec::new();
        match event {
            Event::Asked(to, request) => self.ask(&mut out, at, to, request),
            Event::Written(write, outcome) => self.written(&mut out, at, write, outcome),
            Event::TopicsDeleted(gone) => {
                let mut work = self.around.work(&mut out, at);
                commit::forget_topics(&mut work, self.groups.values(), &gone);
            }
            Event::Tick => self.tick(&mut out, at),
        }
        out
    }

    /// When [`Event::Tick`] is due.
    #[must_use]
    pub fn next_tick(&self) -> Option<Moment> {
        self.around.timers.next()
    }

    /// The shell did not run for so long: that time was nobody's silence.
    pub fn excuse(&mut self, pause: Duration) {
        self.around.timers.postpone(pause);
    }

    /// The topics that offsets are held for.
    #[must_use]
    pub fn topics(&self) -> BTreeSet<TopicId> {
        let offsets = self.groups.values().flat_map(|group| group.offsets.values());
        offsets.filter_map(|offset| offset.topic).collect()
    }

    /// How many groups there are.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    fn ask(&mut self, out: &mut Vec<Effect>, at: Stamp, to: ReplyId, request: Request) {
        let mut work = self.around.work(out, at);
        match request {
            Request::Join(join) => self.join(out, at, to, join),
            Request::Sync(sync) => match find(&mut self.groups, &sync.group) {
                Ok(group) => group.sync(&mut work, to, sync),
                Err(why) => work.reply(to, Reply::Sync(Err(why))),
            },
            Request::Heartbeat(heartbeat) => {
                let result = find(&mut self.groups, &heartbeat.group)
                    .and_then(|group| group.heartbeat(&mut work, &heartbeat));
                work.reply(to, Reply::Heartbeat(result));
            }
            Request::Leave(leave) => match find(&mut self.groups, &leave.group) {
                Ok(group) => group.leave(&mut work, to, &leave),
                Err(Refusal::UnknownMember) => {
                    let unknown = leave.members.iter().map(|_| Err(Refusal::UnknownMember));
                    work.reply(to, Reply::Leave(Ok(unknown.collect())));
                }
                Err(why) => work.reply(to, Reply::Leave(Err(why))),
            },
            Request::Commit(commit) => self.commit(out, at, to, commit),
            Request::Fetch(fetch) => self.fetch(out, to, fetch),
            Request::Describe(group) => {
                let group = self.groups.get(&group).filter(|group| group.is_written);
                work.reply(to, Reply::Describe(group.map(Group::described)));
            }
            Request::List => {
                let written = self.groups.values().filter(|group| group.is_written);
                work.reply(to, Reply::List(written.map(Group::listed).collect()));
            }
            Request::Delete(name) => match self.groups.get_mut(&name) {
                Some(group) => group.delete(&mut work, to),
                None => work.reply(to, Reply::Delete(Err(Refusal::GroupNotFound))),
            },
        }
    }

    fn join(&mut self, out: &mut Vec<Effect>, at: Stamp, to: ReplyId, mut join: Join) {
        let mut work = self.around.work(out, at);
        if let Err(why) = check_join(work.settings, &join) {
            return work.refuse_join(to, why, join.member);
        }
        let name = join.group.clone();
        if !self.groups.contains_key(&name) && !join.member.is_empty() {
            return work.refuse_join(to, Refusal::UnknownMember, join.member);
        }
        without_repetitions(&mut join.protocols);
        let group = self
            .groups
            .entry(name.clone())
            .or_insert_with(|| Group::new(name.clone(), at.wall_ms));
        let is_new = group.is_blank();
        group.join(&mut work, to, join);
        if group.is_blank() {
            self.groups.remove(&name);
        } else if is_new && work.wrote.is_none() {
            // Written at once, so that the group is there for everybody.
            let record = group.first_record();
            work.append(vec![record], Then::Begin(name));
        }
    }

    fn commit(&mut self, out: &mut Vec<Effect>, at: Stamp, to: ReplyId, commit: Commit) {
        let mut work = self.around.work(out, at);
        let admitted = match self.groups.get(&commit.group) {
            // Outside of a group nobody has to be known (G-44).
            None if commit.generation.0 < 0 => Ok(()),
            None => Err(commit.stranger),
            Some(group) => group.admits_commit(&commit),
        };
        if let Err(why) = admitted {
            return work.reply(to, Reply::Commit(Err(why)));
        }
        if let Some(group) = self.groups.get(&commit.group) {
            group.heard(&mut work, &commit.member);
        }
        commit::commit(&mut work, to, commit);
    }

    fn fetch(&mut self, out: &mut Vec<Effect>, to: ReplyId, fetch: Fetch) {
        if fetch.stability == Stability::AfterPendingWrites
            && let Some(last) = self.around.writes.queue.back_mut()
        {
            last.followers.push((to, fetch));
            return;
        }
        let group = self.groups.get(&fetch.group);
        let reply = Reply::Fetch(commit::fetch(group, fetch));
        out.push(Effect::Reply { to, reply });
    }

    fn tick(&mut self, out: &mut Vec<Effect>, at: Stamp) {
        while let Some(timer) = self.around.timers.due(at.now) {
            let mut work = self.around.work(out, at);
            let (Timer::Session(name, _) | Timer::Join(name) | Timer::Sync(name)) = &timer;
            let name = name.clone();
            let Some(group) = self.groups.get_mut(&name) else {
                continue;
            };
            match timer {
                Timer::Session(_, member) => group.session_is_over(&mut work, &member),
                Timer::Join(_) => group.join_time_is_over(&mut work),
                Timer::Sync(_) => group.sync_time_is_over(&mut work),
            }
        }
    }

    /// Writes are settled in the order of the log, however their outcomes come in.
    fn written(&mut self, out: &mut Vec<Effect>, at: Stamp, id: WriteId, outcome: Outcome) {
        let Some(write) = self.around.writes.get(id) else {
            return;
        };
        if outcome == Outcome::Overdue {
            if write.outcome.is_none() {
                self.give_up(out, at, id);
            }
            return;
        }
        write.outcome = Some(outcome);
        while let Some(Some(outcome)) = self.around.writes.queue.front().map(|write| write.outcome) {
            let Some(write) = self.around.writes.queue.pop_front() else {
                return;
            };
            self.settle(out, at, write, outcome);
        }
    }

    /// Nobody waits for this write any longer; when it is committed it counts all the same.
    fn give_up(&mut self, out: &mut Vec<Effect>, at: Stamp, id: WriteId) {
        let Some(write) = self.around.writes.get(id) else {
            return;
        };
        let why = Refusal::WriteUnavailable;
        let (then, replies) = (write.then.take(), std::mem::take(&mut write.replies));
        refuse(out, replies, why);
        if let Some(then) = then {
            self.go_on(out, at, then, Err(why));
        }
    }

    fn settle(&mut self, out: &mut Vec<Effect>, at: Stamp, write: Write, outcome: Outcome) {
        let result = match outcome {
            Outcome::Committed => Ok(()),
            Outcome::Refused(why) => Err(why),
            Outcome::Overdue => Err(Refusal::WriteUnavailable),
        };
        match result {
            Ok(()) => {
                for record in write.records {
                    self.committed(record, at);
                }
                let replies = write.replies.into_iter();
                out.extend(replies.map(|(to, reply)| Effect::Reply { to, reply }));
            }
            Err(why) => refuse(out, write.replies, why),
        }
        if let Some(then) = write.then {
            self.go_on(out, at, then, result);
        }
        for (to, fetch) in write.followers {
            self.fetch(
                out,
                to,
                Fetch {
                    stability: Stability::Any,
                    ..fetch
                },
            );
        }
    }

    fn go_on(&mut self, out: &mut Vec<Effect>, at: Stamp, then: Then, result: Result<(), Refusal>) {
        let mut work = self.around.work(out, at);
        let name = match &then {
            Then::Rest => return,
            Then::Begin(group) | Then::Assign { group, .. } | Then::Replace { group, .. } => group.clone(),
        };
        let Some(group) = self.groups.get_mut(&name) else {
            return;
        };
        match (then, result) {
            (Then::Rest, _) | (Then::Begin(_), Ok(())) => {}
            (Then::Begin(_), Err(why)) => group.not_begun(&mut work, why),
            (
                Then::Assign {
                    generation,
                    assignments,
                    ..
                },
                Ok(()),
            ) => group.assigned(&mut work, generation, &assignments),
            (Then::Assign { generation, .. }, Err(why)) => group.not_assigned(&mut work, generation, why),
            (
                Then::Replace {
                    now,
                    leader_before,
                    skips,
                    ..
                },
                Ok(()),
            ) => {
                group.replaced(&mut work, &now, leader_before, skips);
            }
            (
                Then::Replace {
                    instance,
                    before,
                    now,
                    ..
                },
                Err(why),
            ) => {
                group.not_replaced(&mut work, &instance, *before, &now, why);
            }
        }
        if group.is_blank() {
            self.groups.remove(&name);
        }
    }
}

fn refuse(out: &mut Vec<Effect>, replies: Vec<(ReplyId, Reply)>, why: Refusal) {
    out.extend(replies.into_iter().map(|(to, reply)| Effect::Reply {
        to,
        reply: reply.unwritten(why),
    }));
}

/// A group that members speak to must have a name (G-6), and be there.
fn find<'a>(groups: &'a mut BTreeMap<GroupId, Group>, name: &GroupId) -> Result<&'a mut Group, Refusal> {
    if name.is_empty() {
        return Err(Refusal::InvalidGroupId);
    }
    groups.get_mut(name).ok_or(Refusal::UnknownMember)
}

/// What is wrong with a join whatever its group is (G-6).
fn check_join(settings: &Settings, join: &Join) -> Result<(), Refusal> {
    if join.group.is_empty() {
        return Err(Refusal::InvalidGroupId);
    }
    let allowed = settings.session_timeout_ms_min..=settings.session_timeout_ms_max;
    if !allowed.contains(&join.session_timeout_ms) {
        return Err(Refusal::InvalidSessionTimeout);
    }
    Ok(())
}
