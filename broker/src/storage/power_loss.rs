//! What a loss of power may leave of a log that was cut shortly before: nothing that was never written.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use broker_core::fetcher::{LocalLog, Outcome};
use broker_core::lanes::Action;
use broker_core::offsets::{HighWatermark, LogStart, Offset};
use broker_core::replica::{Assignment, MinInSync};
use bytes::Bytes;
use host::{SeededEntropy, SimClock, SimDisk, WallMs};
use metadata::config::{NodeConfig, NodeId, Role};
use metadata::ids::{
    BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, PartitionId, PartitionIndex, TopicId,
};
use metadata::image::{Image, Partition, Topic};
use metadata::record::{ConfigResource, LeaderRecovery};
use metadata::uuid::Uuid;
use partition_log::{DirOwner, FirstBatch, Log, LogConfig, LogHost, TopicPartition};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;
use wire::batch::{BatchBuilder, Batches};
use wire::codec::Codec;

use super::dirs::{DirIndex, Dirs, Loading, Marks};
use super::follower::{FetchedPart, Work};
use super::hosted::Partitions;
use super::lane::{self, Event, LaneHandle};
use super::shared::Shared;
use super::sync::SyncThreads;
use crate::metrics::BrokerMetrics;

const ORDERS: PartitionId = PartitionId {
    topic: TopicId(Uuid(7)),
    index: PartitionIndex(0),
};
const EPOCH: LeaderEpoch = LeaderEpoch(3);

/// Broker 1, which follows broker 2, on a disk in memory.
struct Follower {
    disk: SimDisk,
    dirs: Arc<Dirs>,
    lane: LaneHandle,
    _ends: Box<dyn std::any::Any>,
}

fn host_on(disk: &SimDisk) -> LogHost {
    LogHost {
        disk: Arc::new(disk.clone()),
        entropy: Arc::new(SeededEntropy::new(1)),
    }
}

fn dirs_on(disk: &SimDisk) -> Dirs {
    let owner = DirOwner {
        cluster_id: "a cluster".to_owned(),
        node_id: 1,
    };
    let clock = Arc::new(SimClock::new(WallMs(1_000_000)));
    Dirs::open(host_on(disk), clock, &[PathBuf::from("/logs")], &owner).unwrap()
}

fn name() -> TopicPartition {
    TopicPartition {
        topic: "orders".to_owned(),
        partition: 0,
    }
}

/// The topic; its log is synced after so many messages.
fn image(flush_messages: &str) -> Arc<Image> {
    let partition = Partition {
        replicas: vec![BrokerId(1), BrokerId(2)],
        directories: vec![DirectoryId::UNASSIGNED; 2],
        in_sync: vec![BrokerId(1), BrokerId(2)],
        eligible: Vec::new(),
        last_known_leader: None,
        adding: Vec::new(),
        removing: Vec::new(),
        leader: Some(BrokerId(2)),
        recovery: LeaderRecovery::Recovered,
        leader_epoch: EPOCH,
        epoch: PartitionEpoch(0),
    };
    let mut topic = Topic {
        id: ORDERS.topic,
        name: name().topic,
        partitions: Default::default(),
    };
    topic.partitions.insert(ORDERS.index, Arc::new(partition));
    let mut image = Image::default();
    image.topics.insert(ORDERS.topic, Arc::new(topic));
    let settings = [("flush.messages", flush_messages), ("segment.bytes", "1000")];
    let settings: BTreeMap<_, _> = settings
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    image
        .configs
        .insert(ConfigResource::Topic(name().topic), Arc::new(settings));
    Arc::new(image)
}

impl Follower {
    fn new() -> Follower {
        let follower = Follower::on(SimDisk::new());
        follower.told(&image("1"), Action::Create);
        follower
    }

    /// A process that starts on this disk.
    fn on(disk: SimDisk) -> Follower {
        let dirs = Arc::new(dirs_on(&disk));
        let ((proposals, a), (fetching, b), (doomed, c)) =
            (unbounded_channel(), unbounded_channel(), unbounded_channel());
        let shared = Arc::new(Shared {
            me: BrokerId(1),
            config: Arc::new(NodeConfig::bare(Role::Broker, NodeId(1))),
            clock: Arc::new(SimClock::new(WallMs(1_000_000))),
            dirs: Arc::clone(&dirs),
            partitions: Arc::new(Partitions::default()),
            metrics: BrokerMetrics::new(Arc::new(SimClock::new(WallMs(1_000_000)))),
            lag_max: Duration::from_secs(30),
            syncs: SyncThreads::asleep(1),
            proposals,
            fetching,
            doomed,
            next_waiter: AtomicU64::new(0),
        });
        let lane = lane::start(1, &shared).unwrap().remove(0);
        Follower {
            disk,
            dirs,
            lane,
            _ends: Box::new((a, b, c)),
        }
    }

    /// The disk once the process is gone. It leaves no checkpoint and no mark of a clean end.
    fn killed(self) -> SimDisk {
        let (reply, closed) = oneshot::channel();
        self.lane.send(Event::Close(reply));
        closed.blocking_recv().unwrap();
        // Everything is synced; this takes the locks from the old process.
        self.disk.crash(0);
        self.disk
    }

    fn told(&self, image: &Arc<Image>, action: fn(Assignment) -> Action) {
        let assignment = Assignment::of(image, ORDERS, BrokerId(1), MinInSync(1)).unwrap();
        let (done, is_done) = oneshot::channel();
        self.lane.send(Event::Metadata {
            actions: vec![action(assignment)],
            image: Arc::clone(image),
            done: Box::new(move || done.send(()).unwrap()),
        });
        is_done.blocking_recv().unwrap();
    }

    fn work(&self, work: Work) -> LocalLog {
        let (done, outcome) = oneshot::channel();
        self.lane.send(Event::Fetched(FetchedPart {
            partition: ORDERS,
            leader_epoch: EPOCH,
            work,
            done,
        }));
        match outcome.blocking_recv().unwrap() {
            Outcome::Done(log) => log,
            other => panic!("{other:?}"),
        }
    }

    /// Appends batches of three records with this value.
    fn append(&self, from: i64, batches: i64, value: u8) {
        for n in 0..batches {
            let base = from + 3 * n;
            self.work(Work::Append {
                from: Offset(base),
                batches: batch(base, value),
                watermark: HighWatermark(Offset(0)),
                log_start: LogStart(Offset(0)),
            });
        }
    }

    fn marks(&self) -> Vec<Marks> {
        let (reply, marks) = oneshot::channel();
        self.lane.send(Event::Marks(reply));
        marks.blocking_recv().unwrap()
    }

    /// The checkpoint says no more than this.
    fn assert_durable_before(&self, end: i64) {
        let point = self.dirs.written_recovery_point(&name(), DirIndex(0));
        assert!(point.0 <= end, "{point:?}, synced before {end}");
    }

    /// The log as it is found after a loss of power.
    fn after_power_loss(self, seed: u64) -> Log {
        self.disk.crash(seed);
        let config = LogConfig::default();
        let opened = dirs_on(&self.disk).open_log(
            &name(),
            ORDERS.topic,
            DirectoryId::UNASSIGNED,
            config,
            WallMs(1_000_000),
        );
        opened.unwrap().0
    }
}

fn batch(base: i64, value: u8) -> Bytes {
    let mut builder = BatchBuilder::new(Codec::None).base_offset(base);
    for _ in 0..3 {
        builder.append(1_000, None, Some(&[value; 100]), &[]);
    }
    builder.build()
}

/// Whole batches, each as it was appended, without a hole. What was cut may be back: its epoch tells, and the leader's
/// history cuts it again.
fn assert_was_written(log: &Log, seed: u64) {
    let (view, mut at) = (log.view(), partition_log::Offset::ZERO);
    while at < log.log_end() {
        let slice = view
            .read(at, log.log_end(), 1_000_000, FirstBatch::Whole)
            .unwrap();
        let bytes = Bytes::from(slice.unwrap().read().unwrap());
        for found in Batches::new(bytes) {
            let found = found.unwrap_or_else(|error| panic!("seed {seed}, at {at:?}: {error:?}"));
            let appended = [b'a', b'b'].map(|value| batch(at.0, value));
            assert!(
                appended.contains(&found.bytes),
                "seed {seed}, at {at:?}: {found:?}"
            );
            at = partition_log::Offset(found.header.last_offset() + 1);
        }
    }
}

#[test]
fn what_is_appended_after_a_cut_is_not_trusted_by_a_recovery_point_from_before() {
    for seed in 0..48 {
        let follower = Follower::new();
        follower.append(0, 10, b'a');
        follower.dirs.write_recovery(&follower.marks()).unwrap();
        follower.told(&image("1000000"), Action::Refresh);

        follower.work(Work::Truncate(Offset(9)));
        follower.append(9, 10, b'b');
        follower.assert_durable_before(9);
        let log = follower.after_power_loss(seed);

        assert_was_written(&log, seed);
        assert!(
            partition_log::Offset(9) <= log.log_end(),
            "what was synced is there"
        );
    }
}

/// Of what was cut off, nothing comes back behind what was written in its place: nobody would notice, for the epochs of the
/// whole log would be right up to its end.
#[test]
fn what_was_cut_does_not_come_back_behind_what_is_written_in_its_place() {
    for seed in 0..48 {
        let follower = Follower::new();
        follower.append(0, 10, b'a');
        follower.dirs.write_recovery(&follower.marks()).unwrap();
        follower.told(&image("1000000"), Action::Refresh);

        follower.work(Work::Truncate(Offset(9)));
        follower.append(9, 1, b'b');
        let log = follower.after_power_loss(seed);

        assert!(
            log.log_end() <= partition_log::Offset(12),
            "seed {seed}: it ends at {:?}",
            log.log_end()
        );
        assert_was_written(&log, seed);
    }
}

/// BC-006: a process that is killed while it recovers must not throw the work away.
#[test]
fn what_took_long_to_recover_is_not_recovered_again() {
    let follower = Follower::new();
    follower.told(&image("1000000"), Action::Refresh);
    follower.append(0, 3_000, b'a');
    let disk = follower.killed();
    assert_eq!(dirs_on(&disk).written_recovery_point(&name(), DirIndex(0)).0, 0);

    disk.crash(0);
    let again = Follower::on(disk);
    again.told(&image("1000000"), Action::Create);
    assert_eq!(again.dirs.recovery().left(), 0);
    let disk = again.killed();

    assert_eq!(
        dirs_on(&disk).written_recovery_point(&name(), DirIndex(0)).0,
        9_000
    );
}

/// A broker that is asked to stop before it has opened its logs must not say that they are in order: nobody looked.
#[test]
fn logs_that_were_not_opened_are_not_marked_clean() {
    let follower = Follower::new();
    follower.append(0, 3, b'a');
    let disk = follower.killed();
    let epoch = BrokerEpoch(7);

    dirs_on(&disk).mark_clean(epoch, Loading::Unfinished).unwrap();
    disk.crash(0);
    assert_eq!(dirs_on(&disk).previous_epoch(), None);

    let again = Follower::on(disk);
    again.told(&image("1"), Action::Create);
    again.dirs.mark_clean(epoch, Loading::Finished).unwrap();
    let disk = again.killed();
    let clean = dirs_on(&disk);
    assert_eq!(clean.previous_epoch(), Some(epoch));
    // The mark is used up by the start; what was clean and was not touched still is.
    clean.mark_clean(epoch, Loading::Unfinished).unwrap();
    disk.crash(0);
    assert_eq!(dirs_on(&disk).previous_epoch(), Some(epoch));
}

/// A log stays closed where the disk has no room for its indexes, or it is damaged. A mark would have the next start trust
/// it unseen, and without its checkpoints deleted records would come back.
#[test]
fn a_log_that_could_not_be_opened_keeps_its_checkpoints_and_its_directory_is_not_marked_clean() {
    let follower = Follower::new();
    follower.append(0, 3, b'a');
    follower.dirs.write_recovery(&follower.marks()).unwrap();
    follower.dirs.write_high_watermarks(&follower.marks()).unwrap();
    let (disk, index) = (follower.killed(), DirIndex(0));
    let before = dirs_on(&disk).written_recovery_point(&name(), index);
    assert_eq!(before.0, 9);

    disk.crash(0);
    let others = dirs_on(&disk);
    others.write_recovery(&[]).unwrap();
    others.write_high_watermarks(&[]).unwrap();
    others.mark_clean(BrokerEpoch(7), Loading::Finished).unwrap();
    disk.crash(0);

    assert_eq!(dirs_on(&disk).previous_epoch(), None);
    assert_eq!(dirs_on(&disk).written_recovery_point(&name(), index), before);
}

#[test]
fn marks_that_were_noted_before_a_cut_are_not_written_after_it() {
    for seed in 0..48 {
        let follower = Follower::new();
        follower.append(0, 10, b'a');
        let marks = follower.marks();
        follower.told(&image("1000000"), Action::Refresh);

        follower.work(Work::Truncate(Offset(9)));
        follower.append(9, 10, b'b');
        follower.dirs.write_recovery(&marks).unwrap();
        follower.assert_durable_before(9);
        assert_was_written(&follower.after_power_loss(seed), seed);
    }
}

#[test]
fn a_log_that_begins_anew_lower_is_not_cut_by_the_start_it_had() {
    let follower = Follower::new();
    follower.work(Work::Restart(LogStart(Offset(90))));
    follower.append(90, 1, b'a');
    follower.dirs.write_recovery(&follower.marks()).unwrap();

    follower.work(Work::Restart(LogStart(Offset(0))));
    follower.append(0, 3, b'b');
    let log = follower.after_power_loss(1);

    assert_eq!((log.log_start().0, log.log_end().0), (0, 9));
    assert_was_written(&log, 1);
}

#[test]
fn a_cut_above_what_is_noted_writes_nothing() {
    let follower = Follower::new();
    follower.append(0, 2, b'a');
    follower.dirs.write_recovery(&follower.marks()).unwrap();
    follower.told(&image("1000000"), Action::Refresh);
    follower.append(6, 4, b'a');

    let before = follower.dirs.cuts();
    follower.work(Work::Truncate(Offset(9)));
    assert_eq!(follower.dirs.cuts(), before);
}

#[test]
fn a_log_created_under_the_name_of_a_deleted_one_inherits_nothing() {
    let follower = Follower::new();
    follower.work(Work::Restart(LogStart(Offset(90))));
    follower.append(90, 1, b'a');
    let marks = follower.marks();
    follower.dirs.write_recovery(&marks).unwrap();

    follower.told(&image("1"), |assignment| Action::Delete(assignment.partition));
    follower.told(&image("1"), Action::Create);
    follower.dirs.write_recovery(&marks).unwrap();
    follower.append(0, 3, b'b');
    let log = follower.after_power_loss(1);

    assert_eq!((log.log_start().0, log.log_end().0), (0, 9));
}
