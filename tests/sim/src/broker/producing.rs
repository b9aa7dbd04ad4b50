//! Clients that produce: the order of their requests, the append, and the wait for the in-sync replicas.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use broker_core::fetch::Wake;
use broker_core::group::OFFSETS;
use broker_core::hints::{self, Arrival};
use broker_core::offsets::{LogEnd, Offset};
use broker_core::pipeline::{Effect, Ending, Event, Kind, Limits, Overlap, Pipeline, RequestId};
use broker_core::produce::{Acks, Pending, ProduceRefusal, Verdict, WaitOutcome, WaiterId};
use broker_core::time::Moment;
use metadata::ids::PartitionId;
use partition_log::{
    AppendError, AppendOutcome, AppendRefusal, LeaderAppend, Origin, ProduceVersionLimits, check_payload,
};

use super::hosted::to_core;
use super::{Broker, Later};
use crate::fact::Fact;
use crate::marks::Mark;
use crate::message::{self, ClientAnswer, ClientAsk, ClientError, ClientRequest, StreamKey, Word};
use crate::node::{At, Output};

/// What clients ask for as `timeout.ms`.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// A client's connection.
pub(super) struct Connection {
    pipeline: Pipeline,
    /// Sent and not read yet.
    socket: VecDeque<ClientRequest>,
    requests: BTreeMap<RequestId, (ClientRequest, Moment)>,
    answers: BTreeMap<RequestId, ClientAnswer>,
    last_answered: Option<u64>,
    /// To be carried out, in order: what one leads to comes behind those that are there.
    effects: VecDeque<Effect>,
    /// Somebody carries them out: whoever adds more leaves them to him.
    carried: bool,
}

/// One request of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub connection: StreamKey,
    pub request: RequestId,
}

/// A Produce that came before the news it is about.
pub(super) struct Held {
    place: Place,
    partition: PartitionId,
    arrived: Moment,
    /// It is looked at again then, if nothing is published before.
    pub until: Moment,
}

impl Broker {
    pub(super) fn client_connected(&mut self, key: StreamKey, _out: &mut Vec<Output>) {
        let connection = Connection {
            pipeline: Pipeline::new(Overlap::Produce(Limits::default())),
            socket: VecDeque::new(),
            requests: BTreeMap::new(),
            answers: BTreeMap::new(),
            last_answered: None,
            effects: VecDeque::new(),
            carried: false,
        };
        self.connections.insert(key, connection);
    }

    pub(super) fn client_left(&mut self, _at: At, key: StreamKey, _out: &mut Vec<Output>) {
        self.connections.remove(&key);
        self.held.retain(|held| held.place.connection != key);
        self.parked.retain(|parked| !parked.is_of(key));
        let gone: Vec<Place> = self
            .pendings
            .keys()
            .filter(|place| place.connection == key)
            .copied()
            .collect();
        for place in gone {
            self.pendings.remove(&place);
        }
    }

    pub(super) fn requested(
        &mut self,
        at: At,
        key: StreamKey,
        request: ClientRequest,
        out: &mut Vec<Output>,
    ) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        connection.socket.push_back(request);
        self.read_socket(at, key, out);
    }

    fn read_socket(&mut self, at: At, key: StreamKey, out: &mut Vec<Output>) {
        let arrived = self.now(at);
        while let Some(connection) = self.connections.get_mut(&key)
            && connection.pipeline.wants_request()
            && let Some(request) = connection.socket.pop_front()
        {
            let (kind, bytes) = match &request.what {
                ClientAsk::Produce { batch, .. } => (Kind::Produce, batch.len()),
                _ => (Kind::Barrier, 100),
            };
            connection
                .requests
                .insert(connection.pipeline.next_request(), (request, arrived));
            let effects = connection.pipeline.step(Event::Arrived { kind, bytes });
            if effects.is_empty() {
                out.push(Output::Mark(Mark::PipelineHeld));
            }
            self.carry_pipeline(at, key, effects, out);
        }
    }

    fn step_pipeline(&mut self, at: At, key: StreamKey, event: Event, out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        let effects = connection.pipeline.step(event);
        self.carry_pipeline(at, key, effects, out);
        self.read_socket(at, key, out);
    }

    fn carry_pipeline(&mut self, at: At, key: StreamKey, effects: Vec<Effect>, out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        connection.effects.extend(effects);
        if std::mem::replace(&mut connection.carried, true) {
            return;
        }
        while let Some(connection) = self.connections.get_mut(&key) {
            let Some(effect) = connection.effects.pop_front() else {
                connection.carried = false;
                return;
            };
            self.carry_effect(at, key, effect, out);
        }
    }

    fn carry_effect(&mut self, at: At, key: StreamKey, effect: Effect, out: &mut Vec<Output>) {
        match effect {
            Effect::Start(request) => self.begin(
                at,
                Place {
                    connection: key,
                    request,
                },
                out,
            ),
            Effect::Send(request) => {
                let Some(connection) = self.connections.get_mut(&key) else {
                    return;
                };
                let (asked, _) = connection.requests.remove(&request).expect("it was asked");
                let answer = connection.answers.remove(&request).expect("it has ended");
                let before = connection.last_answered.replace(asked.number);
                if let Some(before) = before.filter(|before| asked.number <= *before) {
                    let (by, number) = (self.incarnation, asked.number);
                    out.push(Output::Fact(Fact::AnsweredOutOfOrder { by, number, before }));
                }
                out.push(Output::Say(key, Word::Answer(asked.number, answer)));
                self.step_pipeline(at, key, Event::Sent(request), out);
            }
            Effect::Close => {
                out.push(Output::Close(key));
                self.client_left(at, key, out);
            }
        }
    }

    /// A request ends with an answer.
    pub(super) fn end(&mut self, at: At, place: Place, answer: ClientAnswer, out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(&place.connection) else {
            return;
        };
        connection.answers.insert(place.request, answer);
        self.step_pipeline(
            at,
            place.connection,
            Event::Ended(place.request, Ending::Answer),
            out,
        );
    }

    fn refuse(&mut self, at: At, place: Place, why: ClientError, out: &mut Vec<Output>) {
        self.end(at, place, ClientAnswer::Produced(Err(why)), out);
    }

    fn begin(&mut self, at: At, place: Place, out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get(&place.connection) else {
            return;
        };
        let (request, arrived) = &connection.requests[&place.request];
        let arrived = *arrived;
        let overlaps = |ask: &ClientAsk| matches!(ask, ClientAsk::Produce { .. });
        let mut before = connection
            .requests
            .range(..place.request)
            .map(|(_, (earlier, _))| earlier);
        let ahead = before.find(|earlier| !(overlaps(&earlier.what) && overlaps(&request.what)));
        if let Some(earlier) = ahead {
            let (by, number, before) = (self.incarnation, request.number, earlier.number);
            out.push(Output::Fact(Fact::StartedBeforeItsTurn { by, number, before }));
        }
        match request.what.clone() {
            ClientAsk::Produce { partition, .. } => self.arrived(
                at,
                Held {
                    place,
                    partition,
                    arrived,
                    until: arrived,
                },
                out,
            ),
            ClientAsk::Fetch {
                partition,
                offset,
                leader_epoch,
            } => {
                self.consumer_reads(at, place, (partition, offset, leader_epoch), out);
            }
            ClientAsk::Locate => {
                let (upto, located) = (self.image().next_offset, self.located());
                self.end(at, place, ClientAnswer::Located(upto, located), out);
            }
            ClientAsk::ProducerId => {
                let now = self.now(at);
                let (id, effect) = self.producer_ids.take(now);
                if effect.is_some() {
                    self.ask_for_producer_ids(at, out);
                }
                self.end(at, place, ClientAnswer::ProducerId(id.ok()), out);
            }
            ClientAsk::Coordinator(group) => {
                let coordinator = self.coordinator_of(&group);
                self.end(at, place, ClientAnswer::Coordinator(coordinator), out);
            }
            ClientAsk::Group(group, ask) => self.group_asked(at, place, (group, *ask), out),
        }
    }

    fn located(&self) -> BTreeMap<PartitionId, message::Place> {
        let image = self.image();
        // Clients read and write what is theirs.
        let topics = image.topics.iter().filter(|(_, held)| held.name != OFFSETS);
        let places = topics.flat_map(|(topic, held)| {
            held.partitions.iter().map(|(index, state)| {
                let place = message::Place {
                    leader: state.leader,
                    leader_epoch: state.leader_epoch,
                    replicas: state.replicas.clone(),
                };
                (
                    PartitionId {
                        topic: *topic,
                        index: *index,
                    },
                    place,
                )
            })
        });
        places.collect()
    }

    /// A Produce came: held, refused, or on its way to the log (KIP-951).
    fn arrived(&mut self, at: At, held: Held, out: &mut Vec<Output>) {
        let now = self.now(at);
        let deposed = self.hosted.get(&held.partition).and_then(|hosted| hosted.deposed);
        let image = self.image();
        match hints::arrival(image, held.partition, self.config.me, deposed, held.arrived, now) {
            Arrival::Lead => {
                let due = self.write_at(at);
                self.later.put(due, Later::Produce(held.place));
            }
            Arrival::Hold { until } => self.held.push(Held { until, ..held }),
            Arrival::Refuse(_) => self.refuse(at, held.place, ClientError::NotLeader, out),
            Arrival::Unknown => {
                self.refuse(at, held.place, ClientError::TryAgain("no such partition"), out);
            }
        }
    }

    pub(super) fn look_at_held(&mut self, at: At, out: &mut Vec<Output>) {
        for held in std::mem::take(&mut self.held) {
            self.arrived(at, held, out);
        }
    }

    /// The batch of a Produce reaches the log.
    pub(super) fn append(&mut self, at: At, place: Place, out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get(&place.connection) else {
            return;
        };
        let (request, _) = &connection.requests[&place.request];
        let ClientAsk::Produce { partition, batch } = request.what.clone() else {
            return;
        };
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return self.refuse(at, place, ClientError::NotLeader, out);
        };
        let batch = match check_payload(&batch, ProduceVersionLimits::None) {
            Ok(batch) => batch,
            Err(refusal) => return self.refuse(at, place, ClientError::Refused(refusal.to_string()), out),
        };
        let leader_epoch = match hosted.replica.admits(Acks::All, || hosted.log.repeats(&batch)) {
            Ok(epoch) => epoch,
            Err(refusal) => return self.refuse(at, place, not_admitted(&refusal, out), out),
        };
        let append = LeaderAppend {
            leader_epoch: partition_log::LeaderEpoch(leader_epoch.0),
            now: Self::wall(at),
            origin: Origin::Client,
        };
        let appended = match hosted.log.append_as_leader(&batch, append) {
            Ok(appended) => appended,
            Err(AppendError::Refused(AppendRefusal::OutOfOrderSequence { .. })) => {
                out.push(Output::Mark(Mark::SequenceRefused));
                return self.refuse(at, place, ClientError::OutOfOrderSequence, out);
            }
            Err(AppendError::Refused(refusal)) => {
                return self.refuse(at, place, ClientError::Refused(refusal.to_string()), out);
            }
            Err(AppendError::Fault(fault)) => {
                self.log_failed(partition, &fault, out);
                return self.refuse(at, place, ClientError::TryAgain("the disk"), out);
            }
        };
        let required = to_core(appended.last.next());
        match appended.outcome {
            AppendOutcome::Duplicate => out.push(Output::Mark(Mark::DuplicateRecognised)),
            AppendOutcome::Written => {
                let (by, epoch, end) = (self.incarnation, leader_epoch, required);
                out.push(Output::Fact(Fact::Appended {
                    by,
                    partition,
                    epoch,
                    end,
                }));
            }
        }
        self.sync_as_needed(at, partition, appended.sync, out);
        let first = to_core(appended.first);
        self.await_replicas(at, place, partition, (first, required), appended.outcome, out);
    }

    fn await_replicas(
        &mut self,
        at: At,
        place: Place,
        partition: PartitionId,
        (first, required): (Offset, Offset),
        outcome: AppendOutcome,
        out: &mut Vec<Output>,
    ) {
        let now = self.now(at);
        let waiter = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        let mut pending = Pending::until(now.after(TIMEOUT));
        pending.wait_for(waiter, partition);
        self.pendings.insert(place, (pending, first, required));
        self.waiters.insert(waiter, place);
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        // Whoever waits is known before the watermark moves over what was appended.
        if outcome == AppendOutcome::Written {
            let grown = hosted.replica.appended(LogEnd(required), now);
            self.carry_out(at, partition, grown, out);
            self.wake(at, partition, Wake::Appended, out);
        }
        self.step_pipeline(at, place.connection, Event::Appended(place.request), out);
        let Some(hosted) = self.hosted.get_mut(&partition) else {
            return;
        };
        let effects = hosted.replica.await_replication(waiter, required);
        self.carry_out(at, partition, effects, out);
    }

    pub(super) fn completed(
        &mut self,
        at: At,
        waiter: WaiterId,
        outcome: WaitOutcome,
        out: &mut Vec<Output>,
    ) {
        let Some(place) = self.waiters.remove(&waiter) else {
            return self.group_completed(at, waiter, outcome, out);
        };
        if matches!(outcome, WaitOutcome::NotLeader { .. }) {
            out.push(Output::Mark(Mark::WaitEndedByMove));
        }
        let Some((pending, ..)) = self.pendings.get_mut(&place) else {
            return;
        };
        if pending.completed(waiter, outcome) == Verdict::Answer {
            self.answer_produce(at, place, out);
        }
    }

    fn answer_produce(&mut self, at: At, place: Place, out: &mut Vec<Output>) {
        let Some((pending, first, end)) = self.pendings.remove(&place) else {
            return;
        };
        let outcome = pending.into_outcomes().into_iter().next();
        let result = match outcome {
            Some((partition, WaitOutcome::Replicated)) => {
                if let Some(hosted) = self.hosted.get(&partition) {
                    let epoch = hosted.replica.assignment().state.leader_epoch;
                    out.push(Output::Fact(Fact::Acknowledged {
                        partition,
                        epoch,
                        end,
                    }));
                }
                Ok(first)
            }
            Some((_, WaitOutcome::NotLeader { .. })) => Err(ClientError::NotLeader),
            Some(_) | None => Err(ClientError::MayBeWritten),
        };
        self.end(at, place, ClientAnswer::Produced(result), out);
    }

    /// Answers what is overdue.
    pub(super) fn expire(&mut self, at: At, out: &mut Vec<Output>) {
        let now = self.now(at);
        let due: Vec<Place> = self
            .pendings
            .iter()
            .filter(|(_, (pending, ..))| pending.deadline() <= now)
            .map(|(place, _)| *place)
            .collect();
        for place in due {
            let Some((pending, ..)) = self.pendings.get_mut(&place) else {
                continue;
            };
            for (partition, waiter) in pending.expire(now) {
                self.waiters.remove(&waiter);
                if let Some(hosted) = self.hosted.get_mut(&partition) {
                    hosted.replica.forget(waiter);
                }
            }
            self.answer_produce(at, place, out);
        }
        self.expire_parked(at, out);
    }
}

fn not_admitted(refusal: &ProduceRefusal, out: &mut Vec<Output>) -> ClientError {
    match refusal {
        ProduceRefusal::NotLeader { .. } => ClientError::NotLeader,
        ProduceRefusal::LogOffline => ClientError::TryAgain("the log is offline"),
        ProduceRefusal::NotEnoughReplicas { .. } => {
            out.push(Output::Mark(Mark::NotEnoughReplicas));
            ClientError::TryAgain("not enough replicas")
        }
    }
}
