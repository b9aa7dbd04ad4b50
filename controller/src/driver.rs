//! The one task that owns the driver of `controller-core`: it tells it what happened, in order, and carries out what
//! it wants done, in order.
//!
//! Must not decide anything, and must not wait for anything but the next event: proposals are queued, their outcomes
//! come back as events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controller_core::driver::Driver;
use controller_core::driver::event::{
    CommandId, Effect, Entry, Event, LogPosition, Publication, Quarantine, TICK_INTERVAL_MS,
};
use controller_core::time::{Moment, Now};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use host::Clock;
use metadata::dump::{DumpHeader, dump};
use metadata::ids::{MetadataOffset, Term};
use metadata::image::Image;
use metadata::record::Record;
use metadata::replay::Application;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use crate::announce;
use crate::inbox::{Answer, Input, moment};
use crate::metrics::ControllerMetrics;
use crate::published::Published;
use crate::quorum::{Committed, Dump, Outcome, Quorum};
use crate::space::Space;

type Refused = (Term, MetadataOffset);
type Outcomes = FuturesUnordered<futures::future::BoxFuture<'static, Option<Refused>>>;

/// What the driver's task works on.
pub struct Shell {
    driver: Driver,
    quorum: Arc<Quorum>,
    clock: Arc<dyn Clock>,
    published: Arc<Published>,
    active: watch::Sender<Option<Term>>,
    quarantine: Arc<Mutex<Option<String>>>,
    space: watch::Receiver<Space>,
    metrics: Arc<ControllerMetrics>,
    answers: HashMap<CommandId, oneshot::Sender<Answer>>,
    next_command: u64,
    outcomes: Outcomes,
    /// The newest term in which this node saw a leader.
    seen: Option<Term>,
    /// The term that the driver was told it leads.
    led: Option<Term>,
    /// The newest acknowledgement that the driver was told of.
    acknowledged: Option<Moment>,
}

/// Where the driver's task puts what others look at.
pub struct Outlets {
    /// The committed state.
    pub published: Arc<Published>,
    /// The term in which this node is active.
    pub active: watch::Sender<Option<Term>>,
    /// Why replay stopped, if it did.
    pub quarantine: Arc<Mutex<Option<String>>>,
    /// Room on the disk.
    pub space: watch::Receiver<Space>,
    /// What is counted.
    pub metrics: Arc<ControllerMetrics>,
}

impl Shell {
    /// A task for `driver`, whose image is the published one.
    pub fn new(driver: Driver, quorum: Arc<Quorum>, clock: Arc<dyn Clock>, outlets: Outlets) -> Shell {
        Shell {
            driver,
            quorum,
            clock,
            published: outlets.published,
            active: outlets.active,
            quarantine: outlets.quarantine,
            space: outlets.space,
            metrics: outlets.metrics,
            answers: HashMap::new(),
            next_command: 0,
            outcomes: FuturesUnordered::new(),
            seen: None,
            led: None,
            acknowledged: None,
        }
    }

    /// Runs until both queues have ended.
    pub async fn run(
        mut self,
        mut committed: mpsc::UnboundedReceiver<Committed>,
        mut inputs: mpsc::Receiver<Input>,
    ) {
        let mut changes = self.quorum.changes();
        let mut ticks = tokio::time::interval(Duration::from_millis(TICK_INTERVAL_MS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = ticks.tick() => {
                    // A tick is due after everything that was waiting, or a stall would fence brokers whose
                    // heartbeats lie in the queue.
                    self.drain(&mut committed, &mut inputs).await;
                    self.look_at_quorum().await;
                    self.step(Event::Tick).await;
                }
                next = committed.recv() => match next {
                    Some(next) => self.committed(next).await,
                    None => return,
                },
                Some(refused) = self.outcomes.next() => self.refused(refused).await,
                () = changes.next() => self.look_at_quorum().await,
                next = inputs.recv() => match next {
                    Some(input) => self.input(input).await,
                    None => return,
                },
            }
        }
    }

    async fn drain(
        &mut self,
        committed: &mut mpsc::UnboundedReceiver<Committed>,
        inputs: &mut mpsc::Receiver<Input>,
    ) {
        for _ in 0..committed.len() {
            if let Ok(next) = committed.try_recv() {
                self.committed(next).await;
            }
        }
        for _ in 0..inputs.len() {
            if let Ok(input) = inputs.try_recv() {
                self.input(input).await;
            }
        }
    }

    async fn committed(&mut self, committed: Committed) {
        match committed {
            Committed::Entry {
                position,
                term,
                batch,
            } => {
                let entry = batch.map_or(Entry::Blank, Entry::Batch);
                self.step(Event::Applied {
                    position: LogPosition(position),
                    term: Term(term),
                    entry,
                })
                .await;
            }
            Committed::Replaced { position, dump } => match image_of(dump) {
                Ok(image) => {
                    self.step(Event::Installed {
                        position: LogPosition(position),
                        image: Box::new(image.clone()),
                    })
                    .await;
                    self.published.replace(Arc::new(image));
                }
                Err(why) => self.quarantined(&why),
            },
            Committed::Capture(asked) => {
                let image = self.published.image();
                // Whoever asked may have been cancelled.
                let _ = asked.send(Box::new(move || dump_of(&image)));
            }
        }
    }

    async fn input(&mut self, input: Input) {
        match input {
            Input::Command {
                arrived,
                stream,
                provenance,
                command,
                answer,
            } => {
                let waited = moment(self.clock.as_ref()).0.saturating_sub(arrived.0);
                self.metrics.queue_time.record(waited);
                self.metrics.commands.inc();
                let id = CommandId(self.next_command);
                self.next_command += 1;
                self.answers.insert(id, answer);
                self.step(Event::Command {
                    id,
                    arrived,
                    stream,
                    provenance,
                    command,
                })
                .await;
            }
            Input::StreamClosed { stream, end } => self.step(Event::StreamClosed { stream, end }).await,
        }
    }

    async fn refused(&mut self, refused: Option<Refused>) {
        if let Some((term, base_offset)) = refused {
            self.step(Event::Refused { term, base_offset }).await;
        }
    }

    /// Tells the driver about a lead that was won or lost, and about acknowledgements of the quorum.
    async fn look_at_quorum(&mut self) {
        self.quorum.note_progress();
        let standing = self.quorum.standing();
        let leads = standing.leads();
        if standing.leader.is_some() && self.seen < Some(standing.term) {
            self.seen = Some(standing.term);
            self.metrics.new_active.inc();
        }
        if self.led.is_some() && self.led != leads {
            self.led = None;
            self.acknowledged = None;
            tracing::info!("lead lost");
            self.step(Event::Lost).await;
        }
        let Some(term) = leads else {
            return;
        };
        if self.led.is_none() {
            self.led = Some(term);
            tracing::info!(%term, "lead won");
            let log_end = LogPosition(standing.log_end);
            self.step(Event::Led { term, log_end }).await;
        }
        let Some(ago) = standing.acknowledged_ago else {
            return;
        };
        let at = Moment(moment(self.clock.as_ref()).0.saturating_sub(ago));
        if self.acknowledged < Some(at) {
            self.acknowledged = Some(at);
            self.step(Event::QuorumAcknowledged { term, at }).await;
        }
    }

    async fn step(&mut self, event: Event) {
        let now = Now {
            at: moment(self.clock.as_ref()),
            wall_time_ms: self.clock.wall().0,
        };
        let effects = self.driver.step(now, event);
        let took = moment(self.clock.as_ref()).0.saturating_sub(now.at.0);
        self.metrics.processing_time.record(took);
        for effect in effects {
            self.carry_out(effect).await;
        }
    }

    async fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Propose {
                term,
                base_offset,
                batch,
            } => self.propose(term, base_offset, batch).await,
            Effect::Reply {
                id,
                result,
                visible_at,
            } => {
                if let Some(answer) = self.answers.remove(&id) {
                    // Whoever asked may have gone.
                    let _ = answer.send(Answer { result, visible_at });
                }
            }
            Effect::Publish(publication) => self.publish(publication),
            Effect::Activated { term } => {
                tracing::info!(%term, "active");
                self.active.send_replace(Some(term));
            }
            Effect::Deposed { term } => {
                tracing::info!(%term, "not active any more");
                self.active.send_replace(None);
            }
            Effect::Silent {
                broker,
                epoch,
                silent,
                cause,
            } => {
                self.metrics.silent_brokers.inc();
                let silent_ms = silent.as_millis();
                tracing::info!(%broker, %epoch, silent_ms, ?cause, "broker given up");
            }
            Effect::DecisionFailed { command, message } => {
                self.metrics.errors.inc();
                tracing::error!(?command, message, "a decision failed, its command was refused");
            }
            Effect::Quarantined(quarantine) => self.quarantined(&describe(&quarantine)),
        }
    }

    async fn propose(&mut self, term: Term, base_offset: MetadataOffset, batch: Bytes) {
        if *self.space.borrow() == Space::Exhausted {
            self.outcomes
                .push(Box::pin(async move { Some((term, base_offset)) }));
            return;
        }
        let outcome: Outcome = self.quorum.propose(term, batch).await;
        self.outcomes.push(Box::pin(async move {
            match outcome.await {
                Ok(()) => None,
                Err(refused) => {
                    tracing::debug!(%term, %base_offset, %refused, "proposal refused");
                    Some((term, base_offset))
                }
            }
        }));
    }

    fn publish(&mut self, publication: Publication) {
        self.published
            .mark(publication.position.0, publication.image.next_offset);
        self.metrics.progressed();
        let Some(published) = publication.batch else {
            return;
        };
        match published.application {
            Application::Applied => {
                self.metrics.applied(&published.delta);
                if self.active.borrow().is_some() {
                    announce::changes(&self.published.image(), &published.delta);
                }
                self.published
                    .push(&published.batch, published.bytes, publication.image);
            }
            Application::Skipped(why) => {
                tracing::debug!(?why, base_offset = %published.batch.base_offset, "batch skipped");
            }
        }
    }

    fn quarantined(&self, why: &str) {
        self.metrics.errors.inc();
        tracing::error!(
            why,
            "the metadata log cannot be replayed further, only reads are served"
        );
        *self.quarantine.lock() = Some(why.to_owned());
    }
}

fn describe(quarantine: &Quarantine) -> String {
    quarantine.to_string()
}

/// The image in a dump.
///
/// # Errors
/// What of it cannot be read or replayed, for people.
pub fn image_of(dump: Dump) -> Result<Image, String> {
    let records: Result<Vec<_>, _> = dump.records.iter().map(|bytes| Record::decode(bytes)).collect();
    let records = records.map_err(|error| error.to_string())?;
    let header = DumpHeader {
        next_offset: MetadataOffset(dump.next_offset),
        last_term: Term(dump.last_term),
    };
    Image::from_dump(header, records).map_err(|error| error.to_string())
}

/// The dump of an image.
#[must_use]
pub fn dump_of(image: &Image) -> Dump {
    let next_offset = image.next_offset.0;
    #[cfg(feature = "mutants")]
    let next_offset = match crate::mutants::snapshot_without_next_offset() {
        true => 0,
        false => next_offset,
    };
    Dump {
        next_offset,
        last_term: image.last_term.0,
        records: dump(image).map(|record| record.encode()).collect(),
    }
}
