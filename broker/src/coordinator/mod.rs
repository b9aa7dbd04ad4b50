//! The group coordinator's shell: one shard for each partition of `__consumer_offsets` that this broker leads.
//!
//! ```text
//!  handlers ─ask─► lane (a thread; owns shards) ─records─► storage lane ─► log ─► followers
//!                    ▲  ▲        ▲                                   │
//!  watch (leadership)┘  │        └──────── writes (what became) ◄────┘ watermark
//!                     load (reads the log of a partition that this broker begins to lead)
//! ```
//! A shard serves only after everything in its log is read and committed. Until then it says so: an offset that was
//! committed is never unknown (BC-005). Decisions are [`broker_core::group`]'s; lanes carry them out and never touch a
//! disk. Must not: decide, or wait.

mod codec;
mod lane;
mod load;
mod topic;
pub mod watch;
mod writes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use broker_core::group::{self, Listed, Reply, Request};
use host::Clock;
use metadata::config::NodeConfig;
use metadata::ids::{LeaderEpoch, PartitionIndex, TopicId};
use metadata::image::Image;
use tokio::sync::oneshot;

pub use broker_core::group::{OFFSETS, Unanswered, place_of};
pub use topic::offsets_topic;

use crate::storage::hosted::Hosted;

/// The most lanes. Decisions take microseconds; more lanes would only wait for the storage.
const LANES_MAX: usize = 4;

/// The groups of this broker, and whether that is all of them.
#[derive(Debug, Default)]
pub struct Listing {
    /// What is known.
    pub groups: Vec<Listed>,
    /// Some shard is being loaded.
    pub is_loading: bool,
}

/// Something for a lane to do.
enum Event {
    Ask {
        place: PartitionIndex,
        request: Request,
        answer: oneshot::Sender<Result<Reply, Unanswered>>,
    },
    List(oneshot::Sender<Listing>),
    /// This broker leads the partition from now on; these topics there are.
    Lead(LeaderEpoch, Arc<Hosted>, Arc<Image>),
    /// It does not any longer.
    Leave(PartitionIndex),
    Loaded(
        PartitionIndex,
        LeaderEpoch,
        Result<Box<group::Shard>, load::Unreadable>,
    ),
    Written {
        place: PartitionIndex,
        under: LeaderEpoch,
        writes: Vec<group::WriteId>,
        outcome: group::Outcome,
    },
    TopicsDeleted(Arc<BTreeSet<TopicId>>),
}

/// The way to the coordinator's lanes.
pub struct Coordinators {
    lanes: Vec<Sender<Event>>,
}

impl Coordinators {
    /// Starts the lanes. Must be called inside the runtime, in which logs are read and writes are followed.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(config: &NodeConfig, clock: &Arc<dyn Clock>) -> std::io::Result<Coordinators> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let started = (0..cores.min(LANES_MAX)).map(|index| lane::start(index, config, clock));
        Ok(Coordinators {
            lanes: started.collect::<std::io::Result<_>>()?,
        })
    }

    /// Asks the coordinator of a group.
    ///
    /// # Errors
    /// When it is not here, or does not serve yet.
    pub async fn ask(
        &self,
        image: &Image,
        me: metadata::ids::BrokerId,
        group: &str,
        request: Request,
    ) -> Result<Reply, Unanswered> {
        let place = group::coordinated_by(image, me, group).ok_or(Unanswered::Elsewhere)?;
        let (answer, answered) = oneshot::channel();
        self.send(
            place,
            Event::Ask {
                place,
                request,
                answer,
            },
        );
        match answered.await {
            // The image says that it is here: it is about to be loaded.
            Ok(Err(Unanswered::Elsewhere)) => Err(Unanswered::Loading),
            Ok(answer) => answer,
            // It was here, and its leadership ended.
            Err(_) => Err(Unanswered::Elsewhere),
        }
    }

    /// All groups whose coordinator is here.
    pub async fn list(&self) -> Listing {
        let mut all = Listing::default();
        for lane in &self.lanes {
            let (answer, answered) = oneshot::channel();
            // A lane ends only with the process.
            let _ = lane.send(Event::List(answer));
            if let Ok(listing) = answered.await {
                all.groups.extend(listing.groups);
                all.is_loading |= listing.is_loading;
            }
        }
        all
    }

    fn send(&self, place: PartitionIndex, event: Event) {
        let lane = usize::try_from(place.0).unwrap_or(0) % self.lanes.len();
        // A lane ends only with the process.
        let _ = self.lanes[lane].send(event);
    }

    fn send_all(&self, mut event: impl FnMut() -> Event) {
        for lane in &self.lanes {
            let _ = lane.send(event());
        }
    }
}
