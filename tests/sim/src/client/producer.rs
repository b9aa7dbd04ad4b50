//! A producer with acks=all, idempotent or not: per partition a line of batches that leave in order.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use broker_core::offsets::Offset;
use bytes::Bytes;
use metadata::ids::{BrokerId, PartitionId, ProducerId};
use wire::batch::{BatchBuilder, ProducerState};
use wire::codec::Codec;

use super::Links;
use crate::chance::Chance;
use crate::message::{ClientAnswer, ClientAsk, ClientError, NodeId, StreamKey, Word};
use crate::node::{At, Input, Output, Process, Wish};
use crate::oracle::Outcome;

/// Batches of a line that may be on their way; brokers remember five.
const IN_FLIGHT_MAX: usize = 5;
/// After so long a batch is given up.
const DELIVERY_MAX: Duration = Duration::from_secs(60);
/// Batches that wait in a line.
const QUEUE_MAX: usize = 8;

/// Whether a producer has an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It has: its batches are recognised when they come again.
    Idempotent,
    /// It has none.
    Plain,
}

/// A record that was handed in, and what became of it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Which identity of this producer sent it.
    pub generation: u32,
    /// Where to.
    pub partition: PartitionId,
    /// What.
    pub payload: Vec<u8>,
    /// In which batch.
    pub batch: u64,
    /// How it ended.
    pub outcome: Outcome,
}

struct Waiting {
    /// Places in the list of what was sent.
    records: Vec<usize>,
    bytes: Bytes,
    since: Duration,
    /// The request that carries it at present.
    asked: Option<u64>,
}

#[derive(Default)]
struct Line {
    batches: VecDeque<Waiting>,
    next_sequence: i32,
    retry_at: Duration,
    refused_in_a_row: u32,
    /// A broker takes any sequence from a producer of which its log has nothing. Until one batch is acknowledged, a second
    /// one could therefore stand before a first one that was refused: then only one is on its way.
    is_known: bool,
}

impl Line {
    fn in_flight_max(&self) -> usize {
        if self.is_known { IN_FLIGHT_MAX } else { 1 }
    }
}

/// A producer.
pub struct Producer {
    kind: Kind,
    links: Links,
    chance: Chance,
    id: Option<ProducerId>,
    generation: u32,
    id_asked_at: Option<Duration>,
    lines: BTreeMap<PartitionId, Line>,
    /// Which partition each request is for, and on which connection it went.
    asked: BTreeMap<u64, (PartitionId, StreamKey)>,
    /// Everything that was handed in.
    pub sent: Vec<Sent>,
    interval: Duration,
    next_at: Duration,
    settling: bool,
    looked_at: Duration,
}

impl Producer {
    /// A producer that hands in a batch about every `interval`.
    #[must_use]
    pub fn new(me: u32, kind: Kind, brokers: Vec<BrokerId>, interval: Duration, seed: u64) -> Self {
        let links = Links::new(
            NodeId::Client(me),
            brokers,
            Chance::of(seed, &format!("links {me}")),
        );
        Self {
            kind,
            links,
            chance: Chance::of(seed, &format!("producer {me}")),
            id: None,
            generation: 0,
            id_asked_at: None,
            lines: BTreeMap::new(),
            asked: BTreeMap::new(),
            sent: Vec::new(),
            interval,
            next_at: Duration::ZERO,
            settling: false,
            looked_at: Duration::ZERO,
        }
    }

    /// Whether it is idempotent.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether every record has its outcome.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settling && self.lines.values().all(|line| line.batches.is_empty())
    }

    fn pump(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.looked_at = now;
        self.links.refresh(now, out);
        self.give_up_late(now);
        if self.kind == Kind::Idempotent && self.id.is_none() {
            return self.ask_for_id(now, out);
        }
        if !self.settling && self.next_at <= now {
            self.next_at = now + self.chance.span(self.interval / 2, self.interval * 2);
            self.hand_in(now);
        }
        let partitions: Vec<PartitionId> = self.lines.keys().copied().collect();
        for partition in partitions {
            self.send_line(now, partition, out);
        }
    }

    fn ask_for_id(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self
            .id_asked_at
            .is_some_and(|at| now < at + Duration::from_millis(500))
        {
            return;
        }
        let broker = self.links.any_broker();
        if let Some(key) = self.links.to(broker, out) {
            self.links.send(key, ClientAsk::ProducerId, out);
            self.id_asked_at = Some(now);
        }
    }

    fn hand_in(&mut self, now: Duration) {
        let partitions: Vec<PartitionId> = self.links.places.keys().copied().collect();
        if partitions.is_empty() {
            return;
        }
        let partition = *self.chance.pick(&partitions);
        let line = self.lines.entry(partition).or_default();
        if QUEUE_MAX <= line.batches.len() {
            return;
        }
        let mut builder = BatchBuilder::new(Codec::None);
        if let Some(id) = self.id {
            builder = builder.producer(ProducerState {
                id: id.0,
                epoch: 0,
                base_sequence: line.next_sequence,
            });
        }
        let count = self.chance.between(1, 3);
        let mut records = Vec::new();
        let batch = self.sent.len() as u64;
        for _ in 0..count {
            let payload = format!("{:?}/{}/{}", self.links.me, self.generation, self.sent.len()).into_bytes();
            builder.append(1_800_000_000_000, None, Some(&payload), &[]);
            records.push(self.sent.len());
            let (generation, outcome) = (self.generation, Outcome::Unknown);
            self.sent.push(Sent {
                generation,
                partition,
                payload,
                batch,
                outcome,
            });
        }
        line.next_sequence += i32::try_from(count).expect("a few");
        line.batches.push_back(Waiting {
            records,
            bytes: builder.build(),
            since: now,
            asked: None,
        });
    }

    fn send_line(&mut self, now: Duration, partition: PartitionId, out: &mut Vec<Output>) {
        let Some(leader) = self.links.places.get(&partition).and_then(|place| place.leader) else {
            return;
        };
        let Some(line) = self.lines.get_mut(&partition) else {
            return;
        };
        let in_flight_max = line.in_flight_max();
        if now < line.retry_at
            || line
                .batches
                .iter()
                .take(in_flight_max)
                .all(|batch| batch.asked.is_some())
        {
            return;
        }
        let Some(key) = self.links.to(leader, out) else {
            return;
        };
        for batch in line
            .batches
            .iter_mut()
            .take(in_flight_max)
            .filter(|batch| batch.asked.is_none())
        {
            let what = ClientAsk::Produce {
                partition,
                batch: batch.bytes.clone(),
            };
            let number = self.links.send(key, what, out);
            batch.asked = Some(number);
            self.asked.insert(number, (partition, key));
        }
    }

    fn answered(&mut self, now: Duration, number: u64, result: Result<Offset, ClientError>) {
        let Some((partition, _)) = self.asked.remove(&number) else {
            return;
        };
        let Some(line) = self.lines.get_mut(&partition) else {
            return;
        };
        let Some(at) = line.batches.iter().position(|batch| batch.asked == Some(number)) else {
            return;
        };
        match result {
            Ok(first) => {
                line.refused_in_a_row = 0;
                line.is_known = true;
                let done = line.batches.remove(at).expect("it is there");
                for (delta, record) in (0_i64..).zip(done.records) {
                    self.sent[record].outcome = Outcome::Acknowledged(first.0 + delta);
                }
            }
            Err(ClientError::Refused(_)) => {
                let done = line.batches.remove(at).expect("it is there");
                done.records
                    .into_iter()
                    .for_each(|record| self.sent[record].outcome = Outcome::Refused);
                self.begin_anew();
            }
            Err(why) => {
                if why == ClientError::OutOfOrderSequence && at == 0 {
                    line.refused_in_a_row += 1;
                    if 8 < line.refused_in_a_row {
                        return self.begin_anew();
                    }
                }
                self.retry(now, partition);
            }
        }
    }

    /// Everything of a line is sent again, in order.
    fn retry(&mut self, now: Duration, partition: PartitionId) {
        let pause = self
            .chance
            .span(Duration::from_millis(10), Duration::from_millis(80));
        if let Some(line) = self.lines.get_mut(&partition) {
            line.retry_at = now + pause;
            line.batches.iter_mut().for_each(|batch| batch.asked = None);
        }
        self.links.refresh_soon(now);
    }

    /// Leaves everything open behind and goes on as another producer.
    fn begin_anew(&mut self) {
        self.lines.clear();
        self.asked.clear();
        self.generation += 1;
        self.id = None;
        self.id_asked_at = None;
    }

    fn give_up_late(&mut self, now: Duration) {
        let is_late = |line: &Line| {
            line.batches
                .front()
                .is_some_and(|batch| batch.since + DELIVERY_MAX < now)
        };
        if self.lines.values().any(is_late) {
            self.begin_anew();
        }
    }
}

impl Process for Producer {
    fn take(&mut self, at: At, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::StreamReady(key) => self.links.ready(key),
            Input::StreamClosed(key, _) => {
                self.links.closed(at.world, key);
                let lost: Vec<u64> = self
                    .asked
                    .iter()
                    .filter(|(_, (_, on))| *on == key)
                    .map(|(number, _)| *number)
                    .collect();
                for number in lost {
                    if let Some((partition, _)) = self.asked.remove(&number) {
                        self.retry(at.world, partition);
                    }
                }
                self.id_asked_at = None;
            }
            Input::Heard(_, Word::Answer(number, answer)) => match answer {
                ClientAnswer::Produced(result) => self.answered(at.world, number, result),
                ClientAnswer::Located(upto, places) => {
                    self.links.located(upto, places);
                    // What was meant for a partition that is gone has no outcome any more.
                    let places = &self.links.places;
                    self.lines.retain(|partition, _| places.contains_key(partition));
                }
                ClientAnswer::ProducerId(id) => self.id = self.id.or(id),
                _ => {}
            },
            Input::Wish(Wish::Settle) => self.settling = true,
            _ => {}
        }
        self.pump(at.world, &mut out);
        out
    }

    fn next_tick(&self) -> Option<Duration> {
        let retries = self
            .lines
            .values()
            .map(|line| line.retry_at)
            .filter(|at| self.looked_at < *at);
        let id = self
            .id_asked_at
            .map(|at| at + Duration::from_millis(500))
            .filter(|_| self.id.is_none());
        let hand_in =
            (!self.settling && self.id.is_some() || self.kind == Kind::Plain).then_some(self.next_at);
        retries
            .chain(id)
            .chain(hand_in)
            .chain([self.links.refresh_at])
            .min()
    }
}
