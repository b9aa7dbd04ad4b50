//! The node: what every handler and task of this broker can reach.
//!
//! Must not: decide. It holds the parts together and knows their way to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use broker_core::lanes::{self, Stray};
use broker_core::time::Moment;
use host::{Clock, Entropy};
use metadata::config::{BrokerSettings, NodeConfig, broker_value};
use metadata::ids::{BrokerEpoch, BrokerId, MetadataOffset};
use metadata::image::Image;
use metadata::record::{ConfigResource, Endpoint};
use millrace_proto::v1;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{debug, error, warn};

use crate::controllers::Controllers;
use crate::controllers::admin::{self, Command, Unanswered};
use crate::coordinator::{self, Coordinators};
use crate::handlers::Call;
use crate::metrics::{BrokerMetrics, Health};
use crate::net::listener::{Counts, Limits};
use crate::producer_ids::ProducerIdShelf;
use crate::repeated::Repeated;
use crate::sessions::FetchSessions;
use crate::stop::Stop;
use crate::storage::dirs::{Dirs, Loading};
use crate::storage::hosted::Partitions;

/// How long the controller may take for a topic that nobody waits for.
const AUTO_CREATE_TIMEOUT: Duration = Duration::from_secs(30);
/// So many topics are asked for at a time because clients named them; one command creates no more partitions (R2.2).
const AUTO_CREATED_MAX: usize = 10_000;
/// Before the registration is answered.
const NO_EPOCH: i64 = -1;

/// What the answers of one moment are made from.
#[derive(Debug)]
pub struct Published {
    /// The image.
    pub image: Arc<Image>,
    /// The cluster's id.
    pub cluster_id: Arc<str>,
}

/// How long a controller is looked for on behalf of a request that names no time of its own (R5.42).
const FORWARD_TIME: Duration = Duration::from_secs(60);

/// Everything of this broker that others need.
pub struct Node {
    /// This broker.
    pub id: BrokerId,
    /// What it was told.
    pub config: Arc<NodeConfig>,
    /// The same, as types.
    pub settings: BrokerSettings,
    /// What it tells others to dial.
    pub endpoints: Vec<Endpoint>,
    /// Its clocks.
    pub clock: Arc<dyn Clock>,
    /// Its randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The controllers.
    pub controllers: Arc<Controllers>,
    /// The log directories.
    pub dirs: Arc<Dirs>,
    /// The partitions with a replica here.
    pub partitions: Arc<Partitions>,
    /// Fetch sessions.
    pub fetch_sessions: FetchSessions,
    /// Producer ids to hand out.
    pub producer_ids: Arc<ProducerIdShelf>,
    /// The groups that are coordinated here.
    pub coordinators: Coordinators,
    /// What answers are made from.
    pub published: ArcSwap<Published>,
    /// The way to ask the node to stop.
    pub stop: Stop,
    /// What it counts.
    pub metrics: Arc<BrokerMetrics>,
    /// What probes are told.
    pub health: Arc<Health>,
    /// The connections of clients.
    pub connections: Arc<Counts>,
    /// Next offset of the published image.
    newest: watch::Sender<MetadataOffset>,
    /// Below this, every lane has done what the image asks for.
    visible: watch::Sender<MetadataOffset>,
    cluster_id: OnceLock<Arc<str>>,
    epoch: AtomicI64,
    being_created: Mutex<BTreeSet<String>>,
    /// Why topics that were named were not made.
    not_created: Mutex<Repeated>,
}

/// The parts of a node that are made before it.
pub struct Parts {
    /// What it was told.
    pub config: Arc<NodeConfig>,
    /// The same, as types.
    pub settings: BrokerSettings,
    /// What it tells others to dial.
    pub endpoints: Vec<Endpoint>,
    /// Its clocks.
    pub clock: Arc<dyn Clock>,
    /// Its randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The controllers.
    pub controllers: Arc<Controllers>,
    /// The log directories.
    pub dirs: Arc<Dirs>,
    /// The groups' lanes.
    pub coordinators: Coordinators,
    /// The cluster, as the directories say.
    pub cluster_id: String,
    /// What it counts.
    pub metrics: Arc<BrokerMetrics>,
    /// What probes are told.
    pub health: Arc<Health>,
}

impl Node {
    /// A node that has published nothing yet.
    pub fn new(parts: Parts) -> Arc<Node> {
        let cluster_id: Arc<str> = parts.cluster_id.into();
        let published = Published {
            image: Arc::default(),
            cluster_id: Arc::clone(&cluster_id),
        };
        let producer_ids = ProducerIdShelf::new(Arc::clone(&parts.controllers), Arc::clone(&parts.clock));
        let sessions_max = usize::try_from(parts.settings.limits.fetch_sessions_max).unwrap_or(usize::MAX);
        Arc::new(Node {
            id: BrokerId(parts.settings.node_id.0),
            config: parts.config,
            fetch_sessions: FetchSessions::new(sessions_max),
            connections: Arc::default(),
            metrics: parts.metrics,
            health: parts.health,
            settings: parts.settings,
            endpoints: parts.endpoints,
            clock: parts.clock,
            entropy: parts.entropy,
            controllers: parts.controllers,
            dirs: parts.dirs,
            partitions: Arc::default(),
            producer_ids,
            coordinators: parts.coordinators,
            published: ArcSwap::from_pointee(published),
            stop: Stop::default(),
            newest: watch::Sender::new(MetadataOffset(0)),
            visible: watch::Sender::new(MetadataOffset(0)),
            cluster_id: OnceLock::from(cluster_id),
            epoch: AtomicI64::new(NO_EPOCH),
            being_created: Mutex::default(),
            not_created: Mutex::default(),
        })
    }

    /// The time on the core's clock.
    pub fn now(&self) -> Moment {
        Moment::from_start(Duration::from_nanos(self.clock.now().0))
    }

    /// The cluster's id, empty while it is not known.
    pub fn known_cluster_id(&self) -> String {
        self.cluster_id.get().map(ToString::to_string).unwrap_or_default()
    }

    /// A controller said which cluster this is. The first word counts; another cluster is found out by the follower.
    pub fn learn_cluster_id(&self, id: &str) {
        self.cluster_id.get_or_init(|| id.into());
    }

    /// This incarnation, once registered.
    pub fn epoch(&self) -> Option<BrokerEpoch> {
        let epoch = self.epoch.load(Ordering::Acquire);
        (epoch != NO_EPOCH).then_some(BrokerEpoch(epoch))
    }

    /// The registration was answered.
    pub fn set_epoch(&self, epoch: BrokerEpoch) {
        if self.epoch.swap(epoch.0, Ordering::AcqRel) != epoch.0 {
            self.producer_ids.registered(self.id, epoch);
        }
    }

    /// How many connections there may be now; both keys can change while this broker runs (R4.22).
    pub fn connection_limits(&self) -> Limits {
        let image = &self.published.load().image;
        let given = |resource| image.configs.get(&resource).map(AsRef::as_ref);
        let own: Option<&BTreeMap<String, String>> = given(ConfigResource::Broker(self.id));
        let cluster = given(ConfigResource::ClusterDefault);
        let limit = |key| {
            let value = broker_value(key, &self.config, &own, &cluster).integer();
            value
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(usize::MAX)
        };
        Limits {
            all: limit("max.connections"),
            by_address: limit("max.connections.per.ip"),
        }
    }

    /// Makes an image the one that answers are made from.
    pub fn publish(&self, image: Arc<Image>) {
        let next_offset = image.next_offset;
        let cluster_id = Arc::clone(self.cluster_id.get_or_init(|| "".into()));
        self.published.store(Arc::new(Published { image, cluster_id }));
        self.newest.send_replace(next_offset);
    }

    /// Every lane has carried out the images below this offset.
    pub fn applied(&self, offset: MetadataOffset) {
        self.visible.send_replace(offset);
    }

    /// Tells whenever every lane has carried out more of the metadata.
    pub fn visible(&self) -> watch::Receiver<MetadataOffset> {
        self.visible.subscribe()
    }

    /// Whether every log that the first image asks for was opened.
    pub fn loading(&self) -> Loading {
        match self.visible.borrow().0 {
            0 => Loading::Unfinished,
            _ => Loading::Finished,
        }
    }

    /// Waits for an image after the one with this next offset.
    pub async fn next_image(&self, after: MetadataOffset) {
        let mut newest = self.newest.subscribe();
        // The sender lives in this node.
        let _ = newest.wait_for(|offset| after < *offset).await;
    }

    /// Waits until this broker's own image shows a result, or the client's time is over; it is a success either way.
    pub async fn until_visible(&self, visible_at: i64, timeout_ms: i32) {
        let mut visible = self.visible.subscribe();
        let shown = visible.wait_for(|offset| visible_at <= offset.0);
        if tokio::time::timeout(millis(timeout_ms), shown).await.is_err() {
            debug!(visible_at, "answering before the result is visible here");
        }
    }

    /// Sends a command to the active controller, until the client's time is over.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn forward<C: Command>(&self, command: C, timeout_ms: i32) -> Result<C::Reply, Unanswered> {
        admin::forward(&self.controllers, command, millis(timeout_ms)).await
    }

    /// As [`Self::forward`], for requests that name no time of their own (R5.42).
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn forward_timeless<C: Command>(&self, command: C) -> Result<C::Reply, Unanswered> {
        admin::forward(&self.controllers, command, FORWARD_TIME).await
    }

    /// A name for one request that no other has.
    pub fn request_id(&self) -> String {
        format!(
            "{}-{:016x}{:016x}",
            self.id,
            self.entropy.next_u64(),
            self.entropy.next_u64()
        )
    }

    /// Asks for topics that a client named and that do not exist, all in one command; nobody waits for it (A-24, R2.60).
    pub fn auto_create<'a>(self: &Arc<Self>, call: &Call, names: impl IntoIterator<Item = &'a str>) {
        let asked: Vec<String> = {
            let mut being_created = self.being_created.lock();
            let mut room = AUTO_CREATED_MAX.saturating_sub(being_created.len());
            let mut asked = Vec::new();
            for name in names {
                if room == 0 {
                    // Whoever named it asks again.
                    break;
                }
                if being_created.insert(name.to_owned()) {
                    asked.push(name.to_owned());
                    room -= 1;
                }
            }
            asked
        };
        if asked.is_empty() {
            return;
        }
        let command = v1::CreateTopicsRequest {
            caller: Some(call.caller()),
            topics: asked.iter().map(|name| self.as_it_is_made(name)).collect(),
            validate_only: false,
            timeout_ms: i32::try_from(AUTO_CREATE_TIMEOUT.as_millis()).unwrap_or(i32::MAX),
        };
        let node = Arc::clone(self);
        tokio::spawn(async move {
            match admin::forward(&node.controllers, command, AUTO_CREATE_TIMEOUT).await {
                Ok(reply) => node.tell_creation(&asked, &reply),
                Err(error) => {
                    warn!(topics = %few(&asked), %error, "topics that a client named were not created")
                }
            }
            let mut being_created = node.being_created.lock();
            for name in &asked {
                being_created.remove(name);
            }
        });
    }

    /// A topic that is made because it was named. An internal one is made as its coordinator needs it.
    fn as_it_is_made(&self, name: &str) -> v1::NewTopic {
        let explicitly = |key: &str, value: i32| self.config.given_text(key).map(|_| value);
        let topics = &self.settings.topics;
        match name {
            coordinator::OFFSETS => coordinator::offsets_topic(&self.config),
            name => v1::NewTopic {
                name: name.to_owned(),
                partitions: explicitly(
                    "num.partitions",
                    i32::try_from(topics.partitions).unwrap_or(i32::MAX),
                ),
                replication_factor: explicitly(
                    "default.replication.factor",
                    i32::from(topics.replication_factor),
                ),
                ..Default::default()
            },
        }
    }

    /// A client that needs a topic asks for it again at once, so a reason is told once, and then once a minute.
    fn tell_creation(&self, asked: &[String], reply: &v1::CreateTopicsReply) {
        let Some((names, why)) = refused_of(asked, reply) else {
            debug!(topics = %few(asked), "topics created because a client named them");
            return;
        };
        let Some(times) = self.not_created.lock().happened(&why, self.now()) else {
            return;
        };
        let topics = few(&names);
        match names.iter().any(|name| name == coordinator::OFFSETS) {
            true => warn!(%topics, %why, times,
                "consumer groups are not served: the topic of their offsets cannot be made. Start as many brokers as \
                 offsets.topic.replication.factor says, or set it to how many there are and restart the brokers"),
            false => warn!(%topics, %why, times, "topics that a client named were refused"),
        }
    }

    /// Logs that the cluster does not give to this broker are renamed and kept (L-22).
    pub fn set_strays_aside(&self, image: &Image) {
        for partition in self.dirs.on_disk() {
            let index = metadata::ids::PartitionIndex(partition.partition);
            let Some(stray) = lanes::stray(image, &partition.topic, index, self.id) else {
                continue;
            };
            match (self.dirs.set_aside(&partition), stray) {
                (Ok(()), Stray::Unknown) => {
                    warn!(%partition, "the cluster has no such partition; its log is set aside as a stray")
                }
                (Ok(()), Stray::Elsewhere) => {
                    warn!(%partition, "the cluster gives this log to others; it is set aside as a stray")
                }
                (Err(fault), _) => error!(%partition, %fault, "a stray log cannot be set aside"),
            }
        }
    }
}

/// The names that were refused, and why the first was; nothing where none was.
fn refused_of(asked: &[String], reply: &v1::CreateTopicsReply) -> Option<(Vec<String>, String)> {
    use v1::new_topic_result::Result as Outcome;
    if let Some(refusal) = &reply.refusal {
        return Some((asked.to_vec(), refusal.message.clone()));
    }
    let refused = |topic: &v1::NewTopicResult| match &topic.result {
        Some(Outcome::Refused(refusal)) => Some((topic.name.clone(), refusal.message.clone())),
        Some(Outcome::Made(_)) | None => None,
    };
    let (names, reasons): (Vec<String>, Vec<String>) = reply.topics.iter().filter_map(refused).unzip();
    Some((names, reasons.into_iter().next()?))
}

/// Names for a line of a log.
fn few(names: &[String]) -> String {
    match names {
        [first, second, third, _, ..] => format!("{first}, {second}, {third} and {} more", names.len() - 3),
        few => few.join(", "),
    }
}

fn millis(timeout_ms: i32) -> Duration {
    // A time that is over already is the controller's to refuse (R0.4): it must still be asked.
    let least = Duration::from_secs(1);
    u64::try_from(timeout_ms)
        .map_or(least, Duration::from_millis)
        .max(least)
}
