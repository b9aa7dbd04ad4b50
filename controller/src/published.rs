//! The committed state, for everybody who reads or follows it: the newest image, and the last batches that led there.
//!
//! A follower is given the batches behind its position, or, where they are not held any more or it comes from another
//! lineage, the image. It is never given an older state than it has. Must not wait: [`Published::news`] wakes up.

use std::collections::VecDeque;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use metadata::batch::MetadataBatch;
use metadata::ids::{MetadataOffset, Term};
use metadata::image::Image;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Batches are held up to this size, so that a follower that was away for a moment needs no snapshot.
const TAIL_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What one look hands out, so that a follower far behind does not hold everything at once.
const LOOK_BYTES_MAX: usize = 1024 * 1024;

/// Positions of the log whose offsets are remembered, for the status.
const MARKS_MAX: usize = 4_096;

/// Where a follower stands: the offset it wants next, and the term of the batch before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Wanted next.
    pub next_offset: MetadataOffset,
    /// Together with the offset it names a lineage.
    pub last_term: Term,
}

impl Position {
    /// Where an image stands.
    #[must_use]
    pub fn of(image: &Image) -> Position {
        Position {
            next_offset: image.next_offset,
            last_term: image.last_term,
        }
    }
}

/// What a follower is to be given.
#[derive(Debug)]
pub enum Next {
    /// It has everything, or more than this node knows yet.
    Nothing,
    /// These batches, in order, and where it stands then.
    Batches(Vec<Bytes>, Position),
    /// The whole image: the batches behind its position are not held any more.
    Snapshot(Arc<Image>),
    /// The whole image: what it holds was never committed here.
    OtherLineage(Arc<Image>),
}

struct Kept {
    end: Position,
    bytes: Bytes,
}

#[derive(Default)]
struct Tail {
    /// Where the first kept batch begins.
    start: Position,
    kept: VecDeque<Kept>,
    size_bytes: usize,
}

/// The committed state of this node.
pub struct Published {
    image: ArcSwap<Image>,
    tail: Mutex<Tail>,
    news: watch::Sender<MetadataOffset>,
    marks: Mutex<VecDeque<(u64, MetadataOffset)>>,
}

impl Published {
    /// Begins with the image of the newest snapshot, or an empty one.
    #[must_use]
    pub fn new(image: Image) -> Published {
        let start = Position::of(&image);
        Published {
            news: watch::Sender::new(image.next_offset),
            image: ArcSwap::from_pointee(image),
            marks: Mutex::default(),
            tail: Mutex::new(Tail {
                start,
                ..Tail::default()
            }),
        }
    }

    /// The newest committed image.
    pub fn image(&self) -> Arc<Image> {
        self.image.load_full()
    }

    /// Wakes up when there is more.
    pub fn news(&self) -> watch::Receiver<MetadataOffset> {
        self.news.subscribe()
    }

    /// A batch was applied and led to `image`.
    pub fn push(&self, batch: &MetadataBatch, bytes: Bytes, image: Arc<Image>) {
        let end = Position::of(&image);
        assert!(
            batch.end_offset() == end.next_offset,
            "an applied batch ends where its image stands"
        );
        {
            let mut tail = self.tail.lock();
            tail.size_bytes += bytes.len();
            tail.kept.push_back(Kept { end, bytes });
            while TAIL_BYTES_MAX < tail.size_bytes
                && 1 < tail.kept.len()
                && let Some(oldest) = tail.kept.pop_front()
            {
                tail.size_bytes -= oldest.bytes.len();
                tail.start = oldest.end;
            }
            self.image.store(image);
        }
        self.news.send_replace(end.next_offset);
    }

    /// The log up to `position` adds up to `end`.
    pub fn mark(&self, position: u64, end: MetadataOffset) {
        let mut marks = self.marks.lock();
        if MARKS_MAX <= marks.len() {
            marks.pop_front();
        }
        marks.push_back((position, end));
    }

    /// The offset that the log up to a position adds up to, as far as it was applied here lately.
    pub fn end_at(&self, position: u64) -> Option<MetadataOffset> {
        let marks = self.marks.lock();
        let behind = marks.partition_point(|(marked, _)| *marked <= position);
        behind.checked_sub(1).map(|at| marks[at].1)
    }

    /// The state was replaced by a snapshot.
    pub fn replace(&self, image: Arc<Image>) {
        let start = Position::of(&image);
        {
            let mut tail = self.tail.lock();
            *tail = Tail {
                start,
                ..Tail::default()
            };
            self.image.store(image);
        }
        self.news.send_replace(start.next_offset);
    }

    /// What follows a position.
    pub fn after(&self, position: Position) -> Next {
        let tail = self.tail.lock();
        // The image is swapped under the same lock, so both are of one moment.
        let image = self.image.load_full();
        if image.next_offset < position.next_offset {
            return Next::Nothing;
        }
        if position.next_offset < tail.start.next_offset {
            return Next::Snapshot(image);
        }
        let from = if position.next_offset == tail.start.next_offset {
            (position == tail.start).then_some(0)
        } else {
            let found = tail
                .kept
                .binary_search_by_key(&position.next_offset, |kept| kept.end.next_offset);
            found
                .ok()
                .filter(|at| tail.kept[*at].end == position)
                .map(|at| at + 1)
        };
        let Some(from) = from else {
            return Next::OtherLineage(image);
        };
        let mut batches = Vec::new();
        let mut end = position;
        let mut size_bytes = 0;
        for kept in tail.kept.iter().skip(from) {
            size_bytes += kept.bytes.len();
            if LOOK_BYTES_MAX < size_bytes && !batches.is_empty() {
                break;
            }
            batches.push(kept.bytes.clone());
            end = kept.end;
        }
        if batches.is_empty() {
            Next::Nothing
        } else {
            Next::Batches(batches, end)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use metadata::record::Record;

    /// Three batches of two records each: terms 1, 1 and 4.
    fn published() -> Published {
        let published = Published::new(Image::default());
        for term in [1, 1, 4] {
            push(&published, term);
        }
        published
    }

    fn push(published: &Published, term: u64) {
        let mut image = Image::clone(&published.image());
        let batch = MetadataBatch {
            decided_in_term: Term(term),
            base_offset: image.next_offset,
            provenance: Default::default(),
            records: vec![Record::NoOp, Record::NoOp],
        };
        image.apply(&batch, Term(term)).unwrap();
        published.push(&batch, batch.encode(), Arc::new(image));
    }

    fn at(next_offset: i64, last_term: u64) -> Position {
        Position {
            next_offset: MetadataOffset(next_offset),
            last_term: Term(last_term),
        }
    }

    #[test]
    fn a_follower_is_given_what_follows_its_position() {
        let Next::Batches(batches, end) = published().after(at(2, 1)) else {
            panic!("batches are held")
        };
        assert_eq!((batches.len(), end), (2, at(6, 4)));
    }

    #[test]
    fn a_position_of_the_log_is_told_as_an_offset() {
        let published = published();
        published.mark(3, MetadataOffset(2));
        published.mark(5, MetadataOffset(6));

        assert_eq!(published.end_at(2), None);
        assert_eq!(published.end_at(4), Some(MetadataOffset(2)));
        assert_eq!(published.end_at(9), Some(MetadataOffset(6)));
    }

    #[test]
    fn a_follower_that_is_ahead_is_given_nothing() {
        assert!(matches!(published().after(at(8, 4)), Next::Nothing));
        assert!(matches!(published().after(at(6, 4)), Next::Nothing));
    }

    #[test]
    fn a_follower_of_another_lineage_is_given_the_image() {
        assert!(matches!(published().after(at(4, 3)), Next::OtherLineage(_)));
        assert!(matches!(published().after(at(3, 1)), Next::OtherLineage(_)));
    }

    #[test]
    fn a_follower_that_is_too_far_behind_is_given_the_image() {
        let published = published();
        let image = published.image();
        published.replace(image);

        assert!(matches!(published.after(at(2, 1)), Next::Snapshot(_)));
        assert!(matches!(published.after(at(6, 4)), Next::Nothing));
        assert!(matches!(published.after(at(6, 3)), Next::OtherLineage(_)));
    }
}
