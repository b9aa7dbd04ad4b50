//! Committed metadata for brokers and tools, from any controller, and what this one knows of the quorum.

use std::sync::Arc;

use metadata::dump::dump;
use metadata::ids::{MetadataOffset, Term};
use metadata::image::Image;
use millrace_proto::v1;
use millrace_proto::v1::follow_event::Event;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{Desk, Observer};
use crate::published::{Next, Position};

/// Records of a snapshot sent in one piece.
const PIECE_BYTES: usize = 256 * 1024;
const EVENTS_WAITING_MAX: usize = 16;

/// Serves committed metadata.
pub struct Follow(pub Arc<Desk>);

type Events = mpsc::Sender<Result<v1::FollowEvent, Status>>;

#[tonic::async_trait]
impl v1::metadata_server::Metadata for Follow {
    type FollowStream = ReceiverStream<Result<v1::FollowEvent, Status>>;

    async fn follow(
        &self,
        request: Request<v1::FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let request = request.into_inner();
        let (events, outbound) = mpsc::channel(EVENTS_WAITING_MAX);
        let desk = self.0.clone();
        tokio::spawn(async move {
            let closed = events.clone();
            tokio::select! {
                () = Follower { desk, events }.run(request) => {}
                // A follower that has gone is not waited for.
                () = closed.closed() => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(outbound)))
    }

    async fn status(
        &self,
        _request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        Ok(Response::new(status(&self.0)))
    }
}

fn status(desk: &Desk) -> v1::StatusReply {
    let standing = desk.quorum.standing();
    let addressing = desk.quorum.addressing();
    let end = desk.published.image().next_offset.0;
    let voters = desk.quorum.voters().into_iter().map(|voter| v1::VoterStatus {
        id: voter.id.0,
        address: voter.address,
        directory: voter.directory,
        log_end: voter
            .matched
            .and_then(|matched| desk.published.end_at(matched))
            .map(|end| end.0),
    });
    let now = desk.clock.now();
    let observers = desk.observers.lock();
    let observers = observers.iter().map(|(broker, seen)| v1::ObserverStatus {
        broker: *broker,
        log_end: seen.log_end,
        last_fetch_ms: i64::try_from(now.since(seen.seen).as_millis()).unwrap_or(i64::MAX),
    });
    v1::StatusReply {
        cluster_id: addressing.cluster_id().unwrap_or_default(),
        id: addressing.controller_id().0,
        role: standing.role.as_str().to_owned(),
        term: standing.term.0,
        active: desk.inbox.active().borrow().is_some(),
        leader: desk.active_address(),
        committed_end: end,
        applied_end: end,
        voters: voters.collect(),
        observers: observers.collect(),
        quarantine: desk.quarantine.lock().clone(),
    }
}

struct Follower {
    desk: Arc<Desk>,
    events: Events,
}

/// The other side has gone.
struct Gone;

impl Follower {
    async fn run(self, request: v1::FollowRequest) {
        let cluster_id = self.desk.quorum.addressing().known_cluster_id().await;
        if !request.cluster_id.is_empty() && request.cluster_id != cluster_id {
            let why = format!("this is cluster {cluster_id}, not {}", request.cluster_id);
            // Gone or told: both end here.
            let _ = self.events.send(Err(Status::failed_precondition(why))).await;
            return;
        }
        let position = Position {
            next_offset: MetadataOffset(request.next_offset.max(0)),
            last_term: Term(request.last_term),
        };
        let observed = request.broker.map(|broker| Observed::new(&self.desk, broker));
        // The stream ends when the other side goes; that is its normal end.
        let _ = self.stream(cluster_id, position, observed.as_ref()).await;
    }

    async fn stream(
        &self,
        cluster_id: String,
        mut position: Position,
        observed: Option<&Observed>,
    ) -> Result<(), Gone> {
        let mut news = self.desk.published.news();
        let mut ticks = tokio::time::interval(self.desk.progress_interval);
        let lineage_differs = matches!(self.desk.published.after(position), Next::OtherLineage(_));
        self.send(Event::Hello(v1::Hello {
            cluster_id,
            lineage_differs,
        }))
        .await?;
        let mut told = lineage_differs;
        loop {
            news.borrow_and_update();
            match self.desk.published.after(position) {
                Next::Batches(batches, end) => {
                    for batch in batches {
                        self.send(Event::Batch(batch)).await?;
                    }
                    position = end;
                    note(observed, position);
                }
                Next::Snapshot(image) => position = self.send_snapshot(&image).await?,
                Next::OtherLineage(image) if told => {
                    position = self.send_snapshot(&image).await?;
                    told = false;
                }
                Next::OtherLineage(_) => {
                    // Found out only after this node caught up: the next stream's first event tells.
                    let why = Status::aborted("the lineage differs: follow again");
                    return self.events.send(Err(why)).await.map_err(|_| Gone);
                }
                Next::Nothing => tokio::select! {
                    // The sender lives as long as the desk.
                    _ = news.changed() => {}
                    _ = ticks.tick() => {
                        self.send(Event::Progress(self.progress(position))).await?;
                        note(observed, position);
                    }
                },
            }
        }
    }

    fn progress(&self, position: Position) -> v1::Progress {
        v1::Progress {
            committed_end: position.next_offset.0,
            term: self.desk.quorum.standing().term.0,
            active: self.desk.active_address(),
        }
    }

    async fn send(&self, event: Event) -> Result<(), Gone> {
        let event = v1::FollowEvent { event: Some(event) };
        self.events.send(Ok(event)).await.map_err(|_| Gone)
    }

    async fn send_snapshot(&self, image: &Image) -> Result<Position, Gone> {
        let at = Position::of(image);
        let piece = |records, last| {
            Event::Snapshot(v1::SnapshotPiece {
                next_offset: at.next_offset.0,
                last_term: at.last_term.0,
                records,
                last,
            })
        };
        let mut records = Vec::new();
        let mut size_bytes = 0;
        for record in dump(image) {
            let bytes = record.encode();
            size_bytes += bytes.len();
            records.push(bytes);
            if PIECE_BYTES <= size_bytes {
                size_bytes = 0;
                self.send(piece(std::mem::take(&mut records), false)).await?;
            }
        }
        self.send(piece(records, true)).await?;
        Ok(at)
    }
}

/// Lists a broker among the observers while one of its streams is open: it may have two for a moment.
struct Observed {
    desk: Arc<Desk>,
    broker: i32,
}

impl Observed {
    fn new(desk: &Arc<Desk>, broker: i32) -> Self {
        let mut observers = desk.observers.lock();
        let seen = observers.entry(broker).or_insert(Observer {
            log_end: 0,
            seen: desk.clock.now(),
            streams: 0,
        });
        seen.streams += 1;
        Self {
            desk: desk.clone(),
            broker,
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        let mut observers = self.desk.observers.lock();
        if let Some(seen) = observers.get_mut(&self.broker) {
            seen.streams -= 1;
            if seen.streams == 0 {
                observers.remove(&self.broker);
            }
        }
    }
}

/// Notes what an observer was sent.
fn note(observed: Option<&Observed>, position: Position) {
    let Some(observed) = observed else {
        return;
    };
    if let Some(seen) = observed.desk.observers.lock().get_mut(&observed.broker) {
        seen.log_end = position.next_offset.0;
        seen.seen = observed.desk.clock.now();
    }
}
