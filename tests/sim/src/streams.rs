//! Streams between processes: words arrive in order or not at all; under a cut they wait, and after a while the stream
//! breaks on both sides.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::message::{NodeId, Purpose, StreamKey, Word};
use crate::network::Network;
use crate::node::StreamEnd;

/// A process of a node: which, and how often it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Which node.
    pub node: NodeId,
    /// Its how many-th process.
    pub boot: u32,
}

/// What arrives on a stream.
#[derive(Debug)]
pub enum Arrival {
    /// Somebody opened it.
    Opened(Purpose),
    /// It is open.
    Ready,
    /// A word.
    Word(Word),
    /// Its end.
    Closed(StreamEnd),
}

/// Something to be delivered at a moment of the world.
#[derive(Debug)]
pub struct Delivery {
    /// When.
    pub at: Duration,
    /// On which stream.
    pub key: StreamKey,
    /// To whom.
    pub to: Address,
    /// What.
    pub what: Arrival,
}

struct Stream {
    opener: Address,
    other: Address,
    /// When the last word to the opener, and to the other, arrives.
    free_at: [Duration; 2],
    /// An end that closed it, or was told of the end, is open no more.
    is_open: [bool; 2],
    held: VecDeque<(Address, Arrival)>,
    /// It broke: nothing that is said from now on arrives, and the open ends are about to be told.
    is_broken: bool,
}

/// All streams.
#[derive(Default)]
pub struct Streams {
    all: BTreeMap<StreamKey, Stream>,
}

impl Stream {
    fn side(&self, address: Address) -> Option<usize> {
        [self.opener, self.other].iter().position(|end| *end == address)
    }
}

impl Streams {
    /// Opens a stream between two processes that can talk.
    pub fn open(
        &mut self,
        key: StreamKey,
        from: Address,
        to: Address,
        purpose: Purpose,
        now: Duration,
        network: &mut Network,
    ) -> Vec<Delivery> {
        let there = now + network.delay();
        let back = there + network.delay();
        let stream = Stream {
            opener: from,
            other: to,
            free_at: [back, there],
            is_open: [true, true],
            held: VecDeque::new(),
            is_broken: false,
        };
        self.all.insert(key, stream);
        vec![
            Delivery {
                at: there,
                key,
                to,
                what: Arrival::Opened(purpose),
            },
            Delivery {
                at: back,
                key,
                to: from,
                what: Arrival::Ready,
            },
        ]
    }

    /// Sends from one end. Gives what arrives; nothing while the ends cannot talk, and then says that it waits.
    pub fn send(
        &mut self,
        key: StreamKey,
        from: Address,
        what: Arrival,
        now: Duration,
        network: &mut Network,
    ) -> (Option<Delivery>, Waits) {
        let Some(stream) = self.all.get_mut(&key) else {
            return (None, Waits::No);
        };
        let Some(side) = stream.side(from) else {
            return (None, Waits::No);
        };
        if !stream.is_open[side] || stream.is_broken {
            return (None, Waits::No);
        }
        if matches!(what, Arrival::Closed(_)) {
            stream.is_open[side] = false;
            if stream.is_open == [false, false] {
                self.all.remove(&key);
                return (None, Waits::No);
            }
        }
        let to = if side == 0 { stream.other } else { stream.opener };
        if !stream.held.is_empty() || !network.connects(from.node, to.node) {
            stream.held.push_back((to, what));
            return (None, Waits::Yes);
        }
        (Some(deliver(key, stream, to, what, now, network)), Waits::No)
    }

    /// Cuts were mended: what waited goes on its way.
    pub fn resume(&mut self, now: Duration, network: &mut Network) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        for (key, stream) in &mut self.all {
            if stream.held.is_empty() || !network.connects(stream.opener.node, stream.other.node) {
                continue;
            }
            for (to, what) in std::mem::take(&mut stream.held) {
                deliveries.push(deliver(*key, stream, to, what, now, network));
            }
        }
        deliveries
    }

    /// Whether what arrives may still be taken in: the stream exists and this end is open. Each end is told by itself that
    /// it is over.
    pub fn takes(&mut self, key: StreamKey, to: Address, what: &Arrival) -> bool {
        let Some(stream) = self.all.get_mut(&key) else {
            return false;
        };
        let Some(side) = stream.side(to) else { return false };
        if !stream.is_open[side] {
            return false;
        }
        if matches!(what, Arrival::Closed(_)) {
            stream.is_open[side] = false;
            if stream.is_open == [false, false] {
                self.all.remove(&key);
            }
        }
        true
    }

    /// The patience of a stream is over: if its words still wait it breaks on both sides.
    pub fn lose_patience(&mut self, key: StreamKey, now: Duration) -> Vec<Delivery> {
        match self.all.get(&key) {
            Some(stream) if !stream.held.is_empty() => self.break_off(key, now, Duration::ZERO),
            _ => Vec::new(),
        }
    }

    /// A process is gone: those at the other ends notice after a while.
    pub fn lose_process(&mut self, gone: Address, now: Duration, after: Duration) -> Vec<Delivery> {
        let keys: Vec<StreamKey> = self
            .all
            .iter()
            .filter(|(_, stream)| stream.side(gone).is_some())
            .map(|(key, _)| *key)
            .collect();
        keys.into_iter()
            .flat_map(|key| self.break_off(key, now, after))
            .collect()
    }

    fn break_off(&mut self, key: StreamKey, now: Duration, after: Duration) -> Vec<Delivery> {
        let Some(stream) = self.all.get_mut(&key) else {
            return Vec::new();
        };
        if std::mem::replace(&mut stream.is_broken, true) {
            return Vec::new();
        }
        stream.held.clear();
        let closed = |side: usize, to| Delivery {
            at: stream.free_at[side].max(now) + after,
            key,
            to,
            what: Arrival::Closed(StreamEnd::Broken),
        };
        let ends = [stream.opener, stream.other];
        let deliveries = [0, 1].map(|side| (stream.is_open[side], closed(side, ends[side])));
        deliveries
            .into_iter()
            .filter(|(open, _)| *open)
            .map(|(_, delivery)| delivery)
            .collect()
    }
}

/// Whether words wait for a cut to be mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// They do.
    Yes,
    /// They do not.
    No,
}

fn deliver(
    key: StreamKey,
    stream: &mut Stream,
    to: Address,
    what: Arrival,
    now: Duration,
    network: &mut Network,
) -> Delivery {
    let side = usize::from(to != stream.opener);
    // A lost packet is sent again, and holds up those behind it.
    let resent = if network.copies(stream.opener.node, stream.other.node).is_empty() {
        200
    } else {
        0
    };
    let at = (now + network.delay() + Duration::from_millis(resent)).max(stream.free_at[side]);
    stream.free_at[side] = at;
    Delivery { at, key, to, what }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use crate::chance::Chance;
    use crate::network::Weather;

    const KEY: StreamKey = StreamKey {
        opener: NodeId::Client(1),
        number: 1,
    };
    const OPENER: Address = Address {
        node: NodeId::Client(1),
        boot: 0,
    };
    const OTHER: Address = Address {
        node: NodeId::Broker(101),
        boot: 1,
    };

    fn open() -> (Streams, Network) {
        let mut network = Network::new(Chance::of(1, "network"), Weather::FAIR);
        let mut streams = Streams::default();
        let opened = streams.open(KEY, OPENER, OTHER, Purpose::Client, Duration::ZERO, &mut network);
        assert!(
            opened
                .iter()
                .all(|delivery| streams.takes(KEY, delivery.to, &delivery.what))
        );
        (streams, network)
    }

    /// The first end that was told once took the stream away from under the other, which then waited for ever.
    #[test]
    fn both_ends_are_told_that_a_stream_broke() {
        let (mut streams, _) = open();
        let told = streams.lose_process(OTHER, Duration::from_secs(1), Duration::ZERO);

        let ends: Vec<Address> = told.iter().map(|delivery| delivery.to).collect();
        assert_eq!(ends, [OPENER, OTHER]);
        assert!(
            told.iter()
                .all(|delivery| streams.takes(KEY, delivery.to, &delivery.what))
        );
        assert!(streams.all.is_empty());
    }

    #[test]
    fn what_is_said_on_a_broken_stream_never_arrives() {
        let (mut streams, mut network) = open();
        let _told = streams.lose_process(OTHER, Duration::from_secs(1), Duration::from_secs(1));
        let word = Arrival::Word(Word::Goodbye);
        let (delivery, _) = streams.send(KEY, OPENER, word, Duration::from_secs(1), &mut network);
        assert!(delivery.is_none());
    }

    #[test]
    fn a_stream_that_both_ends_closed_is_gone() {
        let (mut streams, mut network) = open();
        let closed = Arrival::Closed(StreamEnd::Closed);
        let (delivery, _) = streams.send(KEY, OPENER, closed, Duration::from_secs(1), &mut network);
        let delivery = delivery.unwrap();
        assert!(streams.takes(KEY, delivery.to, &delivery.what));
        assert!(streams.all.is_empty());
    }
}
