//! The committed metadata of a controller for those who follow it: the newest image and the last batches that led
//! there. Carries what the driver publishes; decides nothing but which of the held batches follow a position.

use std::collections::VecDeque;
use std::sync::Arc;

use metadata::batch::MetadataBatch;
use metadata::dump::DumpHeader;
use metadata::image::Image;

/// What a follower is to be given.
pub enum Next {
    /// It has everything, or more than this node knows yet.
    Nothing,
    /// This batch, and where the follower stands then.
    Batch(Arc<MetadataBatch>, DumpHeader),
    /// The whole image: the batches are not held any more.
    Snapshot(Arc<Image>),
    /// The whole image: what the follower holds was never committed here.
    OtherLineage(Arc<Image>),
}

/// The committed metadata of one controller.
pub struct Feed {
    image: Arc<Image>,
    start: DumpHeader,
    tail: VecDeque<(DumpHeader, Arc<MetadataBatch>)>,
    tail_max: usize,
}

impl Feed {
    /// Begins with an image; at most `tail_max` batches are held.
    pub fn new(image: Arc<Image>, tail_max: usize) -> Self {
        Self {
            start: image.dump_header(),
            image,
            tail: VecDeque::new(),
            tail_max,
        }
    }

    /// The newest image.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// A batch was applied and led to `image`.
    pub fn push(&mut self, batch: Arc<MetadataBatch>, image: Arc<Image>) {
        self.tail.push_back((image.dump_header(), batch));
        self.image = image;
        while self.tail_max < self.tail.len()
            && let Some((end, _)) = self.tail.pop_front()
        {
            self.start = end;
        }
    }

    /// What follows a position.
    pub fn after(&self, position: DumpHeader) -> Next {
        if self.image.next_offset < position.next_offset {
            return Next::Nothing;
        }
        if position.next_offset < self.start.next_offset {
            return Next::Snapshot(Arc::clone(&self.image));
        }
        let from = if position == self.start {
            Some(0)
        } else {
            self.tail
                .iter()
                .position(|(end, _)| *end == position)
                .map(|at| at + 1)
        };
        match from.map(|at| self.tail.get(at)) {
            None => Next::OtherLineage(Arc::clone(&self.image)),
            Some(None) => Next::Nothing,
            Some(Some((end, batch))) => Next::Batch(Arc::clone(batch), *end),
        }
    }
}
