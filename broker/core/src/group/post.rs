//! A coordinator's post: one partition of `__consumer_offsets` under one leadership, from the first look into its log
//! until that leadership is over.
//!
//! ```text
//!  Posts::follow ─► Lead ─► Loading ── read, and committed up to there ──► Serving
//!                              └────── it cannot be read ────────────────► Broken
//! ```
//! A post serves only after everything in its log is read and committed: what a former leader acknowledged may lie above
//! the watermark that this one knows of. Until then it says so: an offset that was committed is never unknown (BC-005).
//! Must not: read a log, or know who waits for an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use metadata::ids::{BrokerId, LeaderEpoch, PartitionId, PartitionIndex, TopicId};
use metadata::image::Image;

use super::Event;
use super::names::{ReplyId, Stamp, WriteId};
use super::place::OFFSETS;
use super::request::{Refusal, Request};
use super::shard::Shard;
use super::work::{Effect, Outcome};
use crate::mutants::{self, Mutant};
use crate::offsets::{LogFacts, Offset};
use crate::produce::{ProduceRefusal, WaitOutcome};
use crate::replica::{Serving, View};
use crate::time::Moment;

/// A pause of a coordinator's shell that is no accident of scheduling.
const PAUSE: Duration = Duration::from_millis(500);

/// Why a coordinator gives no answer (G-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Another broker coordinates this group.
    Elsewhere,
    /// The log is being read.
    Loading,
    /// The log cannot be read.
    Broken,
}

/// One partition of `__consumer_offsets` that this broker leads.
#[derive(Clone, Debug)]
pub struct Post {
    under: LeaderEpoch,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Loading {
        /// What there was when it began.
        image: Arc<Image>,
        /// Topics that have gone since.
        gone: BTreeSet<TopicId>,
    },
    Broken,
    Serving(Box<Shard>),
}

impl Post {
    /// A post whose log is about to be read; these topics there are.
    #[must_use]
    pub fn new(under: LeaderEpoch, image: Arc<Image>) -> Self {
        let gone = BTreeSet::new();
        Self {
            under,
            stage: Stage::Loading { image, gone },
        }
    }

    /// Under which leadership.
    #[must_use]
    pub fn under(&self) -> LeaderEpoch {
        self.under
    }

    /// Its log is read and committed, or cannot be read. What was committed for topics that are no more is forgotten first.
    #[must_use]
    pub fn loaded(&mut self, shard: Option<Box<Shard>>, at: Stamp) -> Vec<Effect> {
        let Stage::Loading { image, gone } = &self.stage else {
            return Vec::new();
        };
        let Some(mut shard) = shard else {
            self.stage = Stage::Broken;
            return Vec::new();
        };
        shard.begin(at);
        let is_gone = |topic: &TopicId| gone.contains(topic) || !image.topics.contains_key(topic);
        let gone: BTreeSet<TopicId> = shard.topics().into_iter().filter(is_gone).collect();
        self.stage = Stage::Serving(shard);
        if gone.is_empty() {
            return Vec::new();
        }
        self.topics_deleted(&gone, at)
    }

    /// A client asks.
    ///
    /// # Errors
    /// When it does not serve.
    pub fn asked(&mut self, to: ReplyId, request: Request, at: Stamp) -> Result<Vec<Effect>, Unanswered> {
        match &mut self.stage {
            Stage::Serving(shard) => Ok(shard.step(Event::Asked(to, request), at)),
            Stage::Loading { .. } => Err(Unanswered::Loading),
            Stage::Broken => Err(Unanswered::Broken),
        }
    }

    /// What became of a write of this leadership.
    #[must_use]
    pub fn written(&mut self, write: WriteId, outcome: Outcome, at: Stamp) -> Vec<Effect> {
        self.step(Event::Written(write, outcome), at)
    }

    /// These topics are no more.
    #[must_use]
    pub fn topics_deleted(&mut self, gone: &BTreeSet<TopicId>, at: Stamp) -> Vec<Effect> {
        if let Stage::Loading { gone: held, .. } = &mut self.stage {
            held.extend(gone);
        }
        self.step(Event::TopicsDeleted(gone.clone()), at)
    }

    /// Time has passed, and nothing that came before waits.
    #[must_use]
    pub fn tick(&mut self, at: Stamp) -> Vec<Effect> {
        match self.next_tick() {
            Some(due) if due <= at.now => self.step(Event::Tick, at),
            _ => Vec::new(),
        }
    }

    /// When [`Self::tick`] is due.
    #[must_use]
    pub fn next_tick(&self) -> Option<Moment> {
        match &self.stage {
            Stage::Serving(shard) => shard.next_tick(),
            Stage::Loading { .. } | Stage::Broken => None,
        }
    }

    /// The shell did not run for so long: that time was nobody's silence.
    pub fn excuse(&mut self, pause: Duration) {
        if let Stage::Serving(shard) = &mut self.stage {
            shard.excuse(pause);
        }
    }

    fn step(&mut self, event: Event, at: Stamp) -> Vec<Effect> {
        match &mut self.stage {
            Stage::Serving(shard) => shard.step(event, at),
            Stage::Loading { .. } | Stage::Broken => Vec::new(),
        }
    }
}

/// How late a shell is that should have gone on at `expected`, if that is a pause to be excused.
#[must_use]
pub fn pause(expected: Moment, now: Moment) -> Option<Duration> {
    Some(now.since(expected)).filter(|late| PAUSE <= *late)
}

/// Whether this replica leads under this epoch, and not merely the image says so.
#[must_use]
pub fn leads(view: &View, under: LeaderEpoch) -> bool {
    view.leader_epoch == under && matches!(view.serving, Serving::Leader { .. })
}

/// Whether a part of a log is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is.
    Yes,
    /// Replicas lack it.
    NotYet,
    /// The leadership is over: only the next one will know.
    Never,
}

/// Whether everything below `end` is committed, which a leadership may say of its own log only. To be asked again
/// whenever the watermark or the role moves.
#[must_use]
pub fn committed(view: &View, under: LeaderEpoch, watermark: Offset, end: Offset) -> Committed {
    if !leads(view, under) {
        return Committed::Never;
    }
    if end <= watermark {
        Committed::Yes
    } else {
        Committed::NotYet
    }
}

/// Up to where the log of a post is read: to its end. Nothing comes behind it meanwhile, for only the leader appends, and
/// whoever would ask it to is what is being loaded.
#[must_use]
pub fn load_end(log: LogFacts) -> Offset {
    if mutants::is_selected(Mutant::OffsetsLoadedToWatermark) {
        return log.watermark.0;
    }
    log.end.0
}

/// What the end of its wait means to a write that is in the log: it counts as soon as it is committed, whoever still waits.
#[must_use]
pub fn outcome_of(wait: WaitOutcome) -> Outcome {
    match wait {
        WaitOutcome::Replicated => Outcome::Committed,
        _ => Outcome::Overdue,
    }
}

/// Why nothing was appended (G-2).
#[must_use]
pub fn unappended(why: ProduceRefusal) -> Refusal {
    match why {
        ProduceRefusal::NotEnoughReplicas { .. } => Refusal::WriteUnavailable,
        ProduceRefusal::NotLeader { .. } | ProduceRefusal::LogOffline => Refusal::WriteElsewhere,
    }
}

/// A post that this broker takes up, or gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostChange {
    /// It does not lead the partition any longer, or under another epoch.
    Leave(PartitionIndex),
    /// It leads from now on.
    Lead(PartitionId, LeaderEpoch),
}

/// The posts that this broker has taken up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Posts(BTreeMap<PartitionIndex, (PartitionId, LeaderEpoch)>);

impl Posts {
    /// What the image changes, in order. `leads` says whether the storage has taken up a leadership: one that is behind
    /// will be there with one of the next images.
    #[must_use]
    pub fn follow(
        &mut self,
        image: &Image,
        me: BrokerId,
        mut leads: impl FnMut(PartitionId, LeaderEpoch) -> bool,
    ) -> Vec<PostChange> {
        let mut now = BTreeMap::new();
        if let Some(topic) = image.topic_named(OFFSETS) {
            for (index, partition) in &topic.partitions {
                if partition.leader == Some(me) {
                    let id = PartitionId {
                        topic: topic.id,
                        index: *index,
                    };
                    now.insert(*index, (id, partition.leader_epoch));
                }
            }
        }
        let mut changes = Vec::new();
        self.0.retain(|index, held| {
            let stays = now.get(index) == Some(held);
            if !stays {
                changes.push(PostChange::Leave(*index));
            }
            stays
        });
        for (index, (id, epoch)) in now {
            if !self.0.contains_key(&index) && leads(id, epoch) {
                self.0.insert(index, (id, epoch));
                changes.push(PostChange::Lead(id, epoch));
            }
        }
        changes
    }
}
