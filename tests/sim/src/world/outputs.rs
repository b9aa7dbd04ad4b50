//! Carries what processes put out.

use std::time::Duration;

use crate::fact::Fact;
use crate::message::{CallKey, NodeId, StreamKey};
use crate::node::{Exit, Input, Output, StreamEnd};
use crate::streams::{Address, Arrival, Delivery, Waits};

use super::{Happening, World};

/// A stream whose words wait breaks after so long, at least.
const PATIENCE_MIN: Duration = Duration::from_millis(700);
/// At most.
const PATIENCE_MAX: Duration = Duration::from_millis(4000);

impl World {
    pub(super) fn carry(&mut self, from: Address, output: Output) {
        match output {
            Output::Open(key, to, purpose) => self.open(from, key, to, purpose),
            Output::Say(key, word) => self.send(from, key, Arrival::Word(word)),
            Output::Close(key) => self.send(from, key, Arrival::Closed(StreamEnd::Closed)),
            Output::Ask(call, to, ask, patience) => {
                self.calls.insert(call);
                self.agenda
                    .put(self.now + patience, Happening::CallPatience(call));
                let boot = self.boot_of(to);
                for delay in self.network.copies(from.node, to) {
                    let input = Input::Asked(call, ask.clone());
                    self.agenda.put(
                        self.now + delay,
                        Happening::Input(Address { node: to, boot }, input),
                    );
                }
            }
            Output::Answer(call, told) => self.answer(from, call, told),
            Output::Propose(term, base, batch) => {
                // Proposals reach the quorum in the order they were made.
                self.agenda
                    .put(self.now, Happening::Propose(from, term, base, batch));
            }
            Output::Fact(fact) => self.judge(&fact),
            Output::Mark(mark) => self.reached(from, mark),
            Output::Exit(exit) => self.exited(from, exit),
        }
    }

    fn boot_of(&self, node: NodeId) -> u32 {
        match node {
            NodeId::Controller(id) => self.controllers.get(&id).map_or(0, |slot| slot.boot),
            NodeId::Broker(id) => self.brokers.get(&id).map_or(0, |slot| slot.boot),
            NodeId::Client(_) => 0,
        }
    }

    fn is_up(&self, node: NodeId) -> bool {
        match node {
            NodeId::Controller(id) => self
                .controllers
                .get(&id)
                .is_some_and(|slot| slot.process.is_some()),
            NodeId::Broker(id) => self.brokers.get(&id).is_some_and(|slot| slot.process.is_some()),
            NodeId::Client(_) => true,
        }
    }

    fn open(&mut self, from: Address, key: StreamKey, to: NodeId, purpose: crate::message::Purpose) {
        if self.is_up(to) && self.network.connects(from.node, to) {
            let to = Address {
                node: to,
                boot: self.boot_of(to),
            };
            let deliveries = self
                .streams
                .open(key, from, to, purpose, self.now, &mut self.network);
            return self.put_deliveries(deliveries);
        }
        // A closed port answers at once, a cut never.
        let after = match self.network.connects(from.node, to) {
            true => self.network.delay(),
            false => self
                .chance
                .span(Duration::from_millis(200), Duration::from_secs(1)),
        };
        let closed = Input::StreamClosed(key, StreamEnd::Broken);
        self.agenda.put(self.now + after, Happening::Input(from, closed));
    }

    fn send(&mut self, from: Address, key: StreamKey, what: Arrival) {
        let (delivery, waits) = self.streams.send(key, from, what, self.now, &mut self.network);
        if let Some(delivery) = delivery {
            self.agenda.put(delivery.at, Happening::Stream(delivery));
        }
        if waits == Waits::Yes {
            let patience = self.chance.span(PATIENCE_MIN, PATIENCE_MAX);
            self.agenda
                .put(self.now + patience, Happening::StreamPatience(key));
        }
    }

    pub(super) fn arrive(&mut self, delivery: Delivery) {
        let Delivery { key, to, what, .. } = delivery;
        if !self.streams.takes(key, to, &what) {
            return;
        }
        let input = match what {
            Arrival::Opened(purpose) => Input::StreamOpened(key, key.opener, purpose),
            Arrival::Ready => Input::StreamReady(key),
            Arrival::Word(word) => Input::Heard(key, word),
            Arrival::Closed(end) => Input::StreamClosed(key, end),
        };
        self.give(to, input);
    }

    fn answer(&mut self, from: Address, call: CallKey, told: crate::message::Told) {
        for delay in self.network.copies(from.node, call.asker) {
            self.agenda
                .put(self.now + delay, Happening::Answer(call, told.clone()));
        }
    }

    /// Tells every judge.
    pub(super) fn judge(&mut self, fact: &Fact) {
        fact.note(&mut self.digest);
        if let Some(line) = fact.told() {
            self.story.push((self.now, line));
        }
        let broken = self.invariants.iter_mut().find_map(|invariant| {
            let how = invariant.observe(fact).err()?;
            Some((format!("{} [{}]", invariant.name(), invariant.source()), how))
        });
        if let Some((what, how)) = broken {
            self.broken(&what, how);
        }
        self.notice(fact);
    }

    fn exited(&mut self, from: Address, exit: Exit) {
        let NodeId::Broker(id) = from.node else { return };
        let (word, why) = match exit {
            Exit::Stopped(why) => ("stopped", why),
            Exit::Failed(why) => {
                self.killed.insert(id, from.boot);
                ("failed", why)
            }
        };
        self.tell(format!("broker {id} {word}: {why}"));
        if let Some(slot) = self.brokers.get_mut(&id) {
            slot.process = None;
        }
        self.stopping.remove(&id);
        let deliveries = self
            .streams
            .lose_process(from, self.now, self.now.min(Duration::from_millis(1)));
        self.put_deliveries(deliveries);
        let back = self.now
            + self
                .chance
                .span(Duration::from_millis(200), Duration::from_secs(3));
        self.agenda.put(back, Happening::Restart(from.node));
    }
}
