//! One seed: a quorum, its faults, its healing, and the verdict.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::{Entropy, SeededEntropy};
use turmoil::{Builder, Sim};

use crate::faults::Faults;
use crate::history::{Fact, History};
use crate::invariants::{Replayed, broken};
use crate::site::{World, name};
use crate::{chance, process, streams};

/// How long it may take to work again afterwards: a wiped disk may have to be learned first.
const HEALING_MAX: Duration = Duration::from_secs(30);
/// How often the logs are compared.
const LOOK_INTERVAL_STEPS: u64 = 200;

/// What came of a seed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Which.
    pub seed: u64,
    /// One number for the whole history.
    pub digest: u32,
    /// Controllers.
    pub controllers: usize,
    /// Leaderships won.
    pub elections: usize,
    /// Faults begun.
    pub faults: usize,
    /// Batches that a client was told of.
    pub acknowledged: usize,
    /// Commands that came to nothing.
    pub refused: usize,
    /// Batches that every replay skips.
    pub skipped: usize,
    /// Snapshots given to followers.
    pub installs: usize,
    /// Entries applied, by all.
    pub applied: usize,
    /// Time in the simulation.
    pub simulated: Duration,
    /// Laws that were broken.
    pub broken: Vec<String>,
    /// What was seen, the last lines of it when a law was broken.
    pub story: Vec<String>,
}

impl Report {
    /// What is added up over seeds, as one line.
    pub fn totals(&self) -> String {
        let counts = [
            self.elections,
            self.faults,
            self.acknowledged,
            self.refused,
            self.skipped,
            self.installs,
        ];
        let words = counts.iter().map(ToString::to_string);
        words
            .chain([self.simulated.as_secs().to_string()])
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {} controllers, {} s, {} faults, {} elections, {} acknowledged, {} refused, {} skipped, \
             {} applied, {} snapshots installed, digest {:08x}",
            self.seed,
            self.controllers,
            self.simulated.as_secs(),
            self.faults,
            self.elections,
            self.acknowledged,
            self.refused,
            self.skipped,
            self.applied,
            self.installs,
            self.digest
        )
    }
}

/// Runs a seed, disturbed for so long, on a thread of its own, so that nothing of another run is left in it.
pub fn run(seed: u64, disturbed: Duration, only: &[String]) -> Report {
    let only = only.to_vec();
    let running = std::thread::spawn(move || {
        chance::decide_by(streams::of(seed, streams::MACHINE, 0));
        simulate(seed, disturbed, &only)
    });
    running.join().unwrap_or_else(|_| Report {
        seed,
        broken: vec!["the simulation itself panicked".into()],
        ..Report::default()
    })
}

fn simulate(seed: u64, disturbed: Duration, only: &[String]) -> Report {
    let network = SeededEntropy::new(streams::of(seed, streams::NETWORK, 0));
    let controllers = if network.below(4) == 0 { 5 } else { 3 };
    let world = World::new(seed, controllers);
    let (rng_seed, latency_max_ms) = (network.next_u64(), 2 + network.below(20));
    let mut sim = machines(&world, rng_seed, 1..=latency_max_ms);
    let mut faults = Faults::new(&world, only);
    let died = disturb(&mut sim, &world, &mut faults, disturbed);
    let died = died.and_then(|()| {
        faults.heal(&mut sim);
        heal(&mut sim, &world)
    });
    if let Err(why) = died {
        world.note(Fact::Died { at: usize::MAX, why });
    }
    world.look_at_logs();
    let simulated = sim.elapsed();
    drop(sim);
    judge(&world, simulated)
}

/// The controllers of a world on their machines, with messages that take so many milliseconds.
pub fn machines<'a>(world: &Arc<World>, rng_seed: u64, latency_ms: RangeInclusive<u64>) -> Sim<'a> {
    let mut sim = Builder::new()
        .rng_seed(rng_seed)
        .simulation_duration(Duration::from_secs(3_600))
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_millis(*latency_ms.start()))
        .max_message_latency(Duration::from_millis(*latency_ms.end()))
        .tcp_capacity(65_536)
        .enable_random_order()
        .build();
    for at in 0..world.sites.len() {
        let world = world.clone();
        sim.host(name(at), move || process::run(world.clone(), at));
    }
    sim
}

/// Moves everything on by a millisecond.
///
/// # Errors
/// What died.
pub fn step(sim: &mut Sim<'_>, world: &World) -> Result<(), String> {
    world.now(sim.elapsed());
    sim.step().map_err(|error| error.to_string())?;
    world.look_at_votes();
    Ok(())
}

fn disturb(sim: &mut Sim<'_>, world: &World, faults: &mut Faults<'_>, end: Duration) -> Result<(), String> {
    let mut steps: u64 = 0;
    while sim.elapsed() < end {
        step(sim, world)?;
        faults.step(sim);
        steps += 1;
        if steps.is_multiple_of(LOOK_INTERVAL_STEPS) {
            world.look_at_logs();
        }
    }
    Ok(())
}

/// Waits until everybody is at one offset and votes, and something new was acknowledged.
fn heal(sim: &mut Sim<'_>, world: &Arc<World>) -> Result<(), String> {
    let end = sim.elapsed() + HEALING_MAX;
    let started: Vec<Option<i64>> = ends(world);
    loop {
        step(sim, world)?;
        let ends = ends(world);
        let voters = voters(world);
        let newest = started.iter().max().copied().flatten();
        let is_new = ends.iter().all(|end| newest < *end && *end == ends[0]);
        if (is_new && voters == ends.len()) || end <= sim.elapsed() {
            world.note(Fact::Healed { ends, voters });
            return Ok(());
        }
    }
}

fn ends(world: &World) -> Vec<Option<i64>> {
    world.sites.iter().map(|site| site.lock().shown.end).collect()
}

/// Voters on the disks that are there, as the leader counts them.
fn voters(world: &World) -> usize {
    let Some(leader) = world.leader() else {
        return 0;
    };
    let voters = world.sites[leader].lock().shown.voters.clone();
    let present = world
        .sites
        .iter()
        .filter(|site| voters.contains(&site.lock().directory));
    present.count()
}

fn judge(world: &World, simulated: Duration) -> Report {
    let history = world.history();
    let broken = broken(&history);
    let skipped = Replayed::of(&history).map_or(0, |replayed| replayed.skipped);
    Report {
        seed: world.seed,
        digest: history.digest(),
        controllers: world.sites.len(),
        elections: history.count(|fact| matches!(fact, Fact::Led { .. })),
        faults: history.count(|fact| matches!(fact, Fact::Fault(what) if !what.starts_with("over"))),
        acknowledged: history.count(|fact| matches!(fact, Fact::Acknowledged { .. })),
        refused: history.count(|fact| matches!(fact, Fact::Refused { .. })),
        applied: history.count(|fact| matches!(fact, Fact::Applied { .. })),
        installs: world.installs.load(Ordering::Relaxed),
        skipped,
        simulated,
        story: story(&history),
        broken,
    }
}

/// The history as lines, without what only counts.
fn story(history: &History) -> Vec<String> {
    let told = history
        .facts
        .iter()
        .filter(|(_, fact)| !matches!(fact, Fact::Logged { .. }));
    told.map(|(when, fact)| format!("{:>9.3} s  {fact:?}", when.as_secs_f64()))
        .collect()
}
