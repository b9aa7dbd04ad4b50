//! Carries out [`broker_core::lifecycle`]: the session stream with the active controller, from the registration to the
//! last word.
//!
//! Must not: decide when to ask, or what an answer means.

use std::sync::Arc;
use std::time::Duration;

use broker_core::lifecycle::{
    Cause, Effect, Event, Fencing, Heartbeat, HeartbeatAnswer, Lifecycle, Refusal, Wish, other_leaves,
};
use metadata::ids::{BrokerEpoch, ControllerId, IncarnationId, MetadataOffset};
use millrace_proto::v1::session_client::SessionClient;
use millrace_proto::v1::{self, RefusalKind, broker_says::Says, controller_says};
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tracing::{debug, error, info, warn};

use super::MESSAGE_BYTES_MAX;
use crate::node::Node;

/// Words that may wait to be sent; one question is open at a time, and a goodbye may follow it.
const WORDS: usize = 4;

/// How long the last word may take to reach the controller.
const GOODBYE_MAX: Duration = Duration::from_millis(200);

/// What the rest of the node hears of this broker's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// Nothing to be done yet.
    Starting,
    /// Unfenced for the first time: serve clients.
    Serving,
    /// Close the logs and end.
    Ended(Cause),
}

/// What the node tells its session.
#[derive(Clone, Debug)]
pub enum Told {
    /// Every lane has applied the metadata below this.
    Applied(MetadataOffset),
    /// A log directory failed.
    DirectoryFailed(metadata::ids::DirectoryId),
    /// Every log directory failed.
    EveryDirectoryFailed,
    /// The process is asked to stop.
    ShutdownAsked,
}

enum Incoming {
    /// Of the stream with this number.
    Stream(u64, Event),
    Told(Told),
}

struct Stream {
    words: Sender<v1::BrokerSays>,
    reader: JoinHandle<()>,
}

/// The session until the broker's life ends.
pub struct Session {
    node: Arc<Node>,
    lifecycle: Lifecycle,
    incarnation: IncarnationId,
    life: watch::Sender<Life>,
    sender: UnboundedSender<Incoming>,
    incoming: UnboundedReceiver<Incoming>,
    stream: Option<Stream>,
    streams_opened: u64,
}

impl Session {
    /// A life that has not begun, and the way to tell it something.
    pub fn new(
        node: Arc<Node>,
        lifecycle: Lifecycle,
        incarnation: IncarnationId,
        life: watch::Sender<Life>,
    ) -> Session {
        let (sender, incoming) = unbounded_channel();
        Session {
            node,
            lifecycle,
            incarnation,
            life,
            sender,
            incoming,
            stream: None,
            streams_opened: 0,
        }
    }

    /// Passes on what the node tells.
    pub fn listen(&self, mut told: UnboundedReceiver<Told>) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            while let Some(told) = told.recv().await {
                if sender.send(Incoming::Told(told)).is_err() {
                    return;
                }
            }
        });
    }

    /// Lives.
    pub async fn run(mut self) {
        let mut events = vec![Event::Tick];
        loop {
            while let Some(event) = events.pop() {
                let now = self.node.now();
                for effect in self.lifecycle.step(event, now) {
                    if let Some(event) = self.carry_out(effect).await {
                        events.push(event);
                    }
                }
                if let Some(epoch) = self.lifecycle.epoch() {
                    self.node.set_epoch(epoch);
                }
                self.node.health.lives(self.lifecycle.phase());
            }
            let Some(next) = self.lifecycle.next_tick() else {
                return;
            };
            let event = tokio::select! {
                incoming = self.incoming.recv() => match incoming {
                    Some(Incoming::Stream(number, event)) if number == self.streams_opened => event,
                    Some(Incoming::Stream(..)) => continue,
                    Some(Incoming::Told(Told::Applied(offset))) => {
                        if other_leaves(&self.node.published.load().image, self.node.id) {
                            // Behind the one that is pushed last.
                            events.push(Event::OtherLeaves);
                        }
                        Event::Applied(offset)
                    }
                    Some(Incoming::Told(Told::DirectoryFailed(directory))) => Event::DirectoryFailed(directory),
                    Some(Incoming::Told(Told::EveryDirectoryFailed)) => Event::EveryDirectoryFailed,
                    Some(Incoming::Told(Told::ShutdownAsked)) => Event::ShutdownAsked,
                    None => return,
                },
                () = tokio::time::sleep(next.since(self.node.now())) => Event::Tick,
            };
            events.push(event);
        }
    }

    async fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::OpenSession(prefer) => self.open(prefer),
            Effect::CloseSession => self.close(),
            Effect::Register => self.say(Says::Register(self.registration())).await,
            Effect::Heartbeat(heartbeat) if heartbeat.wish == Wish::ShutDown => {
                let led = self.node.partitions.led();
                info!(led, "waiting to be let go");
                self.say(Says::Heartbeat(self.words_of(&heartbeat))).await;
            }
            Effect::Heartbeat(heartbeat) => self.say(Says::Heartbeat(self.words_of(&heartbeat))).await,
            // The lanes open and recover their logs with the first image; only then is anything applied.
            Effect::RecoverLogs => return Some(Event::LogsRecovered),
            Effect::Serve => self.lives(Life::Serving),
            Effect::Fenced(Fencing::Fenced) => {
                self.node.metrics.fenced.inc();
                warn!("fenced by the controller");
            }
            Effect::Fenced(Fencing::Unfenced) => info!("unfenced by the controller"),
            Effect::Orphaned => error!("this broker's registration is gone; restart it to register again"),
            Effect::Goodbye => {
                self.say(Says::Goodbye(v1::Goodbye {})).await;
                self.part().await;
            }
            Effect::Stop(cause) => self.lives(Life::Ended(cause)),
        }
        None
    }

    fn lives(&self, life: Life) {
        self.life.send_replace(life);
    }

    async fn say(&self, says: Says) {
        if let Some(stream) = &self.stream {
            // A stream that is gone is noticed by its reader.
            let _ = stream.words.send(v1::BrokerSays { says: Some(says) }).await;
        }
    }

    fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.reader.abort();
        }
    }

    /// Lets the last word out: the stream ends when the controller has taken it.
    async fn part(&mut self) {
        if let Some(Stream { words, reader }) = self.stream.take() {
            drop(words);
            // A controller that hangs is not waited for.
            let _ = tokio::time::timeout(GOODBYE_MAX, reader).await;
        }
    }

    fn open(&mut self, prefer: Option<ControllerId>) {
        self.close();
        self.streams_opened += 1;
        let number = self.streams_opened;
        let (words, says) = channel(WORDS);
        let (node, sender) = (Arc::clone(&self.node), self.sender.clone());
        let reader = tokio::spawn(async move {
            let address = node.controllers.for_session(prefer);
            if let Err(status) = converse(&node, &address, number, says, &sender).await {
                debug!(%address, %status, "session ended");
                node.controllers
                    .unanswered(&address, &super::why(&status), node.now());
            }
            node.controllers.unlearn(&address, None);
            let _ = sender.send(Incoming::Stream(number, Event::SessionClosed));
        });
        self.stream = Some(Stream { words, reader });
    }

    fn registration(&self) -> v1::Register {
        let endpoint = |endpoint: &metadata::record::Endpoint| v1::BrokerEndpoint {
            listener: endpoint.listener.clone(),
            host: endpoint.host.clone(),
            port: u32::from(endpoint.port),
            security: 0,
        };
        let found = self.node.dirs.clean_stop();
        v1::Register {
            broker: self.node.id.0,
            cluster_id: self.node.known_cluster_id(),
            incarnation: self.incarnation.to_string(),
            endpoints: self.node.endpoints.iter().map(endpoint).collect(),
            features: metadata::feature::served()
                .into_iter()
                .map(|(name, levels)| v1::FeatureRange {
                    name,
                    min: i32::from(levels.min),
                    max: i32::from(levels.max),
                })
                .collect(),
            rack: self.node.settings.rack.clone(),
            directories: self.node.dirs.ids().iter().map(ToString::to_string).collect(),
            previous_epoch: found.as_ref().map(|stop| stop.epoch.0),
            unserved: found
                .iter()
                .flat_map(|stop| &stop.unserved)
                .map(ToString::to_string)
                .collect(),
        }
    }

    fn words_of(&self, heartbeat: &Heartbeat) -> v1::Heartbeat {
        v1::Heartbeat {
            broker: self.node.id.0,
            epoch: heartbeat.epoch.0,
            applied_end: heartbeat.applied_end.map_or(-1, |offset| offset.0),
            want_fence: heartbeat.wish == Wish::StayFenced,
            want_shutdown: heartbeat.wish == Wish::ShutDown,
            offline_directories: heartbeat
                .offline_directories
                .iter()
                .map(ToString::to_string)
                .collect(),
        }
    }
}

async fn converse(
    node: &Node,
    address: &str,
    number: u64,
    says: tokio::sync::mpsc::Receiver<v1::BrokerSays>,
    sender: &UnboundedSender<Incoming>,
) -> Result<(), tonic::Status> {
    let channel = node
        .controllers
        .channel(address)
        .map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let mut client = SessionClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let mut answers = client.open(ReceiverStream::new(says)).await?.into_inner();
    let tell = |event| {
        sender
            .send(Incoming::Stream(number, event))
            .map_err(|_| tonic::Status::cancelled("stopping"))
    };
    tell(Event::SessionOpened)?;
    while let Some(answer) = answers.message().await? {
        let Some(said) = answer.said() else { continue };
        tell(heard(node, address, said))?;
    }
    Ok(())
}

/// The one word that an answer carries.
trait Said {
    fn said(self) -> Option<controller_says::Says>;
}

impl Said for v1::ControllerSays {
    fn said(self) -> Option<controller_says::Says> {
        self.says
    }
}

fn heard(node: &Node, address: &str, said: controller_says::Says) -> Event {
    use controller_says::Says as Answer;
    match said {
        Answer::Registered(registered) => {
            node.controllers.answered();
            Event::Registered(BrokerEpoch(registered.epoch))
        }
        Answer::Heartbeat(reply) => {
            node.controllers.answered();
            let timeout = node.settings.session_timeout;
            node.health.answered(node.clock.now(), timeout);
            Event::HeartbeatAnswered(HeartbeatAnswer {
                is_caught_up: reply.is_caught_up,
                is_fenced: reply.is_fenced,
                should_shut_down: reply.should_shut_down,
            })
        }
        Answer::Refused(refusal) => Event::Refused(refused(node, address, &refusal)),
        Answer::Moved(moved) => {
            node.controllers.unlearn(address, moved.active.as_ref());
            Event::Moved(moved.active.map(|active| ControllerId(active.id)))
        }
    }
}

fn refused(node: &Node, address: &str, refusal: &v1::Refusal) -> Refusal {
    match refusal.kind() {
        RefusalKind::NotActive => {
            node.controllers.unlearn(address, refusal.active.as_ref());
            let why = "it is not the active controller";
            node.controllers.unanswered(address, why, node.now());
            Refusal::NotActive {
                active: refusal.active.as_ref().map(|active| ControllerId(active.id)),
            }
        }
        RefusalKind::StaleBrokerEpoch | RefusalKind::BrokerNotRegistered => Refusal::StaleBrokerEpoch,
        RefusalKind::DuplicateBrokerRegistration => {
            warn!(why = %refusal.message, "another process holds this broker's id");
            Refusal::DuplicateRegistration
        }
        RefusalKind::InconsistentClusterId
        | RefusalKind::InvalidRegistration
        | RefusalKind::UnsupportedVersion => Refusal::Final(refusal.message.clone()),
        _ => {
            warn!(kind = ?refusal.kind(), why = %refusal.message, "the controller refuses");
            Refusal::Unexpected
        }
    }
}
