//! One partition: its log and its replica. Carries out what [`broker_core::replica`] wants.

use std::sync::Arc;
use std::time::Duration;

use broker_core::fetch::Wake;
use broker_core::fetcher::LocalLog;
use broker_core::lanes;
use broker_core::names::{self, Lies};
use broker_core::offsets::{HighWatermark, LogEnd, LogFacts, LogStart, Offset};
use broker_core::replica::{Assignment, Effect, Proposal, Replica, Role};
use metadata::ids::{BrokerId, LeaderEpoch, PartitionId, PartitionIndex, TopicId};
use metadata::image::Image;
use metadata::uuid::Uuid;
use partition_log::{FirstBatch, Log, LogConfig, LogFault, SyncJob, SyncNeed, TopicPartition};
use wire::batch::Batches;

use super::{Broker, Later};
use crate::fact::{Fact, StoredBatch};
use crate::marks::Mark;
use crate::node::{At, Output};
use crate::setup;

/// A log that found no room is tried again after this.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// One partition on this broker.
pub(super) struct Hosted {
    pub name: TopicPartition,
    pub replica: Replica,
    pub log: Log,
    /// The last leadership that ended here.
    pub deposed: Option<LeaderEpoch>,
    /// Judges were told of everything below.
    told_below: Offset,
    in_sync_seen: usize,
}

pub(super) fn to_log(offset: Offset) -> partition_log::Offset {
    partition_log::Offset(offset.0)
}

pub(super) fn to_core(offset: partition_log::Offset) -> Offset {
    Offset(offset.0)
}

impl Hosted {
    /// The log as fetchers know it.
    pub fn local(&self) -> LocalLog {
        let bounds = self.log.bounds();
        LocalLog {
            start: LogStart(to_core(bounds.log_start)),
            end: LogEnd(to_core(bounds.log_end)),
            last_epoch: self.log.latest_epoch().map(|epoch| LeaderEpoch(epoch.0)),
        }
    }

    pub fn watermark(&self) -> HighWatermark {
        match self.replica.role() {
            Role::Offline(_) => HighWatermark(to_core(self.log.bounds().high_watermark)),
            Role::Leading(leading) => leading.log().watermark,
            Role::Following(following) => following.log().watermark,
        }
    }

    fn publish(&mut self, to: HighWatermark) {
        let watermark = to_log(to.0);
        let last_stable = self.log.last_stable_below(watermark);
        self.log.publish(watermark, last_stable);
    }

    /// Batches below the watermark that judges do not know yet, and which of them are damaged.
    fn news_below(&mut self, watermark: Offset) -> (Vec<StoredBatch>, Vec<Offset>) {
        let mut damaged = Vec::new();
        let found = self.batches_below(watermark, &mut damaged);
        (found, damaged)
    }

    fn batches_below(&mut self, watermark: Offset, damaged: &mut Vec<Offset>) -> Vec<StoredBatch> {
        let (view, mut found) = (self.log.view(), Vec::new());
        loop {
            let from = self.told_below.max(to_core(self.log.log_start()));
            let read = view.read(to_log(from), to_log(watermark), u32::MAX, FirstBatch::Whole);
            let Ok(Some(slice)) = read else { return found };
            let Ok(bytes) = slice.read() else { return found };
            let before = found.len();
            for batch in Batches::new(bytes.into()).map_while(Result::ok) {
                let header = batch.header;
                if watermark.0 <= header.last_offset() {
                    return found;
                }
                if batch.check().is_err() {
                    damaged.push(Offset(header.base_offset));
                }
                found.push(StoredBatch {
                    base: Offset(header.base_offset),
                    last: Offset(header.last_offset()),
                    leader_epoch: LeaderEpoch(header.partition_leader_epoch),
                    crc: header.crc,
                });
                self.told_below = Offset(header.last_offset() + 1);
            }
            if found.len() == before {
                return found;
            }
        }
    }
}

impl Broker {
    /// The image says this of a partition.
    pub(super) fn assigned(
        &mut self,
        at: At,
        assignment: Assignment,
        image: &Arc<Image>,
        out: &mut Vec<Output>,
    ) {
        let (partition, now) = (assignment.partition, self.now(at));
        self.unopened.remove(&partition);
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return self.open(at, assignment, image, out);
        };
        if let Role::Leading(_) = hosted.replica.role()
            && !assignment.is_led_by_me()
        {
            hosted.deposed = Some(hosted.replica.assignment().state.leader_epoch);
        }
        self.configure(partition, image, out);
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        let effects = hosted.replica.assigned(assignment, now);
        if !matches!(hosted.replica.role(), Role::Leading(_)) {
            self.proposals.withdraw(partition);
        }
        self.carry_out(at, partition, effects, out);
    }

    /// What is configured for a log may be something else now.
    pub(super) fn configure(&mut self, partition: PartitionId, image: &Image, out: &mut Vec<Output>) {
        if let Some(hosted) = self.hosted.get_mut(&partition) {
            let config = setup::log_config(&self.config.log, image, &hosted.name.topic);
            if hosted.log.config() != &config {
                out.push(Output::Mark(Mark::LogConfigured));
                hosted.log.configure(config);
            }
        }
    }

    fn open(&mut self, at: At, assignment: Assignment, image: &Arc<Image>, out: &mut Vec<Output>) {
        let (partition, now) = (assignment.partition, self.now(at));
        let Some(topic) = image.topics.get(&partition.topic) else {
            return;
        };
        let name = TopicPartition {
            topic: topic.name.clone(),
            partition: partition.index.0,
        };
        let config = setup::log_config(&self.config.log, image, &name.topic);
        let log = match self.open_log(at, &name, partition, config, out) {
            Ok(log) => log,
            Err(LogFault::DiskFull { .. }) => {
                out.push(Output::Mark(Mark::DiskFull));
                self.unopened.insert(partition, (assignment, Arc::clone(image)));
                let due = at.world + OPEN_AGAIN;
                return self.later.put(due, Later::OpenAgain(partition));
            }
            Err(fault) => return self.fail(format!("{name} cannot be opened: {fault}"), out),
        };
        let bounds = log.bounds();
        let facts = LogFacts::recovered(
            LogStart(to_core(bounds.log_start)),
            LogEnd(to_core(bounds.log_end)),
            HighWatermark(to_core(bounds.high_watermark)),
        );
        let in_sync_seen = assignment.state.in_sync.len();
        let (replica, effects) = Replica::opened(assignment, facts, self.config.lag_max, now);
        let mut hosted = Hosted {
            name,
            replica,
            log,
            deposed: None,
            told_below: Offset(0),
            in_sync_seen,
        };
        hosted.publish(facts.watermark);
        let news = hosted.news_below(facts.watermark.0);
        out.push(Output::Fact(Fact::Opened {
            by: self.incarnation,
            registered: self.id,
            partition,
            log_end: facts.end.0,
        }));
        self.hosted.insert(partition, hosted);
        self.tell_below(partition, news, out);
        self.carry_out(at, partition, effects, out);
    }

    /// Logs that the cluster gives to others are renamed and kept (L-22).
    pub(super) fn set_strays_aside(&mut self, image: &Image, out: &mut Vec<Output>) {
        let found = self.dir.partitions().unwrap_or_default();
        for held in found {
            let index = PartitionIndex(held.partition.partition);
            if lanes::stray(image, &held.partition.topic, index, self.config.me).is_some() {
                out.push(Output::Mark(Mark::StrayFound));
                if let Err(fault) = self.dir.set_aside_as_stray(&held.partition) {
                    self.disk_failed(&fault, out);
                }
            }
        }
    }

    fn open_log(
        &mut self,
        at: At,
        name: &TopicPartition,
        partition: PartitionId,
        config: LogConfig,
        out: &mut Vec<Output>,
    ) -> Result<Log, LogFault> {
        let topic = partition.topic;
        let (path, wall) = (self.dir.partition_path(name), Self::wall(at));
        if self.owners.is_taken_from(name, topic) {
            // The next process removes the files.
            self.dir.delete_partition(name)?;
        } else if self.dir.partitions()?.iter().any(|held| held.partition == *name) {
            let opening = self.dir.opening(name);
            let (log, report) = Log::open(&self.host, &path, config.clone(), opening, wall)?;
            if report.tail_cut.is_some() {
                out.push(Output::Mark(Mark::TailLost));
            }
            let found = log.topic().map(|topic| TopicId(Uuid::from_bytes(topic.0)));
            match names::lies_there(found, log.log_end().0 == 0, topic) {
                Lies::Own => {
                    // What is appended to a log that lost its tail is not durable yet.
                    self.dir.lower_recovery_point(name, log.recovery_point())?;
                    self.owners.opened(name.clone(), topic);
                    return Ok(log);
                }
                Lies::Bare => {
                    drop(log);
                    let path = self.dir.delete_partition(name)?;
                    self.dir.remove(&path)?;
                }
                Lies::Other => {
                    drop(log);
                    self.dir.set_aside_as_stray(name)?;
                }
            }
        }
        self.dir.forget(name)?;
        let id = partition_log::TopicId(topic.0.to_bytes());
        let log = Log::create(&self.host, &path, config, id, wall)?;
        self.owners.opened(name.clone(), topic);
        Ok(log)
    }

    /// Whether the name of a partition's log is still its own: where the next topic of this name has taken it, the files
    /// went with the name, and the disk is well.
    pub(super) fn has_name(&self, partition: PartitionId) -> bool {
        let hosted = self.hosted.get(&partition);
        hosted.is_some_and(|hosted| self.owners.has(&hosted.name, partition.topic))
    }

    /// The log of a partition failed.
    pub(super) fn log_failed(&mut self, partition: PartitionId, fault: &LogFault, out: &mut Vec<Output>) {
        if self.has_name(partition) {
            self.disk_failed(fault, out);
        }
    }

    /// There may be room now.
    pub(super) fn open_again(&mut self, at: At, partition: PartitionId, out: &mut Vec<Output>) {
        if let Some((assignment, image)) = self.unopened.remove(&partition) {
            self.open(at, assignment, &image, out);
        }
    }

    /// The replica leaves this broker.
    pub(super) fn delete(&mut self, at: At, partition: PartitionId, out: &mut Vec<Output>) {
        self.unopened.remove(&partition);
        self.proposals.withdraw(partition);
        let Some(hosted) = self.hosted.remove(&partition) else {
            return;
        };
        let effects = hosted.replica.removed();
        drop(hosted.log);
        self.carry_out(at, partition, effects, out);
        if !self.owners.give_up(&hosted.name, partition.topic) {
            return;
        }
        let gone = self
            .dir
            .delete_partition(&hosted.name)
            .and_then(|path| self.dir.remove(&path));
        if let Err(fault) = gone {
            self.disk_failed(&fault, out);
        }
    }

    /// Carries out what a replica wants, in order.
    pub(super) fn carry_out(
        &mut self,
        at: At,
        partition: PartitionId,
        effects: Vec<Effect>,
        out: &mut Vec<Output>,
    ) {
        for effect in effects {
            match effect {
                Effect::EpochStarted {
                    leader_epoch,
                    at: end,
                } => {
                    self.epoch_started(partition, leader_epoch, end, out);
                }
                Effect::StartFetching {
                    leader, leader_epoch, ..
                } => {
                    self.start_fetching(at, partition, leader, leader_epoch);
                }
                Effect::StopFetching => self.stop_fetching(partition),
                Effect::WatermarkMoved { to } => {
                    self.watermark_moved(partition, to, out);
                    self.wake(at, partition, Wake::WatermarkMoved, out);
                    self.look_at_posts(at, partition, out);
                }
                Effect::LogStartMoved { to } => {
                    if let Some(hosted) = self.hosted.get_mut(&partition) {
                        // The replica raises it at most to the watermark; then only the disk can object.
                        let _ = hosted.log.raise_log_start(to_log(to.0));
                    }
                }
                Effect::ProposeIsr(proposal) => {
                    self.tell_joining(&proposal, out);
                    self.proposals.submit(proposal);
                }
                Effect::InSyncChanged { in_sync } => self.in_sync_changed(partition, &in_sync, out),
                Effect::Completed { waiter, outcome } => self.completed(at, waiter, outcome, out),
                Effect::RoleChanged => {
                    self.wake(at, partition, Wake::RoleChanged, out);
                    self.look_at_posts(at, partition, out);
                }
            }
        }
    }

    fn epoch_started(
        &mut self,
        partition: PartitionId,
        epoch: LeaderEpoch,
        end: LogEnd,
        out: &mut Vec<Output>,
    ) {
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        hosted.log.begin_epoch(partition_log::LeaderEpoch(epoch.0));
        let by = self.incarnation;
        out.push(Output::Fact(Fact::LeadershipBegan {
            by,
            partition,
            epoch,
            log_end: end.0,
        }));
    }

    fn watermark_moved(&mut self, partition: PartitionId, to: HighWatermark, out: &mut Vec<Output>) {
        let by = self.incarnation;
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        hosted.publish(to);
        let news = hosted.news_below(to.0);
        let in_sync = match hosted.replica.role() {
            Role::Leading(leading) => {
                let min = hosted.replica.assignment().min_in_sync.0;
                Some((leading.in_sync().members().len(), min))
            }
            Role::Following(_) | Role::Offline(_) => None,
        };
        out.push(Output::Fact(Fact::WatermarkMoved {
            by,
            partition,
            to: to.0,
            in_sync,
        }));
        self.tell_below(partition, news, out);
    }

    fn tell_below(
        &self,
        partition: PartitionId,
        (batches, damaged): (Vec<StoredBatch>, Vec<Offset>),
        out: &mut Vec<Output>,
    ) {
        let by = self.incarnation;
        let damaged = damaged.into_iter();
        out.extend(damaged.map(|at| Output::Fact(Fact::Damaged { by, partition, at })));
        out.push(Output::Fact(Fact::Below {
            by,
            partition,
            batches,
        }));
    }

    /// Tells the judges who is to join an in-sync set, and what the leader knows of its log.
    fn tell_joining(&self, proposal: &Proposal, out: &mut Vec<Output>) {
        let (by, partition) = (self.incarnation, proposal.partition);
        let hosted = self.hosted.get(&partition).map(|hosted| hosted.replica.role());
        let Some(Role::Leading(leading)) = hosted else {
            return;
        };
        let (watermark, epoch_start) = (leading.log().watermark.0, leading.epoch_start().0);
        for member in proposal.in_sync.iter().map(|member| member.broker) {
            let Some(progress) = leading.followers().get(&member) else {
                continue;
            };
            if leading.in_sync().members().contains(&member) {
                continue;
            }
            let log_end = progress.log_end.map(|end| end.0);
            let follower = member;
            out.push(Output::Fact(Fact::Joining {
                by,
                partition,
                follower,
                log_end,
                watermark,
                epoch_start,
            }));
        }
    }

    fn in_sync_changed(&mut self, partition: PartitionId, members: &[BrokerId], out: &mut Vec<Output>) {
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        let before = std::mem::replace(&mut hosted.in_sync_seen, members.len());
        match before.cmp(&members.len()) {
            std::cmp::Ordering::Less => out.push(Output::Mark(Mark::IsrExpanded)),
            std::cmp::Ordering::Greater => out.push(Output::Mark(Mark::IsrShrank)),
            std::cmp::Ordering::Equal => {}
        }
    }

    /// A follower's log was cut.
    pub(super) fn cut_off(&mut self, partition: PartitionId, out: &mut Vec<Output>) {
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        let watermark = hosted.watermark();
        hosted.publish(watermark);
        hosted.told_below = hosted.told_below.min(watermark.0);
        let to = to_core(hosted.log.log_end());
        out.push(Output::Fact(Fact::Truncated {
            by: self.incarnation,
            partition,
            to,
        }));
    }

    pub(super) fn sync_as_needed(
        &mut self,
        at: At,
        partition: PartitionId,
        need: SyncNeed,
        out: &mut Vec<Output>,
    ) {
        match need {
            SyncNeed::None => {}
            SyncNeed::Background => self.sync_soon(at, partition, out),
            SyncNeed::BeforeAnswer => self.sync_now(partition, out),
        }
    }

    pub(super) fn sync_soon(&mut self, at: At, partition: PartitionId, out: &mut Vec<Output>) {
        out.push(Output::Mark(Mark::SegmentRolled));
        let due = self.write_at(at);
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        match hosted.log.sync_job() {
            Ok(Some(job)) => self.later.put(due, Later::Sync(partition, job)),
            Ok(None) => {}
            Err(fault) => self.log_failed(partition, &fault, out),
        }
    }

    /// Syncs at once: something waits for it.
    pub(super) fn sync_now(&mut self, partition: PartitionId, out: &mut Vec<Output>) {
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        match hosted.log.sync_job() {
            Ok(Some(job)) => self.sync(partition, job, out),
            Ok(None) => {}
            Err(fault) => self.log_failed(partition, &fault, out),
        }
    }

    pub(super) fn sync(&mut self, partition: PartitionId, job: SyncJob, out: &mut Vec<Output>) {
        match job.run() {
            Ok(synced) => {
                if let Some(hosted) = self.hosted.get_mut(&partition) {
                    hosted.log.synced(synced);
                }
            }
            Err(fault) if self.has_name(partition) => self.fail(format!("a sync failed: {fault}"), out),
            Err(_) => {}
        }
    }
}
