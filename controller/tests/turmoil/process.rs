//! One controller process of the simulation: the shipped quorum, store, network and driver shell, put together as
//! `node` does, with taps where something must be seen.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use controller::driver::{Outlets, Shell, image_of};
use controller::inbox::Inbox;
use controller::metrics::ControllerMetrics;
use controller::published::Published;
use controller::quorum::{Addressing, Committed, Opened, Quorum, server};
use controller::space::Space;
use controller_core::driver::Driver;
use controller_core::driver::event::LogPosition;
use controller_core::settings::Settings;
use host::{Clock, Entropy, Monotonic, SeededEntropy, WallMs};
use metadata::config::{ControllerSettings, NodeConfig};
use metadata::ids::ControllerId;
use metadata::image::Image;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::history::{At, Fact};
use crate::invariants::digest;
use crate::net::{dial, incoming};
use crate::site::{Order, Site, TIMING, World, id};
use crate::{clients, streams};

/// How long an operating system takes to start a process anew.
const RESTART: Duration = Duration::from_millis(20);

/// Runs a controller, over and over: until the machine it is on is crashed.
pub async fn run(world: Arc<World>, at: At) -> turmoil::Result {
    loop {
        let process = match Process::start(&world, at).await {
            Ok(process) => process,
            Err(why) => {
                world.note(Fact::Died { at, why });
                return Ok(());
            }
        };
        match process.until_it_ends().await {
            Ok(()) => pass(RESTART).await,
            Err(why) => {
                world.note(Fact::Died { at, why });
                return Ok(());
            }
        }
    }
}

/// Lets time pass in the simulation.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The clocks of a simulated machine.
struct Clocks(Instant);

impl Clock for Clocks {
    fn now(&self) -> Monotonic {
        Monotonic(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> WallMs {
        WallMs(1_700_000_000_000 + i64::try_from(self.0.elapsed().as_millis()).unwrap_or(0))
    }
}

struct Process {
    world: Arc<World>,
    at: At,
    quorum: Arc<Quorum>,
    orders: mpsc::UnboundedReceiver<Order>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    /// Ends when something that a process cannot live without has.
    vital: mpsc::UnboundedReceiver<&'static str>,
}

impl Process {
    async fn start(world: &Arc<World>, at: At) -> Result<Process, String> {
        let (life, medium) = {
            let mut site = world.sites[at].lock();
            site.lives += 1;
            (site.lives, site.medium.clone())
        };
        let seed = streams::of(world.seed, streams::PROCESS, (at as u64) << 32 | u64::from(life));
        let latency = {
            let (world, chance) = (world.clone(), SeededEntropy::new(seed ^ 1));
            move || Duration::from_millis((1 + chance.below(3)) * world.slowness[at].load(Ordering::Relaxed))
        };
        let disk = world.disk(at);
        let opened = Opened::in_memory(&medium, &disk, &Site::layout(), latency);
        let opened = opened.map_err(|why| format!("its log is {why}"))?;
        let (committed, told) = mpsc::unbounded_channel();
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(seed));
        let (quorum, snapshot) = Quorum::start(opened, addressing(world, at), TIMING, entropy, committed)
            .await
            .map_err(|fault| fault.to_string())?;
        let (position, image) = match snapshot {
            None => (0, Image::default()),
            Some((position, dump)) => (position, image_of(dump)?),
        };
        world.note(Fact::Began { at, life, position });
        let (ordering, orders) = mpsc::unbounded_channel();
        world.sites[at].lock().orders = Some(ordering);
        let (vitals, vital) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(false);
        let parts = Parts {
            world: world.clone(),
            at,
            life,
            quorum: quorum.clone(),
        };
        let mut tasks = vec![
            parts
                .serve(stopped, vitals.clone())
                .await
                .map_err(|fault| fault.to_string())?,
        ];
        tasks.extend(parts.upkeep());
        tasks.extend(parts.drive(image, LogPosition(position), told, vitals));
        Ok(Process {
            world: world.clone(),
            at,
            quorum,
            orders,
            stop,
            tasks,
            vital,
        })
    }

    /// Runs until it is told to start anew.
    ///
    /// # Errors
    /// Why it ended by itself.
    async fn until_it_ends(mut self) -> Result<(), String> {
        loop {
            tokio::select! {
                biased;
                why = self.quorum.died() => return Err(why),
                Some(what) = self.vital.recv() => return Err(format!("{what} ended")),
                Some(order) = self.orders.recv() => match order {
                    Order::HandOver => {
                        self.quorum.hand_over(Duration::from_millis(250)).await;
                    }
                    Order::Snapshot => self.quorum.take_snapshot().await,
                    Order::Roll => {
                        self.quorum.hand_over(Duration::from_millis(250)).await;
                        break;
                    }
                    Order::RestartInPlace => break,
                },
            }
        }
        self.leave().await;
        Ok(())
    }

    async fn leave(self) {
        self.stop.send_replace(true);
        self.tasks.iter().for_each(JoinHandle::abort);
        self.quorum.stop().await;
        let mut site = self.world.sites[self.at].lock();
        site.orders = None;
        site.shown = Default::default();
    }
}

fn addressing(world: &Arc<World>, at: At) -> Arc<Addressing> {
    let (directory, cluster_id) = {
        let site = world.sites[at].lock();
        (site.directory.clone(), site.cluster_id.clone())
    };
    let joined = world.clone();
    let adopt = Box::new(move |cluster_id: &str| joined.join(at, cluster_id));
    let addressing = Addressing::new(
        ControllerId(id(at)),
        directory,
        world.voters.clone(),
        cluster_id,
        adopt,
    );
    Arc::new(addressing.dialling(dial()))
}

/// The settings that a controller of the simulation reads from its file.
pub fn settings(cluster_id: String) -> Settings {
    let file = "process.roles=controller\nnode.id=101\nlog.dirs=/metadata\n\
        controller.quorum.voters=101@localhost:9093\nlisteners=CONTROLLER://localhost:9093\n\
        controller.listener.names=CONTROLLER\n";
    let node = NodeConfig::resolve(Some(file), &[], &[]).expect("the file is right");
    let config = ControllerSettings::from_config(&node).expect("the file is right");
    Settings::from_config(cluster_id, &config, Arc::new(node))
}

struct Parts {
    world: Arc<World>,
    at: At,
    life: u32,
    quorum: Arc<Quorum>,
}

/// Says what ended, be it by a panic.
struct Told(&'static str, mpsc::UnboundedSender<&'static str>);

impl Drop for Told {
    fn drop(&mut self) {
        // Nobody listens any more when the process ends in order.
        let _ = self.1.send(self.0);
    }
}

impl Parts {
    async fn serve(
        &self,
        mut stopped: watch::Receiver<bool>,
        vitals: mpsc::UnboundedSender<&'static str>,
    ) -> io::Result<JoinHandle<()>> {
        let serving = tonic::transport::Server::builder()
            .add_service(server(self.quorum.clone()))
            .serve_with_incoming_shutdown(incoming().await?, async move {
                // A sender that is gone is a process that was dropped.
                let _ = stopped.wait_for(|stop| *stop).await;
            });
        Ok(tokio::spawn(async move {
            let _told = Told("the listener", vitals);
            serving.await.expect("nothing hurts a simulated listener");
        }))
    }

    fn upkeep(&self) -> Vec<JoinHandle<()>> {
        let [founder, keeper, snapshots, seen] = [(); 4].map(|()| self.quorum.clone());
        let (world, at) = (self.world.clone(), self.at);
        vec![
            tokio::spawn(async move { founder.found().await.expect("the disk takes the id") }),
            tokio::spawn(async move { keeper.keep_membership().await }),
            tokio::spawn(async move { snapshots.keep_snapshots().await }),
            tokio::spawn(watch_the_lead(world, at, seen)),
        ]
    }

    fn drive(
        &self,
        image: Image,
        position: LogPosition,
        told: mpsc::UnboundedReceiver<Committed>,
        vitals: mpsc::UnboundedSender<&'static str>,
    ) -> Vec<JoinHandle<()>> {
        let clock: Arc<dyn Clock> = Arc::new(Clocks(Instant::now()));
        let (active, is_active) = watch::channel(None);
        let (_, space) = watch::channel(Space::Enough);
        let (inbox, inputs) = Inbox::new(clock.clone(), is_active, space.clone());
        let published = Arc::new(Published::new(image.clone()));
        let outlets = Outlets {
            published: published.clone(),
            active,
            quarantine: Arc::new(Mutex::new(None)),
            space,
            metrics: ControllerMetrics::new(clock.clone()),
        };
        let (passing, committed) = mpsc::unbounded_channel();
        let quorum = self.quorum.clone();
        let driving = async move {
            let _told = Told("the driver", vitals);
            let settings = settings(quorum.addressing().known_cluster_id().await);
            let driver = Driver::new(settings, image, position);
            Shell::new(driver, quorum, clock, outlets)
                .run(committed, inputs)
                .await;
        };
        vec![
            tokio::spawn(driving),
            tokio::spawn(tap(self.world.clone(), self.at, self.life, told, passing)),
            tokio::spawn(watch_images(self.world.clone(), self.at, self.life, published)),
            tokio::spawn(clients::run(self.world.clone(), self.at, self.life, inbox)),
        ]
    }
}

/// Sees everything that is committed on its way to the driver.
async fn tap(
    world: Arc<World>,
    at: At,
    life: u32,
    mut told: mpsc::UnboundedReceiver<Committed>,
    driver: mpsc::UnboundedSender<Committed>,
) {
    while let Some(committed) = told.recv().await {
        match &committed {
            Committed::Entry {
                position,
                term,
                batch,
            } => world.note(Fact::Applied {
                at,
                life,
                position: *position,
                term: *term,
                batch: batch.clone(),
                durable_on: world.durable_on(*position, *term),
                majority: world.majority(),
            }),
            Committed::Replaced { position, .. } => {
                world.installs.fetch_add(1, Ordering::Relaxed);
                let position = *position;
                world.note(Fact::Replaced { at, life, position });
            }
            Committed::Capture(_) => {}
        }
        if driver.send(committed).is_err() {
            return;
        }
    }
}

async fn watch_images(world: Arc<World>, at: At, life: u32, published: Arc<Published>) {
    let mut news = published.news();
    loop {
        news.borrow_and_update();
        let image = published.image();
        let next_offset = image.next_offset.0;
        world.sites[at].lock().shown.end = Some(next_offset);
        world.note(Fact::Published {
            at,
            life,
            next_offset,
            digest: digest(&image),
        });
        if news.changed().await.is_err() {
            return;
        }
    }
}

async fn watch_the_lead(world: Arc<World>, at: At, quorum: Arc<Quorum>) {
    let mut changes = quorum.changes();
    let mut led = None;
    loop {
        let leads = quorum.standing().leads().map(|term| term.0);
        let members = quorum.members().into_iter().filter(|member| member.votes);
        let voters = members.map(|member| member.directory).collect();
        let log = {
            let mut site = world.sites[at].lock();
            site.shown.leads = leads;
            site.shown.voters = voters;
            site.log()
        };
        if let Some(term) = leads.filter(|_| led != leads) {
            world.note(Fact::Led { at, term, log });
        }
        led = leads;
        changes.next().await;
    }
}
