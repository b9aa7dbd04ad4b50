//! Clients: they find leaders, keep connections, and write down what they were told.
//!
//! A client here is the careful one of the promise: it retries in order, gives up only after a long time, and never
//! counts as acknowledged what was not.

mod member;
mod producer;
mod reader;

use std::collections::BTreeMap;
use std::time::Duration;

use metadata::ids::{BrokerId, MetadataOffset, PartitionId};

pub use self::member::{Habits, Member};
pub use self::producer::{Kind, Producer, Sent};
pub use self::reader::{Reader, Seen, records};
use crate::chance::Chance;
use crate::message::{ClientAsk, ClientRequest, NodeId, Place, Purpose, StreamKey, Word};
use crate::node::Output;

/// How often metadata is asked for again.
const REFRESH: Duration = Duration::from_millis(700);
/// After an error.
const REFRESH_SOON: Duration = Duration::from_millis(60);

/// Connections to brokers, and what is known of leaders.
struct Links {
    me: NodeId,
    brokers: Vec<BrokerId>,
    chance: Chance,
    next_number: u64,
    open: BTreeMap<BrokerId, (StreamKey, bool)>,
    places: BTreeMap<PartitionId, Place>,
    known_upto: MetadataOffset,
    refresh_at: Duration,
}

impl Links {
    fn new(me: NodeId, brokers: Vec<BrokerId>, chance: Chance) -> Self {
        let (open, places) = (BTreeMap::new(), BTreeMap::new());
        Self {
            me,
            brokers,
            chance,
            next_number: 0,
            open,
            places,
            known_upto: MetadataOffset(0),
            refresh_at: Duration::ZERO,
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The connection to a broker if it is ready; else it is opened.
    fn to(&mut self, broker: BrokerId, out: &mut Vec<Output>) -> Option<StreamKey> {
        match self.open.get(&broker) {
            Some((key, true)) => Some(*key),
            Some((_, false)) => None,
            None => {
                let key = StreamKey {
                    opener: self.me,
                    number: self.number(),
                };
                self.open.insert(broker, (key, false));
                out.push(Output::Open(key, NodeId::Broker(broker.0), Purpose::Client));
                None
            }
        }
    }

    fn ready(&mut self, key: StreamKey) {
        if let Some((_, ready)) = self.open.values_mut().find(|(held, _)| *held == key) {
            *ready = true;
        }
    }

    /// A connection ended; which broker it led to, if it was in use.
    fn closed(&mut self, now: Duration, key: StreamKey) {
        self.open.retain(|_, (held, _)| *held != key);
        self.refresh_soon(now);
    }

    fn refresh_soon(&mut self, now: Duration) {
        self.refresh_at = self.refresh_at.min(now + REFRESH_SOON);
    }

    fn send(&mut self, key: StreamKey, what: ClientAsk, out: &mut Vec<Output>) -> u64 {
        let number = self.number();
        out.push(Output::Say(key, Word::Request(ClientRequest { number, what })));
        number
    }

    fn any_broker(&mut self) -> BrokerId {
        *self.chance.pick(&self.brokers)
    }

    /// Asks somebody for metadata when that is due.
    fn refresh(&mut self, now: Duration, out: &mut Vec<Output>) {
        if now < self.refresh_at {
            return;
        }
        self.refresh_at = now + REFRESH;
        let broker = self.any_broker();
        match self.to(broker, out) {
            Some(key) => {
                self.send(key, ClientAsk::Locate, out);
            }
            None => self.refresh_soon(now),
        }
    }

    /// Takes over what a broker knows, unless something newer is known. Partitions that are gone are forgotten.
    fn located(&mut self, upto: MetadataOffset, places: BTreeMap<PartitionId, Place>) {
        if self.known_upto <= upto {
            self.known_upto = upto;
            self.places = places;
        }
    }
}
