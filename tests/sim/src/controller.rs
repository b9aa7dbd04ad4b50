//! A controller's process: the shipped driver, with the streams and calls that its shell would carry.
//!
//! Must not: decide anything about the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker_core::follow::{Lineage, Piece, Place};
use controller_core::command::{Command, Reply};
use controller_core::driver::Driver;
use controller_core::driver::event::{
    CommandId, Effect, Event, LogPosition, Publication, StreamEnd as DriverStreamEnd, StreamId,
    TICK_INTERVAL_MS,
};
use controller_core::feed::{Feed, Give, Limits, Subscription};
use controller_core::refusal::Refusal;
use controller_core::settings::Settings;
use controller_core::time::{Moment, Now};
use metadata::batch::{MetadataBatch, Provenance};
use metadata::dump::{DumpHeader, dump};
use metadata::ids::{ControllerId, Term};
use metadata::image::Image;
use metadata::replay::Application;

use crate::fact::{Fact, Grant};
use crate::marks::Mark;
use crate::message::{Ask, CallKey, NodeId, Purpose, StreamKey, Told, Word};
use crate::node::{At, Exit, Input, Output, Process, QuorumTold, StreamEnd};

/// How often followers are told that all is well.
const PROGRESS: Duration = Duration::from_millis(250);
/// Records in one piece of a snapshot.
const PIECE_RECORDS: usize = 20;

/// Where the answer of a command goes.
enum Origin {
    Session(StreamKey),
    Call(CallKey),
}

/// A controller's process.
pub struct Controller {
    id: ControllerId,
    started: Duration,
    driver: Driver,
    feed: Feed<Arc<MetadataBatch>>,
    sessions: BTreeMap<StreamKey, (StreamId, Option<Term>)>,
    followers: BTreeMap<StreamKey, Subscription>,
    origins: BTreeMap<CommandId, Origin>,
    next_command: u64,
    next_stream: u64,
    next_tick: Duration,
    next_progress: Duration,
    term: Term,
    applied: u64,
}

impl Controller {
    /// A process that starts with a snapshot up to a position of its log.
    pub fn start(
        id: ControllerId,
        settings: Settings,
        snapshot: Image,
        position: u64,
        feed: Limits,
        now: Duration,
    ) -> Self {
        let image = Arc::new(snapshot.clone());
        Self {
            id,
            started: now,
            driver: Driver::new(settings, snapshot, LogPosition(position)),
            feed: Feed::new(image, feed),
            sessions: BTreeMap::new(),
            followers: BTreeMap::new(),
            origins: BTreeMap::new(),
            next_command: 0,
            next_stream: 0,
            next_tick: now + Duration::from_millis(TICK_INTERVAL_MS),
            next_progress: now + PROGRESS,
            term: Term(0),
            applied: position,
        }
    }

    /// The committed image.
    pub fn image(&self) -> &Arc<Image> {
        self.driver.committed()
    }

    /// Whether it is the active one.
    pub fn active_in(&self) -> Option<Term> {
        self.driver.active_in()
    }

    /// The last position of the log that it applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    fn moment(&self, world: Duration) -> Moment {
        Moment(world.saturating_sub(self.started))
    }

    fn step(&mut self, at: At, event: Event, out: &mut Vec<Output>) {
        let now = Now {
            at: self.moment(at.world),
            wall_time_ms: at.wall_ms,
        };
        for effect in self.driver.step(now, event) {
            self.carry_out(at, effect, out);
        }
    }

    fn carry_out(&mut self, at: At, effect: Effect, out: &mut Vec<Output>) {
        match effect {
            Effect::Propose {
                term,
                base_offset,
                batch,
            } => out.push(Output::Propose(term, base_offset, batch)),
            Effect::Reply { id, result, .. } => self.reply(at, id, result, out),
            Effect::Publish(publication) => self.publish(at, publication, out),
            Effect::Activated { term } => {
                out.push(Output::Fact(Fact::Activated {
                    controller: self.id,
                    term,
                    applied: self.image().next_offset,
                }));
            }
            Effect::Deposed { .. } => {
                out.push(Output::Mark(Mark::ControllerDeposed));
                self.end_sessions(at, out);
            }
            Effect::Silent { .. } => out.push(Output::Mark(Mark::BrokerFenced)),
            Effect::DecisionFailed { command, message } => {
                self.alarm(format!("deciding {command:?} failed: {message}"), out);
            }
            Effect::Quarantined(why) => self.alarm(format!("quarantined: {why}"), out),
        }
    }

    fn alarm(&self, what: String, out: &mut Vec<Output>) {
        out.push(Output::Fact(Fact::Alarm {
            by: format!("controller {}", self.id),
            what,
        }));
    }

    fn reply(&mut self, at: At, id: CommandId, result: Result<Reply, Refusal>, out: &mut Vec<Output>) {
        if let Ok(reply) = &result {
            out.extend(granted(reply).into_iter().map(|what| {
                Output::Fact(Fact::Granted {
                    controller: self.id,
                    what,
                    image: Arc::clone(self.image()),
                })
            }));
        }
        match self.origins.remove(&id) {
            None => {}
            Some(Origin::Call(call)) => out.push(Output::Answer(call, Told::Command(Box::new(result)))),
            Some(Origin::Session(stream)) if self.sessions.contains_key(&stream) => {
                let word = match result {
                    Ok(Reply::Registered { epoch }) => Word::Registered(epoch),
                    Ok(Reply::Heartbeat(standing)) => Word::HeartbeatAnswered(standing),
                    Ok(other) => unreachable!("a session is never answered {other:?}"),
                    Err(refusal) => Word::Refused(Box::new(refusal), self.active_hint(at)),
                };
                out.push(Output::Say(stream, word));
            }
            Some(Origin::Session(_)) => {}
        }
    }

    /// Who is active, as this node knows: the leader of the quorum, unless that is a node that is not active.
    fn active_hint(&self, at: At) -> Option<ControllerId> {
        at.leader
            .filter(|leader| *leader != self.id || self.driver.active_in().is_some())
    }

    fn end_sessions(&mut self, at: At, out: &mut Vec<Output>) {
        let active = self.active_hint(at);
        for (key, (stream, _)) in std::mem::take(&mut self.sessions) {
            out.push(Output::Say(key, Word::Moved(active)));
            out.push(Output::Close(key));
            self.step(
                at,
                Event::StreamClosed {
                    stream,
                    end: DriverStreamEnd::ClosedHere,
                },
                out,
            );
        }
    }

    fn publish(&mut self, at: At, publication: Publication, out: &mut Vec<Output>) {
        self.applied = publication.position.0;
        let Some(published) = publication.batch else {
            return;
        };
        match published.application {
            Application::Applied => {
                let size_bytes = published.bytes.len();
                self.feed
                    .push(published.batch, size_bytes, Arc::clone(&publication.image));
                out.push(Output::Fact(Fact::Committed {
                    controller: self.id,
                    image: publication.image,
                }));
                self.feed_all(at, out);
            }
            Application::Skipped(_) => out.push(Output::Mark(Mark::BatchSkipped)),
        }
    }

    fn feed_all(&mut self, at: At, out: &mut Vec<Output>) {
        let keys: Vec<StreamKey> = self.followers.keys().copied().collect();
        keys.into_iter().for_each(|key| self.feed_one(at, key, out));
    }

    /// Gives a follower everything that there is for it.
    fn feed_one(&mut self, _at: At, key: StreamKey, out: &mut Vec<Output>) {
        while let Some(follower) = self.followers.get_mut(&key) {
            match follower.next(&self.feed) {
                Give::Nothing => return,
                Give::Batches(batches) => {
                    let words = batches.into_iter().map(Word::Batch);
                    out.extend(words.map(|word| Output::Say(key, word)));
                }
                Give::Snapshot(image) => say_snapshot(key, &image, out),
                Give::FollowAgain => {
                    self.followers.remove(&key);
                    out.push(Output::Close(key));
                }
            }
        }
    }

    fn progress(&mut self, at: At, out: &mut Vec<Output>) {
        let active = self.active_hint(at);
        for (key, follower) in &self.followers {
            let word = Word::Progress {
                committed_end: follower.position().next_offset,
                term: self.term,
                active,
            };
            out.push(Output::Say(*key, word));
        }
    }

    fn command(&mut self, at: At, origin: Origin, command: Command, out: &mut Vec<Output>) {
        let id = CommandId(self.next_command);
        self.next_command += 1;
        let stream = match &origin {
            Origin::Session(key) => self.sessions.get(key).map(|(stream, _)| *stream),
            Origin::Call(_) => None,
        };
        self.origins.insert(id, origin);
        let event = Event::Command {
            id,
            arrived: self.moment(at.world),
            stream,
            provenance: Provenance {
                actor: "User:sim".to_owned(),
                ..Provenance::default()
            },
            command: Box::new(command),
        };
        self.step(at, event, out);
    }

    fn opened(&mut self, at: At, key: StreamKey, purpose: Purpose, out: &mut Vec<Output>) {
        match purpose {
            Purpose::Session => {
                let stream = StreamId(self.next_stream);
                self.next_stream += 1;
                self.sessions.insert(key, (stream, self.driver.active_in()));
            }
            Purpose::Follow {
                next_offset,
                last_term,
            } => {
                let position = DumpHeader {
                    next_offset,
                    last_term,
                };
                let follower = Subscription::begin(&self.feed, position);
                let lineage = match follower.lineage_differs() {
                    true => Lineage::Differs,
                    false => Lineage::Same,
                };
                self.followers.insert(key, follower);
                out.push(Output::Say(key, Word::Hello(lineage)));
                self.feed_one(at, key, out);
            }
            Purpose::Client => out.push(Output::Close(key)),
        }
    }

    fn heard(&mut self, at: At, key: StreamKey, word: Word, out: &mut Vec<Output>) {
        match word {
            Word::Register(registration) => {
                self.command(
                    at,
                    Origin::Session(key),
                    Command::RegisterBroker(*registration),
                    out,
                );
            }
            Word::Heartbeat(heartbeat) => {
                self.command(at, Origin::Session(key), Command::Heartbeat(heartbeat), out);
            }
            Word::Goodbye => self.session_ended(at, key, DriverStreamEnd::Goodbye, out),
            other => unreachable!("a broker never says {other:?}"),
        }
    }

    fn session_ended(&mut self, at: At, key: StreamKey, end: DriverStreamEnd, out: &mut Vec<Output>) {
        if let Some((stream, _)) = self.sessions.remove(&key) {
            self.step(at, Event::StreamClosed { stream, end }, out);
        }
    }

    fn quorum(&mut self, at: At, told: QuorumTold, out: &mut Vec<Output>) {
        match told {
            QuorumTold::Led(term, end) => {
                self.term = self.term.max(term);
                self.step(
                    at,
                    Event::Led {
                        term,
                        log_end: LogPosition(end),
                    },
                    out,
                );
            }
            QuorumTold::Acknowledged(term, moment) => {
                let event = Event::QuorumAcknowledged {
                    term,
                    at: self.moment(moment),
                };
                self.step(at, event, out);
            }
            QuorumTold::Lost => self.step(at, Event::Lost, out),
            QuorumTold::Refused(term, base_offset) => {
                self.step(at, Event::Refused { term, base_offset }, out);
            }
            QuorumTold::Committed(position, term, entry) => {
                self.term = self.term.max(term);
                self.step(
                    at,
                    Event::Applied {
                        position: LogPosition(position),
                        term,
                        entry,
                    },
                    out,
                );
            }
        }
    }
}

/// What a reply says yes to.
fn granted(reply: &Reply) -> Vec<Grant> {
    match reply {
        Reply::Registered { epoch } => vec![Grant::Registration(*epoch)],
        Reply::TopicsCreated(topics) => {
            let made = topics.iter().filter_map(|topic| topic.result.as_ref().ok());
            made.map(|made| Grant::Topic(made.topic)).collect()
        }
        Reply::PartitionsAltered(outcomes) => {
            let granted = outcomes.iter().filter_map(|outcome| {
                let standing = outcome.result.as_ref().ok()?;
                Some(Grant::InSync(outcome.partition, standing.epoch))
            });
            granted.collect()
        }
        _ => Vec::new(),
    }
}

fn say_snapshot(key: StreamKey, image: &Image, out: &mut Vec<Output>) {
    out.push(Output::Mark(Mark::SnapshotFollowed));
    let records: Vec<_> = dump(image).collect();
    let header = image.dump_header();
    let mut pieces: Vec<Vec<_>> = records.chunks(PIECE_RECORDS).map(<[_]>::to_vec).collect();
    if pieces.is_empty() {
        pieces.push(Vec::new());
    }
    let last = pieces.len() - 1;
    for (at, records) in pieces.into_iter().enumerate() {
        let place = if at == last { Place::Last } else { Place::Inner };
        out.push(Output::Say(
            key,
            Word::Snapshot(Box::new(Piece {
                header,
                records,
                place,
            })),
        ));
    }
}

impl Process for Controller {
    fn take(&mut self, at: At, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::StreamOpened(key, _, purpose) => self.opened(at, key, purpose, &mut out),
            Input::Heard(key, word) => self.heard(at, key, word, &mut out),
            Input::StreamClosed(key, end) => {
                self.followers.remove(&key);
                let end = match end {
                    StreamEnd::Closed | StreamEnd::Broken => DriverStreamEnd::Broken,
                };
                self.session_ended(at, key, end, &mut out);
            }
            Input::Asked(call, Ask::Command(command)) => {
                self.command(at, Origin::Call(call), *command, &mut out);
            }
            Input::Quorum(told) => self.quorum(at, told, &mut out),
            Input::Tick => {
                if self.next_tick <= at.world {
                    self.next_tick = at.world + Duration::from_millis(TICK_INTERVAL_MS);
                    self.step(at, Event::Tick, &mut out);
                }
                if self.next_progress <= at.world {
                    self.next_progress = at.world + PROGRESS;
                    self.progress(at, &mut out);
                }
            }
            Input::Stop => out.push(Output::Exit(Exit::Stopped("asked to".to_owned()))),
            Input::StreamReady(_) | Input::Answered(..) | Input::Asked(..) | Input::Wish(_) => {}
        }
        out
    }

    fn next_tick(&self) -> Option<Duration> {
        Some(self.next_tick.min(self.next_progress))
    }
}

/// The name of a controller among the nodes.
pub fn node(id: ControllerId) -> NodeId {
    NodeId::Controller(id.0)
}
