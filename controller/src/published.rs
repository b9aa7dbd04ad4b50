//! The committed state, for everybody who reads or follows it: [`controller_core::feed`] behind a lock, and a signal for
//! those who wait for more.
//!
//! Must not wait, or decide what a follower is given: [`Published::news`] wakes up.

use std::collections::VecDeque;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use controller_core::feed::{Feed, Give, Limits, Subscription};
use metadata::batch::MetadataBatch;
use metadata::dump::DumpHeader;
use metadata::ids::MetadataOffset;
use metadata::image::Image;
use parking_lot::Mutex;
use tokio::sync::watch;

const LIMITS: Limits = Limits {
    tail_bytes_max: 16 * 1024 * 1024,
    look_bytes_max: 1024 * 1024,
};

/// Positions of the log whose offsets are remembered, for the status.
const MARKS_MAX: usize = 4_096;

/// The committed state of this node.
pub struct Published {
    /// The newest image of the feed, for those who only read.
    image: ArcSwap<Image>,
    feed: Mutex<Feed<Bytes>>,
    news: watch::Sender<MetadataOffset>,
    marks: Mutex<VecDeque<(u64, MetadataOffset)>>,
}

impl Published {
    /// Begins with the image of the newest snapshot, or an empty one.
    #[must_use]
    pub fn new(image: Image) -> Published {
        let image = Arc::new(image);
        Published {
            news: watch::Sender::new(image.next_offset),
            image: ArcSwap::new(Arc::clone(&image)),
            marks: Mutex::default(),
            feed: Mutex::new(Feed::new(image, LIMITS)),
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
        assert!(
            batch.end_offset() == image.next_offset,
            "an applied batch ends where its image stands"
        );
        {
            let mut feed = self.feed.lock();
            self.image.store(Arc::clone(&image));
            let size_bytes = bytes.len();
            feed.push(bytes, size_bytes, image);
        }
        self.news.send_replace(batch.end_offset());
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
        let next_offset = image.next_offset;
        {
            let mut feed = self.feed.lock();
            self.image.store(Arc::clone(&image));
            feed.replace(image);
        }
        self.news.send_replace(next_offset);
    }

    /// A stream of a follower that stands at `position`.
    pub fn subscribe(&self, position: DumpHeader) -> Subscription {
        Subscription::begin(&self.feed.lock(), position)
    }

    /// What a follower is to be sent now.
    pub fn next(&self, subscription: &mut Subscription) -> Give<Bytes> {
        subscription.next(&self.feed.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_of_the_log_is_told_as_an_offset() {
        let published = Published::new(Image::default());
        published.mark(3, MetadataOffset(2));
        published.mark(5, MetadataOffset(6));

        assert_eq!(published.end_at(2), None);
        assert_eq!(published.end_at(4), Some(MetadataOffset(2)));
        assert_eq!(published.end_at(9), Some(MetadataOffset(6)));
    }
}
