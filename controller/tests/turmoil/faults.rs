//! What befalls the quorum: chosen by the seed, one after the other, each with its end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use host::{Entropy, SeededEntropy};
use turmoil::Sim;

use crate::history::{At, Fact};
use crate::site::{Order, World, name};
use crate::streams;

/// The kinds, as `TURMOIL_ONLY` names them.
pub const KINDS: &[&str] = &[
    "kill",
    "power",
    "blackout",
    "cut",
    "one-way",
    "stall",
    "lapse",
    "loss",
    "hand-over",
    "roll",
    "in-place",
    "snapshot",
    "wipe",
    "slow-disk",
];

/// Undoes a fault.
#[derive(Clone, Debug)]
enum Undo {
    Bounce(At),
    Repair(Vec<(At, At)>),
    Release(Vec<(At, At)>),
    Lossless,
    Fast(At),
}

/// The faults of one run.
pub struct Faults<'a> {
    world: &'a World,
    chance: SeededEntropy,
    kinds: Vec<&'static str>,
    next: Duration,
    open: Vec<(Duration, Undo)>,
    down: Vec<At>,
    /// The disk whose vote has not come back yet.
    wiped: Option<String>,
}

impl<'a> Faults<'a> {
    /// Faults of some kinds; an empty list is all of them.
    pub fn new(world: &'a World, only: &[String]) -> Faults<'a> {
        let chance = SeededEntropy::new(streams::of(world.seed, streams::FAULTS, 0));
        let mut kinds: Vec<_> = KINDS
            .iter()
            .copied()
            .filter(|kind| only.is_empty() || only.iter().any(|one| one == kind))
            .collect();
        // Most seeds leave some kinds out, so that what those hide shows in others.
        if only.is_empty() {
            kinds.retain(|_| chance.below(5) != 0);
        }
        Faults {
            world,
            chance,
            kinds,
            next: Duration::from_millis(1_500),
            open: Vec::new(),
            down: Vec::new(),
            wiped: None,
        }
    }

    /// Ends what is over, and begins what is due.
    pub fn step(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        let (over, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(end, _)| *end <= now);
        self.open = open;
        for (_, undo) in over {
            self.undo(sim, &undo);
        }
        if self.next <= now {
            self.next = now + self.millis(100, 1_500);
            if let Some(kind) = self.pick(&self.kinds.clone()) {
                self.begin(sim, kind);
            }
        }
    }

    /// Ends everything.
    pub fn heal(&mut self, sim: &mut Sim<'_>) {
        for (_, undo) in std::mem::take(&mut self.open) {
            self.undo(sim, &undo);
        }
        self.world.note(Fact::Fault("none from here on".into()));
    }

    fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.chance.below(to - from))
    }

    fn pick<T: Copy>(&self, from: &[T]) -> Option<T> {
        let at = usize::try_from(self.chance.below(from.len() as u64)).ok()?;
        from.get(at).copied()
    }

    fn any(&self) -> At {
        self.pick(&(0..self.world.sites.len()).collect::<Vec<_>>())
            .unwrap_or(0)
    }

    /// The leader more often than not: it is where things go wrong.
    fn victim(&self) -> At {
        let leader = self.world.leader().filter(|_| self.chance.below(3) != 0);
        leader.unwrap_or_else(|| self.any())
    }

    fn links_of(&self, at: At) -> Vec<(At, At)> {
        (0..self.world.sites.len())
            .filter(|other| *other != at)
            .map(|other| (at, other))
            .collect()
    }

    fn note(&self, what: String) {
        self.world.note(Fact::Fault(what));
    }

    fn until(&mut self, sim: &Sim<'_>, time: Duration, undo: Undo) {
        self.open.push((sim.elapsed() + time, undo));
    }

    fn begin(&mut self, sim: &mut Sim<'_>, kind: &'static str) {
        let at = self.victim();
        match kind {
            "kill" | "power" => self.crash(sim, at, kind == "power"),
            "blackout" => {
                for at in 0..self.world.sites.len() {
                    self.crash(sim, at, true);
                }
            }
            "cut" | "one-way" | "stall" | "lapse" => self.part(sim, at, kind),
            "loss" => {
                let per_mille = 2 + self.chance.below(30);
                sim.set_fail_rate(per_mille as f64 / 1_000.0);
                self.note(format!("{per_mille} of 1000 messages are lost"));
                let time = self.millis(300, 3_000);
                self.until(sim, time, Undo::Lossless);
            }
            "slow-disk" => {
                let factor = 2 + self.chance.below(40);
                self.world.slowness[at].store(factor, Ordering::Relaxed);
                self.note(format!("disk of {at} is {factor} times slower"));
                let time = self.millis(300, 3_000);
                self.until(sim, time, Undo::Fast(at));
            }
            "wipe" => self.wipe(sim),
            "hand-over" => self.order(at, Order::HandOver),
            "roll" => self.order(at, Order::Roll),
            "in-place" => self.order(at, Order::RestartInPlace),
            _ => self.order(at, Order::Snapshot),
        }
    }

    fn order(&self, at: At, order: Order) {
        let orders = self.world.sites[at].lock().orders.clone();
        // A process that is not there follows no order.
        if orders.is_some_and(|orders| orders.send(order).is_ok()) {
            self.note(format!("{at} is told: {order:?}"));
        }
    }

    fn crash(&mut self, sim: &mut Sim<'_>, at: At, power: bool) {
        if self.down.contains(&at) {
            return;
        }
        sim.crash(name(at));
        self.down.push(at);
        {
            let mut site = self.world.sites[at].lock();
            site.orders = None;
            site.shown = Default::default();
            if power {
                site.lose_power(self.chance.next_u64());
            }
        }
        self.note(format!(
            "{at} {}",
            if power { "loses power" } else { "is killed" }
        ));
        let time = match self.chance.below(3) {
            0 => self.millis(1_000, 6_000),
            _ => self.millis(10, 800),
        };
        self.until(sim, time, Undo::Bounce(at));
    }

    fn part(&mut self, sim: &mut Sim<'_>, at: At, kind: &str) {
        let mut links = self.links_of(at);
        if kind == "cut" && self.chance.below(2) == 0 {
            links.truncate(1);
        }
        for (one, other) in &links {
            match kind {
                "cut" => sim.partition(name(*one), name(*other)),
                "one-way" => sim.partition_oneway(name(*one), name(*other)),
                _ => sim.hold(name(*one), name(*other)),
            }
        }
        self.note(format!("{kind}: {links:?}"));
        // A lapse is about as long as the lease: sometimes it is noticed, sometimes only just not.
        let time = match kind {
            "lapse" => self.millis(150, 450),
            _ => self.millis(100, 3_000),
        };
        let undo = match kind {
            "cut" | "one-way" => Undo::Repair(links),
            _ => Undo::Release(links),
        };
        self.until(sim, time, undo);
    }

    /// Takes a disk away for good. The next one only once this one's place has its vote again: a quorum of three
    /// bears the loss of one disk at a time.
    fn wipe(&mut self, sim: &mut Sim<'_>) {
        let voters = self
            .world
            .leader()
            .map(|at| self.world.sites[at].lock().shown.voters.clone());
        let Some(voters) = voters.filter(|voters| voters.len() == self.world.sites.len()) else {
            return;
        };
        let is_back = self.wiped.as_ref().is_none_or(|wiped| voters.contains(wiped));
        let at = self.any();
        if !is_back || self.down.contains(&at) {
            return;
        }
        self.crash(sim, at, false);
        let mut site = self.world.sites[at].lock();
        site.lose_disk(at);
        self.wiped = Some(site.directory.clone());
        drop(site);
        self.note(format!("the disk of {at} is lost"));
    }

    fn undo(&mut self, sim: &mut Sim<'_>, undo: &Undo) {
        match undo {
            Undo::Bounce(at) => {
                self.down.retain(|down| down != at);
                sim.bounce(name(*at));
            }
            Undo::Repair(links) => {
                for (one, other) in links {
                    sim.repair(name(*one), name(*other));
                }
            }
            Undo::Release(links) => {
                for (one, other) in links {
                    sim.release(name(*one), name(*other));
                }
            }
            Undo::Lossless => sim.set_fail_rate(0.0),
            Undo::Fast(at) => self.world.slowness[*at].store(1, Ordering::Relaxed),
        }
        self.note(format!("over: {undo:?}"));
    }
}
