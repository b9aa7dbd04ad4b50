//! Committed metadata for brokers and tools, from any controller, and what this one knows of the quorum.

use std::sync::Arc;
use std::time::Duration;

use controller_core::feed::Give;
use metadata::dump::{DumpHeader, dump};
use metadata::ids::{MetadataOffset, Term};
use metadata::image::Image;
use millrace_proto::v1;
use millrace_proto::v1::follow_event::Event;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::Desk;
use crate::quorum::Member;

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
    let (voters, learners): (Vec<_>, Vec<_>) =
        desk.quorum.members().into_iter().partition(|member| member.votes);
    let mut observers = desk.observers.lock().status(desk.clock.now());
    observers.extend(learners.into_iter().filter_map(|learner| learning(desk, learner)));
    v1::StatusReply {
        cluster_id: addressing.cluster_id().unwrap_or_default(),
        id: addressing.controller_id().0,
        role: standing.role.as_str().to_owned(),
        term: standing.term.0,
        active: desk.inbox.active().is_some(),
        leader: desk.active_address(),
        committed_end: end,
        applied_end: end,
        voters: voters.into_iter().map(|voter| voting(desk, voter)).collect(),
        observers,
        quarantine: desk.quarantine.lock().clone(),
    }
}

fn millis(ago: Duration) -> i64 {
    i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)
}

/// The offset that a member's position adds up to.
fn log_end(desk: &Desk, member: &Member) -> Option<i64> {
    let end = desk.published.end_at(member.progress.matched?)?;
    Some(end.0)
}

fn voting(desk: &Desk, voter: Member) -> v1::VoterStatus {
    v1::VoterStatus {
        id: voter.id.0,
        log_end: log_end(desk, &voter),
        last_fetch_ms: voter.progress.answered_ago.map(millis),
        last_caught_up_ms: voter.progress.caught_up_ago.map(millis),
        address: voter.address,
        directory: voter.directory,
    }
}

/// A controller without a vote; one that never answered was not heard.
fn learning(desk: &Desk, learner: Member) -> Option<v1::ObserverStatus> {
    Some(v1::ObserverStatus {
        id: learner.id.0,
        log_end: log_end(desk, &learner).unwrap_or(0),
        last_fetch_ms: learner.progress.answered_ago.map(millis)?,
        last_caught_up_ms: learner.progress.caught_up_ago.map(millis),
        directory: learner.directory,
    })
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
        let position = DumpHeader {
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
        position: DumpHeader,
        observed: Option<&Observed>,
    ) -> Result<(), Gone> {
        let mut news = self.desk.published.news();
        let mut ticks = tokio::time::interval(self.desk.progress_interval);
        let mut follower = self.desk.published.subscribe(position);
        self.send(Event::Hello(v1::Hello {
            cluster_id,
            lineage_differs: follower.lineage_differs(),
        }))
        .await?;
        loop {
            news.borrow_and_update();
            match self.desk.published.next(&mut follower) {
                Give::Batches(batches) => {
                    for batch in batches {
                        self.send(Event::Batch(batch)).await?;
                    }
                    note(observed, follower.position());
                }
                Give::Snapshot(image) => self.send_snapshot(&image).await?,
                Give::FollowAgain => {
                    let why = Status::aborted("the lineage differs: follow again");
                    return self.events.send(Err(why)).await.map_err(|_| Gone);
                }
                Give::Nothing => tokio::select! {
                    // The sender lives as long as the desk.
                    _ = news.changed() => {}
                    _ = ticks.tick() => {
                        self.send(Event::Progress(self.progress(follower.position()))).await?;
                        note(observed, follower.position());
                    }
                },
            }
        }
    }

    fn progress(&self, position: DumpHeader) -> v1::Progress {
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

    async fn send_snapshot(&self, image: &Image) -> Result<(), Gone> {
        let at = image.dump_header();
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
        self.send(piece(records, true)).await
    }
}

/// Lists a broker among the observers, and knows how many of its streams are open: it may have two for a moment.
struct Observed {
    desk: Arc<Desk>,
    broker: i32,
}

impl Observed {
    fn new(desk: &Arc<Desk>, broker: i32) -> Self {
        desk.observers.lock().joined(broker, desk.clock.now());
        Self {
            desk: desk.clone(),
            broker,
        }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.desk.observers.lock().left(self.broker);
    }
}

/// Notes what an observer was sent.
fn note(observed: Option<&Observed>, position: DumpHeader) {
    let Some(observed) = observed else {
        return;
    };
    let desk = &observed.desk;
    let (end, now) = (desk.published.image().next_offset.0, desk.clock.now());
    let sent_end = position.next_offset.0;
    desk.observers.lock().sent(observed.broker, sent_end, end, now);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use tokio::sync::watch;

    use super::*;
    use crate::services::testing::desk;
    use crate::space::Space;

    const PATIENCE: Duration = Duration::from_secs(60);
    const LOOKS: u32 = 20_000;

    /// A status that looked twice at who is active waited for the driver, which waited for the first look to end: both
    /// threads of the controller stood still for good.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_status_is_told_while_a_lead_comes_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (leading, active) = watch::channel(None);
        let (_, space) = watch::channel(Space::Enough);
        let desk = desk(dir.path(), active, space).await;
        let (telling, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let looked = (0..LOOKS).filter(|_| status(&desk).id == 1).count();
            // Nobody listens any more once this took too long.
            let _ = telling.send(looked);
        });

        std::thread::spawn(move || {
            let mut term = 0;
            while !leading.is_closed() {
                term += 1;
                leading.send_replace(Some(Term(term)).filter(|_| term % 2 == 0));
            }
        });
        let looked = tokio::task::spawn_blocking(move || told.recv_timeout(PATIENCE)).await;

        assert_eq!(looked.unwrap(), Ok(LOOKS as usize));
    }
}
