//! A broker that follows, on a disk in memory, for the tests of what its lane does.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use broker_core::fetcher::{LocalLog, Outcome};
use broker_core::lanes::Action;
use broker_core::lifecycle::CleanStop;
use broker_core::offsets::{HighWatermark, LogStart, Offset};
use broker_core::replica::{Assignment, MinInSync, Serving};
use bytes::Bytes;
use host::{Disk, SeededEntropy, SimClock, SimDisk, WallMs};
use metadata::config::{NodeConfig, NodeId, Role};
use metadata::ids::{
    BrokerEpoch, BrokerId, DirectoryId, IncarnationId, LeaderEpoch, PartitionEpoch, PartitionId,
    PartitionIndex, TopicId,
};
use metadata::image::{Image, Partition, Topic};
use metadata::record::{ConfigResource, LeaderRecovery};
use metadata::uuid::Uuid;
use partition_log::{DirOwner, Log, LogConfig, LogHost, TopicPartition};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;
use wire::batch::BatchBuilder;
use wire::codec::Codec;

use super::dirs::{DirIndex, Dirs, Marks};
use super::follower::{FetchedPart, Work};
use super::hosted::Partitions;
use super::lane::{self, Event, LaneHandle};
use super::shared::Shared;
use super::sync::SyncThreads;
use crate::metrics::BrokerMetrics;

pub(super) const ORDERS: PartitionId = PartitionId {
    topic: TopicId(Uuid(7)),
    index: PartitionIndex(0),
};
pub(super) const EPOCH: LeaderEpoch = LeaderEpoch(3);

/// Broker 1, which follows broker 2, on a disk in memory.
pub(super) struct Follower {
    pub(super) disk: SimDisk,
    pub(super) dirs: Arc<Dirs>,
    pub(super) partitions: Arc<Partitions>,
    lane: LaneHandle,
    _ends: Box<dyn std::any::Any>,
}

/// What broker 1 leaves when it ends in order.
pub(super) fn clean_stop() -> CleanStop {
    CleanStop {
        epoch: BrokerEpoch(7),
        unserved: vec![IncarnationId(Uuid(70))],
    }
}

pub(super) fn host_on(disk: &SimDisk) -> LogHost {
    LogHost {
        disk: Arc::new(disk.clone()),
        entropy: Arc::new(SeededEntropy::new(1)),
    }
}

pub(super) fn dirs_on(disk: &SimDisk) -> Dirs {
    let owner = DirOwner {
        cluster_id: "a cluster".to_owned(),
        node_id: 1,
    };
    let clock = Arc::new(SimClock::new(WallMs(1_000_000)));
    Dirs::open(host_on(disk), clock, &[PathBuf::from("/logs")], &owner).unwrap()
}

pub(super) fn name() -> TopicPartition {
    TopicPartition {
        topic: "orders".to_owned(),
        partition: 0,
    }
}

/// The topic; its log is synced after so many messages.
pub(super) fn image(flush_messages: &str) -> Arc<Image> {
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
    let settings = [("flush.messages", flush_messages), ("segment.bytes", "1048576")];
    let settings: BTreeMap<_, _> = settings
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    image
        .configs
        .insert(ConfigResource::Topic(name().topic), Arc::new(settings));
    Arc::new(image)
}

impl Follower {
    pub(super) fn new() -> Follower {
        let follower = Follower::on(SimDisk::new());
        follower.told(&image("1"), Action::Create);
        follower
    }

    /// A process that starts on this disk.
    pub(super) fn on(disk: SimDisk) -> Follower {
        let dirs = Arc::new(dirs_on(&disk));
        let ((proposals, a), (fetching, b), (doomed, c)) =
            (unbounded_channel(), unbounded_channel(), unbounded_channel());
        let partitions = Arc::new(Partitions::default());
        let shared = Arc::new(Shared {
            me: BrokerId(1),
            config: Arc::new(NodeConfig::bare(Role::Broker, NodeId(1))),
            clock: Arc::new(SimClock::new(WallMs(1_000_000))),
            dirs: Arc::clone(&dirs),
            partitions: Arc::clone(&partitions),
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
            partitions,
            lane,
            _ends: Box::new((a, b, c)),
        }
    }

    /// Closes the logs and ends the lane; what is to be written into the checkpoints then.
    pub(super) fn close(&self) -> Vec<Marks> {
        let (reply, closed) = oneshot::channel();
        self.lane.send(Event::Close(reply));
        closed.blocking_recv().unwrap()
    }

    /// The directory failed, as the lanes are told.
    pub(super) fn directory_failed(&self) {
        self.lane.send(Event::DirectoryFailed(DirIndex(0)));
    }

    /// What readers get to see of the partition, when everything that was sent is done.
    pub(super) fn serving(&self) -> Option<Serving> {
        let _ = self.marks();
        let hosted = self.partitions.get(ORDERS)?;
        Some(hosted.seen.load().view.serving)
    }

    /// The disk once the process is gone. It leaves no checkpoint and no mark of a clean end.
    pub(super) fn killed(self) -> SimDisk {
        self.close();
        // Everything is synced; this takes the locks from the old process.
        self.disk.crash(0);
        self.disk
    }

    pub(super) fn told(&self, image: &Arc<Image>, action: fn(Assignment) -> Action) {
        let assignment = Assignment::of(image, ORDERS, BrokerId(1), MinInSync(1)).unwrap();
        let (done, is_done) = oneshot::channel();
        self.lane.send(Event::Metadata {
            actions: vec![action(assignment)],
            image: Arc::clone(image),
            done: Box::new(move || done.send(()).unwrap()),
        });
        is_done.blocking_recv().unwrap();
    }

    pub(super) fn work(&self, work: Work) -> LocalLog {
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
    pub(super) fn append(&self, from: i64, batches: i64, value: u8) {
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

    pub(super) fn marks(&self) -> Vec<Marks> {
        let (reply, marks) = oneshot::channel();
        self.lane.send(Event::Marks(reply));
        marks.blocking_recv().unwrap()
    }

    /// The checkpoint on the disk says no more than this, whatever the process takes it to say.
    pub(super) fn assert_durable_before(&self, end: i64) {
        let checkpoint = Path::new("/logs/recovery-point-offset-checkpoint");
        let copy = SimDisk::new();
        copy.create_dir_all(Path::new("/logs")).unwrap();
        let bytes = self.disk.read_file(checkpoint, 1_000_000).unwrap();
        host::replace_file(&copy, checkpoint, &bytes).unwrap();
        let point = dirs_on(&copy).written_recovery_point(&name(), DirIndex(0));
        assert!(point.0 <= end, "{point:?}, synced before {end}");
    }

    /// The log as it is found after a loss of power.
    pub(super) fn after_power_loss(self, seed: u64) -> Log {
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

pub(super) fn batch(base: i64, value: u8) -> Bytes {
    let mut builder = BatchBuilder::new(Codec::None).base_offset(base);
    for _ in 0..3 {
        builder.append(1_000, None, Some(&[value; 100]), &[]);
    }
    builder.build()
}
