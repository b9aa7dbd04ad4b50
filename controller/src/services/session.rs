//! Sessions of brokers: registration, then heartbeats, on one stream.
//!
//! A message is stamped when it is read, before any queue (R1.20); answers leave in the order of the questions. How a
//! stream ended is told to the driver: it decides what that means.

use std::sync::Arc;

use controller_core::command::{Command, Heartbeat, RegisterBroker, Reply};
use controller_core::driver::event::{StreamEnd, StreamId};
use controller_core::refusal::Refusal;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use metadata::ids::{BrokerEpoch, BrokerId, DirectoryId, IncarnationId, MetadataOffset};
use metadata::uuid::Uuid;
use millrace_proto::convert::{self, Malformed};
use millrace_proto::v1;
use millrace_proto::v1::RefusalKind;
use millrace_proto::v1::broker_says::Says as Said;
use millrace_proto::v1::controller_says::Says;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::Desk;
use super::admin::broker_itself;
use super::refusal::malformed;

/// Answers that may wait for a broker that reads slowly.
const ANSWERS_WAITING_MAX: usize = 16;

/// Takes sessions.
pub struct Sessions(pub Arc<Desk>);

type Answers = FuturesOrdered<BoxFuture<'static, Says>>;

#[tonic::async_trait]
impl v1::session_server::Session for Sessions {
    type OpenStream = ReceiverStream<Result<v1::ControllerSays, Status>>;

    async fn open(
        &self,
        request: Request<Streaming<v1::BrokerSays>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let (says, outbound) = mpsc::channel(ANSWERS_WAITING_MAX);
        let session = Session {
            stream: self.0.inbox.new_stream(),
            desk: self.0.clone(),
            says,
        };
        tokio::spawn(session.run(request.into_inner()));
        Ok(Response::new(ReceiverStream::new(outbound)))
    }
}

struct Session {
    desk: Arc<Desk>,
    stream: StreamId,
    says: mpsc::Sender<Result<v1::ControllerSays, Status>>,
}

impl Session {
    async fn run(self, mut messages: Streaming<v1::BrokerSays>) {
        let mut active = self.desk.inbox.watch_active();
        let served_in = *active.borrow_and_update();
        let mut answers = Answers::new();
        let end = loop {
            tokio::select! {
                said = messages.message() => match said {
                    Ok(Some(v1::BrokerSays { says: Some(Said::Goodbye(_)) })) => break StreamEnd::Goodbye,
                    Ok(Some(v1::BrokerSays { says: Some(said) })) => answers.push_back(self.take(said).await),
                    Ok(Some(v1::BrokerSays { says: None })) => {}
                    Ok(None) | Err(_) => break StreamEnd::Broken,
                },
                Some(answer) = answers.next() => {
                    if !self.say(answer).await {
                        break StreamEnd::Broken;
                    }
                }
                changed = active.changed() => {
                    let now = *active.borrow_and_update();
                    if changed.is_err() || (served_in.is_some() && now != served_in) {
                        let active = self.desk.active_address();
                        self.say(Says::Moved(v1::Moved { active })).await;
                        break StreamEnd::ClosedHere;
                    }
                }
            }
        };
        self.desk.inbox.stream_closed(self.stream, end).await;
        if end == StreamEnd::Goodbye {
            // What was asked before the farewell is still answered.
            while let Some(answer) = answers.next().await {
                if !self.say(answer).await {
                    return;
                }
            }
        }
    }

    async fn say(&self, says: Says) -> bool {
        self.says
            .send(Ok(v1::ControllerSays { says: Some(says) }))
            .await
            .is_ok()
    }

    /// A heartbeat also tells how far its broker follows. What it says is only shown.
    fn observed(&self, message: &v1::Heartbeat) {
        let desk = &self.desk;
        let image = desk.published.image();
        let is_known = image.brokers.contains_key(&BrokerId(message.broker));
        if is_known && 0 <= message.applied_end {
            let (end, now) = (image.next_offset.0, desk.clock.now());
            let mut observers = desk.observers.lock();
            observers.applied(message.broker, message.applied_end, end, now);
        }
    }

    /// Hands a message to the driver and returns its answer to come.
    async fn take(&self, said: Said) -> BoxFuture<'static, Says> {
        let arrived = self.desk.inbox.moment();
        let (broker, command) = match said {
            Said::Register(message) => (message.broker, registration(message)),
            Said::Heartbeat(message) => {
                self.observed(&message);
                (message.broker, heartbeat(message))
            }
            Said::Goodbye(_) => unreachable!("a farewell ends the stream before this"),
        };
        let command = match command {
            Ok(command) => command,
            Err(problem) => {
                let refused = malformed(RefusalKind::InvalidRegistration, &problem);
                return Box::pin(async move { Says::Refused(refused) });
            }
        };
        let inbox = &self.desk.inbox;
        let pending = inbox
            .hand_in(command, broker_itself(broker), Some(self.stream), arrived)
            .await;
        let desk = self.desk.clone();
        Box::pin(async move {
            match pending.answer().await.result {
                Ok(Reply::Registered { epoch }) => Says::Registered(v1::Registered { epoch: epoch.0 }),
                Ok(Reply::Heartbeat(standing)) => Says::Heartbeat(v1::HeartbeatReply {
                    is_caught_up: standing.is_caught_up,
                    is_fenced: standing.is_fenced,
                    should_shut_down: standing.should_shut_down,
                }),
                Ok(other) => Says::Refused(desk.refusal(&Refusal::DecisionFailed(format!(
                    "a reply that does not belong to a session: {other:?}"
                )))),
                Err(refusal) => Says::Refused(desk.refusal(&refusal)),
            }
        })
    }
}

fn registration(message: v1::Register) -> Result<Command, Malformed> {
    let endpoints: Result<Vec<_>, _> = message.endpoints.into_iter().map(TryInto::try_into).collect();
    let features: Result<Vec<_>, _> = message.features.into_iter().map(TryInto::try_into).collect();
    Ok(Command::RegisterBroker(RegisterBroker {
        broker: broker_id(message.broker)?,
        cluster_id: Some(message.cluster_id).filter(|id| !id.is_empty()),
        incarnation: IncarnationId(convert::id("incarnation", &message.incarnation)?),
        endpoints: endpoints?,
        features: features?,
        rack: message.rack,
        directories: ids("directories", &message.directories, DirectoryId)?,
        previous_epoch: message.previous_epoch.map(BrokerEpoch),
        unserved: ids("unserved", &message.unserved, IncarnationId)?,
    }))
}

fn heartbeat(message: v1::Heartbeat) -> Result<Command, Malformed> {
    Ok(Command::Heartbeat(Heartbeat {
        broker: broker_id(message.broker)?,
        epoch: BrokerEpoch(message.epoch),
        applied_end: (0 <= message.applied_end).then_some(MetadataOffset(message.applied_end)),
        want_fence: message.want_fence,
        want_shutdown: message.want_shutdown,
        offline_directories: ids("offline_directories", &message.offline_directories, DirectoryId)?,
    }))
}

fn broker_id(given: i32) -> Result<BrokerId, Malformed> {
    if given < 0 {
        return Err(Malformed::new("broker", format!("{given} is negative")));
    }
    Ok(BrokerId(given))
}

fn ids<T>(field: &'static str, texts: &[String], of: fn(Uuid) -> T) -> Result<Vec<T>, Malformed> {
    texts
        .iter()
        .map(|text| convert::id(field, text).map(of))
        .collect()
}
