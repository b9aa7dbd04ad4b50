//! What a group needs around it while it decides, and the writes that are under way.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::names::{Generation, GroupId, InstanceId, MemberId, ReplyId, Stamp, WriteId};
use super::record::Record;
use super::request::{NotJoined, Refusal, Reply};
use super::state::Member;
use super::timers::Timers;

/// What the shell configures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay: Duration,
    /// `group.min.session.timeout.ms`
    pub session_timeout_ms_min: i32,
    /// `group.max.session.timeout.ms`
    pub session_timeout_ms_max: i32,
    /// `group.max.size`
    pub members_max: usize,
    /// `offset.metadata.max.bytes`, which counts UTF-16 units (G-47).
    pub offset_metadata_units_max: usize,
}

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Append these together, in the order of the writes, and say what became of it.
    Append {
        /// Its name.
        write: WriteId,
        /// What to append.
        records: Vec<Record>,
    },
    /// Answer.
    Reply {
        /// Whom.
        to: ReplyId,
        /// What.
        reply: Reply,
    },
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every in-sync replica has it.
    Committed,
    /// It is in no log and never will be.
    Refused(Refusal),
    /// It is in the log, and nobody can wait any longer. It counts as soon as it is committed.
    Overdue,
}

/// What a group does when a write is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing.
    Rest,
    /// A group is new.
    Begin(GroupId),
    /// The leader has assigned.
    Assign {
        group: GroupId,
        generation: Generation,
        assignments: Vec<(MemberId, Bytes)>,
    },
    /// A static member has come back under another id.
    Replace {
        group: GroupId,
        instance: InstanceId,
        before: Box<Member>,
        now: MemberId,
        leader_before: Option<MemberId>,
        skips: bool,
    },
}

/// A write under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub id: WriteId,
    pub records: Vec<Record>,
    pub then: Option<Then>,
    /// Answers that are given when it is committed.
    pub replies: Vec<(ReplyId, Reply)>,
    /// Questions that are answered as soon as it is settled, however.
    pub followers: Vec<(ReplyId, super::request::Fetch)>,
    pub outcome: Option<Outcome>,
}

/// The writes under way, oldest first. They are settled in their order, which is that of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    pub queue: VecDeque<Write>,
    last: WriteId,
}

impl Writes {
    fn begin(&mut self, records: Vec<Record>, then: Then) -> WriteId {
        self.last.0 += 1;
        self.queue.push_back(Write {
            id: self.last,
            records,
            then: Some(then),
            replies: Vec::new(),
            followers: Vec::new(),
            outcome: None,
        });
        self.last
    }

    /// A write by its name.
    pub fn get(&mut self, id: WriteId) -> Option<&mut Write> {
        self.queue.iter_mut().find(|write| write.id == id)
    }
}

/// What a shard has beside its groups.
#[derive(Clone, Debug)]
pub(super) struct Around {
    pub settings: Settings,
    pub timers: Timers,
    pub writes: Writes,
}

impl Around {
    /// What a group needs for one decision.
    pub fn work<'a>(&'a mut self, out: &'a mut Vec<Effect>, at: Stamp) -> Work<'a> {
        Work {
            settings: &self.settings,
            timers: &mut self.timers,
            writes: &mut self.writes,
            out,
            at,
            wrote: None,
        }
    }
}

/// What a group needs around it while it decides.
pub(super) struct Work<'a> {
    pub settings: &'a Settings,
    pub timers: &'a mut Timers,
    pub writes: &'a mut Writes,
    pub out: &'a mut Vec<Effect>,
    pub at: Stamp,
    /// The last write that this decision asked for.
    pub wrote: Option<WriteId>,
}

impl Work<'_> {
    /// Answers.
    pub fn reply(&mut self, to: ReplyId, reply: Reply) {
        self.out.push(Effect::Reply { to, reply });
    }

    /// Refuses a join; `member` is the id that the answer carries.
    pub fn refuse_join(&mut self, to: ReplyId, why: Refusal, member: MemberId) {
        self.reply(to, Reply::Join(Err(NotJoined { why, member })));
    }

    /// Appends.
    pub fn append(&mut self, records: Vec<Record>, then: Then) -> WriteId {
        let write = self.writes.begin(records.clone(), then);
        self.out.push(Effect::Append { write, records });
        self.wrote = Some(write);
        write
    }

    /// Answers when everything that this decision wrote is committed; at once if it wrote nothing.
    pub fn reply_when_written(&mut self, to: ReplyId, reply: Reply) {
        match self.wrote.and_then(|write| self.writes.get(write)) {
            Some(write) => write.replies.push((to, reply)),
            None => self.reply(to, reply),
        }
    }
}
