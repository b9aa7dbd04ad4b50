//! A coordinator lane: one thread that owns its share of the shards and alone changes them.
//!
//! It never waits for a disk, so a disk that stands still ends no member's session. Timers look at the time only after
//! everything that has arrived is taken in; time in which this thread did not run is nobody's silence.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use broker_core::group::{self, Effect, Post, Record, Reply, ReplyId, Request, Stamp, WriteId};
use broker_core::produce::Acks;
use broker_core::time::Moment;
use host::Clock;
use metadata::config::NodeConfig;
use metadata::ids::{LeaderEpoch, PartitionIndex};
use metadata::image::Image;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::{error, info, warn};
use wire::batch::{Batch, BatchBuilder};
use wire::codec::Codec;

use super::load::{self, Plan};
use super::writes::Following;
use super::{Event, Listing, Unanswered, codec};
use crate::essential;
use crate::storage::hosted::Hosted;
use crate::storage::lane::Event as StorageEvent;
use crate::storage::ticket::Ticket;

/// Longest pause between two looks at the time.
const TICK: Duration = Duration::from_millis(500);
/// Events taken in before what they write is sent off together.
const BATCH_MAX: usize = 256;
/// Records are sent off in batches of about this size, well below what a log takes.
const BATCH_BYTES: usize = 256 << 10;

type Answer = oneshot::Sender<Result<Reply, Unanswered>>;

/// Starts a lane.
///
/// # Errors
/// When the system gives no thread.
pub fn start(index: usize, config: &NodeConfig, clock: &Arc<dyn Clock>) -> std::io::Result<Sender<Event>> {
    let (sender, events) = std::sync::mpsc::channel();
    let number = |key: &str| i32::try_from(config.integer(key)).unwrap_or(i32::MAX);
    let size = |key: &str| usize::try_from(config.integer(key)).unwrap_or(0);
    let settings = group::Settings {
        initial_rebalance_delay: config.millis("group.initial.rebalance.delay.ms"),
        session_timeout_ms_min: number("group.min.session.timeout.ms"),
        session_timeout_ms_max: number("group.max.session.timeout.ms"),
        members_max: size("group.max.size"),
        offset_metadata_units_max: size("offset.metadata.max.bytes"),
    };
    let lane = Lane {
        clock: Arc::clone(clock),
        runtime: Handle::current(),
        plan: Plan {
            settings,
            read_bytes: u32::try_from(config.integer("offsets.load.buffer.size")).unwrap_or(u32::MAX),
        },
        codec: u8::try_from(config.integer("offsets.topic.compression.codec"))
            .ok()
            .and_then(Codec::from_id)
            .unwrap_or(Codec::None),
        patience: config.millis("offsets.commit.timeout.ms"),
        myself: sender.clone(),
        slots: BTreeMap::new(),
        next_reply: 0,
    };
    essential::thread(format!("groups-{index}"), "group coordinator", move || {
        lane.run(&events)
    })?;
    Ok(sender)
}

struct Lane {
    clock: Arc<dyn Clock>,
    runtime: Handle,
    plan: Plan,
    codec: Codec,
    patience: Duration,
    myself: Sender<Event>,
    slots: BTreeMap<PartitionIndex, Slot>,
    next_reply: u64,
}

/// A partition that this broker leads.
struct Slot {
    hosted: Arc<Hosted>,
    post: Post,
    /// Who waits for an answer. When the post ends they see their channels close.
    waiting: HashMap<ReplyId, Answer>,
    /// What is to be appended.
    outgoing: Vec<(WriteId, Vec<Record>)>,
}

impl Lane {
    fn run(mut self, events: &Receiver<Event>) {
        loop {
            let before = self.now();
            let pause = self.next_tick().map_or(TICK, |due| due.since(before)).min(TICK);
            let mut is_drained = true;
            match events.recv_timeout(pause) {
                Ok(event) => {
                    self.excuse(before.after(pause));
                    self.take(event);
                    let mut taken = 0;
                    for event in events.try_iter().take(BATCH_MAX) {
                        self.take(event);
                        taken += 1;
                    }
                    is_drained = taken < BATCH_MAX;
                }
                Err(RecvTimeoutError::Timeout) => self.excuse(before.after(pause)),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if is_drained {
                self.tick();
            }
            self.send_off();
        }
    }

    fn now(&self) -> Moment {
        Moment::from_start(Duration::from_nanos(self.clock.now().0))
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            now: self.now(),
            wall_ms: self.clock.wall().0,
        }
    }

    /// When this thread should have gone on is long ago: the process, or the machine, stood still.
    fn excuse(&mut self, expected: Moment) {
        let Some(late) = group::pause(expected, self.now()) else {
            return;
        };
        let late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        warn!(
            late_ms,
            "the group coordinator stood still; sessions are prolonged"
        );
        self.slots.values_mut().for_each(|slot| slot.post.excuse(late));
    }

    fn next_tick(&self) -> Option<Moment> {
        self.slots.values().filter_map(|slot| slot.post.next_tick()).min()
    }

    fn tick(&mut self) {
        let at = self.stamp();
        for slot in self.slots.values_mut() {
            let effects = slot.post.tick(at);
            slot.carry_out(effects);
        }
    }

    fn take(&mut self, event: Event) {
        let at = self.stamp();
        match event {
            Event::Ask {
                place,
                request,
                answer,
            } => self.ask(at, place, request, answer),
            Event::List(answer) => {
                let _ = answer.send(self.list(at));
            }
            Event::Lead(under, hosted, image) => self.lead(under, hosted, image),
            Event::Leave(place) => {
                if let Some(slot) = self.slots.remove(&place) {
                    info!(partition = %slot.hosted.name, epoch = slot.post.under().0, "group coordinator unloaded");
                }
            }
            Event::Loaded(place, under, loaded) => {
                if let Some(slot) = self.slot_under(place, under) {
                    let effects = slot.post.loaded(loaded.ok(), at);
                    slot.carry_out(effects);
                }
            }
            Event::Written {
                place,
                under,
                writes,
                outcome,
            } => {
                if let Some(slot) = self.slot_under(place, under) {
                    for write in writes {
                        let effects = slot.post.written(write, outcome, at);
                        slot.carry_out(effects);
                    }
                }
            }
            Event::TopicsDeleted(gone) => {
                for slot in self.slots.values_mut() {
                    let effects = slot.post.topics_deleted(&gone, at);
                    slot.carry_out(effects);
                }
            }
        }
    }

    fn slot_under(&mut self, place: PartitionIndex, under: LeaderEpoch) -> Option<&mut Slot> {
        self.slots
            .get_mut(&place)
            .filter(|slot| slot.post.under() == under)
    }

    fn ask(&mut self, at: Stamp, place: PartitionIndex, request: Request, answer: Answer) {
        let reply = ReplyId(self.next_reply);
        self.next_reply += 1;
        let Some(slot) = self.slots.get_mut(&place) else {
            // Whoever asked may have gone.
            let _ = answer.send(Err(Unanswered::Elsewhere));
            return;
        };
        match slot.post.asked(reply, request, at) {
            Ok(effects) => {
                slot.waiting.insert(reply, answer);
                slot.carry_out(effects);
            }
            Err(why) => {
                let _ = answer.send(Err(why));
            }
        }
    }

    fn list(&mut self, at: Stamp) -> Listing {
        let mut listing = Listing::default();
        for slot in self.slots.values_mut() {
            // Nobody else's question has this name.
            match slot.post.asked(ReplyId(u64::MAX), Request::List, at) {
                Ok(effects) => listing.groups.extend(effects.into_iter().flat_map(listed)),
                Err(Unanswered::Loading) => listing.is_loading = true,
                Err(Unanswered::Broken | Unanswered::Elsewhere) => {}
            }
        }
        listing
    }

    fn lead(&mut self, under: LeaderEpoch, hosted: Arc<Hosted>, image: Arc<Image>) {
        let loading = load::run(Arc::clone(&hosted), under, self.plan, self.myself.clone());
        self.runtime.spawn(loading);
        // The post of an earlier leadership knows nothing of what others wrote since.
        self.slots.insert(
            hosted.id.index,
            Slot {
                hosted,
                post: Post::new(under, image),
                waiting: HashMap::new(),
                outgoing: Vec::new(),
            },
        );
    }

    /// Sends off what was decided since: everything for one partition together, in its order.
    fn send_off(&mut self) {
        for slot in self.slots.values_mut() {
            if slot.outgoing.is_empty() {
                continue;
            }
            let outgoing = std::mem::take(&mut slot.outgoing);
            for (batch, writes) in batches(outgoing, self.codec, self.clock.wall().0, &self.myself, slot) {
                let ticket = Arc::new(Ticket::new(vec![slot.hosted.id]));
                slot.hosted.lane.send(StorageEvent::Append {
                    partition: slot.hosted.id,
                    batch,
                    acks: Acks::All,
                    under: Some(slot.post.under()),
                    ticket: (Arc::clone(&ticket), 0),
                });
                let following = Following {
                    hosted: Arc::clone(&slot.hosted),
                    under: slot.post.under(),
                    writes,
                    patience: self.patience,
                    lane: self.myself.clone(),
                };
                self.runtime.spawn(following.run(ticket));
            }
        }
    }
}

impl Slot {
    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append { write, records } => self.outgoing.push((write, records)),
                Effect::Reply { to, reply } => {
                    if let Some(answer) = self.waiting.remove(&to) {
                        // Whoever asked may have gone.
                        let _ = answer.send(Ok(reply));
                    }
                }
            }
        }
    }
}

fn listed(effect: Effect) -> Vec<group::Listed> {
    match effect {
        Effect::Reply {
            reply: Reply::List(groups),
            ..
        } => groups,
        Effect::Append { .. } | Effect::Reply { .. } => Vec::new(),
    }
}

/// Batches of whole writes: a write is in the log with all of its records or with none.
fn batches(
    outgoing: Vec<(WriteId, Vec<Record>)>,
    codec: Codec,
    wall_ms: i64,
    myself: &Sender<Event>,
    slot: &Slot,
) -> Vec<(Batch, Vec<WriteId>)> {
    let mut done = Vec::new();
    let mut builder = BatchBuilder::new(codec);
    let mut writes = Vec::new();
    for (write, records) in outgoing {
        let encoded: Result<Vec<_>, _> = records.iter().map(codec::encode).collect();
        let encoded = match encoded {
            Ok(encoded) => encoded,
            Err(error) => {
                warn!(partition = %slot.hosted.name, %error, "a group's record cannot be written");
                let _ = myself.send(Event::Written {
                    place: slot.hosted.id.index,
                    under: slot.post.under(),
                    writes: vec![write],
                    outcome: group::Outcome::Refused(group::Refusal::WriteImpossible),
                });
                continue;
            }
        };
        let size: usize = encoded
            .iter()
            .map(|(key, value)| key.len() + value.as_ref().map_or(0, bytes::Bytes::len))
            .sum();
        if 0 < builder.count() && BATCH_BYTES < builder.body_size() + size {
            let full = std::mem::replace(&mut builder, BatchBuilder::new(codec));
            done.push((full, std::mem::take(&mut writes)));
        }
        for (key, value) in &encoded {
            builder.append(wall_ms, Some(key), value.as_deref(), &[]);
        }
        writes.push(write);
    }
    if !writes.is_empty() {
        done.push((builder, writes));
    }
    let parsed = |(builder, writes): (BatchBuilder, Vec<WriteId>)| match Batch::parse(&builder.build()) {
        Ok(batch) => Some((batch, writes)),
        Err(error) => {
            error!(%error, "a batch that was just built cannot be read");
            None
        }
    };
    done.into_iter().filter_map(parsed).collect()
}
