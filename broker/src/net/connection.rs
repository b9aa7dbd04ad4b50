//! One connection: frames in, answers out. What may start when, and which answer leaves next, is decided by
//! [`broker_core::pipeline`]; here it is carried out.
//!
//! Must not: know an API beyond whether it is Produce, or keep memory while nothing happens.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use broker_core::pipeline::{Effect, Ending, Event, Kind, Limits, Overlap, Pipeline, RequestId};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use host::{Clock, Monotonic};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::debug;
use wire::{ApiKey, Reader, RequestHeader};

use super::inbox::{Inbox, Read};
use super::outbox;
use super::response::Response;
use crate::handlers::{self, Answer, Client, Later, Step};
use crate::metrics::{Sent, Stages, WaitCount};
use crate::node::Node;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The peer closed it, or sent what no client sends.
    Peer,
    /// Nothing came or went for too long.
    Idle,
    /// This node is stopping.
    Stopping,
}

/// A request that was read and not started.
struct Arrived {
    id: RequestId,
    at: Monotonic,
    /// Nothing when the bytes are no request: it ends the connection in its turn.
    request: Option<(RequestHeader, Reader)>,
    /// Shows that it waits.
    _queued: WaitCount,
}

struct Connection {
    stream: TcpStream,
    node: Arc<Node>,
    client: Client,
    inbox: Inbox,
    pipeline: Pipeline,
    arrived: VecDeque<Arrived>,
    at_work: FuturesUnordered<Timed>,
    /// Requests whose time is counted: those that were started and have no answer sent.
    stages: Vec<(RequestId, Stages)>,
    answers: Vec<(RequestId, Response)>,
    peer_is_done: bool,
}

/// A report of a request, and when its handler first waited.
type Timed = Later<(RequestId, Step, Monotonic)>;

enum Next {
    Read(io::Result<Read>),
    Step(RequestId, Step, Monotonic),
    Idle,
    Stopping,
}

/// Serves a connection until it ends.
///
/// # Errors
/// The socket's.
pub async fn serve(
    stream: TcpStream,
    node: Arc<Node>,
    client: Client,
    mut stopping: watch::Receiver<bool>,
) -> io::Result<Ended> {
    let limits = &node.settings.limits;
    let (idle, frame_bytes_max) = (limits.idle, limits.request_bytes_max as usize);
    let mut connection = Connection {
        stream,
        node,
        client,
        inbox: Inbox::new(frame_bytes_max),
        pipeline: Pipeline::new(Overlap::Produce(Limits::default())),
        arrived: VecDeque::new(),
        at_work: FuturesUnordered::new(),
        stages: Vec::new(),
        answers: Vec::new(),
        peer_is_done: false,
    };
    loop {
        if connection.take_in().await?.is_closed() {
            return Ok(Ended::Peer);
        }
        if connection.peer_is_done && connection.pipeline.pending() == 0 {
            return Ok(Ended::Peer);
        }
        match connection.next(idle, &mut stopping).await {
            Next::Read(Ok(Read::Some)) => {}
            Next::Read(Ok(Read::End)) => connection.peer_is_done = true,
            Next::Read(Err(error)) => return Err(error),
            Next::Step(id, step, waited) => {
                if connection.stepped(id, step, waited).await?.is_closed() {
                    return Ok(Ended::Peer);
                }
            }
            Next::Idle => return Ok(Ended::Idle),
            Next::Stopping => return Ok(Ended::Stopping),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Socket {
    Open,
    Closed,
}

impl Socket {
    fn is_closed(self) -> bool {
        self == Socket::Closed
    }
}

impl Connection {
    /// Takes in the requests that are here, as far as the order wants them.
    async fn take_in(&mut self) -> io::Result<Socket> {
        while self.pipeline.wants_request() {
            let request = match self.inbox.take_frame() {
                Ok(Some(frame)) => self.parse(frame),
                Ok(None) => break,
                Err(error) => {
                    debug!(%error, host = %self.client.host, "no frame has this length");
                    self.peer_is_done = true;
                    None
                }
            };
            let is_produce = request
                .as_ref()
                .is_some_and(|(header, _)| header.api_key == ApiKey::Produce);
            let kind = if is_produce { Kind::Produce } else { Kind::Barrier };
            let bytes = request.as_ref().map_or(0, |(_, body)| body.remaining());
            self.arrived.push_back(Arrived {
                id: self.pipeline.next_request(),
                at: self.node.clock.now(),
                request,
                _queued: self.node.metrics.waiting.to_start(),
            });
            if self.step(Event::Arrived { kind, bytes }).await?.is_closed() {
                return Ok(Socket::Closed);
            }
        }
        Ok(Socket::Open)
    }

    fn parse(&self, frame: Bytes) -> Option<(RequestHeader, Reader)> {
        let mut reader = Reader::new(frame);
        match RequestHeader::decode(&mut reader) {
            Ok(header) => Some((header, reader)),
            Err(error) => {
                debug!(%error, host = %self.client.host, "no request has this header");
                None
            }
        }
    }

    /// Reports an event to the order and does what it asks for.
    async fn step(&mut self, event: Event) -> io::Result<Socket> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.pipeline.step(event) {
                match effect {
                    Effect::Start(id) => events.extend(self.start(id)),
                    Effect::Send(id) => {
                        let at = self.answers.iter().position(|(answered, _)| *answered == id);
                        let at = at.expect("an answer is sent once, after its request ended");
                        let (_, response) = self.answers.swap_remove(at);
                        let sending = self.node.clock.now();
                        outbox::send(&self.stream, &response, self.node.settings.limits.idle).await?;
                        let sent = Sent {
                            began: sending,
                            ended: self.node.clock.now(),
                            errors: response.errors(),
                        };
                        self.done(id, Some(&sent));
                        events.push_back(Event::Sent(id));
                    }
                    Effect::Close => return Ok(Socket::Closed),
                }
            }
        }
        Ok(Socket::Open)
    }

    /// Hands a request to its handler. Returns how it ended if it did at once.
    fn start(&mut self, id: RequestId) -> Option<Event> {
        let arrived = self.arrived.pop_front().expect("only what arrived is started");
        assert!(arrived.id == id, "requests start in the order of arrival");
        let Some((header, body)) = arrived.request else {
            return Some(Event::Ended(id, Ending::Close));
        };
        let mut stages = Stages::arrived(header.api_key, header.api_version, arrived.at);
        stages.started = Some(self.node.clock.now());
        self.stages.push((id, stages));
        let begun = handlers::begin(&self.node, &self.client, &header, body);
        match begun {
            handlers::Begun::Ended(answer) => Some(self.ended(id, answer)),
            handlers::Begun::AtWork(steps) => {
                let clock = &self.node.clock;
                let steps = steps.into_iter().map(|step| timed(id, step, Arc::clone(clock)));
                self.at_work.extend(steps);
                None
            }
        }
    }

    async fn stepped(&mut self, id: RequestId, step: Step, waited: Monotonic) -> io::Result<Socket> {
        let event = match step {
            Step::Appended => {
                let now = self.node.clock.now();
                self.stage(id, |stages| stages.left = Some(now));
                Event::Appended(id)
            }
            Step::Ended(answer) => {
                self.stage(id, |stages| stages.left = stages.left.or(Some(waited)));
                self.ended(id, answer)
            }
        };
        self.step(event).await
    }

    fn stage(&mut self, id: RequestId, reached: impl FnOnce(&mut Stages)) {
        if let Some((_, stages)) = self.stages.iter_mut().find(|(started, _)| *started == id) {
            reached(stages);
        }
    }

    /// Nothing more is done for the request.
    fn done(&mut self, id: RequestId, sent: Option<&Sent<'_>>) {
        if let Some(at) = self.stages.iter().position(|(started, _)| *started == id) {
            let (_, stages) = self.stages.swap_remove(at);
            self.node.metrics.requests.done(&stages, sent);
        }
    }

    fn ended(&mut self, id: RequestId, answer: Answer) -> Event {
        let now = self.node.clock.now();
        self.stage(id, |stages| stages.ended = Some(now));
        match answer {
            Answer::Send(response) => {
                let asked_by = response.asked_by;
                self.stage(id, |stages| stages.asked_by = asked_by);
                self.answers.push((id, response));
                Event::Ended(id, Ending::Answer)
            }
            Answer::Nothing => {
                self.done(id, None);
                Event::Ended(id, Ending::Silence)
            }
            Answer::Close => Event::Ended(id, Ending::Close),
        }
    }

    async fn next(&mut self, idle: Option<Duration>, stopping: &mut watch::Receiver<bool>) -> Next {
        let may_read = !self.peer_is_done && self.pipeline.wants_request();
        let is_at_work = !self.at_work.is_empty();
        let is_quiet = self.pipeline.pending() == 0;
        tokio::select! {
            biased;
            Some((id, step, waited)) = self.at_work.next(), if is_at_work => Next::Step(id, step, waited),
            read = self.inbox.fill(&self.stream), if may_read => Next::Read(read),
            // Also while something is at work: it may be a wait of weeks for a peer that has gone.
            () = silence(idle) => Next::Idle,
            _ = stopping.wait_for(|stopping| *stopping), if is_quiet => Next::Stopping,
        }
    }
}

/// The report of a request, with the time at which its handler first had to wait for something, or ended.
fn timed(id: RequestId, mut step: Later<Step>, clock: Arc<dyn Clock>) -> Timed {
    Box::pin(async move {
        let mut waited = None;
        let step = poll_fn(|context| {
            let polled = step.as_mut().poll(context);
            waited.get_or_insert_with(|| clock.now());
            polled
        });
        let step = step.await;
        (id, step, waited.unwrap_or_else(|| clock.now()))
    })
}

/// Ends after the idle time, or never.
async fn silence(idle: Option<Duration>) {
    match idle {
        Some(idle) => tokio::time::sleep(idle).await,
        None => std::future::pending().await,
    }
}
