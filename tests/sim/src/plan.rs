//! What a run does, drawn from its seed: the topology, the workload, and which faults come when. Options are swarmed: each run uses some
//! of them, so that rare combinations come up.

use std::time::Duration;

use controller_core::feed;

use crate::chance::Chance;
use crate::client::Habits;
use crate::network::Weather;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A process is killed; the machine goes on.
    Crash,
    /// A machine loses power: what was not synced is gone, or torn.
    PowerLoss,
    /// A broker is asked to stop.
    CleanStop,
    /// A broker comes back with an empty disk.
    Wipe,
    /// A process stands still.
    Pause,
    /// A wall clock jumps.
    ClockJump,
    /// Messages go one way only.
    CutOneWay,
    /// A node is cut off from all others.
    Isolate,
    /// A broker and the controllers do not hear each other.
    CutControllers,
    /// Two brokers do not hear each other.
    CutBrokers,
    /// The leader of the quorum hands over.
    HandOver,
    /// The quorum core of the leader is rebuilt in its process.
    RestartInPlace,
    /// The leader of the quorum hears nobody for a moment.
    LapseLease,
    /// Proposals are refused for a moment.
    RefuseProposals,
    /// A disk is slow.
    SlowDisk,
    /// A disk is full.
    FullDisk,
    /// All brokers are restarted in order, one after the other.
    Roll,
    /// A topic is deleted, and another one created under its name.
    DeleteTopic,
    /// A byte of a record in a log file is another one.
    BitRot,
    /// A topic is configured anew.
    AlterConfigs,
}

impl FaultKind {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Crash,
        Self::PowerLoss,
        Self::CleanStop,
        Self::Wipe,
        Self::Pause,
        Self::ClockJump,
        Self::CutOneWay,
        Self::Isolate,
        Self::CutControllers,
        Self::CutBrokers,
        Self::HandOver,
        Self::RestartInPlace,
        Self::LapseLease,
        Self::RefuseProposals,
        Self::SlowDisk,
        Self::FullDisk,
        Self::Roll,
        Self::DeleteTopic,
        Self::BitRot,
        Self::AlterConfigs,
    ];

    /// Whether it is the wish of an operator; which of these there are is drawn by themselves.
    fn is_of_operators(self) -> bool {
        self == Self::DeleteTopic
    }

    /// What a plan must not be without, if the kind was drawn later than everything else.
    fn extra(self) -> Option<Extra> {
        match self {
            Self::BitRot => Some(Extra::BitRot),
            Self::AlterConfigs => Some(Extra::Configs),
            _ => None,
        }
    }

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::PowerLoss => "power-loss",
            Self::CleanStop => "clean-stop",
            Self::Wipe => "wipe",
            Self::Pause => "pause",
            Self::ClockJump => "clock-jump",
            Self::CutOneWay => "cut-one-way",
            Self::Isolate => "isolate",
            Self::CutControllers => "cut-controllers",
            Self::CutBrokers => "cut-brokers",
            Self::HandOver => "hand-over",
            Self::RestartInPlace => "restart-in-place",
            Self::LapseLease => "lapse-lease",
            Self::RefuseProposals => "refuse-proposals",
            Self::SlowDisk => "slow-disk",
            Self::FullDisk => "full-disk",
            Self::Roll => "roll",
            Self::DeleteTopic => "delete-topic",
            Self::BitRot => "bit-rot",
            Self::AlterConfigs => "alter-configs",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// A fault that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When.
    pub at: Duration,
    /// For how long.
    pub lasts: Duration,
    /// Chooses whom it hits, and how.
    pub dice: u64,
}

/// How many nodes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Controllers: 1 to 5.
    pub controllers: usize,
    /// Brokers: 1 to 7.
    pub brokers: usize,
}

/// Something that plans drew later than everything else, each from its own stream: without it a seed's history is what it
/// was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extra {
    /// Consumer groups, and the topic of their coordinators.
    Groups,
    /// Disks that damage what was written.
    BitRot,
    /// Topics that are configured anew.
    Configs,
}

impl Extra {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Groups, Self::BitRot, Self::Configs];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Groups => "groups",
            Self::BitRot => "bit-rot",
            Self::Configs => "configs",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|extra| extra.name() == name)
    }
}

/// Consumer groups, and the topic of their coordinators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Members of each group.
    pub members: Vec<usize>,
    /// `offsets.topic.num.partitions`
    pub partitions: usize,
    /// `offsets.commit.timeout.ms`
    pub patience: Duration,
    /// What members do.
    pub habits: Habits,
}

/// What the caller holds fixed, against what the seed would draw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Only these kinds of faults.
    pub only: Option<Vec<FaultKind>>,
    /// This many nodes.
    pub topology: Option<Topology>,
    /// Only the faults at these places of the plan.
    pub faults: Option<Vec<usize>>,
    /// The safety phase lasts no longer than this.
    pub safety_max: Option<Duration>,
    /// None of these.
    pub without: Vec<Extra>,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where everything comes from.
    pub seed: u64,
    /// How many nodes.
    pub topology: Topology,
    /// Partitions of each topic.
    pub topics: Vec<usize>,
    /// Replicas of each partition.
    pub replication: usize,
    /// `min.insync.replicas`.
    pub min_in_sync: usize,
    /// `flush.messages=1`.
    pub flush_every_batch: bool,
    /// `segment.bytes`.
    pub segment_bytes: u32,
    /// `replica.lag.time.max.ms`.
    pub lag_max: Duration,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// Between checkpoints.
    pub checkpoint_interval: Duration,
    /// What controllers hold for followers, and hand out at once.
    pub feed: feed::Limits,
    /// Idempotent producers.
    pub idempotent: usize,
    /// Producers without an id.
    pub plain: usize,
    /// Consumers.
    pub readers: usize,
    /// Between two batches of a producer.
    pub produce_interval: Duration,
    /// Of a thousand reads so many go to any replica.
    pub stray_reads_per_mille: u64,
    /// Consumer groups; most runs have some.
    pub groups: Option<Groups>,
    /// How the network behaves.
    pub weather: Weather,
    /// Of a thousand proposals so many are refused out of the blue.
    pub refused_per_mille: u64,
    /// How long the safety phase lasts.
    pub safety: Duration,
    /// After it, everything must be well within this.
    pub converge_max: Duration,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// The plan of a seed, within limits.
    #[must_use]
    pub fn of(seed: u64, limits: &Limits) -> Self {
        let mut chance = Chance::of(seed, "plan");
        let drawn = Topology {
            controllers: *chance.pick(&[1, 3, 3, 3, 5]),
            brokers: usize::try_from(*chance.pick(&[1_u64, 2, 3, 3, 3, 4, 5, 7])).expect("few"),
        };
        let topology = limits.topology.unwrap_or(drawn);
        let replication = topology.brokers.min(3);
        let count = |chance: &mut Chance, from, to| usize::try_from(chance.between(from, to)).expect("few");
        let millis = Duration::from_millis;
        let mut plan = Self {
            seed,
            topology,
            topics: (0..count(&mut chance, 1, 2))
                .map(|_| count(&mut chance, 1, 3))
                .collect(),
            replication,
            min_in_sync: if replication == 3 {
                count(&mut chance, 1, 4).clamp(1, 2)
            } else {
                1
            },
            flush_every_batch: chance.per_mille(250),
            segment_bytes: *chance.pick(&[2048, 16 * 1024, 1 << 20]),
            lag_max: millis(*chance.pick(&[1000, 2000, 5000])),
            session_timeout: millis(*chance.pick(&[1500, 3000, 9000])),
            heartbeat_interval: millis(*chance.pick(&[300, 500])),
            checkpoint_interval: millis(*chance.pick(&[500, 2000, 5000])),
            feed: feed::Limits {
                tail_bytes_max: *chance.pick(&[500, 5_000, 100_000]),
                look_bytes_max: *Chance::of(seed, "looks").pick(&[100, 2_000]),
            },
            idempotent: count(&mut chance, 1, 3),
            plain: count(&mut chance, 0, 1),
            readers: count(&mut chance, 1, 2),
            produce_interval: millis(*chance.pick(&[20, 50, 100])),
            stray_reads_per_mille: *chance.pick(&[0, 100, 500]),
            groups: groups(seed).filter(|_| !limits.without.contains(&Extra::Groups)),
            weather: weather(&mut chance),
            refused_per_mille: *chance.pick(&[0, 0, 20, 100]),
            safety: millis(chance.between(8_000, 20_000)),
            converge_max: Duration::from_secs(60),
            faults: Vec::new(),
        };
        plan.draw_faults(seed, limits);
        if let Some(longest) = limits.safety_max {
            plan.safety = plan.safety.min(longest);
        }
        plan
    }

    fn draw_faults(&mut self, seed: u64, limits: &Limits) {
        let mut chance = Chance::of(seed, "faults");
        let share = chance.between(200, 800);
        let (operators, others): (Vec<FaultKind>, Vec<FaultKind>) = FaultKind::ALL
            .iter()
            .copied()
            .filter(|kind| kind.extra().is_none())
            .partition(|kind| kind.is_of_operators());
        let mut kinds: Vec<FaultKind> = others.into_iter().filter(|_| chance.per_mille(share)).collect();
        let mut wishes = Chance::of(seed, "operators");
        kinds.extend(operators.into_iter().filter(|_| wishes.per_mille(share)));
        if let Some(only) = &limits.only {
            kinds.clone_from(only);
        }
        if kinds.is_empty() {
            kinds.push(FaultKind::Crash);
        }
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).expect("short");
        for _ in 0..chance.between(3, 12) {
            self.faults.push(Fault {
                kind: *chance.pick(&kinds),
                at: Duration::from_millis(chance.between(2_000, ms(self.safety))),
                lasts: Duration::from_millis(chance.between(50, 6_000)),
                dice: chance.bits(),
            });
        }
        self.faults.sort_by_key(|fault| fault.at);
        if limits.only.is_none() {
            self.draw_extra_faults(seed, limits);
        }
        if let Some(kept) = &limits.faults {
            let faults = std::mem::take(&mut self.faults);
            let kept = faults
                .into_iter()
                .enumerate()
                .filter(|(place, _)| kept.contains(place));
            self.faults = kept.map(|(_, fault)| fault).collect();
        }
    }

    /// Faults of the kinds that were drawn later than everything else, behind the others: their places stay what they were.
    fn draw_extra_faults(&mut self, seed: u64, limits: &Limits) {
        let extras = FaultKind::ALL
            .iter()
            .filter_map(|kind| Some((*kind, kind.extra()?)))
            .filter(|(_, extra)| !limits.without.contains(extra));
        for (kind, _) in extras {
            let mut chance = Chance::of(seed, kind.name());
            if !chance.per_mille(500) {
                continue;
            }
            let latest = u64::try_from(self.safety.as_millis()).expect("short");
            for _ in 0..chance.between(1, 2) {
                self.faults.push(Fault {
                    kind,
                    at: Duration::from_millis(chance.between(2_000, latest)),
                    lasts: Duration::from_millis(chance.between(50, 6_000)),
                    dice: chance.bits(),
                });
            }
        }
    }

    /// In words, a line or two.
    #[must_use]
    pub fn told(&self) -> String {
        let faults: Vec<String> = self
            .faults
            .iter()
            .map(|fault| format!("{}@{:.1}s", fault.kind.name(), fault.at.as_secs_f32()))
            .collect();
        format!(
            "seed {}: {} controllers, {} brokers, topics {:?}, {} replicas, min {} in sync{}, {}+{} producers, {} readers, groups of {:?}, {:.1}s\n  faults: {}",
            self.seed,
            self.topology.controllers,
            self.topology.brokers,
            self.topics,
            self.replication,
            self.min_in_sync,
            if self.flush_every_batch {
                ", synced before the answer"
            } else {
                ""
            },
            self.idempotent,
            self.plain,
            self.readers,
            self.groups
                .as_ref()
                .map_or(&[][..], |groups| groups.members.as_slice()),
            self.safety.as_secs_f32(),
            faults.join(" "),
        )
    }
}

fn groups(seed: u64) -> Option<Groups> {
    let mut chance = Chance::of(seed, "groups");
    let count = |chance: &mut Chance, from, to| usize::try_from(chance.between(from, to)).expect("few");
    chance.per_mille(700).then(|| Groups {
        members: (0..count(&mut chance, 1, 2))
            .map(|_| count(&mut chance, 1, 3))
            .collect(),
        partitions: count(&mut chance, 1, 3),
        patience: Duration::from_millis(*chance.pick(&[300, 1000, 3000])),
        habits: Habits {
            session_timeout_ms: *chance.pick(&[1000, 1500, 3000]),
            commit_interval: Duration::from_millis(*chance.pick(&[50, 100, 300])),
            restless_per_mille: *chance.pick(&[10, 30, 100]),
        },
    })
}

fn weather(chance: &mut Chance) -> Weather {
    let rough = chance.per_mille(600);
    Weather {
        delay_min: Duration::from_micros(100),
        delay_max: Duration::from_micros(chance.between(500, 5_000)),
        slow_per_mille: if rough { chance.between(0, 30) } else { 0 },
        lost_per_mille: if rough { chance.between(0, 20) } else { 0 },
        repeated_per_mille: if rough { chance.between(0, 20) } else { 0 },
    }
}
