//! A controller from its settings to its last word: opens what it needs, starts its tasks, and stops in order.
//!
//! Nothing is changed on disk before everything that can be refused was looked at. Must not read a configuration
//! file: that is `main`'s.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use controller_core::driver::Driver;
use controller_core::driver::event::LogPosition;
use controller_core::settings::Settings;
use host::{Clock, Disk, Entropy};
use metadata::config::{ControllerSettings, Endpoint, MetricsListener, NodeConfig};
use metadata::image::Image;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::directory::{Directory, Unfit};
use crate::driver::{Outlets, Shell, image_of};
use crate::inbox::{Inbox, Input};
use crate::metrics::{ControllerMetrics, Watch, gauges};
use crate::published::Published;
use crate::quorum::{self, Addressing, Committed, Dump, Layout, Opened, Quorum, Unusable};
use crate::second_process::{SecondProcess, known_elsewhere, second_process, stay_the_only_one};
use crate::services::{self, Desk};
use crate::settings;
use crate::space::{Space, keep_watch};

/// The metadata log's folder, under Kafka's name for its only partition.
const LOG_DIR: &str = "__cluster_metadata-0";
/// What the metadata log must at least hold.
const FLOOR: &str = "metadata.floor";
/// How long a leader that stops waits for another to take over.
const HAND_OVER_TIME: Duration = Duration::from_millis(250);
/// How long open calls may take to end once the lead is handed over.
const FAREWELL_TIME: Duration = Duration::from_millis(50);
/// Pause between two attempts to hand the lead to a controller that has room on its disk.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(5);

/// Why a controller does not start. The display is one line.
#[derive(Debug)]
pub enum StartError {
    /// A listener that may not be opened.
    Exposed(String),
    /// A listener that cannot be opened.
    Listen(String, io::Error),
    /// Another process is this controller.
    Taken(SecondProcess),
    /// The listener for metrics cannot be opened.
    ListenForMetrics(String, io::Error),
    /// The metadata directory is not this node's.
    Unfit(Unfit),
    /// The metadata log may not be started on.
    Unusable(PathBuf, Unusable),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exposed(listener) => write!(
                f,
                "listeners={listener}: only loopback addresses are allowed, for controllers trust each other and \
                 mutual TLS is not served yet"
            ),
            Self::Listen(listener, fault) => {
                write!(f, "listeners={listener}: {}", host::cannot_bind(fault))
            }
            Self::Taken(second) => second.fmt(f),
            Self::ListenForMetrics(listener, fault) => {
                write!(f, "metrics.listener={listener}: {}", host::cannot_bind(fault))
            }
            Self::Unfit(unfit) => unfit.fmt(f),
            Self::Unusable(dir, why @ Unusable::Damaged(_)) => write!(
                f,
                "{}: the metadata log is {why}; no other controllers lead a live quorum, so it is not set aside by \
                 itself. Nothing was changed. Start the other controllers first; if they are lost for good, move \
                 this directory away by hand and accept what it no longer holds",
                dir.display()
            ),
            Self::Unusable(dir, why) => write!(f, "{}: the metadata log {why}", dir.display()),
        }
    }
}

impl std::error::Error for StartError {}

impl From<Unfit> for StartError {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

/// The machine that a controller runs on.
#[derive(Clone)]
pub struct Machine {
    /// Its disk.
    pub disk: Arc<dyn Disk>,
    /// Its clocks.
    pub clock: Arc<dyn Clock>,
    /// Its randomness.
    pub entropy: Arc<dyn Entropy>,
}

/// A controller that runs.
pub struct Node {
    quorum: Arc<Quorum>,
    inbox: Inbox,
    addresses: Vec<SocketAddr>,
    stopping: watch::Sender<bool>,
    /// Tasks that this node cannot live without, once one has ended.
    ended: mpsc::UnboundedReceiver<String>,
    servers: Vec<JoinHandle<()>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Node {
    /// Starts a controller; it serves when this returns.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(
        settings: &ControllerSettings,
        config: Arc<NodeConfig>,
        machine: Machine,
    ) -> Result<Node, StartError> {
        let watch = watch(settings, machine.clock.clone())?;
        let listeners = bind(&settings.listeners).await?;
        let elsewhere = known_elsewhere(settings, &listeners).await;
        if let Some(address) = &elsewhere
            && let Some(second) = second_process(settings.node_id, address, None).await
        {
            return Err(StartError::Taken(second));
        }
        let directory = Directory::open(
            machine.disk.clone(),
            &settings.metadata_dir,
            settings.node_id,
            settings.cluster_id.as_deref(),
            machine.entropy.as_ref(),
        )?;
        let (opened, addressing) = open_quorum(settings, &machine, directory).await?;
        let (committed, apply_stream) = mpsc::unbounded_channel();
        let unusable = |why| StartError::Unusable(settings.metadata_dir.clone(), why);
        let (quorum, snapshot) = Quorum::start(
            opened,
            addressing,
            settings::timing(settings),
            machine.entropy.clone(),
            committed,
        )
        .await
        .map_err(|fault| unusable(Unusable::Fault(fault)))?;
        let start = starting_image(snapshot).map_err(unusable)?;
        Ok(Parts {
            settings,
            config,
            machine,
            quorum,
            position: start.0,
            image: start.1,
            elsewhere,
            watch,
        }
        .run(listeners, apply_stream))
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Resolves when something that this node cannot live without has died, with what is known of it.
    pub async fn died(&mut self) -> String {
        tokio::select! {
            why = self.quorum.died() => why,
            Some(why) = self.ended.recv() => why,
        }
    }

    /// Stops in order: takes no more commands, hands the lead over if it has it, and leaves.
    pub async fn stop(self) {
        self.inbox.close();
        if !self.quorum.hand_over(HAND_OVER_TIME).await {
            // Nothing is wrong when all stop together.
            tracing::info!("stopping as the leader: no other controller took over in time");
        }
        self.stopping.send_replace(true);
        let farewell = futures::future::join_all(self.servers);
        if tokio::time::timeout(FAREWELL_TIME, farewell).await.is_err() {
            tracing::debug!("calls were cut off");
        }
        self.tasks.iter().for_each(JoinHandle::abort);
        self.quorum.stop().await;
    }
}

/// How this node is watched.
struct Watching {
    metrics: Arc<ControllerMetrics>,
    watch: Arc<Watch>,
    endpoint: Option<JoinHandle<()>>,
}

/// Serves metrics and probes before anything else is opened: a probe must not take a controller that reads its log for
/// a dead one.
fn watch(settings: &ControllerSettings, clock: Arc<dyn Clock>) -> Result<Watching, StartError> {
    let metrics = ControllerMetrics::new(clock.clone());
    let watch = Arc::new(Watch::new(metrics.clone(), clock, settings.idle_interval));
    let endpoint = match &settings.metrics {
        None => None,
        Some(MetricsListener { host, port }) => {
            let bound = observe::bind(host, *port)
                .map_err(|fault| StartError::ListenForMetrics(format!("{host}:{port}"), fault))?;
            tracing::info!(address = %bound.address(), "metrics and probes are served");
            Some(tokio::spawn(bound.serve(watch.clone())))
        }
    };
    Ok(Watching {
        metrics,
        watch,
        endpoint,
    })
}

fn failed_in(dir: &Path, fault: io::Error) -> StartError {
    StartError::Unfit(Unfit::Fault {
        dir: dir.to_owned(),
        fault,
    })
}

fn starting_image(snapshot: Option<(u64, Dump)>) -> Result<(LogPosition, Image), Unusable> {
    match snapshot {
        None => Ok((LogPosition(0), Image::default())),
        Some((position, dump)) => {
            let image = image_of(dump).map_err(Unusable::Damaged)?;
            Ok((LogPosition(position), image))
        }
    }
}

/// Binds every listener, none of which may be reachable from elsewhere.
async fn bind(listeners: &[Endpoint]) -> Result<Vec<TcpListener>, StartError> {
    let mut bound = Vec::new();
    for listener in listeners {
        let host = listener.host.as_deref().unwrap_or("0.0.0.0");
        let shown = format!("{}://{host}:{}", listener.name, listener.port);
        let failed = |fault| StartError::Listen(shown.clone(), fault);
        let mut addresses = tokio::net::lookup_host((host, listener.port))
            .await
            .map_err(failed)?;
        let address = addresses
            .next()
            .ok_or_else(|| failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address")))?;
        if !address.ip().is_loopback() {
            return Err(StartError::Exposed(shown));
        }
        bound.push(TcpListener::bind(address).await.map_err(failed)?);
    }
    Ok(bound)
}

fn layout(metadata_dir: &Path) -> Layout {
    let log_dir = metadata_dir.join(LOG_DIR);
    Layout {
        // Beside the folder that it watches over: who removes that one alone is found out.
        floor: metadata_dir.join(FLOOR),
        ..Layout::below(&log_dir)
    }
}

/// Opens store and snapshots. Damaged ones are set aside only while others lead a live quorum without this node; they
/// are kept, and this node begins anew as another incarnation.
async fn open_quorum(
    settings: &ControllerSettings,
    machine: &Machine,
    mut directory: Directory,
) -> Result<(Opened, Arc<Addressing>), StartError> {
    let dir = &settings.metadata_dir;
    let layout = layout(dir);
    let failed = |fault| failed_in(dir, fault);
    let unusable = |why| StartError::Unusable(dir.clone(), why);
    let has_floor = machine.disk.exists(&layout.floor).map_err(failed)?;
    let found = if directory.cluster_id().is_some() && !has_floor {
        Err(Unusable::Damaged("its floor file is gone".into()))
    } else {
        Opened::at(&machine.disk, &layout)
    };
    let opened = match found {
        Ok(opened) => opened,
        Err(Unusable::Damaged(why)) => {
            tracing::warn!(why, "the metadata log is damaged");
            let asking = addressing(settings, &directory, Box::new(|_| Ok(())));
            if !quorum::others_lead(&asking).await {
                return Err(unusable(Unusable::Damaged(why)));
            }
            // The new id comes first: an empty store under the old one could vote again where it had voted before.
            directory.begin_anew(machine.entropy.as_ref()).map_err(failed)?;
            let aside = set_aside(machine.disk.as_ref(), dir).map_err(failed)?;
            tracing::warn!(kept_as = %aside.display(), "the damaged metadata log was set aside");
            Opened::at(&machine.disk, &layout).map_err(unusable)?
        }
        Err(why) => return Err(unusable(why)),
    };
    if let (None, Some(configured)) = (directory.cluster_id(), settings.cluster_id.as_deref()) {
        directory.join(configured).map_err(failed)?;
    }
    let directory = Arc::new(Mutex::new(directory));
    let joining = directory.clone();
    let adopt = Box::new(move |cluster_id: &str| joining.lock().join(cluster_id));
    let addressing = addressing(settings, &directory.lock(), adopt);
    Ok((opened, Arc::new(addressing)))
}

fn addressing(settings: &ControllerSettings, directory: &Directory, adopt: quorum::Adopt) -> Addressing {
    let voters: BTreeMap<u64, String> = settings
        .voters
        .iter()
        .map(|voter| {
            (
                quorum::raft_id(voter.id),
                format!("{}:{}", voter.host, voter.port),
            )
        })
        .collect();
    Addressing::new(
        settings.node_id,
        directory.id().to_string(),
        voters,
        directory.cluster_id().map(str::to_owned),
        adopt,
    )
}

/// Moves log, snapshots and floor into a folder of their own.
fn set_aside(disk: &dyn Disk, dir: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    let aside = loop {
        let aside = dir.join(format!("damaged-{number}"));
        if !disk.exists(&aside)? {
            break aside;
        }
        number += 1;
    };
    disk.create_dir_all(&aside)?;
    for name in [LOG_DIR, FLOOR] {
        if disk.exists(&dir.join(name))? {
            disk.rename(&dir.join(name), &aside.join(name))?;
        }
    }
    disk.sync_dir(&aside)?;
    disk.sync_dir(dir)?;
    Ok(aside)
}

/// Everything that was opened.
struct Parts<'a> {
    settings: &'a ControllerSettings,
    config: Arc<NodeConfig>,
    machine: Machine,
    quorum: Arc<Quorum>,
    position: LogPosition,
    image: Image,
    /// Where the others look for this controller, when that is none of its own listeners.
    elsewhere: Option<String>,
    watch: Watching,
}

impl Parts<'_> {
    fn run(mut self, listeners: Vec<TcpListener>, committed: mpsc::UnboundedReceiver<Committed>) -> Node {
        let (active, is_active) = watch::channel(None);
        let (telling, space) = watch::channel(Space::Enough);
        let (inbox, inputs) = Inbox::new(self.machine.clock.clone(), is_active, space.clone());
        let published = Arc::new(Published::new(self.image.clone()));
        let quarantine = Arc::new(Mutex::new(None));
        let desk = Arc::new(Desk {
            inbox: inbox.clone(),
            published: published.clone(),
            quorum: self.quorum.clone(),
            entropy: self.machine.entropy.clone(),
            clock: self.machine.clock.clone(),
            quarantine: quarantine.clone(),
            progress_interval: settings::progress_interval(self.settings),
            observers: Mutex::default(),
        });
        gauges(&self.watch.metrics, &desk);
        self.watch.watch.works(&desk);
        let watched_space = space.clone();
        let outlets = Outlets {
            published,
            active,
            quarantine,
            space,
            metrics: self.watch.metrics.clone(),
        };
        let mut tasks = self.background();
        tasks.extend(self.watch.endpoint.take());
        let (disk, dir) = (self.machine.disk.clone(), self.settings.metadata_dir.clone());
        tasks.push(tokio::spawn(keep_watch(disk, dir, telling)));
        tasks.push(tokio::spawn(lead_only_with_room(
            self.quorum.clone(),
            watched_space,
        )));
        let (stopping, stop) = watch::channel(false);
        let quorum = self.quorum.clone();
        let addresses = listeners
            .iter()
            .filter_map(|listener| listener.local_addr().ok())
            .collect();
        let (ending, ended) = mpsc::unbounded_channel();
        tasks.extend(self.guard_its_id(&ending));
        tasks.push(watched(
            "the driver's task",
            ending.clone(),
            self.drive(outlets, committed, inputs),
        ));
        let servers = listeners
            .into_iter()
            .map(|listener| {
                watched(
                    "a listener",
                    ending.clone(),
                    serve(listener, desk.clone(), stop.clone()),
                )
            })
            .collect();
        Node {
            quorum,
            inbox,
            addresses,
            stopping,
            ended,
            servers,
            tasks,
        }
    }

    /// Watches for a second process under this id, if there can be one.
    fn guard_its_id(&self, ending: &mpsc::UnboundedSender<String>) -> Option<JoinHandle<()>> {
        let address = self.elsewhere.clone()?;
        let addressing = self.quorum.addressing().clone();
        Some(tokio::spawn(stay_the_only_one(
            addressing,
            address,
            ending.clone(),
        )))
    }

    fn background(&self) -> Vec<JoinHandle<()>> {
        let (founder, keeper, snapshots) = (self.quorum.clone(), self.quorum.clone(), self.quorum.clone());
        let founding = tokio::spawn(async move {
            if let Err(fault) = founder.found().await {
                tracing::error!(%fault, "the cluster cannot be founded");
            }
        });
        vec![
            founding,
            tokio::spawn(async move { keeper.keep_membership().await }),
            tokio::spawn(async move { snapshots.keep_snapshots().await }),
        ]
    }

    /// Starts the driver as soon as the cluster has its id.
    fn drive(
        self,
        outlets: Outlets,
        committed: mpsc::UnboundedReceiver<Committed>,
        inputs: mpsc::Receiver<Input>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (settings, config) = (self.settings.clone(), self.config);
        async move {
            let cluster_id = self.quorum.addressing().known_cluster_id().await;
            let core = Settings::from_config(cluster_id, &settings, config);
            let driver = Driver::new(core, self.image, self.position);
            Shell::new(driver, self.quorum, self.machine.clock, outlets)
                .run(committed, inputs)
                .await;
        }
    }
}

/// Hands the lead over for as long as this node's disk has no room to propose anything: others may have it. Ends with
/// the watch over the disk.
async fn lead_only_with_room(quorum: Arc<Quorum>, mut space: watch::Receiver<Space>) {
    while space.wait_for(|space| *space == Space::Exhausted).await.is_ok() {
        if !quorum.hand_over(HAND_OVER_TIME).await {
            tracing::warn!("nobody took the lead over in time");
        }
        tokio::time::sleep(NO_ROOM_PAUSE).await;
    }
}

/// Spawns a task and tells when it has ended, be it by a panic.
fn watched(
    name: &'static str,
    ending: mpsc::UnboundedSender<String>,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    struct Told(&'static str, mpsc::UnboundedSender<String>);
    impl Drop for Told {
        fn drop(&mut self) {
            // Nobody listens any more when the node stops in order.
            let _ = self.1.send(format!("{} ended", self.0));
        }
    }
    tokio::spawn(async move {
        let _told = Told(name, ending);
        task.await;
    })
}

async fn serve(listener: TcpListener, desk: Arc<Desk>, mut stop: watch::Receiver<bool>) {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let stopped = async move {
        // A sender that is gone is a node that was dropped: stop as well.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    let served = Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(5)))
        .add_service(quorum::server(desk.quorum.clone()))
        .add_service(services::metadata(desk.clone()))
        .add_service(services::session(desk.clone()))
        .add_service(services::admin(desk))
        .serve_with_incoming_shutdown(incoming, stopped)
        .await;
    if let Err(fault) = served {
        tracing::error!(%fault, "a listener failed");
    }
}
