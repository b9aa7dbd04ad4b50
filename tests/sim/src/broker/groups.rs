//! The group coordinator: carries out what [`broker_core::group`] wants, over the log of `__consumer_offsets`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use broker_core::fetch::Wake;
use broker_core::group::{
    self, Commit, Committed, CommittedOffset, Effect, Fetch, FetchTopic, Generation, GroupId, Outcome, Post,
    PostChange, Posts, Record, Refusal, Reply, ReplyId, Request, Settings, Shard, Stamp, Unanswered, WriteId,
};
use broker_core::offsets::{LogEnd, LogFacts, LogStart, Offset};
use broker_core::produce::{Acks, WaitOutcome, WaiterId};
use broker_core::time::Moment;
use bytes::Bytes;
use metadata::delta::Delta;
use metadata::ids::{LeaderEpoch, PartitionId, PartitionIndex, TopicId};
use metadata::image::Image;
use partition_log::{AppendError, FirstBatch, LeaderAppend, Origin};
use wire::batch::{Batch, BatchBuilder, Batches};
use wire::codec::Codec;

use super::hosted::{Hosted, to_core, to_log};
use super::producing::Place;
use super::{Broker, Later, group_log};
use crate::chance::Chance;
use crate::fact::{Fact, Incarnation, OffsetKey};
use crate::marks::Mark;
use crate::message::{ClientAnswer, GroupAsk};
use crate::node::{At, Output};

/// A thread that has something to do begins within this.
const SOON: Duration = Duration::from_millis(2);
/// The longest pause between two looks at the time.
const TICK: Duration = Duration::from_millis(500);
/// A decompressed batch of this simulation is far smaller.
const BODY_BYTES_MAX: usize = 1 << 20;

/// How the coordinator is configured.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// For every shard.
    pub settings: Settings,
    /// `offsets.commit.timeout.ms`
    pub patience: Duration,
    /// Where its delays come from.
    pub seed: u64,
}

/// The coordinator's part of a process.
pub(super) struct Groups {
    config: GroupConfig,
    posts: Posts,
    /// The image that was last looked at for posts.
    seen: Arc<Image>,
    slots: BTreeMap<PartitionIndex, Slot>,
    following: BTreeMap<WaiterId, Following>,
    next_reply: u64,
    next_newcomer: u64,
    looked_at: Moment,
    chance: Chance,
}

/// A partition that this broker leads.
struct Slot {
    partition: PartitionId,
    post: Post,
    loading: Option<Loading>,
    waiting: BTreeMap<ReplyId, (Place, Asked)>,
    /// What is to be appended.
    outgoing: Vec<(WriteId, Vec<Record>)>,
    /// What is in the log, and nobody waits for any longer.
    overdue: Vec<Following>,
}

/// A log that is read, and not known to be committed.
struct Loading {
    shard: Box<Shard>,
    end: Offset,
}

/// What judges are told of an answer.
enum Asked {
    Membership,
    Commit(Vec<(OffsetKey, String)>),
    Fetch(Vec<OffsetKey>),
}

/// An append of a post.
pub(super) struct Following {
    partition: PartitionId,
    under: LeaderEpoch,
    writes: Vec<WriteId>,
    end: Offset,
}

/// A batch of whole writes on its way to the log.
pub(super) struct GroupAppend {
    partition: PartitionId,
    under: LeaderEpoch,
    writes: Vec<WriteId>,
    bytes: Bytes,
    /// Committed offsets among its records: which record, of what, and the commit's own name.
    offsets: Vec<(i64, OffsetKey, String)>,
}

impl Groups {
    pub fn new(config: GroupConfig, process: &str) -> Self {
        Self {
            posts: Posts::default(),
            seen: Arc::default(),
            slots: BTreeMap::new(),
            following: BTreeMap::new(),
            next_reply: 0,
            next_newcomer: 0,
            looked_at: Moment::START,
            chance: Chance::of(config.seed, &format!("groups of {process}")),
            config,
        }
    }

    /// When a post looks at the time.
    pub fn next_tick(&self) -> Option<Moment> {
        self.slots.values().filter_map(|slot| slot.post.next_tick()).min()
    }

    fn under(&mut self, index: PartitionIndex, under: LeaderEpoch) -> Option<&mut Slot> {
        self.slots
            .get_mut(&index)
            .filter(|slot| slot.post.under() == under)
    }
}

impl Broker {
    fn stamp(&self, at: At) -> Stamp {
        Stamp {
            now: self.now(at),
            wall_ms: at.wall_ms,
        }
    }

    fn soon(&mut self, at: At, later: Later) {
        if let Some(groups) = &mut self.groups {
            let due = at.world + groups.chance.span(Duration::ZERO, SOON);
            self.later.put(due, later);
        }
    }

    /// Every lane has carried out an image: whoever looks after the posts hears of it.
    pub(super) fn tell_of_leadership(&mut self, at: At) {
        self.soon(at, Later::LookForPosts);
    }

    /// Takes up the posts that this broker leads now, leaves others, and tells of topics that are no more.
    pub(super) fn look_for_posts(&mut self, at: At, out: &mut Vec<Output>) {
        let image = Arc::clone(self.image());
        let (hosted, me) = (&self.hosted, self.config.me);
        let Some(groups) = &mut self.groups else { return };
        let leads = |id: PartitionId, epoch| {
            let hosted = hosted.get(&id);
            hosted.is_some_and(|hosted| group::leads(&hosted.replica.view(), epoch))
        };
        let changes = groups.posts.follow(&image, me, leads);
        let before = std::mem::replace(&mut groups.seen, Arc::clone(&image));
        for change in changes {
            match change {
                PostChange::Leave(index) => self.leave_post(at, index, out),
                PostChange::Lead(id, epoch) => self.take_post(at, id, epoch, &image),
            }
        }
        let delta = Delta::between(&before, &image);
        let gone: BTreeSet<TopicId> = delta.topics_deleted.keys().copied().collect();
        if !gone.is_empty() {
            let stamp = self.stamp(at);
            self.each_post(at, out, |post| post.topics_deleted(&gone, stamp));
        }
    }

    fn each_post(&mut self, at: At, out: &mut Vec<Output>, mut tell: impl FnMut(&mut Post) -> Vec<Effect>) {
        let slots = self.groups.iter().flat_map(|groups| groups.slots.keys());
        let indexes: Vec<PartitionIndex> = slots.copied().collect();
        for index in indexes {
            let slot = self
                .groups
                .as_mut()
                .and_then(|groups| groups.slots.get_mut(&index));
            if let Some(slot) = slot {
                let effects = tell(&mut slot.post);
                self.carry_group(at, index, effects, out);
            }
        }
    }

    fn take_post(&mut self, at: At, partition: PartitionId, under: LeaderEpoch, image: &Arc<Image>) {
        let slot = Slot {
            partition,
            post: Post::new(under, Arc::clone(image)),
            loading: None,
            waiting: BTreeMap::new(),
            outgoing: Vec::new(),
            overdue: Vec::new(),
        };
        if let Some(groups) = &mut self.groups {
            groups.slots.insert(partition.index, slot);
        }
        self.soon(at, Later::LoadPost(partition, under));
    }

    /// Whoever waits is told that it is coordinated elsewhere.
    fn leave_post(&mut self, at: At, index: PartitionIndex, out: &mut Vec<Output>) {
        let left = self
            .groups
            .as_mut()
            .and_then(|groups| groups.slots.remove(&index));
        for (place, _) in left.into_iter().flat_map(|slot| slot.waiting.into_values()) {
            self.end(at, place, ClientAnswer::Group(Err(Unanswered::Elsewhere)), out);
        }
    }

    /// Reads the log of a post.
    pub(super) fn load_post(
        &mut self,
        at: At,
        partition: PartitionId,
        under: LeaderEpoch,
        out: &mut Vec<Output>,
    ) {
        let stamp = self.stamp(at);
        let (Some(groups), Some(hosted)) = (&mut self.groups, self.hosted.get(&partition)) else {
            return;
        };
        let settings = groups.config.settings;
        let Some(slot) = groups.under(partition.index, under) else {
            return;
        };
        match read(hosted, settings) {
            Some(loading) => {
                slot.loading = Some(loading);
                self.look_at_posts(at, partition, out);
            }
            None => {
                let effects = slot.post.loaded(None, stamp);
                let (by, begin) = (self.incarnation, to_core(hosted.log.log_start()));
                out.push(Output::Fact(Fact::Damaged {
                    by,
                    partition,
                    at: begin,
                }));
                self.carry_group(at, partition.index, effects, out);
            }
        }
    }

    /// The watermark or the role of a partition moved: what waits to be committed looks again.
    pub(super) fn look_at_posts(&mut self, at: At, partition: PartitionId, out: &mut Vec<Output>) {
        let stamp = self.stamp(at);
        let Some(groups) = &mut self.groups else { return };
        let Some(slot) = groups.slots.get_mut(&partition.index) else {
            return;
        };
        if slot.partition != partition || slot.loading.is_none() && slot.overdue.is_empty() {
            return;
        }
        let under = slot.post.under();
        let hosted = self.hosted.get(&partition);
        let standing = |end| match hosted {
            Some(hosted) => {
                let watermark = to_core(hosted.log.bounds().high_watermark);
                group::committed(&hosted.replica.view(), under, watermark, end)
            }
            None => Committed::Never,
        };
        let mut effects = Vec::new();
        if let Some(loading) = slot.loading.take() {
            match standing(loading.end) {
                Committed::Yes => effects = slot.post.loaded(Some(loading.shard), stamp),
                Committed::NotYet => slot.loading = Some(loading),
                Committed::Never => {}
            }
        }
        for following in std::mem::take(&mut slot.overdue) {
            let outcome = match standing(following.end) {
                Committed::Yes => Outcome::Committed,
                Committed::Never => Outcome::Refused(Refusal::WriteElsewhere),
                Committed::NotYet => {
                    slot.overdue.push(following);
                    continue;
                }
            };
            for write in following.writes {
                effects.extend(slot.post.written(write, outcome, stamp));
            }
        }
        self.carry_group(at, partition.index, effects, out);
    }

    /// Carries out what a post wants. What is to be appended stands in its line, and judges know every answer, before the
    /// first answer leads to something else.
    fn carry_group(&mut self, at: At, index: PartitionIndex, effects: Vec<Effect>, out: &mut Vec<Output>) {
        let by = self.incarnation;
        let Some(groups) = &mut self.groups else { return };
        let Some(slot) = groups.slots.get_mut(&index) else {
            return;
        };
        let (under, partition) = (slot.post.under(), slot.partition);
        let was_idle = slot.outgoing.is_empty();
        let mut answers = Vec::new();
        for effect in effects {
            match effect {
                Effect::Append { write, records } => slot.outgoing.push((write, records)),
                Effect::Reply { to, reply } => {
                    if let Some((place, asked)) = slot.waiting.remove(&to) {
                        answers.push((place, told(by, under, asked, reply, out)));
                    }
                }
            }
        }
        if was_idle && !slot.outgoing.is_empty() {
            self.soon(at, Later::SendGroups(partition, under));
        }
        for (place, answer) in answers {
            self.end(at, place, answer, out);
        }
    }

    /// Sends off what was decided since, together: a write is in the log with all of its records or with none.
    pub(super) fn send_groups(&mut self, at: At, partition: PartitionId, under: LeaderEpoch) {
        let Some(groups) = &mut self.groups else { return };
        let Some(slot) = groups.under(partition.index, under) else {
            return;
        };
        let mut builder = BatchBuilder::new(Codec::None);
        let (mut writes, mut offsets, mut place) = (Vec::new(), Vec::new(), 0);
        for (write, records) in std::mem::take(&mut slot.outgoing) {
            for record in records {
                let (key, value) = group_log::encode(&record).expect("names here are short");
                builder.append(at.wall_ms, Some(&key), value.as_deref(), &[]);
                offsets.extend(committed_offset(&record).map(|(of, commit)| (place, of, commit)));
                place += 1;
            }
            writes.push(write);
        }
        let append = GroupAppend {
            partition,
            under,
            writes,
            bytes: builder.build(),
            offsets,
        };
        let due = self.write_at(at);
        self.later.put(due, Later::AppendGroups(append));
    }

    /// A batch of a post reaches the log.
    pub(super) fn append_groups(&mut self, at: At, append: GroupAppend, out: &mut Vec<Output>) {
        let GroupAppend {
            partition,
            under,
            writes,
            bytes,
            offsets,
        } = append;
        let (first, end) = match self.try_append_groups(at, partition, under, &bytes, out) {
            Ok(appended) => appended,
            Err(why) => {
                let following = Following {
                    partition,
                    under,
                    writes,
                    end: Offset(0),
                };
                return self.tell_post(at, &following, Outcome::Refused(why), out);
            }
        };
        let (by, now, epoch) = (self.incarnation, self.now(at), under);
        out.push(Output::Fact(Fact::Appended {
            by,
            partition,
            epoch,
            end,
        }));
        for (place, of, commit) in offsets {
            let at = Offset(first.0 + place);
            out.push(Output::Fact(Fact::OffsetAppended { by, at, of, commit }));
        }
        let waiter = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        if let Some(groups) = &mut self.groups {
            let following = Following {
                partition,
                under,
                writes,
                end,
            };
            groups.following.insert(waiter, following);
            let due = at.world + groups.config.patience;
            self.later.put(due, Later::GroupPatience(waiter));
        }
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        let grown = hosted.replica.appended(LogEnd(end), now);
        self.carry_out(at, partition, grown, out);
        self.wake(at, partition, Wake::Appended, out);
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        let effects = hosted.replica.await_replication(waiter, end);
        self.carry_out(at, partition, effects, out);
    }

    /// Where a batch went: its first offset, and the one behind its last.
    fn try_append_groups(
        &mut self,
        at: At,
        partition: PartitionId,
        under: LeaderEpoch,
        bytes: &Bytes,
        out: &mut Vec<Output>,
    ) -> Result<(Offset, Offset), Refusal> {
        let batch = Batch::parse(bytes).expect("it was built here");
        let hosted = self.hosted.get_mut(&partition).ok_or(Refusal::WriteUnavailable)?;
        let is_repeated = || hosted.log.repeats(&batch);
        let leader_epoch = hosted.replica.admits_under(under, Acks::All, is_repeated);
        let leader_epoch = leader_epoch.map_err(group::unappended)?;
        let append = LeaderAppend {
            leader_epoch: partition_log::LeaderEpoch(leader_epoch.0),
            now: Self::wall(at),
            origin: Origin::Coordinator,
        };
        match hosted.log.append_as_leader(&batch, append) {
            Ok(appended) => {
                self.sync_as_needed(at, partition, appended.sync, out);
                Ok((to_core(appended.first), to_core(appended.last.next())))
            }
            Err(AppendError::Refused(_)) => Err(Refusal::WriteImpossible),
            Err(AppendError::Fault(fault)) => {
                self.log_failed(partition, &fault, out);
                Err(Refusal::WriteElsewhere)
            }
        }
    }

    /// The wait of a write for the in-sync replicas is over.
    pub(super) fn group_completed(
        &mut self,
        at: At,
        waiter: WaiterId,
        outcome: WaitOutcome,
        out: &mut Vec<Output>,
    ) {
        let following = self
            .groups
            .as_mut()
            .and_then(|groups| groups.following.remove(&waiter));
        let Some(following) = following else { return };
        let (partition, epoch, end) = (following.partition, following.under, following.end);
        match group::outcome_of(outcome) {
            Outcome::Overdue => {
                out.push(Output::Mark(Mark::OffsetWriteOverdue));
                self.tell_post(at, &following, Outcome::Overdue, out);
                let slot = self
                    .groups
                    .as_mut()
                    .and_then(|groups| groups.under(partition.index, epoch));
                if let Some(slot) = slot {
                    slot.overdue.push(following);
                }
                self.look_at_posts(at, partition, out);
            }
            outcome => {
                out.push(Output::Fact(Fact::Acknowledged {
                    partition,
                    epoch,
                    end,
                }));
                self.tell_post(at, &following, outcome, out);
            }
        }
    }

    /// Nobody waits for a write any longer; it counts all the same when it is committed.
    pub(super) fn group_patience(&mut self, at: At, waiter: WaiterId, out: &mut Vec<Output>) {
        let following = self
            .groups
            .as_mut()
            .and_then(|groups| groups.following.remove(&waiter));
        let Some(following) = following else { return };
        self.tell_post(at, &following, Outcome::Overdue, out);
        if let Some(groups) = &mut self.groups {
            groups.following.insert(waiter, following);
        }
    }

    fn tell_post(&mut self, at: At, following: &Following, outcome: Outcome, out: &mut Vec<Output>) {
        let (stamp, index) = (self.stamp(at), following.partition.index);
        let slot = self
            .groups
            .as_mut()
            .and_then(|groups| groups.under(index, following.under));
        let Some(slot) = slot else { return };
        let written = |write: &WriteId| slot.post.written(*write, outcome, stamp);
        let effects: Vec<Effect> = following.writes.iter().flat_map(written).collect();
        self.carry_group(at, index, effects, out);
    }

    /// Who coordinates a group, as far as the image says.
    pub(super) fn coordinator_of(&self, group: &str) -> Option<metadata::ids::BrokerId> {
        group::place_of(self.image(), group).and_then(|(_, partition)| partition.leader)
    }

    /// A client asks the coordinator of a group.
    pub(super) fn group_asked(
        &mut self,
        at: At,
        place: Place,
        (name, ask): (String, GroupAsk),
        out: &mut Vec<Output>,
    ) {
        let (stamp, image) = (self.stamp(at), Arc::clone(self.image()));
        let here = group::coordinated_by(&image, self.config.me, &name);
        let (Some(index), Some(groups)) = (here, &mut self.groups) else {
            return self.end(at, place, ClientAnswer::Group(Err(Unanswered::Elsewhere)), out);
        };
        let unique = format!("{:?}-{}", self.incarnation, groups.next_newcomer);
        groups.next_newcomer += 1;
        let (request, asked) = request(&image, name, ask, unique);
        let reply = ReplyId(groups.next_reply);
        groups.next_reply += 1;
        let Some(slot) = groups.slots.get_mut(&index) else {
            // The image says that it is here: it is about to be loaded.
            return self.end(at, place, ClientAnswer::Group(Err(Unanswered::Loading)), out);
        };
        match slot.post.asked(reply, request, stamp) {
            Ok(effects) => {
                slot.waiting.insert(reply, (place, asked));
                self.carry_group(at, index, effects, out);
            }
            Err(why) => self.end(at, place, ClientAnswer::Group(Err(why)), out),
        }
    }

    /// Members that are silent for too long go, unless it was this process that stood still.
    pub(super) fn tick_groups(&mut self, at: At, out: &mut Vec<Output>) {
        let stamp = self.stamp(at);
        self.each_post(at, out, |post| post.tick(stamp));
    }

    /// Time in which this process did not run is nobody's silence.
    pub(super) fn excuse_groups(&mut self, at: At) {
        let now = self.now(at);
        let Some(groups) = &mut self.groups else { return };
        let expected = groups.looked_at.after(TICK);
        groups.looked_at = now;
        if let Some(late) = group::pause(expected, now) {
            groups.slots.values_mut().for_each(|slot| slot.post.excuse(late));
        }
    }
}

/// Reads the log of a post up to where it must be committed; nothing if it cannot be read.
fn read(hosted: &Hosted, settings: Settings) -> Option<Loading> {
    let (view, bounds) = (hosted.log.view(), hosted.log.bounds());
    let end = group::load_end(LogFacts {
        start: LogStart(to_core(bounds.log_start)),
        end: LogEnd(to_core(bounds.log_end)),
        watermark: hosted.watermark(),
    });
    let (mut shard, mut from) = (Box::new(Shard::new(settings)), bounds.log_start);
    while from < to_log(end) {
        let slice = view.read(from, to_log(end), u32::MAX, FirstBatch::Whole);
        let bytes = slice.ok().flatten()?.read().ok()?;
        for batch in Batches::new(bytes.into()) {
            let batch = batch.ok().filter(|batch| batch.check().is_ok())?;
            let body = batch.body(BODY_BYTES_MAX).ok()?;
            for record in batch.records(&body) {
                let record = record.ok()?;
                shard.replay(group_log::decode(record.key?, record.value)?);
            }
            from = partition_log::Offset(batch.header.last_offset() + 1);
        }
    }
    Some(Loading { shard, end })
}

/// Of what a record holds a committed offset, and the commit's own name.
fn committed_offset(record: &Record) -> Option<(OffsetKey, String)> {
    let Record::Offset {
        group,
        partition,
        value: Some(value),
        ..
    } = record
    else {
        return None;
    };
    let partition = PartitionId {
        topic: value.topic?,
        index: PartitionIndex(*partition),
    };
    let group = group.as_str().to_owned();
    Some((OffsetKey { group, partition }, value.metadata.clone()))
}

/// What a client asks for, as the shard takes it: partitions that are not there are left out.
fn request(image: &Image, name: String, ask: GroupAsk, unique: String) -> (Request, Asked) {
    let group = GroupId::from(name.as_str());
    let key = |partition| OffsetKey {
        group: name.clone(),
        partition,
    };
    match ask {
        GroupAsk::Join(join) => (Request::Join(group::Join { unique, ..*join }), Asked::Membership),
        GroupAsk::Member(request) => (request, Asked::Membership),
        GroupAsk::Commit {
            member,
            generation,
            offsets,
        } => {
            let known = |(partition, offset, commit): &(PartitionId, i64, String)| {
                image.partition(*partition)?;
                Some(CommittedOffset {
                    topic: image.topics.get(&partition.topic)?.name.as_str().into(),
                    topic_id: Some(partition.topic),
                    partition: partition.index.0,
                    offset: *offset,
                    leader_epoch: None,
                    metadata: commit.clone(),
                })
            };
            let committed: Vec<CommittedOffset> = offsets.iter().filter_map(known).collect();
            let is_known =
                |(partition, ..): &(PartitionId, i64, String)| image.partition(*partition).is_some();
            let asked = offsets.iter().filter(|offset| is_known(offset));
            let asked = asked.map(|(partition, _, commit)| (key(*partition), commit.clone()));
            let asked = Asked::Commit(asked.collect());
            let commit = Commit {
                group,
                member,
                instance: None,
                generation: Generation(generation),
                stranger: Refusal::GroupNotFound,
                retention: None,
                offsets: committed,
            };
            (Request::Commit(commit), asked)
        }
        GroupAsk::Fetch(partitions, stability) => {
            let topic = |partition: &PartitionId| {
                let name = &image.topics.get(&partition.topic)?.name;
                Some(FetchTopic {
                    name: name.as_str().into(),
                    id: Some(partition.topic),
                    partitions: vec![partition.index.0],
                })
            };
            let is_known = |partition: &PartitionId| image.topics.contains_key(&partition.topic);
            let topics = Some(partitions.iter().filter_map(topic).collect());
            let asked = partitions.into_iter().filter(is_known).map(key).collect();
            let fetch = Fetch {
                group,
                topics,
                stability,
            };
            (Request::Fetch(fetch), Asked::Fetch(asked))
        }
    }
}

/// What judges are told of an answer, and the answer.
fn told(
    by: Incarnation,
    epoch: LeaderEpoch,
    asked: Asked,
    reply: Reply,
    out: &mut Vec<Output>,
) -> ClientAnswer {
    let mut tell = |fact| out.push(Output::Fact(fact));
    match (asked, reply) {
        (Asked::Fetch(keys), Reply::Fetch(topics)) => {
            let values = topics.into_iter().flat_map(|topic| topic.partitions);
            let mut offsets = Vec::new();
            for (of, (_, value)) in keys.into_iter().zip(values) {
                offsets.push((of.partition, value.as_ref().map(|value| value.offset)));
                let commit = value.map(|value| value.metadata);
                tell(Fact::OffsetTold {
                    by,
                    epoch,
                    of,
                    commit,
                });
            }
            ClientAnswer::Offsets(offsets)
        }
        (Asked::Commit(commits), reply) => {
            let results: &[_] = match &reply {
                Reply::Commit(Ok(results)) => results,
                _ => &[],
            };
            let done = commits
                .into_iter()
                .zip(results)
                .filter(|(_, result)| result.is_ok());
            for ((of, commit), _) in done {
                tell(Fact::OffsetAcknowledged {
                    by,
                    epoch,
                    of,
                    commit,
                });
            }
            ClientAnswer::Group(Ok(reply))
        }
        (_, reply) => ClientAnswer::Group(Ok(reply)),
    }
}
