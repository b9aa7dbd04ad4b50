//! The committed metadata for those who follow it: the newest image, the last batches that led there, and what each
//! follower is given next.
//!
//! A follower is given the batches behind its position, or, where they are not held any more or it comes from another
//! lineage, the image. It is never given an older state than it has. Must not: know how a batch is carried.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use metadata::dump::DumpHeader;
use metadata::image::Image;

/// How much a feed holds, and hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Batches are held up to this size together, so that a follower that was away for a moment needs no snapshot. The
    /// newest one is always held.
    pub tail_bytes_max: usize,
    /// What one look hands out, so that a follower far behind does not hold everything at once; at least one batch.
    pub look_bytes_max: usize,
}

/// What follows a position.
#[derive(Clone, Debug)]
pub enum Next<B> {
    /// Nothing: it is the newest one, or newer than this node knows yet.
    Nothing,
    /// These batches, in order, and the position behind them.
    Batches(Vec<B>, DumpHeader),
    /// The whole image: the batches behind the position are not held any more.
    Snapshot(Arc<Image>),
    /// The whole image: what the follower holds was never committed here.
    OtherLineage(Arc<Image>),
}

#[derive(Debug)]
struct Kept<B> {
    end: DumpHeader,
    batch: B,
    size_bytes: usize,
}

/// The committed metadata of one node.
#[derive(Debug)]
pub struct Feed<B> {
    image: Arc<Image>,
    /// Where the first kept batch begins.
    start: DumpHeader,
    kept: VecDeque<Kept<B>>,
    size_bytes: usize,
    limits: Limits,
}

impl<B: Clone> Feed<B> {
    /// Begins with the image of the newest snapshot, or an empty one.
    #[must_use]
    pub fn new(image: Arc<Image>, limits: Limits) -> Self {
        Self {
            start: image.dump_header(),
            image,
            kept: VecDeque::new(),
            size_bytes: 0,
            limits,
        }
    }

    /// The newest committed image.
    #[must_use]
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// A batch of this size was applied and led to `image`.
    pub fn push(&mut self, batch: B, size_bytes: usize, image: Arc<Image>) {
        let end = image.dump_header();
        assert!(
            self.image.next_offset <= end.next_offset,
            "the committed state never goes back"
        );
        self.size_bytes += size_bytes;
        self.kept.push_back(Kept {
            end,
            batch,
            size_bytes,
        });
        self.image = image;
        while self.limits.tail_bytes_max < self.size_bytes
            && 1 < self.kept.len()
            && let Some(oldest) = self.kept.pop_front()
        {
            self.size_bytes -= oldest.size_bytes;
            self.start = oldest.end;
        }
    }

    /// The state was replaced by a snapshot.
    pub fn replace(&mut self, image: Arc<Image>) {
        *self = Self::new(image, self.limits);
    }

    /// What follows a position.
    #[must_use]
    pub fn after(&self, position: DumpHeader) -> Next<B> {
        if self.image.next_offset < position.next_offset {
            return Next::Nothing;
        }
        if position.next_offset < self.start.next_offset {
            return Next::Snapshot(Arc::clone(&self.image));
        }
        let from = if position.next_offset == self.start.next_offset {
            (position == self.start).then_some(0)
        } else {
            let found = self
                .kept
                .binary_search_by_key(&position.next_offset, |kept| kept.end.next_offset);
            found
                .ok()
                .filter(|at| self.kept[*at].end == position)
                .map(|at| at + 1)
        };
        let Some(from) = from else {
            return Next::OtherLineage(Arc::clone(&self.image));
        };
        let (mut batches, mut end, mut size_bytes) = (Vec::new(), position, 0);
        for kept in self.kept.iter().skip(from) {
            size_bytes += kept.size_bytes;
            if self.limits.look_bytes_max < size_bytes && !batches.is_empty() {
                break;
            }
            batches.push(kept.batch.clone());
            end = kept.end;
        }
        if batches.is_empty() {
            Next::Nothing
        } else {
            Next::Batches(batches, end)
        }
    }
}

/// What a follower is to be sent.
#[derive(Clone, Debug)]
pub enum Give<B> {
    /// Nothing for now.
    Nothing,
    /// These batches, in order.
    Batches(Vec<B>),
    /// The whole image.
    Snapshot(Arc<Image>),
    /// Nothing ever again on this stream: its lineage differs, which was found out only after this node caught up, and
    /// only the first word of a stream may say so.
    FollowAgain,
}

/// One stream that follows: where its follower stands, as far as it was given something.
#[derive(Clone, Debug)]
pub struct Subscription {
    position: DumpHeader,
    /// It was told that its lineage differs, and waits for the image.
    told_lineage_differs: bool,
}

impl Subscription {
    /// A stream of a follower that stands at `position`.
    #[must_use]
    pub fn begin<B: Clone>(feed: &Feed<B>, position: DumpHeader) -> Self {
        let told_lineage_differs = matches!(feed.after(position), Next::OtherLineage(_));
        Self {
            position,
            told_lineage_differs,
        }
    }

    /// What the first word of the stream says: whether the follower's lineage is another one.
    #[must_use]
    pub fn lineage_differs(&self) -> bool {
        self.told_lineage_differs
    }

    /// Where the follower stands once it has taken in everything that was given.
    #[must_use]
    pub fn position(&self) -> DumpHeader {
        self.position
    }

    /// What to send now; to be asked again until there is nothing.
    #[must_use]
    pub fn next<B: Clone>(&mut self, feed: &Feed<B>) -> Give<B> {
        match feed.after(self.position) {
            Next::Nothing => Give::Nothing,
            Next::Batches(batches, end) => {
                self.position = end;
                Give::Batches(batches)
            }
            Next::Snapshot(image) => {
                self.position = image.dump_header();
                Give::Snapshot(image)
            }
            Next::OtherLineage(image) if self.told_lineage_differs => {
                self.position = image.dump_header();
                self.told_lineage_differs = false;
                Give::Snapshot(image)
            }
            Next::OtherLineage(_) => Give::FollowAgain,
        }
    }
}
