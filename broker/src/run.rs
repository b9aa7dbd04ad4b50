//! The order in which a broker comes up and goes down.
//!
//! ```text
//!  ports bound ─► directories checked ─► cluster known ─► directories locked ─► session, metadata, lanes
//!              ─► unfenced ─► listening ("ready") ─► asked to stop ─► let go ─► logs closed ─► marked clean
//! ```
//! Must not: decide when a broker may serve or stop; [`broker_core::lifecycle`] does.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use broker_core::follow::Follower;
use broker_core::lifecycle::{Cause, CleanStop, Lifecycle, Timing};
use host::{Clock, Entropy, Monotonic, OsClock, OsDisk, OsEntropy};
use metadata::config::{BrokerSettings, MetricsListener, NodeConfig};
use metadata::ids::IncarnationId;
use metadata::record::{Endpoint, SecurityProtocol};
use metadata::uuid::Uuid;
use observe::Watched;
use partition_log::{DirOwner, LogHost};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use crate::checkpoints;
use crate::controllers::follow::Following;
use crate::controllers::session::{Life, Session, Told};
use crate::controllers::{Controllers, cluster};
use crate::coordinator::{self, Coordinators};
use crate::essential;
use crate::metrics::{State, Watch, gauges};
use crate::net::listener::{self, Bound};
use crate::node::{Node, Parts};
use crate::replication::{self, FetchOrder};
use crate::stop::Reason;
use crate::storage::dirs::{self, Dirs, DirsError, Loading};
use crate::storage::lane::{self, Event, LaneHandle};
use crate::storage::shared::{Doomed, Shared};
use crate::storage::sync::SyncThreads;

/// The most lanes. More threads than that wait for each other at the disk.
const LANES_MAX: usize = 8;

/// How long the last answers may take to leave: what waits for others was answered when leaderships moved.
const LAST_ANSWERS_MAX: Duration = Duration::from_millis(500);

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In order.
    Stopped,
    /// The node could not go on.
    Failed(String),
    /// The node could not begin; one line for each reason. Nothing was changed.
    NotBegun(Vec<String>),
}

/// Runs a broker until it is asked to stop.
pub fn run(config: NodeConfig) -> Outcome {
    let settings = match BrokerSettings::from_config(&config) {
        Ok(settings) => settings,
        Err(errors) => return Outcome::NotBegun(errors.iter().map(ToString::to_string).collect()),
    };
    for warning in config.warnings() {
        warn!("{warning}");
    }
    if let Err(why) = select_mutant() {
        return Outcome::NotBegun(vec![why]);
    }
    let bound = match bind(&settings).and_then(|bound| Ok((bound, bind_metrics(&settings)?))) {
        Ok(bound) => bound,
        Err(line) => return Outcome::NotBegun(vec![line]),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("net")
        .build();
    match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(live(Arc::new(config), settings, bound));
            // Names that are being resolved for connections nobody needs any more must not hold the process up.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Outcome::Failed(format!("no threads: {error}")),
    }
}

/// Breaks one rule on purpose, where the build can.
fn select_mutant() -> Result<(), String> {
    let given = host::environment();
    let Some((_, name)) = given.iter().find(|(key, _)| key == "MILLRACE_MUTANT") else {
        return Ok(());
    };
    warn!(%name, "a rule is broken on purpose");
    select(name)
}

#[cfg(feature = "mutants")]
fn select(name: &str) -> Result<(), String> {
    // Each crate has its own; a name may stand for faults in several.
    let known = [
        broker_core::mutants::select(name),
        partition_log::mutants::select(name),
        metadata::mutants::select(name),
    ];
    known
        .contains(&true)
        .then_some(())
        .ok_or_else(|| format!("MILLRACE_MUTANT={name}: there is none of that name"))
}

#[cfg(not(feature = "mutants"))]
fn select(name: &str) -> Result<(), String> {
    Err(format!("MILLRACE_MUTANT={name}: this build has no mutants"))
}

fn bind(settings: &BrokerSettings) -> Result<Vec<Bound>, String> {
    let bound = settings.listeners.iter().map(|listener| {
        listener::bind(listener).map_err(|error| {
            let host = listener.bind.host.as_deref().unwrap_or_default();
            format!(
                "listeners={}://{host}:{}: {}",
                listener.bind.name,
                listener.bind.port,
                host::cannot_bind(&error)
            )
        })
    });
    bound.collect()
}

/// Where this broker is watched, if that is configured.
fn bind_metrics(settings: &BrokerSettings) -> Result<Option<observe::Endpoint>, String> {
    let Some(MetricsListener { host, port }) = &settings.metrics else {
        return Ok(None);
    };
    let bound = observe::bind(host, *port);
    let failed = |error| format!("metrics.listener={host}:{port}: {}", host::cannot_bind(&error));
    let bound = bound.map_err(failed)?;
    Ok(Some(bound))
}

/// What others are told to dial; ports that the system chose are known now.
fn endpoints(settings: &BrokerSettings, bound: &[Bound]) -> Vec<Endpoint> {
    let machine = || {
        let name = rustix::system::uname();
        name.nodename().to_string_lossy().into_owned()
    };
    let told = settings
        .listeners
        .iter()
        .zip(bound)
        .filter_map(|(listener, bound)| {
            let advertised = listener.advertised.as_ref()?;
            Some(Endpoint {
                listener: listener.bind.name.clone(),
                host: advertised.host.clone().unwrap_or_else(machine),
                port: advertised
                    .port
                    .filter(|port| *port != 0)
                    .unwrap_or(bound.address.port()),
                security: SecurityProtocol::Plaintext,
            })
        });
    told.collect()
}

async fn live(
    config: Arc<NodeConfig>,
    settings: BrokerSettings,
    (bound, endpoint): (Vec<Bound>, Option<observe::Endpoint>),
) -> Outcome {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return Outcome::Failed(format!("no signals: {error}")),
    };
    let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) =
        (Arc::new(OsClock::new()), Arc::new(OsEntropy));
    let watch = Arc::new(Watch::new(Arc::clone(&clock)));
    // First of all: a probe must not take a broker that opens its logs for a dead one.
    if let Some(endpoint) = endpoint {
        info!(address = %endpoint.address(), "metrics and probes are served");
        let watched: Arc<dyn Watched> = Arc::clone(&watch) as Arc<dyn Watched>;
        tokio::spawn(endpoint.serve(watched));
    }
    let host = LogHost {
        disk: Arc::new(OsDisk),
        entropy: Arc::clone(&entropy),
    };
    let controllers = Arc::new(Controllers::new(&settings.controllers));
    let node_id = settings.node_id.0;
    let found = dirs::cluster_of(&host, &settings.log_dirs, node_id, settings.cluster_id.as_deref());
    let held = match found {
        Ok(held) => held.or_else(|| settings.cluster_id.clone()),
        Err(error) => return unusable(&error),
    };
    let cluster_id = match held {
        Some(id) => id,
        // An empty disk takes the controllers' word.
        None => tokio::select! {
            id = cluster::ask(&controllers, &*clock) => id,
            () = signals.stop() => return Outcome::Stopped,
        },
    };
    let owner = DirOwner {
        cluster_id: cluster_id.clone(),
        node_id,
    };
    let dirs = match Dirs::open(host, Arc::clone(&clock), &settings.log_dirs, &owner) {
        Ok(dirs) => Arc::new(dirs),
        Err(error) => return unusable(&error),
    };
    watch.health.recovers(Arc::clone(dirs.recovery()));
    let endpoints = endpoints(&settings, &bound);
    let coordinators = match Coordinators::start(&config, &clock) {
        Ok(coordinators) => coordinators,
        Err(error) => return Outcome::Failed(format!("no threads: {error}")),
    };
    let node = Node::new(Parts {
        coordinators,
        config,
        settings,
        endpoints,
        clock,
        entropy,
        controllers,
        dirs,
        cluster_id,
        metrics: Arc::clone(&watch.metrics),
        health: Arc::clone(&watch.health),
    });
    gauges(&watch.metrics.metrics, &node);
    match Running::start(node) {
        Ok(running) => running.until_stopped(bound, signals).await,
        Err(error) => Outcome::Failed(format!("no threads: {error}")),
    }
}

/// The log directories cannot be used.
fn unusable(error: &DirsError) -> Outcome {
    let told = format!("log.dirs: {error}");
    Outcome::NotBegun(told.lines().map(str::to_owned).collect())
}

/// A node whose parts are at work.
struct Running {
    node: Arc<Node>,
    /// This process.
    incarnation: IncarnationId,
    lanes: Vec<LaneHandle>,
    life: watch::Receiver<Life>,
    told: UnboundedSender<Told>,
    stopping: watch::Sender<bool>,
    /// When the process was asked to stop.
    asked_at: Option<Monotonic>,
    /// What writes checkpoints from time to time.
    housekeeping: Vec<JoinHandle<()>>,
}

impl Running {
    fn start(node: Arc<Node>) -> std::io::Result<Running> {
        let (proposals, submitted) = unbounded_channel();
        let (fetching, orders) = unbounded_channel();
        let (doomed, removals) = unbounded_channel();
        let lanes = start_lanes(&node, proposals, fetching, doomed)?;
        let (told, from_node) = unbounded_channel();
        let (life, lives) = watch::channel(Life::Starting);
        let incarnation = start_session(&node, from_node, life);
        start_following(&node, &lanes, incarnation, &told);
        let housekeeping = start_housekeeping(&node, &lanes, removals);
        watch_directories(&node, &lanes, &told);
        essential::spawn(
            "in-sync proposals",
            replication::isr::run(Arc::clone(&node), submitted),
        );
        essential::spawn("group leadership", coordinator::watch::run(Arc::clone(&node)));
        essential::spawn("fetchers", replication::fetchers::run(Arc::clone(&node), orders));
        Ok(Running {
            node,
            incarnation,
            lanes,
            life: lives,
            told,
            stopping: watch::Sender::new(false),
            asked_at: None,
            housekeeping,
        })
    }

    async fn until_stopped(mut self, bound: Vec<Bound>, mut signals: Signals) -> Outcome {
        let mut bound = Some(bound);
        loop {
            let life = self.life.borrow_and_update().clone();
            match life {
                Life::Starting => {}
                Life::Serving => {
                    if let Some(bound) = bound.take()
                        && let Err(error) = self.serve(bound)
                    {
                        error!(%error, "a listener cannot listen");
                        return Outcome::NotBegun(vec![format!("listeners: {error}")]);
                    }
                }
                Life::Ended(cause) => return self.close(&cause).await,
            }
            tokio::select! {
                changed = self.life.changed() => {
                    if changed.is_err() {
                        return self.close(&Cause::Orphaned).await;
                    }
                }
                () = signals.stop() => {
                    match self.asked_at {
                        None => info!("asked to stop"),
                        Some(_) => info!("asked to stop again"),
                    }
                    self.asked_at.get_or_insert_with(|| self.node.clock.now());
                    // The session lives as long as this. It decides what the second time means.
                    let _ = self.told.send(Told::ShutdownAsked);
                }
                reason = self.node.stop.requested() => return self.fail(&reason).await,
            }
        }
    }

    fn serve(&self, bound: Vec<Bound>) -> std::io::Result<()> {
        let mut addresses = Vec::new();
        for bound in bound {
            let address = bound.address;
            let (name, listener) = bound.listen()?;
            addresses.push(format!("{name}://{address}"));
            let node = Arc::clone(&self.node);
            tokio::spawn(listener::accept(name, listener, node, self.stopping.subscribe()));
        }
        self.node.health.listening();
        let epoch = self.node.epoch().map_or(-1, |epoch| epoch.0);
        info!(broker = %self.node.id, epoch, partitions = self.node.partitions.len(), listeners = addresses.join(","),
            "ready");
        Ok(())
    }

    /// Closes the logs, writes the checkpoints, then the mark (L-24).
    async fn close(self, cause: &Cause) -> Outcome {
        let begun = self.node.clock.now();
        self.say_if_not_let_go(cause);
        self.stopping.send_replace(true);
        self.node.health.is(State::Closing);
        // What is in flight is answered first; a peer that takes nothing in holds nobody up.
        let answered = self.node.connections.all_ended();
        if tokio::time::timeout(LAST_ANSWERS_MAX, answered).await.is_err() {
            let left = self.node.connections.count();
            info!(
                connections = left,
                "closing with requests that are not answered yet"
            );
        }
        info!(partitions = self.node.partitions.len(), "closing the logs");
        // A checkpoint taken from lanes that have ended would be empty.
        self.housekeeping.iter().for_each(JoinHandle::abort);
        // All at once: each has its own logs.
        let closing = self.lanes.iter().map(|lane| {
            let (reply, closed) = oneshot::channel();
            lane.send(Event::Close(reply));
            closed
        });
        let closing: Vec<_> = closing.collect();
        let mut marks = Vec::new();
        for closed in closing {
            marks.extend(closed.await.unwrap_or_default());
        }
        let (dirs, loading) = (Arc::clone(&self.node.dirs), self.node.loading());
        let stop = CleanStop::of(self.node.epoch(), self.incarnation, dirs.clean_stop());
        let written = tokio::task::spawn_blocking(move || {
            // The checkpoints tell of logs that were not opened, too; what lanes know would take their place.
            let written = match loading {
                Loading::Finished => dirs
                    .write_high_watermarks(&marks)
                    .and(dirs.write_recovery(&marks)),
                Loading::Unfinished => Ok(()),
            };
            // A directory that lacks something is not marked; the others are.
            written.and(stop.map_or(Ok(()), |stop| dirs.mark_clean(&stop, loading)))
        });
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => error!(%fault, "the shutdown is not clean"),
            Err(error) => error!(%error, "the shutdown is not clean"),
        }
        // From when it was asked to, for that is what whoever asked waited.
        let now = self.node.clock.now();
        let took_ms = now.since(self.asked_at.unwrap_or(begun)).as_millis();
        let closing_ms = now.since(begun).as_millis();
        info!(?cause, took_ms, closing_ms, "stopped");
        outcome(cause)
    }

    /// The stop is as clean as any other (R1.16), but what this broker leads may have no leader for a while.
    fn say_if_not_let_go(&self, cause: &Cause) {
        let why = match cause {
            Cause::ShutdownTimedOut => "the controller did not let it go in time",
            Cause::NoControllerAnswers => "no controller answers",
            Cause::AskedAgain => "it was asked to stop again",
            _ => return,
        };
        let led = self.node.partitions.led();
        warn!(
            why,
            led, "stopping without being let go; what this broker leads moves when a controller takes note"
        );
    }

    async fn fail(self, reason: &Reason) -> Outcome {
        error!(%reason, "stopping");
        let why = reason.to_string();
        self.close(&Cause::Orphaned).await;
        Outcome::Failed(why)
    }
}

/// How a run ends that stopped for this reason.
fn outcome(cause: &Cause) -> Outcome {
    match cause {
        Cause::Released
        | Cause::NothingToHandOver
        | Cause::ShutdownTimedOut
        | Cause::NoControllerAnswers
        | Cause::AskedAgain
        | Cause::Orphaned => Outcome::Stopped,
        Cause::RegistrationTimedOut => {
            Outcome::Failed("no controller took this broker's registration in time".into())
        }
        Cause::RegistrationRefused(why) => {
            Outcome::NotBegun(vec![format!("the registration is refused: {why}")])
        }
        Cause::DirectoryFailureNotReported(directory) => Outcome::Failed(format!(
            "the failure of log directory {directory} could not be reported"
        )),
        Cause::EveryDirectoryFailed => Outcome::Failed(
            "every log directory is offline; see to the disks of log.dirs, then start this broker again"
                .into(),
        ),
    }
}

fn start_lanes(
    node: &Arc<Node>,
    proposals: UnboundedSender<broker_core::replica::Proposal>,
    fetching: UnboundedSender<FetchOrder>,
    doomed: UnboundedSender<(Duration, Doomed)>,
) -> std::io::Result<Vec<LaneHandle>> {
    if let Err(fault) = node.dirs.finish_deletions() {
        warn!(%fault, "what an earlier process was deleting stays behind");
    }
    let shared = Arc::new(Shared {
        me: node.id,
        config: Arc::clone(&node.config),
        clock: Arc::clone(&node.clock),
        dirs: Arc::clone(&node.dirs),
        partitions: Arc::clone(&node.partitions),
        metrics: Arc::clone(&node.metrics),
        lag_max: node.settings.replica_lag_max,
        syncs: SyncThreads::start(node.dirs.count(), &node.metrics)?,
        proposals,
        fetching,
        doomed,
        next_waiter: std::sync::atomic::AtomicU64::new(0),
    });
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    lane::start(cores.min(LANES_MAX), &shared)
}

fn start_session(
    node: &Arc<Node>,
    told: UnboundedReceiver<Told>,
    life: watch::Sender<Life>,
) -> IncarnationId {
    let timing = Timing {
        heartbeat_interval: node.settings.heartbeat_interval,
        session_timeout: node.settings.session_timeout,
        registration_timeout: node.settings.registration_timeout,
        directory_failure_timeout: node.config.millis("log.dir.failure.timeout.ms"),
    };
    let mut bits = [0; 16];
    node.entropy.fill(&mut bits);
    let incarnation = IncarnationId(Uuid::from_random_bits(u128::from_be_bytes(bits)));
    let lifecycle = Lifecycle::new(timing, node.now());
    let session = Session::new(Arc::clone(node), lifecycle, incarnation, life);
    session.listen(told);
    essential::spawn("session", session.run());
    incarnation
}

fn start_following(
    node: &Arc<Node>,
    lanes: &[LaneHandle],
    incarnation: IncarnationId,
    told: &UnboundedSender<Told>,
) {
    let count = NonZeroUsize::new(lanes.len()).expect("there is a lane at least");
    let idle = node.config.millis("metadata.max.idle.interval.ms");
    // Without no-ops there is no telling a quiet controller from a dead one; the stream's own keep-alive must do.
    let idle = if idle.is_zero() {
        Duration::from_secs(60)
    } else {
        idle
    };
    let follower = Follower::new(Some(node.known_cluster_id()), count, idle, node.now())
        .of_process(node.id, incarnation);
    let (applied, mut offsets) = unbounded_channel();
    let told = told.clone();
    tokio::spawn(async move {
        while let Some(offset) = offsets.recv().await {
            if told.send(Told::Applied(offset)).is_err() {
                return;
            }
        }
    });
    essential::spawn(
        "metadata",
        Following::new(Arc::clone(node), follower, lanes.to_vec(), applied).run(),
    );
}

fn start_housekeeping(
    node: &Arc<Node>,
    lanes: &[LaneHandle],
    removals: UnboundedReceiver<(Duration, Doomed)>,
) -> Vec<JoinHandle<()>> {
    let interval = node.settings.high_watermark_checkpoint_interval;
    let retention_interval = node.config.millis("log.retention.check.interval.ms");
    let (lanes, dirs) = (lanes.to_vec(), Arc::clone(&node.dirs));
    let marks = checkpoints::high_watermarks(lanes.clone(), Arc::clone(&dirs), interval);
    let recovery = checkpoints::recovery_points(lanes.clone(), Arc::clone(&dirs));
    vec![
        tokio::spawn(marks),
        tokio::spawn(recovery),
        tokio::spawn(checkpoints::retention(lanes, retention_interval)),
        tokio::spawn(checkpoints::removals(dirs, removals)),
    ]
}

/// Tells the lanes and the session of directories that failed (R1.14, L-55).
fn watch_directories(node: &Arc<Node>, lanes: &[LaneHandle], told: &UnboundedSender<Told>) {
    let (dirs, lanes, told) = (Arc::clone(&node.dirs), lanes.to_vec(), told.clone());
    tokio::spawn(async move {
        let mut known = 0;
        loop {
            dirs.another_failed().await;
            let failed = dirs.failed();
            if failed.len() == known {
                // Several failed in one moment, and were told together.
                continue;
            }
            for dir in &failed[known..] {
                // What lies there stops fetching before the controller is told: it must not seem to be in sync after that.
                lanes
                    .iter()
                    .for_each(|lane| lane.send(Event::DirectoryFailed(*dir)));
                // The session lives as long as the node.
                let _ = told.send(Told::DirectoryFailed(dirs.id(*dir)));
            }
            known = failed.len();
            if known == dirs.count() {
                error!(
                    "every log directory is offline, and the broker stops: see to the disks of log.dirs, then start it again"
                );
                let _ = told.send(Told::EveryDirectoryFailed);
            }
        }
    });
}

/// The ways in which the process is asked to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
