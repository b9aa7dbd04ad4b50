//! Following the metadata: what the controllers have committed becomes the image that this broker acts on.
//!
//! ```text
//!  Batch, Snapshot ─► image (replayed) ─► Publish ─► lanes ─► LaneApplied ─► Applied (what heartbeats tell)
//! ```
//!
//! Laws: an image is published only between batches, only once everything that was committed at the start is in it, and
//! never with a lower offset than the one before. A position counts as applied only when every lane has acknowledged
//! it. Must not decide what a change means.

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use metadata::batch::MetadataBatch;
use metadata::dump::DumpHeader;
use metadata::ids::{BrokerId, ControllerId, IncarnationId, MetadataOffset, Term};
use metadata::image::Image;
use metadata::record::Record;
use metadata::replay::{Application, ReplayError, Skip};

use crate::mutants::{self, Mutant};
use crate::time::Moment;

/// After so many idle intervals without progress another controller is tried: each of them brings a no-op at least.
const IDLE_INTERVALS_MAX: u32 = 3;

/// Streams are opened no more often than this; one that lasted longer is replaced at once.
const REOPEN_AFTER: Duration = Duration::from_millis(100);

/// Names one stream; later ones are higher, and what still comes from an earlier one is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// Whether the server's history contains the position that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lineage {
    /// It does.
    Same,
    /// It does not: what this broker holds was never committed there. A whole snapshot follows.
    Differs,
}

/// A piece of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What the whole stands for.
    pub header: DumpHeader,
    /// Records in dump order.
    pub records: Vec<Record>,
    /// Whether more follow.
    pub place: Place,
}

/// Where a piece stands in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// More follow.
    Inner,
    /// It is the last.
    Last,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first word of a stream.
    Hello {
        /// Which stream.
        stream: StreamId,
        /// The server's cluster.
        cluster_id: String,
        /// Whether it knows our position.
        lineage: Lineage,
    },
    /// A piece of a snapshot, which replaces everything.
    Snapshot {
        /// Which stream.
        stream: StreamId,
        /// The piece.
        piece: Piece,
    },
    /// A committed batch.
    Batch {
        /// Which stream.
        stream: StreamId,
        /// The batch.
        batch: MetadataBatch,
    },
    /// How far the server is.
    Progress {
        /// Which stream.
        stream: StreamId,
        /// Everything below is committed and was sent.
        committed_end: MetadataOffset,
        /// In which term.
        term: Term,
        /// Who is active, as far as the server knows.
        active: Option<ControllerId>,
    },
    /// The stream ended, or could not be opened.
    Closed {
        /// Which stream.
        stream: StreamId,
    },
    /// A lane has carried out everything that a published image asks of it.
    LaneApplied {
        /// Which lane.
        lane: usize,
        /// The image's next offset.
        next_offset: MetadataOffset,
    },
    /// Time has passed.
    Tick,
}

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open a stream, at the controller after the one asked last.
    Open {
        /// The name of the new stream.
        stream: StreamId,
        /// The offset wanted next.
        next_offset: MetadataOffset,
        /// Term of the last batch held.
        last_term: Term,
    },
    /// Drop this stream.
    Close {
        /// Which.
        stream: StreamId,
    },
    /// The cluster's id is known now; the first word of the first stream.
    ClusterKnown(String),
    /// Act on a newer image.
    Publish {
        /// The one published before; empty at first.
        before: Arc<Image>,
        /// The one to act on from now on.
        after: Arc<Image>,
    },
    /// Every lane has applied everything below: heartbeats may say so (R1.11).
    Applied(MetadataOffset),
    /// The active controller, as the followed one knows it, is another.
    ActiveIs(ControllerId),
    /// The history that this broker acted on is not the cluster's: a human must look.
    LineageDiffers {
        /// What was held.
        held: DumpHeader,
    },
    /// This broker cannot go on.
    Stop(Fault),
}

/// Why following cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A controller of another cluster answered.
    #[error("cluster {given} answered, this broker belongs to {held}")]
    OtherCluster {
        /// Ours.
        held: String,
        /// Theirs.
        given: String,
    },
    /// A committed record makes no sense here: another release, or a damaged log.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// How far the broker follows the metadata.
#[derive(Clone, Debug)]
pub struct Follower {
    /// `metadata.max.idle.interval.ms`.
    idle_interval: Duration,
    /// Who follows, if its registration must be waited for.
    process: Option<(BrokerId, IncarnationId)>,
    cluster_id: Option<String>,
    /// Everything that was replayed.
    image: Arc<Image>,
    /// What the lanes act on.
    published: Arc<Image>,
    /// What had been committed when it was asked for the first time; nothing is published before that is replayed
    /// (R5.51).
    first_end: Option<MetadataOffset>,
    stream: Stream,
    last_stream: StreamId,
    opened_at: Moment,
    /// When the committed metadata last grew, as seen from here.
    progress_at: Moment,
    committed_end: MetadataOffset,
    term: Term,
    active: Option<ControllerId>,
    /// Next offset that each lane has acknowledged.
    lanes: Vec<MetadataOffset>,
    applied: MetadataOffset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stream {
    /// None; to be opened at that moment.
    None { open_at: Moment },
    /// Asked for; nothing has come yet.
    Opening,
    /// Batches come.
    Open,
    /// A snapshot comes; batches come after it.
    Loading {
        header: DumpHeader,
        records: Vec<Record>,
    },
}

impl Follower {
    /// A broker that holds nothing: `cluster_id` is what its disk says. Ask it with [`Event::Tick`] to begin.
    #[must_use]
    pub fn new(
        cluster_id: Option<String>,
        lanes: NonZeroUsize,
        idle_interval: Duration,
        now: Moment,
    ) -> Self {
        Self {
            idle_interval,
            process: None,
            cluster_id,
            image: Arc::default(),
            published: Arc::default(),
            first_end: None,
            stream: Stream::None { open_at: now },
            last_stream: StreamId(0),
            opened_at: now,
            progress_at: now,
            committed_end: MetadataOffset(0),
            term: Term(0),
            active: None,
            lanes: vec![MetadataOffset(0); lanes.get()],
            applied: MetadataOffset(0),
        }
    }

    /// The process that follows. Nothing is published to it before the image has its registration (R1.10): an older
    /// image may still call this broker the leader, on the word of a process whose log had more than this one's.
    #[must_use]
    pub fn of_process(mut self, me: BrokerId, incarnation: IncarnationId) -> Self {
        self.process = Some((me, incarnation));
        self
    }

    /// What the lanes act on.
    #[must_use]
    pub fn published(&self) -> &Arc<Image> {
        &self.published
    }

    /// Everything below has been applied by every lane.
    #[must_use]
    pub fn applied(&self) -> MetadataOffset {
        self.applied
    }

    /// The committed end that the controllers have told of, for the lag.
    #[must_use]
    pub fn committed_end(&self) -> MetadataOffset {
        self.committed_end
    }

    /// When [`Event::Tick`] is due next.
    #[must_use]
    pub fn next_tick(&self) -> Moment {
        match self.stream {
            Stream::None { open_at } => open_at,
            Stream::Opening | Stream::Open | Stream::Loading { .. } => self.silent_at(),
        }
    }

    /// Takes in one event.
    #[must_use]
    pub fn step(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        let stream = match &event {
            Event::Hello { stream, .. }
            | Event::Snapshot { stream, .. }
            | Event::Batch { stream, .. }
            | Event::Progress { stream, .. }
            | Event::Closed { stream } => *stream,
            Event::LaneApplied { .. } | Event::Tick => self.last_stream,
        };
        if stream != self.last_stream {
            return Vec::new();
        }
        match event {
            Event::Hello {
                cluster_id, lineage, ..
            } => self.greeted(cluster_id, lineage, now),
            Event::Snapshot { piece, .. } => self.loaded(piece, now),
            Event::Batch { batch, .. } => self.replayed(&batch, now),
            Event::Progress {
                committed_end,
                term,
                active,
                ..
            } => self.told(committed_end, term, active, now),
            Event::Closed { .. } => {
                let open_at = now.max(self.opened_at.after(REOPEN_AFTER));
                self.stream = Stream::None { open_at };
                self.tick(now)
            }
            Event::LaneApplied { lane, next_offset } => self.lane_applied(lane, next_offset),
            Event::Tick => self.tick(now),
        }
    }

    fn greeted(&mut self, cluster_id: String, lineage: Lineage, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        match &self.cluster_id {
            Some(held) if *held != cluster_id => {
                let held = held.clone();
                return vec![Effect::Stop(Fault::OtherCluster {
                    held,
                    given: cluster_id,
                })];
            }
            Some(_) => {}
            None => {
                self.cluster_id = Some(cluster_id.clone());
                effects.push(Effect::ClusterKnown(cluster_id));
            }
        }
        if self.stream == Stream::Opening {
            self.stream = Stream::Open;
        }
        // A controller that answers has the whole time to show that the metadata moves.
        self.progress_at = now;
        if lineage == Lineage::Differs && !self.image.is_empty() {
            effects.push(Effect::LineageDiffers {
                held: self.image.dump_header(),
            });
        }
        effects
    }

    fn loaded(&mut self, piece: Piece, now: Moment) -> Vec<Effect> {
        self.progress_at = now;
        let stream = std::mem::replace(&mut self.stream, Stream::Open);
        let mut records = match stream {
            Stream::Loading { header, records } if header == piece.header => records,
            Stream::Loading { .. } | Stream::Open | Stream::Opening | Stream::None { .. } => Vec::new(),
        };
        records.extend(piece.records);
        if piece.place == Place::Inner {
            self.stream = Stream::Loading {
                header: piece.header,
                records,
            };
            return Vec::new();
        }
        match Image::from_dump(piece.header, records) {
            Ok(image) => {
                self.image = Arc::new(image);
                self.publish()
            }
            Err(fault) => vec![Effect::Stop(fault.into())],
        }
    }

    fn replayed(&mut self, batch: &MetadataBatch, now: Moment) -> Vec<Effect> {
        if matches!(self.stream, Stream::Loading { .. }) {
            return self.reopen(now); // A snapshot that never ended.
        }
        let mut next = Image::clone(&self.image);
        match next.apply(batch, batch.decided_in_term) {
            Ok(Application::Applied) => {
                let mut effects = Vec::new();
                if mutants::is_selected(Mutant::ImagePublishedMidBatch) && self.replay_half(batch) {
                    effects = self.publish();
                }
                self.image = Arc::new(next);
                self.progress_at = now;
                effects.extend(self.publish());
                effects
            }
            // It is in a snapshot already.
            Ok(Application::Skipped(Skip::OtherOffset { held, given })) if given < held => Vec::new(),
            Ok(Application::Skipped(_)) => self.reopen(now),
            Err(fault) => vec![Effect::Stop(fault.into())],
        }
    }

    /// Only a planted fault does so: replays the first half of a batch.
    fn replay_half(&mut self, batch: &MetadataBatch) -> bool {
        let mut half = Image::clone(&self.image);
        let records = &batch.records[..batch.records.len() / 2];
        let replayed = !records.is_empty() && half.replay_all(records).is_ok();
        if replayed {
            self.image = Arc::new(half);
        }
        replayed
    }

    fn told(
        &mut self,
        committed_end: MetadataOffset,
        term: Term,
        active: Option<ControllerId>,
        now: Moment,
    ) -> Vec<Effect> {
        self.first_end.get_or_insert(committed_end);
        if self.committed_end < committed_end || self.term < term {
            self.progress_at = now;
        }
        self.committed_end = self.committed_end.max(committed_end);
        self.term = self.term.max(term);
        let mut effects = Vec::new();
        if let Some(other) = active
            && self.active != active
        {
            self.active = active;
            effects.push(Effect::ActiveIs(other));
        }
        effects.extend(self.publish());
        effects
    }

    /// Whether the image has the registration of the process that follows.
    fn knows_process(&self) -> bool {
        self.process.is_none_or(|(me, incarnation)| {
            let registered = self.image.brokers.get(&me);
            registered.is_some_and(|broker| broker.incarnation == incarnation)
        })
    }

    /// Publishes the newest image, unless that is not allowed yet or would go back.
    fn publish(&mut self) -> Vec<Effect> {
        let caught_up = self.first_end.is_some_and(|end| end <= self.image.next_offset);
        let loading = matches!(self.stream, Stream::Loading { .. });
        let (held, next) = (self.published.dump_header(), self.image.dump_header());
        if !caught_up || loading || held == next || next.next_offset < held.next_offset {
            return Vec::new();
        }
        let knows = self.knows_process() || mutants::is_selected(Mutant::PublishedBeforeRegistration);
        if self.published.is_empty() && !knows {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.published, Arc::clone(&self.image));
        assert!(
            before.next_offset <= self.published.next_offset,
            "no lower offset is published"
        );
        vec![Effect::Publish {
            before,
            after: Arc::clone(&self.published),
        }]
    }

    fn lane_applied(&mut self, lane: usize, next_offset: MetadataOffset) -> Vec<Effect> {
        assert!(
            next_offset <= self.published.next_offset,
            "only what is published can be applied"
        );
        assert!(self.lanes[lane] <= next_offset, "a lane applies in order");
        self.lanes[lane] = next_offset;
        let told = if mutants::is_selected(Mutant::AppliedReportedEarly) {
            self.lanes.iter().max()
        } else {
            self.lanes.iter().min()
        };
        let applied = *told.expect("there is a lane at least");
        if applied <= self.applied {
            return Vec::new();
        }
        self.applied = applied;
        vec![Effect::Applied(applied)]
    }

    fn tick(&mut self, now: Moment) -> Vec<Effect> {
        match self.stream {
            Stream::None { open_at } if open_at <= now => self.open(now),
            Stream::None { .. } => Vec::new(),
            Stream::Opening | Stream::Open | Stream::Loading { .. } if self.silent_at() <= now => {
                self.reopen(now)
            }
            Stream::Opening | Stream::Open | Stream::Loading { .. } => Vec::new(),
        }
    }

    fn silent_at(&self) -> Moment {
        self.progress_at.after(self.idle_interval * IDLE_INTERVALS_MAX)
    }

    fn reopen(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = vec![Effect::Close {
            stream: self.last_stream,
        }];
        effects.extend(self.open(now));
        effects
    }

    fn open(&mut self, now: Moment) -> Vec<Effect> {
        self.last_stream = StreamId(self.last_stream.0 + 1);
        self.stream = Stream::Opening;
        self.opened_at = now;
        self.progress_at = now;
        vec![Effect::Open {
            stream: self.last_stream,
            next_offset: self.image.next_offset,
            last_term: self.image.last_term,
        }]
    }
}
