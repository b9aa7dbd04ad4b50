//! A lane: one thread that owns its share of the partitions and alone changes them. Events come in through a queue,
//! reads never pass here (see [`super::hosted`]).
//!
//! What follows from an event is decided by [`broker_core::replica`]; a lane carries it out on the log and reports to
//! those who wait. It never waits for another lane, a socket or a controller.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use broker_core::lanes::Action;
use broker_core::offsets::LogStart;
use broker_core::produce::{Acks, WaitOutcome, WaiterId};
use broker_core::replica::{Assignment, DeletionRefusal, FollowerFetch, IsrAnswer};
use broker_core::time::Moment;
use metadata::ids::{BrokerId, LeaderEpoch, PartitionId};
use metadata::image::Image;
use partition_log::Synced;
use tokio::sync::oneshot;
use wire::batch::Batch;

use super::closing;
use super::dirs::{DirIndex, Marks};
use super::follower::FetchedPart;
use super::owned::{Owned, Unopened, Wish};
use super::shared::Shared;
use super::ticket::{PartState, Ticket};
use crate::essential;

/// Longest pause between two looks at the time.
const TICK: Duration = Duration::from_millis(500);
/// Pause between two attempts to open logs for which the disk had no room.
const OPEN_AGAIN: Duration = Duration::from_secs(2);
/// Events taken in before what they need synced is synced and answered together.
const BATCH_MAX: usize = 256;

/// Something for a lane to do.
pub enum Event {
    /// A producer's batch (the one batch that `check_payload` found).
    Append {
        /// Where to.
        partition: PartitionId,
        /// The batch, a slice of the received frame.
        batch: Batch,
        /// What the producer wants to be told.
        acks: Acks,
        /// Only under this leadership: what is appended was decided under it. None for clients.
        under: Option<LeaderEpoch>,
        /// Whom to report to, and under which place.
        ticket: (Arc<Ticket>, usize),
    },
    /// Nobody waits for this any more.
    Forget(PartitionId, WaiterId),
    /// A follower fetched here.
    FollowerFetched {
        /// Which partition.
        partition: PartitionId,
        /// Who.
        follower: BrokerId,
        /// What its fetch said.
        fetch: FollowerFetch,
    },
    /// This broker fetched from a leader.
    Fetched(FetchedPart),
    /// The controller answered a proposal.
    IsrAnswered(PartitionId, IsrAnswer),
    /// The metadata changed.
    Metadata {
        /// What it asks of the partitions of this lane.
        actions: Vec<Action>,
        /// The image that it leads to.
        image: Arc<Image>,
        /// Called when everything is done; calls come in the order of the events.
        done: Box<dyn FnOnce() + Send>,
    },
    /// Everything before an offset is to be deleted, −1 being the watermark (L-27).
    DeleteRecords {
        /// Which partition.
        partition: PartitionId,
        /// Before which offset.
        before: i64,
        /// Nothing comes where there is no such partition here.
        reply: oneshot::Sender<Result<Deletion, DeletionFailure>>,
    },
    /// Where do the logs of all replicas that are alive start at the latest? Nothing comes where there is no such
    /// partition here.
    LowWatermark(PartitionId, oneshot::Sender<Option<LogStart>>),
    /// A log was synced.
    Synced(PartitionId, Synced),
    /// What is to be written into the checkpoints?
    Marks(oneshot::Sender<Vec<Marks>>),
    /// A log directory failed.
    DirectoryFailed(DirIndex),
    /// Old segments may go (L-30 to L-33), and producers that are silent (T-9).
    Retain,
    /// Close every log and end.
    Close(oneshot::Sender<Vec<Marks>>),
}

/// The way to a lane.
#[derive(Clone, Debug)]
pub struct LaneHandle {
    sender: Sender<Event>,
}

impl LaneHandle {
    /// Puts an event at the end of the queue. After the lane has ended nothing happens.
    ///
    /// The queue itself has no bound; what enters it is bounded where it is admitted: by the requests and bytes that a
    /// connection and the node may have pending, and by one fetch and one proposal per partition.
    pub fn send(&self, event: Event) {
        // A lane ends only with the process; those who wait then see their channels close.
        let _ = self.sender.send(event);
    }
}

/// Starts the lanes.
///
/// # Errors
/// When the system gives no thread.
pub fn start(count: usize, shared: &Arc<Shared>) -> std::io::Result<Vec<LaneHandle>> {
    (0..count)
        .map(|index| {
            let (sender, events) = std::sync::mpsc::channel();
            let handle = LaneHandle { sender };
            let lane = Lane {
                shared: Arc::clone(shared),
                handle: handle.clone(),
                owned: HashMap::new(),
                unopened: HashMap::new(),
                open_again: Moment::START,
                waits: HashMap::new(),
                unsynced: Vec::new(),
                next_tick: Moment::START,
            };
            shared.metrics.lanes.joined();
            essential::thread(format!("lane-{index}"), "lane", move || lane.run(&events))?;
            Ok(handle)
        })
        .collect()
}

/// Whom to tell that a wait is over.
pub enum Told {
    /// A Produce request, and the place of the partition in it.
    Producer(Arc<Ticket>, usize),
    /// A request to delete records.
    Deleter(oneshot::Sender<WaitOutcome>),
}

impl Told {
    /// Tells it.
    pub fn tell(self, outcome: WaitOutcome) {
        match self {
            Told::Producer(ticket, place) => ticket.completed(place, outcome),
            // Whoever asked may have gone.
            Told::Deleter(deleter) => drop(deleter.send(outcome)),
        }
    }
}

/// Whom to tell that each wait is over.
pub type Waits = HashMap<WaiterId, Told>;

/// A deletion of records that has begun: the log start is where it must be here, and maybe not yet elsewhere.
pub struct Deletion {
    /// The name of the wait.
    pub waiter: WaiterId,
    /// How the wait ended, when it has.
    pub outcome: oneshot::Receiver<WaitOutcome>,
}

/// Why records are not deleted.
#[derive(Debug)]
pub enum DeletionFailure {
    /// This broker may not, or not so much.
    Refused(DeletionRefusal),
    /// The topic's `cleanup.policy` keeps what is not superseded (L-27).
    NotByPolicy,
    /// The disk failed.
    Fault,
}

struct Lane {
    shared: Arc<Shared>,
    handle: LaneHandle,
    owned: HashMap<PartitionId, Owned>,
    /// Partitions whose log waits for room on the disk.
    unopened: HashMap<PartitionId, (Assignment, Arc<Image>)>,
    /// When opening them is tried again.
    open_again: Moment,
    waits: Waits,
    /// Partitions with appends that are answered after a sync.
    unsynced: Vec<PartitionId>,
    /// When the partitions look at the time again.
    next_tick: Moment,
}

/// Whether a lane goes on.
#[derive(PartialEq, Eq)]
enum Life {
    GoesOn,
    Ends,
}

impl Lane {
    fn run(mut self, events: &Receiver<Event>) {
        loop {
            let event = events.recv_timeout(TICK);
            let woken = self.shared.clock.now();
            match event {
                Ok(event) => {
                    if self.take(event) == Life::Ends {
                        return;
                    }
                    for event in events.try_iter().take(BATCH_MAX) {
                        if self.take(event) == Life::Ends {
                            return;
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.sync_and_answer();
            self.tick();
            let worked = self.shared.clock.now().since(woken);
            self.shared.metrics.lanes.worked(worked);
        }
    }

    fn take(&mut self, event: Event) -> Life {
        match event {
            Event::Append {
                partition,
                batch,
                acks,
                under,
                ticket,
            } => {
                let wish = Wish { acks, under };
                self.append(partition, &batch, wish, ticket);
            }
            Event::Forget(partition, waiter) => {
                self.waits.remove(&waiter);
                self.with(partition, |owned, _, _| owned.forget(waiter));
            }
            Event::FollowerFetched {
                partition,
                follower,
                fetch,
            } => {
                self.with(partition, |owned, shared, waits| {
                    owned.follower_fetched(shared, waits, follower, fetch)
                });
            }
            Event::Fetched(part) => self.fetched(part),
            Event::IsrAnswered(partition, answer) => {
                self.with(partition, |owned, shared, waits| {
                    owned.isr_answered(shared, waits, answer)
                });
            }
            Event::Metadata { actions, image, done } => {
                for action in actions {
                    self.act(action, &image);
                }
                done();
            }
            Event::DeleteRecords {
                partition,
                before,
                reply,
            } => self.with(partition, |owned, shared, waits| {
                // Whoever asked may have gone.
                let _ = reply.send(owned.delete_records(shared, waits, before));
            }),
            Event::LowWatermark(partition, reply) => self.with(partition, |owned, _, _| {
                let _ = reply.send(owned.low_watermark());
            }),
            Event::Synced(partition, synced) => self.with(partition, |owned, _, _| owned.synced(synced)),
            Event::Marks(reply) => {
                let shared = &self.shared;
                let marks = self.owned.values_mut().filter_map(|owned| owned.marks(shared));
                let _ = reply.send(marks.collect());
            }
            Event::DirectoryFailed(dir) => {
                self.each(|owned, shared, waits| owned.directory_failed(dir, shared, waits));
            }
            Event::Retain => self.each(Owned::retain),
            Event::Close(reply) => {
                self.sync_and_answer();
                let owned = self.owned.drain().map(|(_, owned)| owned);
                let marks = closing::close_all(owned.collect(), &self.shared);
                let _ = reply.send(marks);
                return Life::Ends;
            }
        }
        Life::GoesOn
    }

    fn with(&mut self, partition: PartitionId, act: impl FnOnce(&mut Owned, &Shared, &mut Waits)) {
        if let Some(owned) = self.owned.get_mut(&partition) {
            act(owned, &self.shared, &mut self.waits);
        }
    }

    fn each(&mut self, act: impl Fn(&mut Owned, &Shared, &mut Waits)) {
        for owned in self.owned.values_mut() {
            act(owned, &self.shared, &mut self.waits);
        }
    }

    fn append(&mut self, partition: PartitionId, batch: &Batch, wish: Wish, ticket: (Arc<Ticket>, usize)) {
        let Some(owned) = self.owned.get_mut(&partition) else {
            ticket.0.report(ticket.1, PartState::Gone);
            return;
        };
        owned.append(&self.shared, &mut self.waits, batch, wish, ticket);
        if owned.awaits_sync() && !self.unsynced.contains(&partition) {
            self.unsynced.push(partition);
        }
    }

    fn fetched(&mut self, part: FetchedPart) {
        match self.owned.get_mut(&part.partition) {
            Some(owned) => owned.fetched(&self.shared, &mut self.waits, part),
            None => part.nobody_is_here(),
        }
    }

    fn act(&mut self, action: Action, image: &Arc<Image>) {
        let partition = action.partition();
        match action {
            Action::Delete(_) | Action::Stop(_) => {
                self.unopened.remove(&partition);
                match self.owned.remove(&partition) {
                    Some(owned) => owned.delete(&self.shared, &mut self.waits),
                    None => self.shared.partitions.remove(partition),
                }
            }
            Action::Create(assignment)
            | Action::Lead(assignment)
            | Action::Follow(assignment)
            | Action::Refresh(assignment) => match self.owned.get_mut(&partition) {
                Some(owned) => owned.assigned(&self.shared, &mut self.waits, assignment, image),
                None => self.open(assignment, image),
            },
            Action::Configure(_) => match self.unopened.get_mut(&partition) {
                Some((_, waiting_with)) => *waiting_with = Arc::clone(image),
                None => self.with(partition, |owned, shared, _| owned.configure(shared, image)),
            },
        }
    }

    fn open(&mut self, assignment: Assignment, image: &Arc<Image>) {
        let partition = assignment.partition;
        self.unopened.remove(&partition);
        match Owned::open(
            &self.shared,
            &mut self.waits,
            &self.handle,
            assignment.clone(),
            image,
        ) {
            Ok(owned) => {
                self.owned.insert(partition, owned);
            }
            Err(Unopened::NoRoom) => {
                self.unopened.insert(partition, (assignment, Arc::clone(image)));
            }
            Err(Unopened::ForGood) => {}
        }
    }

    /// One sync for all that was appended meanwhile, then their answers.
    fn sync_and_answer(&mut self) {
        for partition in std::mem::take(&mut self.unsynced) {
            if let Some(owned) = self.owned.get_mut(&partition) {
                owned.sync_and_answer(&self.shared, &mut self.waits);
            }
        }
    }

    fn tick(&mut self) {
        let now = self.shared.now();
        if now < self.next_tick {
            return;
        }
        self.next_tick = now.after(TICK);
        for owned in self.owned.values_mut() {
            owned.tick(&self.shared, &mut self.waits, now);
        }
        if self.open_again <= now && !self.unopened.is_empty() {
            self.open_again = now.after(OPEN_AGAIN);
            for (assignment, image) in std::mem::take(&mut self.unopened).into_values() {
                self.open(assignment, &image);
            }
        }
    }
}
