//! One connection: frames in, answers out. What may start when, and which answer leaves next, is decided by
//! [`broker_core::pipeline`]; here it is carried out.
//!
//! Must not: know an API beyond whether it is Produce, or keep memory while nothing happens.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use broker_core::pipeline::{Effect, Ending, Event, Kind, Limits, Overlap, Pipeline, RequestId};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::debug;
use wire::{ApiKey, Reader, RequestHeader};

use super::inbox::{Inbox, Read};
use super::outbox;
use super::response::Response;
use crate::handlers::{self, Answer, Client, Step, Stepping};
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
    /// Nothing when the bytes are no request: it ends the connection in its turn.
    request: Option<(RequestHeader, Reader)>,
}

struct Connection {
    stream: TcpStream,
    node: Arc<Node>,
    client: Client,
    inbox: Inbox,
    pipeline: Pipeline,
    arrived: VecDeque<Arrived>,
    at_work: FuturesUnordered<Stepping>,
    answers: Vec<(RequestId, Response)>,
    peer_is_done: bool,
}

enum Next {
    Read(io::Result<Read>),
    Step(RequestId, Step),
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
            Next::Step(id, step) => {
                if connection.stepped(id, step).await?.is_closed() {
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
                request,
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
                        outbox::send(&self.stream, &response).await?;
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
        let begun = handlers::begin(&self.node, &self.client, &header, body);
        match begun {
            handlers::Begun::Ended(answer) => Some(self.ended(id, answer)),
            handlers::Begun::AtWork(steps) => {
                let steps = steps
                    .into_iter()
                    .map(|step| -> Stepping { Box::pin(async move { (id, step.await) }) });
                self.at_work.extend(steps);
                None
            }
        }
    }

    async fn stepped(&mut self, id: RequestId, step: Step) -> io::Result<Socket> {
        let event = match step {
            Step::Appended => Event::Appended(id),
            Step::Ended(answer) => self.ended(id, answer),
        };
        self.step(event).await
    }

    fn ended(&mut self, id: RequestId, answer: Answer) -> Event {
        match answer {
            Answer::Send(response) => {
                self.answers.push((id, response));
                Event::Ended(id, Ending::Answer)
            }
            Answer::Nothing => Event::Ended(id, Ending::Silence),
            Answer::Close => Event::Ended(id, Ending::Close),
        }
    }

    async fn next(&mut self, idle: Option<Duration>, stopping: &mut watch::Receiver<bool>) -> Next {
        let may_read = !self.peer_is_done && self.pipeline.wants_request();
        let is_at_work = !self.at_work.is_empty();
        let is_quiet = self.pipeline.pending() == 0;
        tokio::select! {
            biased;
            Some((id, step)) = self.at_work.next(), if is_at_work => Next::Step(id, step),
            read = self.inbox.fill(&self.stream), if may_read => Next::Read(read),
            () = silence(idle), if is_quiet => Next::Idle,
            _ = stopping.wait_for(|stopping| *stopping), if is_quiet => Next::Stopping,
        }
    }
}

/// Ends after the idle time, or never.
async fn silence(idle: Option<Duration>) {
    match idle {
        Some(idle) => tokio::time::sleep(idle).await,
        None => std::future::pending().await,
    }
}
