//! A consumer: it reads every partition forward, from the leader or from any replica, and writes down what it saw.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_core::offsets::Offset;
use bytes::Bytes;
use metadata::ids::{BrokerId, PartitionId};
use wire::batch::Batches;

use super::Links;
use crate::chance::Chance;
use crate::marks::Mark;
use crate::message::{ClientAnswer, ClientAsk, NodeId, StreamKey, Word};
use crate::node::{At, Input, Output, Process};

/// A decompressed batch of this simulation is far smaller.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where.
    pub partition: PartitionId,
    /// At which offset.
    pub offset: i64,
    /// What.
    pub payload: Vec<u8>,
}

/// A consumer.
pub struct Reader {
    links: Links,
    chance: Chance,
    next: BTreeMap<PartitionId, Offset>,
    asked: BTreeMap<u64, (PartitionId, StreamKey)>,
    pause_until: BTreeMap<PartitionId, Duration>,
    /// Of a thousand fetches so many go to any replica.
    stray_per_mille: u64,
    /// Everything that was read, in order.
    pub seen: Vec<Seen>,
}

/// The records of whole batches from an offset on.
#[must_use]
pub fn records(partition: PartitionId, from: Offset, bytes: Bytes) -> Vec<Seen> {
    let mut seen = Vec::new();
    for batch in Batches::new(bytes).map_while(Result::ok) {
        // Clients look at the checksum, and go no further.
        let Some(body) = batch.check().and_then(|()| batch.body(BODY_BYTES_MAX)).ok() else {
            break;
        };
        for record in batch.records(&body).map_while(Result::ok) {
            let offset = batch.header.base_offset + i64::from(record.offset_delta);
            if from.0 <= offset {
                seen.push(Seen {
                    partition,
                    offset,
                    payload: record.value.unwrap_or_default().to_vec(),
                });
            }
        }
    }
    seen
}

impl Reader {
    /// A consumer that reads everything.
    #[must_use]
    pub fn new(me: u32, brokers: Vec<BrokerId>, stray_per_mille: u64, seed: u64) -> Self {
        let links = Links::new(
            NodeId::Client(me),
            brokers,
            Chance::of(seed, &format!("links {me}")),
        );
        Self {
            links,
            chance: Chance::of(seed, &format!("reader {me}")),
            next: BTreeMap::new(),
            asked: BTreeMap::new(),
            pause_until: BTreeMap::new(),
            stray_per_mille,
            seen: Vec::new(),
        }
    }

    /// What it wants next of a partition.
    #[must_use]
    pub fn next(&self, partition: PartitionId) -> Offset {
        self.next.get(&partition).copied().unwrap_or_default()
    }

    fn pump(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.links.refresh(now, out);
        self.pause_until.retain(|_, until| now < *until);
        let partitions: Vec<PartitionId> = self.links.places.keys().copied().collect();
        for partition in partitions {
            let is_asked = self.asked.values().any(|(asked, _)| *asked == partition);
            if is_asked || self.pause_until.contains_key(&partition) {
                continue;
            }
            let place = self.links.places[&partition].clone();
            let from = match self.chance.per_mille(self.stray_per_mille) {
                true => Some(*self.chance.pick(&place.replicas)),
                false => place.leader,
            };
            let Some(key) = from.and_then(|broker| self.links.to(broker, out)) else {
                self.pause_until
                    .insert(partition, now + Duration::from_millis(20));
                continue;
            };
            let offset = *self.next.entry(partition).or_default();
            let leader_epoch = Some(place.leader_epoch);
            let number = self.links.send(
                key,
                ClientAsk::Fetch {
                    partition,
                    offset,
                    leader_epoch,
                },
                out,
            );
            self.asked.insert(number, (partition, key));
        }
    }
}

impl Process for Reader {
    fn take(&mut self, at: At, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::StreamReady(key) => self.links.ready(key),
            Input::StreamClosed(key, _) => {
                self.links.closed(at.world, key);
                self.asked.retain(|_, (_, on)| *on != key);
            }
            Input::Heard(_, Word::Answer(number, ClientAnswer::Fetched(result))) => {
                if let Some((partition, _)) = self.asked.remove(&number) {
                    match result {
                        Ok(fetched) => {
                            let is_empty = fetched.batches.is_empty();
                            let from = self.next.entry(partition).or_default();
                            let seen = records(partition, *from, fetched.batches);
                            if let Some(last) = seen.last() {
                                *from = Offset(last.offset + 1);
                            } else if !is_empty {
                                out.push(Output::Mark(Mark::RotRefusedByConsumer));
                                self.pause_until
                                    .insert(partition, at.world + Duration::from_millis(50));
                            }
                            self.seen.extend(seen);
                        }
                        Err(_) => {
                            self.links.refresh_soon(at.world);
                            self.pause_until
                                .insert(partition, at.world + Duration::from_millis(50));
                        }
                    }
                }
            }
            Input::Heard(_, Word::Answer(_, ClientAnswer::Located(upto, places))) => {
                self.links.located(upto, places);
            }
            _ => {}
        }
        self.pump(at.world, &mut out);
        out
    }

    fn next_tick(&self) -> Option<Duration> {
        self.pause_until
            .values()
            .copied()
            .chain([self.links.refresh_at])
            .min()
    }
}
