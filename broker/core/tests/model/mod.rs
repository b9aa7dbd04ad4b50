//! A partition on three brokers, built from the shipped replica and fetcher over a log that is nothing but a list, and
//! a controller that is nothing but the rules of AlterPartition and of clean elections. It checks the laws of
//! replication after every step; it must not decide anything that the core decides.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod connection;
mod controller;
pub mod log;
mod node;

use std::collections::BTreeMap;
use std::time::Duration;

use broker_core::replica::{Proposal, Role};
use broker_core::time::Moment;
use metadata::ids::BrokerId;
use proptest::prelude::*;

use controller::Controller;
use log::Record;
use node::Node;

pub const LAG_MAX: Duration = Duration::from_secs(30);

/// One move of the world.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// Whoever leads by its own belief appends this many records.
    Produce(u8),
    /// A follower sends a request and takes in the answer, of so many records at most.
    Fetch(usize, u8),
    /// A leader's lane takes in the fetches that were read.
    Drain(usize),
    /// A broker's lane sees the controller's newest state.
    Deliver(usize),
    /// The controller answers the oldest proposal.
    Answer,
    /// The controller takes the oldest proposal, and its answer is lost: the proposal is sent again.
    LoseAnswer,
    /// The controller moves the leadership to the n-th in-sync member.
    Elect(usize),
    /// A broker dies: it keeps what it wrote.
    Kill(usize),
    /// The disk of a dead broker is emptied, unless it may hold what nobody else has.
    Wipe(usize),
    /// A dead broker comes back.
    Restart(usize),
    /// So many seconds pass.
    Pass(u8),
}

/// Random moves; most of them let replication go on.
pub fn moves(count: usize) -> impl Strategy<Value = Vec<Move>> {
    let node = || 0..3usize;
    let one = prop_oneof![
        5 => (1..4u8).prop_map(Move::Produce),
        9 => (node(), 1..4u8).prop_map(|(node, most)| Move::Fetch(node, most)),
        6 => node().prop_map(Move::Drain),
        5 => node().prop_map(Move::Deliver),
        4 => Just(Move::Answer),
        1 => Just(Move::LoseAnswer),
        2 => node().prop_map(Move::Elect),
        1 => node().prop_map(Move::Kill),
        1 => node().prop_map(Move::Wipe),
        2 => node().prop_map(Move::Restart),
        2 => (1..40u8).prop_map(Move::Pass),
    ];
    prop::collection::vec(one, 1..count)
}

/// The world: three brokers, their controller, and what was committed.
pub struct World {
    pub controller: Controller,
    pub nodes: Vec<Node>,
    /// Who proposed, and what.
    pub proposals: Vec<(BrokerId, Proposal)>,
    /// Everything that a watermark ever covered.
    pub committed: Vec<Record>,
    pub now: Moment,
    next_value: u64,
}

impl World {
    /// Three brokers in sync; broker 0 leads.
    pub fn new(min_in_sync: usize) -> Self {
        let controller = Controller::new(min_in_sync);
        let nodes = (0..3).map(|id| Node::starting(BrokerId(id))).collect();
        let mut world = Self {
            controller,
            nodes,
            proposals: Vec::new(),
            committed: Vec::new(),
            now: Moment::START,
            next_value: 0,
        };
        for node in 0..3 {
            world.deliver(node);
        }
        world
    }

    /// Makes one move; the law that broke, if one did.
    pub fn make(&mut self, one: Move) -> Result<(), String> {
        match one {
            Move::Produce(count) => self.produce(count),
            Move::Fetch(node, most) => self.fetch(node, most),
            Move::Drain(node) => self.drain(node),
            Move::Deliver(node) => self.deliver(node),
            Move::Answer => self.answer(),
            Move::LoseAnswer => self.lose_answer(),
            Move::Elect(nth) => self.controller.elect(nth),
            Move::Kill(node) => self.kill(node),
            Move::Wipe(node) => self.wipe(node),
            Move::Restart(node) => self.restart(node),
            Move::Pass(seconds) => self.pass(Duration::from_secs(u64::from(seconds))),
        }
        self.check()
    }

    fn produce(&mut self, count: u8) {
        let leaders: Vec<usize> = (0..self.nodes.len()).filter(|node| self.leads(*node)).collect();
        for node in leaders {
            for _ in 0..count {
                self.next_value += 1;
                let value = self.next_value;
                self.nodes[node].append(value);
            }
            let end = self.nodes[node].log.end();
            let effects = self.nodes[node].replica.as_mut().unwrap().appended(end, self.now);
            self.carry_out(node, effects);
        }
    }

    fn leads(&self, node: usize) -> bool {
        self.nodes[node]
            .replica
            .as_ref()
            .is_some_and(|replica| matches!(replica.role(), Role::Leading(_)))
    }

    fn deliver(&mut self, node: usize) {
        if self.nodes[node].up {
            let assignment = self.controller.assignment(BrokerId(node as i32));
            let effects = self.nodes[node].assigned(assignment, self.now);
            self.carry_out(node, effects);
        }
    }

    fn drain(&mut self, node: usize) {
        for (follower, fetch) in std::mem::take(&mut self.nodes[node].unseen_fetches) {
            let Some(replica) = self.nodes[node].replica.as_mut() else {
                return;
            };
            if let Ok(effects) = replica.follower_fetched(follower, fetch) {
                self.carry_out(node, effects);
            }
        }
    }

    fn answer(&mut self) {
        if self.proposals.is_empty() {
            return;
        }
        let (sender, proposal) = self.proposals.remove(0);
        let answer = self.controller.alter(sender, proposal);
        let node = sender.0 as usize;
        if let Some(replica) = self.nodes[node].replica.as_mut() {
            let effects = replica.isr_answered(answer, self.now);
            self.carry_out(node, effects);
        }
    }

    fn lose_answer(&mut self) {
        if let Some((sender, proposal)) = self.proposals.first().cloned() {
            let _ = self.controller.alter(sender, proposal);
        }
    }

    fn wipe(&mut self, node: usize) {
        let in_sync = self.controller.state.in_sync.contains(&BrokerId(node as i32));
        if !self.nodes[node].up && !in_sync {
            self.nodes[node].wipe();
        }
    }

    fn kill(&mut self, node: usize) {
        if self.nodes[node].up {
            self.nodes[node].kill();
            self.controller.fence(BrokerId(node as i32));
        }
    }

    fn restart(&mut self, node: usize) {
        if !self.nodes[node].up {
            self.controller.register(BrokerId(node as i32));
            self.nodes[node].up = true;
            self.deliver(node);
        }
    }

    fn pass(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
        for node in 0..self.nodes.len() {
            if let Some(replica) = self.nodes[node].replica.as_mut() {
                let effects = replica.tick(self.now);
                self.carry_out(node, effects);
            }
        }
    }

    /// Heals everything and lets replication run until nothing moves any more.
    pub fn settle(&mut self) -> Result<(), String> {
        for node in 0..3 {
            self.restart(node);
        }
        for _ in 0..400 {
            self.now = self.now.after(Duration::from_millis(1500));
            for node in 0..3 {
                self.make(Move::Deliver(node))?;
            }
            for node in 0..3 {
                self.make(Move::Fetch(node, 3))?;
            }
            for node in 0..3 {
                self.make(Move::Drain(node))?;
            }
            self.make(Move::Answer)?;
            self.make(Move::Pass(0))?;
        }
        self.converged()
    }

    fn converged(&self) -> Result<(), String> {
        let logs: BTreeMap<usize, &Vec<Record>> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(id, node)| (id, &node.log.records))
            .collect();
        if logs.values().any(|log| *log != logs[&0]) {
            return Err(format!("healed replicas hold the same log: {logs:?}"));
        }
        if self.committed.len() != logs[&0].len() {
            return Err(format!(
                "everything is committed in the end: {} of {}",
                self.committed.len(),
                logs[&0].len()
            ));
        }
        if self.controller.state.in_sync.len() != 3 {
            return Err(format!(
                "everyone is in sync in the end: {:?}",
                self.controller.state.in_sync
            ));
        }
        Ok(())
    }

    /// The laws, looked at from outside.
    fn check(&mut self) -> Result<(), String> {
        for node in 0..self.nodes.len() {
            self.note_committed(node)?;
        }
        // Whoever may be elected holds everything that was ever shown.
        for member in &self.controller.state.in_sync {
            let log = &self.nodes[member.0 as usize].log.records;
            if !log.starts_with(&self.committed) {
                return Err(format!(
                    "an in-sync replica holds all that is committed: {member} has {log:?}, committed {:?}",
                    self.committed
                ));
            }
        }
        Ok(())
    }

    fn note_committed(&mut self, node: usize) -> Result<(), String> {
        let Some(replica) = &self.nodes[node].replica else {
            return Ok(());
        };
        let Role::Leading(leading) = replica.role() else {
            return Ok(());
        };
        let watermark = leading.log().watermark.0.0 as usize;
        let shown = &self.nodes[node].log.records[..watermark];
        let common = shown.len().min(self.committed.len());
        if shown[..common] != self.committed[..common] {
            return Err(format!(
                "what was shown once never changes: {shown:?}, before {:?}",
                self.committed
            ));
        }
        if self.committed.len() < shown.len() {
            if self.controller.state.in_sync.len() < self.controller.min_in_sync
                && leading.in_sync().members().len() < self.controller.min_in_sync
            {
                return Err("no watermark moves below min.insync.replicas".to_owned());
            }
            self.committed = shown.to_vec();
        }
        Ok(())
    }
}
