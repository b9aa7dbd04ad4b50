//! A broker's process: the shipped step machines over the shipped log, with everything between them that its shell
//! would carry.
//!
//! Must not: decide anything. What an event means is asked of `broker-core`, what bytes mean of `partition-log`.

mod fetching;
mod following;
mod group_log;
mod groups;
mod hosted;
mod life;
mod metadata_in;
mod producing;
mod reading;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use broker_core::fetcher::Fetcher;
use broker_core::follow::{self, Follower};
use broker_core::lifecycle::{self, Lifecycle};
use broker_core::names::Names;
use broker_core::offsets::Offset;
use broker_core::produce::{Pending, WaiterId};
use broker_core::producer_ids::ProducerIds;
use broker_core::proposals::Proposals;
use broker_core::replica::Assignment;
use broker_core::time::Moment;
use host::{SeededEntropy, SimDisk, WallMs};
use metadata::ids::{BrokerEpoch, BrokerId, ControllerId, IncarnationId, LeaderEpoch, PartitionId};
use metadata::image::Image;
use metadata::uuid::Uuid;
use partition_log::{DirOwner, LogConfig, LogDir, LogDirError, LogHost, SyncJob, TopicPartition};

use self::fetching::Errand;
use self::following::Work;
pub use self::groups::GroupConfig;
use self::groups::{GroupAppend, Groups};
use self::hosted::Hosted;
use self::producing::{Connection, Held, Place};
use self::reading::Parked;
use crate::agenda::Agenda;
use crate::chance::Chance;
use crate::fact::{Fact, Incarnation};
use crate::message::{CallKey, NodeId, StreamKey};
use crate::node::{At, Exit, Input, Output, Process};

/// The cluster of every run.
pub const CLUSTER: &str = "sim-cluster";

/// More than any honest moment needs: what goes on for ever within one is a failure, and takes no memory before it is one.
const STEPS_MAX: usize = 100_000;

/// How a broker is configured.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its id.
    pub me: BrokerId,
    /// The controllers that it knows.
    pub controllers: Vec<ControllerId>,
    /// `replica.lag.time.max.ms`.
    pub lag_max: Duration,
    /// The times of its life.
    pub timing: lifecycle::Timing,
    /// `metadata.max.idle.interval.ms`.
    pub idle_interval: Duration,
    /// What its logs are configured with.
    pub log: LogConfig,
    /// Between two checkpoints.
    pub checkpoint_interval: Duration,
    /// How long a write takes at most while the disk is well.
    pub write_max: Duration,
    /// How it coordinates groups, where there are any.
    pub groups: Option<GroupConfig>,
}

/// What is to be done inside the process a little later.
enum Later {
    /// A lane takes in an image.
    Lane(usize, Arc<Image>),
    /// A produced batch reaches the log.
    Produce(Place),
    /// Fetched batches, or a truncation, reach the log.
    Follow(Work),
    /// A log is synced.
    Sync(PartitionId, SyncJob),
    /// A log that found no room is tried again.
    OpenAgain(PartitionId),
    /// Checkpoints are written.
    Checkpoint,
    /// The group coordinator looks for posts.
    LookForPosts,
    /// The log of a post is read.
    LoadPost(PartitionId, LeaderEpoch),
    /// What a post decided is sent off.
    SendGroups(PartitionId, LeaderEpoch),
    /// It reaches the log.
    AppendGroups(GroupAppend),
    /// A post has waited long enough for the in-sync replicas.
    GroupPatience(WaiterId),
}

/// A broker's process.
pub struct Broker {
    config: Config,
    incarnation: Incarnation,
    id: IncarnationId,
    started: Duration,
    chance: Chance,
    host: LogHost,
    dir: LogDir,
    lifecycle: Lifecycle,
    last_epoch: Option<BrokerEpoch>,
    follower: Follower,
    /// The image that each lane has carried out.
    lanes: Vec<Arc<Image>>,
    /// When each lane is free to take in the next.
    lanes_free_at: Vec<Duration>,
    hosted: BTreeMap<PartitionId, Hosted>,
    owners: Names<TopicPartition>,
    /// Partitions whose log found no room, and what the image said of them.
    unopened: BTreeMap<PartitionId, (Assignment, Arc<Image>)>,
    fetchers: BTreeMap<BrokerId, Fetcher>,
    proposals: Proposals,
    producer_ids: ProducerIds,
    errands: BTreeMap<CallKey, Errand>,
    session: Option<StreamKey>,
    follow_stream: Option<(StreamKey, follow::StreamId)>,
    next_number: u64,
    next_session: usize,
    next_follow: usize,
    active: Option<ControllerId>,
    connections: BTreeMap<StreamKey, Connection>,
    waiters: BTreeMap<WaiterId, Place>,
    /// Produce requests that wait for replicas, with the offset of their first record and the one behind their last.
    pendings: BTreeMap<Place, (Pending, Offset, Offset)>,
    next_waiter: u64,
    held: Vec<Held>,
    parked: VecDeque<Parked>,
    groups: Option<Groups>,
    later: Agenda<Later>,
    disk_free_at: Duration,
    /// Every write takes this much longer: the disk is slow.
    pub disk_penalty: Duration,
    stopped: bool,
}

impl Broker {
    /// A process that starts on a disk.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub fn start(
        config: Config,
        disk: SimDisk,
        boot: u32,
        now: Duration,
        mut chance: Chance,
    ) -> Result<Self, LogDirError> {
        let host = LogHost {
            disk: Arc::new(disk),
            entropy: Arc::new(SeededEntropy::new(chance.bits())),
        };
        let owner = DirOwner {
            cluster_id: CLUSTER.to_owned(),
            node_id: config.me.0,
        };
        let mut dir = LogDir::open(&host, &PathBuf::from("/data"), &owner)?;
        dir.take_into_use()?;
        for path in dir.unfinished_deletions()? {
            dir.remove(&path)?;
        }
        let lanes = NonZeroUsize::new(2).expect("two is not zero");
        let start = Moment::START;
        let mut later = Agenda::default();
        later.put(now + config.checkpoint_interval, Later::Checkpoint);
        let id = IncarnationId(Uuid::from_random_bits(chance.wide_bits()));
        let incarnation = Incarnation {
            broker: config.me,
            boot,
        };
        let groups = config.groups.clone();
        Ok(Self {
            groups: groups.map(|groups| Groups::new(groups, &format!("{incarnation:?}"))),
            incarnation,
            id,
            started: now,
            host,
            dir,
            lifecycle: Lifecycle::new(config.timing, start),
            last_epoch: None,
            follower: Follower::new(Some(CLUSTER.to_owned()), lanes, config.idle_interval, start)
                .of_process(config.me, id),
            lanes: vec![Arc::default(); lanes.get()],
            lanes_free_at: vec![now; lanes.get()],
            hosted: BTreeMap::new(),
            owners: Names::default(),
            unopened: BTreeMap::new(),
            fetchers: BTreeMap::new(),
            proposals: Proposals::default(),
            producer_ids: ProducerIds::default(),
            errands: BTreeMap::new(),
            session: None,
            follow_stream: None,
            next_number: u64::from(boot) << 32,
            next_session: boot as usize,
            next_follow: boot as usize + 1,
            active: None,
            connections: BTreeMap::new(),
            waiters: BTreeMap::new(),
            pendings: BTreeMap::new(),
            next_waiter: 0,
            held: Vec::new(),
            parked: VecDeque::new(),
            later,
            disk_free_at: now,
            disk_penalty: Duration::ZERO,
            stopped: false,
            chance,
            config,
        })
    }

    /// Its own moment at a moment of the world.
    fn now(&self, at: At) -> Moment {
        Moment::from_start(at.world.saturating_sub(self.started))
    }

    fn world(&self, moment: Moment) -> Duration {
        self.started + moment.since_start()
    }

    fn node(&self) -> NodeId {
        NodeId::Broker(self.config.me.0)
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn stream(&mut self) -> StreamKey {
        StreamKey {
            opener: self.node(),
            number: self.number(),
        }
    }

    fn call(&mut self) -> CallKey {
        CallKey {
            asker: self.node(),
            number: self.number(),
        }
    }

    /// The moment at which the next write reaches the disk; writes reach it one after the other.
    fn write_at(&mut self, at: At) -> Duration {
        let cost = self.chance.span(Duration::ZERO, self.config.write_max) + self.disk_penalty;
        self.disk_free_at = self.disk_free_at.max(at.world) + cost;
        self.disk_free_at
    }

    fn alarm(&self, what: String, out: &mut Vec<Output>) {
        out.push(Output::Fact(Fact::Alarm {
            by: format!("{:?}", self.incarnation),
            what,
        }));
    }

    fn fail(&mut self, why: String, out: &mut Vec<Output>) {
        if !self.stopped {
            self.stopped = true;
            out.push(Output::Exit(Exit::Failed(why)));
        }
    }

    /// The replicas and their logs, for the judges.
    pub fn hosted(
        &self,
    ) -> impl Iterator<Item = (PartitionId, &broker_core::replica::Replica, &partition_log::Log)> {
        self.hosted
            .iter()
            .map(|(id, hosted)| (*id, &hosted.replica, &hosted.log))
    }

    /// The image that it acts on.
    pub fn image(&self) -> &Arc<Image> {
        self.follower.published()
    }

    /// Where it is in its life.
    pub fn phase(&self) -> &lifecycle::Phase {
        self.lifecycle.phase()
    }

    /// The epoch of its registration.
    pub fn epoch(&self) -> Option<BrokerEpoch> {
        self.lifecycle.epoch()
    }

    fn wall(at: At) -> WallMs {
        WallMs(at.wall_ms)
    }

    fn do_later(&mut self, at: At, later: Later, out: &mut Vec<Output>) {
        match later {
            Later::Lane(lane, image) => self.lane_takes_in(at, lane, image, out),
            Later::Produce(place) => self.append(at, place, out),
            Later::Follow(work) => self.carry_work(at, work, out),
            Later::Sync(partition, job) => self.sync(partition, job, out),
            Later::OpenAgain(partition) => self.open_again(at, partition, out),
            Later::Checkpoint => {
                if let Err(fault) = self.checkpoint() {
                    self.disk_failed(&fault, out);
                }
                self.later
                    .put(at.world + self.config.checkpoint_interval, Later::Checkpoint);
            }
            Later::LookForPosts => self.look_for_posts(at, out),
            Later::LoadPost(partition, under) => self.load_post(at, partition, under, out),
            Later::SendGroups(partition, under) => self.send_groups(at, partition, under),
            Later::AppendGroups(append) => self.append_groups(at, append, out),
            Later::GroupPatience(waiter) => self.group_patience(at, waiter, out),
        }
    }

    fn tick(&mut self, at: At, out: &mut Vec<Output>) {
        let mut steps = 0;
        while !self.stopped
            && let Some((_, later)) = self.later.take_due(at.world)
        {
            steps += 1;
            assert!(steps < STEPS_MAX, "one moment ends");
            self.do_later(at, later, out);
        }
        let now = self.now(at);
        if self.lifecycle.next_tick().is_some_and(|due| due <= now) {
            self.live(at, lifecycle::Event::Tick, out);
        }
        if self.follower.next_tick() <= now {
            self.follow_metadata(at, follow::Event::Tick, out);
        }
        let is_due = |hosted: &Hosted| hosted.replica.next_tick().is_some_and(|due| due <= now);
        let due: Vec<PartitionId> = self
            .hosted
            .iter()
            .filter(|(_, hosted)| is_due(hosted))
            .map(|(id, _)| *id)
            .collect();
        for partition in due {
            if let Some(hosted) = self.hosted.get_mut(&partition) {
                let effects = hosted.replica.tick(now);
                self.carry_out(at, partition, effects, out);
            }
        }
        if self.held.iter().any(|held| held.until <= now) {
            self.look_at_held(at, out);
        }
        self.expire(at, out);
        self.tick_groups(at, out);
    }
}

impl Process for Broker {
    fn take(&mut self, at: At, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        if self.stopped {
            return out;
        }
        self.excuse_groups(at);
        match input {
            Input::StreamOpened(key, _, _) => self.client_connected(key, &mut out),
            Input::StreamReady(key) => {
                if self.session == Some(key) {
                    self.live(at, lifecycle::Event::SessionOpened, &mut out);
                }
            }
            Input::Heard(key, word) => self.heard(at, key, word, &mut out),
            Input::StreamClosed(key, _) => self.stream_closed(at, key, &mut out),
            Input::Asked(call, ask) => self.asked(at, call, ask, &mut out),
            Input::Answered(call, told) => self.answered(at, call, told, &mut out),
            Input::Tick => self.tick(at, &mut out),
            Input::Stop => self.live(at, lifecycle::Event::ShutdownAsked, &mut out),
            Input::Quorum(_) | Input::Wish(_) => {}
        }
        if !self.stopped {
            self.pump(at, &mut out);
        }
        out
    }

    fn next_tick(&self) -> Option<Duration> {
        if self.stopped {
            return None;
        }
        let moments = [
            self.lifecycle.next_tick(),
            Some(self.follower.next_tick()),
            self.hosted
                .values()
                .filter_map(|hosted| hosted.replica.next_tick())
                .min(),
            self.next_pump(),
            self.groups.as_ref().and_then(Groups::next_tick),
            self.held.iter().map(|held| held.until).min(),
            self.pendings
                .values()
                .map(|(pending, ..)| pending.deadline())
                .min(),
        ];
        let moments = moments.into_iter().flatten().map(|moment| self.world(moment));
        let parked = self.parked.iter().map(|parked| parked.deadline).min();
        moments.chain(parked).chain(self.later.next_at()).min()
    }
}
