//! What must not cost a leader its lead: long ways, and followers whose disks are slow.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::chance;
use crate::history::Fact;
use crate::simulation::{machines, step};
use crate::site::World;

/// The cluster is founded and has its leader by then.
const SETTLED: Duration = Duration::from_secs(5);
/// What happens from then on is looked at for so long.
const WATCHED: Duration = Duration::from_secs(20);

/// What was seen once a leader was there.
#[derive(Debug)]
struct Seen {
    elections: usize,
    acknowledged: usize,
}

/// Three controllers that nobody hurts, with messages that take so many milliseconds; once they have a leader, the
/// disks of the others are so many times slower.
fn watch(seed: u64, latency_ms: RangeInclusive<u64>, slowness: u64) -> Seen {
    chance::decide_by(seed);
    let world = World::new(seed, 3);
    let mut sim = machines(&world, seed, latency_ms);
    while sim.elapsed() < SETTLED {
        step(&mut sim, &world).unwrap();
    }
    let leader = world.leader().expect("there is a leader");
    for at in (0..3).filter(|at| *at != leader) {
        world.slowness[at].store(slowness, Ordering::Relaxed);
    }
    while sim.elapsed() < SETTLED + WATCHED {
        step(&mut sim, &world).unwrap();
    }
    drop(sim);
    let history = world.history();
    let count = |is_it: fn(&Fact) -> bool| {
        let later = history.facts.iter().filter(|(when, _)| SETTLED < *when);
        later.filter(|(_, fact)| is_it(fact)).count()
    };
    Seen {
        elections: count(|fact| matches!(fact, Fact::Led { .. })),
        acknowledged: count(|fact| matches!(fact, Fact::Acknowledged { .. })),
    }
}

/// Every heartbeat was given up after 50 ms, and the stream with it; the next one opened another stream first, for
/// which 50 ms were not enough either. No heartbeat arrived, and the lead was lost every second.
#[test]
fn a_round_trip_of_eighty_milliseconds_elects_nobody() {
    for seed in 1..=3 {
        let seen = watch(seed, 36..=40, 1);
        assert_eq!(seen.elections, 0, "seed {seed}: {seen:?}");
        assert!(100 < seen.acknowledged, "seed {seed}: {seen:?}");
    }
}

/// A heartbeat must not stand in line behind entries that are being written.
#[test]
fn followers_that_write_for_a_second_elect_nobody() {
    for seed in 1..=3 {
        let seen = watch(seed, 1..=4, 500);
        assert_eq!(seen.elections, 0, "seed {seed}: {seen:?}");
    }
}
