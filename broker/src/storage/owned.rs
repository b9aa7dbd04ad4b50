//! One partition as its lane owns it: the log, and the replica that decides.
//!
//! Must not: decide by itself what an event means, or be named by anyone but its lane.

mod following;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arc_swap::ArcSwap;
use broker_core::fetch::Wake;
use broker_core::offsets::{HighWatermark, LogEnd, LogStart};
use broker_core::produce::{Acks, ProduceRefusal, WaitOutcome, WaiterId};
use broker_core::replica::{Assignment, Effect, FollowerFetch, IsrAnswer, Replica, Role};
use broker_core::time::Moment;
use metadata::ids::{BrokerId, DirectoryId, LeaderEpoch, PartitionId};
use metadata::image::Image;
use partition_log::{
    AppendError, AppendOutcome, AppendRefusal, Appended, CleanupPolicy, LeaderAppend, Log, LogFault,
    OpenReport, Origin, ReadError, SyncJob, SyncNeed, Synced, TopicPartition,
};
use tokio::sync::oneshot;
use tracing::{error, info, warn};
use wire::batch::Batch;

use super::dirs::{DirIndex, Marks};
use super::hosted::{Hosted, Seen};
use super::lane::{Deletion, DeletionFailure, LaneHandle, Told, Waits};
use super::shared::{Doomed, Shared};
use super::sync::{self, Sync};
use super::ticket::{PartState, Ticket};
use crate::replication::FetchOrder;
use crate::seam;

/// How long a deleted partition's files stay, for those who still read them.
const DELETED_KEPT: Duration = Duration::from_secs(60);
/// A log without traffic for so long gives its files back.
const IDLE_AFTER: Duration = Duration::from_secs(30);

/// Under which conditions a batch is appended.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// What the producer wants to be told.
    pub acks: Acks,
    /// Only under this leadership; none for clients.
    pub under: Option<LeaderEpoch>,
}

/// So many bytes that were checked again make it worth while to sync a log at its start.
const RECOVERY_SAVED_FROM: u64 = 1 << 20;

/// An append that is answered after a sync.
struct Unanswered {
    appended: Appended,
    acks: Acks,
    ticket: (Arc<Ticket>, usize),
}

/// Why a log is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unopened {
    /// The disk has no room: to be tried again.
    NoRoom,
    /// Nothing changes by trying again.
    ForGood,
}

/// One partition and its log.
pub struct Owned {
    replica: Replica,
    log: Log,
    dir: DirIndex,
    /// No recovery point above this one is written down, or on its way there.
    noted: partition_log::Offset,
    hosted: Arc<Hosted>,
    unanswered: VecDeque<Unanswered>,
    last_used: Moment,
    files_are_open: bool,
    /// When everything was durable, or on its way there, for the last time.
    synced_at: Moment,
}

impl Owned {
    /// Opens the log, or creates it, and takes up the role.
    ///
    /// # Errors
    /// Why not. The partition then stays out of service: until there is room, or for good when the disk failed, which
    /// the heartbeat tells the controller.
    pub fn open(
        shared: &Shared,
        waits: &mut Waits,
        lane: &LaneHandle,
        assignment: Assignment,
        image: &Image,
    ) -> Result<Owned, Unopened> {
        let id = assignment.partition;
        let topic = image.topics.get(&id.topic).ok_or(Unopened::ForGood)?.name.clone();
        let name = TopicPartition {
            topic,
            partition: id.index.0,
        };
        let config = shared.log_config(image, id);
        let assigned = directory_of(&assignment);
        let opened = shared
            .dirs
            .open_log(&name, id.topic, assigned, config, shared.wall());
        let (log, dir, report) = opened.map_err(|fault| unopened(shared, id, (&name, assigned), &fault))?;
        let now = shared.now();
        let facts = seam::facts(log.bounds());
        let (replica, effects) = Replica::opened(assignment, facts, shared.lag_max, now);
        let traffic = shared.metrics.traffic.of(id.topic, &name.topic);
        let hosted = Arc::new(Hosted {
            id,
            name,
            lane: lane.clone(),
            log: log.view(),
            dir,
            seen: ArcSwap::from_pointee(Seen::of(&replica, None)),
            waits: super::waits::Waits::default(),
            traffic,
            lag: AtomicU64::new(0),
        });
        if shared.partitions.insert(Arc::clone(&hosted)) {
            info!(partition = %hosted.name, "the log is open now: its partition is served here again");
        }
        let noted = shared.dirs.written_recovery_point(&hosted.name, dir);
        let mut owned = Owned {
            replica,
            log,
            dir,
            noted,
            hosted,
            unanswered: VecDeque::new(),
            last_used: now,
            files_are_open: true,
            synced_at: now,
        };
        owned.publish_watermark(facts.watermark);
        owned.carry_out(shared, waits, effects);
        // Thousands may be opened in one go, and few of them are written to at once.
        owned.save_recovery(shared, &report);
        owned.put_away(shared);
        Ok(owned)
    }

    /// Appends a producer's batch.
    pub fn append(
        &mut self,
        shared: &Shared,
        waits: &mut Waits,
        batch: &Batch,
        wish: Wish,
        ticket: (Arc<Ticket>, usize),
    ) {
        let acks = wish.acks;
        let leader_epoch = match self.admits(batch, wish) {
            Ok(epoch) => seam::epoch_to_log(epoch),
            Err(refusal) => {
                self.hosted.traffic.produce_refused();
                let log_start = Some(self.log.log_start());
                ticket
                    .0
                    .report(ticket.1, PartState::NotAdmitted { refusal, log_start });
                return;
            }
        };
        self.used(shared);
        let how = LeaderAppend {
            leader_epoch,
            now: shared.wall(),
            origin: match wish.under {
                Some(_) => Origin::Coordinator,
                None => Origin::Client,
            },
        };
        let appended = self
            .settle_recovery_point(shared)
            .map_err(AppendError::Fault)
            .and_then(|()| self.log.append_as_leader(batch, how));
        match appended {
            Ok(appended) => {
                self.count(appended);
                let unanswered = Unanswered {
                    appended,
                    acks,
                    ticket,
                };
                match appended.sync {
                    // Order among the answers of one log is the order of its offsets.
                    SyncNeed::None | SyncNeed::Background if self.unanswered.is_empty() => {
                        self.settle(shared, waits, unanswered);
                    }
                    _ => self.unanswered.push_back(unanswered),
                }
                if appended.sync == SyncNeed::Background {
                    self.sync_in_background(shared);
                }
            }
            Err(error) => {
                self.count_failure(&error, batch);
                let log_start = self.log.log_start();
                if let AppendError::Fault(fault) = &error {
                    self.faulted(shared, waits, "an append failed", fault);
                }
                ticket.0.report(ticket.1, PartState::Failed { error, log_start });
            }
        }
    }

    fn count(&self, appended: Appended) {
        match appended.outcome {
            AppendOutcome::Written => {
                let records = appended.last.next().0 - appended.first.0;
                let bytes = u64::from(appended.size_bytes);
                self.hosted
                    .traffic
                    .produced(u64::try_from(records).unwrap_or(0), bytes);
            }
            AppendOutcome::Duplicate => self.hosted.traffic.produce_refused(),
        }
    }

    /// As Kafka, only what no client expects counts as a failure.
    fn count_failure(&self, error: &AppendError, batch: &Batch) {
        let traffic = &self.hosted.traffic;
        match error {
            AppendError::Refused(AppendRefusal::BatchTooLarge { .. }) => {
                traffic.too_large(batch.header.size() as u64);
            }
            AppendError::Refused(_) => traffic.produce_failed(),
            AppendError::Fault(_) => traffic.produce_refused(),
        }
    }

    fn admits(&self, batch: &Batch, wish: Wish) -> Result<LeaderEpoch, ProduceRefusal> {
        let is_repeated = || self.log.repeats(batch);
        match wish.under {
            Some(under) => self.replica.admits_under(under, wish.acks, is_repeated),
            None => self.replica.admits(wish.acks, is_repeated),
        }
    }

    /// Whether there are appends that are answered after a sync.
    pub fn awaits_sync(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Syncs, then answers what waited for it.
    pub fn sync_and_answer(&mut self, shared: &Shared, waits: &mut Waits) {
        match self.log.sync_job() {
            Ok(Some(job)) => {
                let synced = sync::carry_out(job, &shared.metrics);
                self.log.synced(synced);
            }
            Ok(None) => {}
            Err(fault) => sync::end_the_process(&fault),
        }
        while let Some(unanswered) = self.unanswered.pop_front() {
            self.settle(shared, waits, unanswered);
        }
    }

    /// The leader holds it: tell the replica, and whoever wants to know no more than that.
    fn settle(&mut self, shared: &Shared, waits: &mut Waits, unanswered: Unanswered) {
        let Unanswered {
            appended,
            acks,
            ticket: (ticket, place),
        } = unanswered;
        let end = seam::to_core(appended.last.next());
        if acks == Acks::All {
            let waiter = shared.waiter();
            waits.insert(waiter, Told::Producer(Arc::clone(&ticket), place));
            ticket.report(place, PartState::Waiting { appended, waiter });
            self.grew(shared, waits, appended);
            let effects = self.replica.await_replication(waiter, end);
            self.carry_out(shared, waits, effects);
        } else {
            let outcome = WaitOutcome::Replicated;
            ticket.report(place, PartState::Appended { appended, outcome });
            self.grew(shared, waits, appended);
        }
    }

    fn grew(&mut self, shared: &Shared, waits: &mut Waits, appended: Appended) {
        if appended.outcome != AppendOutcome::Written {
            return;
        }
        let end = LogEnd(seam::to_core(appended.last.next()));
        let effects = self.replica.appended(end, shared.now());
        self.carry_out(shared, waits, effects);
        self.hosted.waits.wake(Wake::Appended);
    }

    /// Nobody waits for this any more.
    pub fn forget(&mut self, waiter: WaiterId) {
        self.replica.forget(waiter);
    }

    /// A follower fetched here.
    pub fn follower_fetched(
        &mut self,
        shared: &Shared,
        waits: &mut Waits,
        follower: BrokerId,
        fetch: FollowerFetch,
    ) {
        // What makes a fetch not count was told to the follower when it was read; here it may only have changed since.
        if let Ok(effects) = self.replica.follower_fetched(follower, fetch) {
            self.carry_out(shared, waits, effects);
        }
    }

    /// The controller answered.
    pub fn isr_answered(&mut self, shared: &Shared, waits: &mut Waits, answer: IsrAnswer) {
        let effects = self.replica.isr_answered(answer, shared.now());
        self.carry_out(shared, waits, effects);
    }

    /// The image says this now.
    pub fn assigned(&mut self, shared: &Shared, waits: &mut Waits, assignment: Assignment, image: &Image) {
        if self.awaits_sync() {
            self.sync_and_answer(shared, waits);
        }
        self.log.configure(shared.log_config(image, assignment.partition));
        let effects = self.replica.assigned(assignment, shared.now());
        self.carry_out(shared, waits, effects);
        self.publish_role();
    }

    /// Something else is configured for the log from now on.
    pub fn configure(&mut self, shared: &Shared, image: &Image) {
        self.log.configure(shared.log_config(image, self.hosted.id));
    }

    /// Moves the log start up to `before`, −1 being the watermark, and waits for the replicas (L-27).
    ///
    /// # Errors
    /// Why not.
    pub fn delete_records(
        &mut self,
        shared: &Shared,
        waits: &mut Waits,
        before: i64,
    ) -> Result<Deletion, DeletionFailure> {
        let start = self
            .replica
            .admits_deletion(before)
            .map_err(DeletionFailure::Refused)?;
        if self.log.config().cleanup == CleanupPolicy::Compact {
            return Err(DeletionFailure::NotByPolicy);
        }
        if let Err(error) = self.log.raise_log_start(seam::to_log(start.0)) {
            self.log_start_stays(shared, waits, &error);
            return Err(DeletionFailure::Fault);
        }
        info!(partition = %self.hosted.name, log_start = start.0.0, "records deleted");
        let moved = self.replica.log_start_moved(start);
        self.carry_out(shared, waits, moved);
        let waiter = shared.waiter();
        let (sender, outcome) = oneshot::channel();
        waits.insert(waiter, Told::Deleter(sender));
        let effects = self.replica.await_deletion(waiter, start);
        self.carry_out(shared, waits, effects);
        Ok(Deletion { waiter, outcome })
    }

    /// Where the logs of all replicas that are alive start at the latest.
    pub fn low_watermark(&self) -> Option<LogStart> {
        self.replica.low_watermark()
    }

    fn sync_as_needed(&mut self, need: SyncNeed, shared: &Shared, waits: &mut Waits) {
        match need {
            SyncNeed::None => {}
            SyncNeed::Background => self.sync_in_background(shared),
            SyncNeed::BeforeAnswer => self.sync_and_answer(shared, waits),
        }
    }

    fn watermark(&self) -> HighWatermark {
        match self.replica.role() {
            Role::Offline(_) => HighWatermark(seam::to_core(self.log.bounds().high_watermark)),
            Role::Leading(leading) => leading.log().watermark,
            Role::Following(following) => following.log().watermark,
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, shared: &Shared, waits: &mut Waits, now: Moment) {
        if self.is_offline() {
            return;
        }
        if self.replica.next_tick().is_some_and(|due| due <= now) {
            let effects = self.replica.tick(now);
            self.carry_out(shared, waits, effects);
        }
        if !self.files_are_open && self.log.holds_files() {
            // Somebody read.
            self.used(shared);
        }
        if self.files_are_open && IDLE_AFTER < now.since(self.last_used) {
            self.put_away(shared);
        }
        self.sync_when_due(shared, now);
    }

    /// Gives its files back.
    fn put_away(&mut self, shared: &Shared) {
        if let Err(fault) = self.log.release_idle() {
            self.report(shared, "an idle log cannot be put away", &fault);
        }
        self.files_are_open = false;
    }

    /// What it took long to recover is made durable at once, so that the work is not lost when the process is killed before
    /// it serves. Where it took no time, it can as well be done again.
    fn save_recovery(&mut self, shared: &Shared, report: &OpenReport) {
        if report.scanned_bytes < RECOVERY_SAVED_FROM {
            return;
        }
        match self.log.sync_job() {
            Ok(Some(job)) => {
                let synced = sync::carry_out(job, &shared.metrics);
                self.log.synced(synced);
            }
            Ok(None) => {}
            Err(fault) => sync::end_the_process(&fault),
        }
        let point = self.log.recovery_point();
        self.noted = self.noted.max(point);
        if let Err(fault) = shared
            .dirs
            .recovered(&self.hosted.name, self.dir, point, shared.wall())
        {
            self.report(shared, "the recovery point cannot be written", &fault);
        }
    }

    /// `flush.ms`: nothing is left unsynced for longer.
    fn sync_when_due(&mut self, shared: &Shared, now: Moment) {
        let Some(interval) = self.log.config().flush_interval else {
            return;
        };
        if self.log.recovery_point() == self.log.log_end() {
            self.synced_at = now;
        } else if interval <= now.since(self.synced_at) {
            self.synced_at = now;
            self.sync_in_background(shared);
        }
    }

    fn used(&mut self, shared: &Shared) {
        self.last_used = shared.now();
        self.files_are_open = true;
    }

    fn carry_out(&mut self, shared: &Shared, waits: &mut Waits, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::EpochStarted { leader_epoch, at } => {
                    info!(partition = %self.hosted.name, %leader_epoch, log_end = at.0.0, "leading");
                    self.log.begin_epoch(seam::epoch_to_log(leader_epoch));
                }
                Effect::StartFetching {
                    leader, leader_epoch, ..
                } => {
                    let (partition, name) = (self.hosted.id, self.hosted.name.clone());
                    let (log, watermark) = (self.local_log(), self.watermark());
                    self.order(
                        shared,
                        FetchOrder::Start {
                            partition,
                            name,
                            leader,
                            leader_epoch,
                            log,
                            watermark,
                        },
                    );
                }
                Effect::StopFetching => self.order(shared, FetchOrder::Stop(self.hosted.id)),
                Effect::WatermarkMoved { to } => {
                    self.publish_watermark(to);
                    self.hosted.waits.wake(Wake::WatermarkMoved);
                }
                Effect::LogStartMoved { to } => {
                    if let Err(error) = self.log.raise_log_start(seam::to_log(to.0)) {
                        self.log_start_stays(shared, waits, &error);
                    }
                }
                Effect::ProposeIsr(proposal) => {
                    // The other end lives as long as the node.
                    let _ = shared.proposals.send(proposal);
                }
                Effect::InSyncChanged { in_sync } => {
                    self.count_change(shared, in_sync.len());
                    let members: Vec<i32> = in_sync.iter().map(|broker| broker.0).collect();
                    info!(partition = %self.hosted.name, ?members, "in-sync set changed");
                }
                Effect::Completed { waiter, outcome } => {
                    if let Some(told) = waits.remove(&waiter) {
                        told.tell(outcome);
                    }
                }
                Effect::RoleChanged => {
                    self.publish_role();
                    self.hosted.waits.wake(Wake::RoleChanged);
                }
            }
        }
    }

    /// What was published last is the set before the change.
    fn count_change(&self, shared: &Shared, members: usize) {
        let before = self.hosted.seen.load().assignment.state.in_sync.len();
        let counts = &shared.metrics.in_sync;
        match members.cmp(&before) {
            std::cmp::Ordering::Less => counts.shrinks.inc(),
            std::cmp::Ordering::Greater => counts.expands.inc(),
            std::cmp::Ordering::Equal => {}
        }
    }

    fn order(&self, shared: &Shared, order: FetchOrder) {
        // The other end lives as long as the node.
        let _ = shared.fetching.send(order);
    }

    fn publish_role(&self) {
        let led = self.hosted.seen.load().led;
        self.hosted.seen.store(Arc::new(Seen::of(&self.replica, led)));
    }

    fn publish_watermark(&mut self, to: HighWatermark) {
        let watermark = seam::to_log(to.0);
        let last_stable = self.log.last_stable_below(watermark);
        self.log.publish(watermark, last_stable);
    }

    fn sync_in_background(&mut self, shared: &Shared) {
        match self.log.sync_job() {
            Ok(Some(job)) => {
                // Its files are open again.
                self.used(shared);
                let (partition, lane) = (self.hosted.id, self.hosted.lane.clone());
                shared.syncs.sync(self.dir, Sync { partition, job, lane });
            }
            Ok(None) => {}
            Err(fault) => self.report(shared, "nothing can be synced", &fault),
        }
    }

    /// The log was synced.
    pub fn synced(&mut self, synced: Synced) {
        self.log.synced(synced);
    }

    /// The disk would not do something. Where that fails the directory, the log serves nothing any more, and the heartbeat
    /// tells the controller.
    fn faulted(&mut self, shared: &Shared, waits: &mut Waits, what: &'static str, fault: &LogFault) {
        self.report(shared, what, fault);
        if fault.fails_directory() {
            self.leave_service(shared, waits);
        }
    }

    fn report(&self, shared: &Shared, what: &'static str, fault: &LogFault) {
        // Where the next topic of this name has taken it, the files went with the name, and the disk is well.
        if shared.dirs.has_name(&self.hosted.name, self.hosted.id.topic) {
            shared.dirs.report(self.dir, what, &self.hosted.name, fault);
        }
    }

    fn log_start_stays(&mut self, shared: &Shared, waits: &mut Waits, error: &ReadError) {
        let what = "the log start cannot be raised";
        match error {
            ReadError::Fault(fault) => self.faulted(shared, waits, what, fault),
            ReadError::OffsetOutOfRange { .. } => error!(partition = %self.hosted.name, %error, what),
        }
    }

    /// A directory failed: what lies there is neither served nor fetched for any more, whether or not the disk would still
    /// answer for it (L-55). A replica that went on would be taken back into in-sync sets.
    pub fn directory_failed(&mut self, dir: DirIndex, shared: &Shared, waits: &mut Waits) {
        if self.dir == dir {
            self.leave_service(shared, waits);
        }
    }

    fn leave_service(&mut self, shared: &Shared, waits: &mut Waits) {
        let effects = self.replica.log_failed();
        self.carry_out(shared, waits, effects);
        self.publish_role();
    }

    fn is_offline(&self) -> bool {
        matches!(self.replica.role(), Role::Offline(_))
    }

    /// What is written into the checkpoints; nothing when the name is another topic's by now.
    pub fn marks(&mut self, shared: &Shared) -> Option<Marks> {
        // Counted before the name is looked at: whoever takes it then makes these marks void.
        let cuts = shared.dirs.cuts();
        if !shared.dirs.has_name(&self.hosted.name, self.hosted.id.topic) {
            return None;
        }
        self.noted = self.noted.max(self.log.recovery_point());
        Some(Marks {
            partition: self.hosted.name.clone(),
            dir: self.dir,
            recovery_point: self.log.recovery_point(),
            log_start: self.log.log_start(),
            high_watermark: self.log.bounds().high_watermark,
            cuts,
        })
    }

    /// Deletes what retention allows, and forgets silent producers.
    pub fn retain(&mut self, shared: &Shared, waits: &mut Waits) {
        if self.is_offline() {
            return;
        }
        let now = shared.wall();
        self.log.expire_producers(now);
        match self.log.delete_old_segments(now) {
            Ok(deleted) if deleted.is_empty() => {}
            Ok(deleted) => {
                let start = LogStart(seam::to_core(self.log.log_start()));
                let moved = self.replica.log_start_moved(start);
                self.carry_out(shared, waits, moved);
                info!(partition = %self.hosted.name, segments = deleted.len(), log_start = self.log.log_start().0,
                    "old segments go");
                let paths = deleted.into_iter().flat_map(|segment| segment.paths).collect();
                // Whoever removes them lives as long as the node.
                let _ = shared.doomed.send((DELETED_KEPT, Doomed::Files(paths)));
            }
            Err(fault) => self.faulted(shared, waits, "old segments cannot be deleted", &fault),
        }
    }

    /// The replica leaves this broker, or its topic is gone.
    pub fn delete(mut self, shared: &Shared, waits: &mut Waits) {
        shared.partitions.remove(self.hosted.id);
        let offline = Replica::offline(self.replica.assignment().clone(), shared.lag_max);
        let ended = std::mem::replace(&mut self.replica, offline);
        let effects = ended.removed();
        self.carry_out(shared, waits, effects);
        drop(self.log);
        match shared.dirs.delete(&self.hosted.name, self.hosted.id.topic) {
            Ok(Some((dir, path))) => {
                info!(partition = %self.hosted.name, "log deleted");
                let _ = shared.doomed.send((DELETED_KEPT, Doomed::Partition(dir, path)));
            }
            Ok(None) => {}
            Err(fault) => shared
                .dirs
                .report(self.dir, "a log cannot be deleted", &self.hosted.name, &fault),
        }
    }

    /// Writes down what the log still has in memory. What must then be made durable, if anything, is done beside that of
    /// other logs; [`Owned::closed`] follows.
    ///
    /// # Errors
    /// Faults of the disk: the log is recovered at the next start.
    pub fn close(&mut self, shared: &Shared) -> Result<Option<SyncJob>, LogFault> {
        shared.partitions.remove(self.hosted.id);
        if shared.dirs.has_failed(self.dir) {
            return Ok(None);
        }
        self.log.close()
    }

    /// The log is closed in order, or could not be. What is written into the checkpoints then.
    pub fn closed(mut self, shared: &Shared, closed: Result<Option<Synced>, LogFault>) -> Option<Marks> {
        match closed {
            Ok(Some(synced)) => self.log.synced(synced),
            Ok(None) => {}
            Err(fault) => {
                self.report(shared, "a log cannot be closed", &fault);
                shared.dirs.was_not_closed(self.dir);
            }
        }
        // Of a log that could not be closed, too: its recovery point says how much of it is safe.
        self.marks(shared)
    }
}

/// A log cannot be opened. An operator is told so once, and why, and what to do; clients are told that it is the disk.
fn unopened(
    shared: &Shared,
    id: PartitionId,
    (name, assigned): (&TopicPartition, DirectoryId),
    fault: &LogFault,
) -> Unopened {
    let dir = shared.dirs.holding(name, assigned);
    shared.dirs.report(dir, "a log cannot be opened", name, fault);
    let is_new = shared.partitions.cannot_be_opened(id);
    let next = match fault {
        LogFault::DiskFull { .. } => Some("make room on that disk: it is then opened by itself"),
        LogFault::Damaged { .. } => Some(
            "where another replica is in sync, stop this broker, move the partition's directory away and start it again: \
             it is then fetched from there",
        ),
        // That is told of the whole directory.
        LogFault::Io { .. } => None,
    };
    if let Some(next) = next.filter(|_| is_new) {
        warn!(partition = %name, why = %fault, next, "a log cannot be opened: its partition is not served here");
    }
    match fault {
        LogFault::DiskFull { .. } => Unopened::NoRoom,
        LogFault::Io { .. } | LogFault::Damaged { .. } => Unopened::ForGood,
    }
}

/// The directory that the image assigns to this replica.
fn directory_of(assignment: &Assignment) -> DirectoryId {
    let directory = assignment.state.directory_on(assignment.me);
    directory.unwrap_or(DirectoryId::UNASSIGNED)
}
