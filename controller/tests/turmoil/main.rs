//! The real quorum in virtual time: openraft, our store, our network code and the driver's shell, over turmoil's
//! sockets and disks in memory, under kills, power losses, lost disks, cuts, lost messages and slow disks.
//!
//! Every run is decided by its seed and is a process of its own; [`chance`] lists each source of chance and how it is closed. In the environment:
//! `TURMOIL_SEED` begins there, `TURMOIL_SEEDS` runs so many, `TURMOIL_MILLIS` disturbs each for so long, `TURMOIL_ONLY=kill,loss` allows only these faults, and
//! `TURMOIL_STORY=1` prints everything that was seen. A law that breaks fails the run and prints the command that repeats it.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::print_stdout, reason = "it reports to a terminal")]

mod chance;
mod clients;
mod faults;
mod history;
mod invariants;
mod net;
mod process;
mod simulation;
mod site;
mod steady;
mod streams;

use std::process::{Command, Stdio};
use std::time::Duration;

use simulation::{Report, run};

/// Seeds that every change must pass.
const SEEDS: u64 = 3;
/// How long a quorum is disturbed, in the simulation.
const DISTURBED: Duration = Duration::from_secs(12);
/// Names the seed that a process was started for.
const ALONE: &str = "TURMOIL_ALONE";
const MILLIS: &str = "TURMOIL_MILLIS";
const STORY: &str = "TURMOIL_STORY";
/// Begins the line of numbers that is added up.
const TOTALS: &str = "totals ";
/// Less is enough to find a source of chance.
const DISTURBED_TWICE: Duration = Duration::from_secs(6);
/// Lines of a story that are shown when a law was broken.
const STORY_LINES: usize = 80;
/// What fills a story and is rarely what matters.
const ORDINARY: &[&str] = &[" applies ", " publishes ", " acknowledges ", " refuses"];

fn setting(name: &str) -> Option<u64> {
    let text = host::environment().into_iter().find(|(key, _)| key == name)?.1;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text}: a number is expected")),
    )
}

fn only() -> Vec<String> {
    let named = host::environment()
        .into_iter()
        .find(|(key, _)| key == "TURMOIL_ONLY");
    let kinds: Vec<String> = named
        .iter()
        .flat_map(|(_, kinds)| kinds.split(',').map(str::to_owned))
        .collect();
    for kind in &kinds {
        assert!(
            faults::KINDS.contains(&kind.as_str()),
            "TURMOIL_ONLY={kind}: allowed are {:?}",
            faults::KINDS
        );
    }
    kinds
}

fn tell(report: &Report) {
    println!("{report}");
    if setting(STORY).is_some() {
        report.story.iter().for_each(|line| println!("{line}"));
    }
    if report.broken.is_empty() {
        return;
    }
    let is_ordinary = |line: &str| ORDINARY.iter().any(|word| line.contains(word));
    let lines: Vec<_> = report.story.iter().filter(|line| !is_ordinary(line)).collect();
    for line in lines.iter().skip(lines.len().saturating_sub(STORY_LINES)) {
        println!("{line}");
    }
    for law in &report.broken {
        println!("BROKEN: {law}");
    }
    let seed = report.seed;
    let millis = setting(MILLIS).unwrap_or(u64::try_from(DISTURBED.as_millis()).unwrap());
    println!(
        "again: TURMOIL_SEED={seed} TURMOIL_SEEDS=1 TURMOIL_MILLIS={millis} \
         cargo test -p controller --test turmoil seeds -- --nocapture"
    );
}

/// Runs the seed that this process was started for.
fn run_alone(seed: u64) {
    #[cfg(feature = "mutants")]
    if let Some((_, mutant)) = host::environment()
        .iter()
        .find(|(key, _)| key == "MILLRACE_MUTANT")
    {
        assert!(controller::mutants::select(mutant), "there is no mutant {mutant}");
    }
    let disturbed = setting(MILLIS).map_or(DISTURBED, Duration::from_millis);
    let report = run(seed, disturbed, &only());
    tell(&report);
    println!("{TOTALS}{}", report.totals());
    assert!(report.broken.is_empty(), "seed {seed} breaks a law");
}

/// What a seed printed, run in a process of its own: tokio counts the runtimes of a process, and what it draws depends
/// on the count.
fn in_its_own_process(seed: u64, disturbed: Duration, story: bool) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "seeds_keep_every_law",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(ALONE, seed.to_string());
    command.env(MILLIS, disturbed.as_millis().to_string());
    if story {
        command.env(STORY, "1");
    }
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn seeds_keep_every_law() {
    if let Some(seed) = setting(ALONE) {
        return run_alone(seed);
    }
    let (from, count) = (
        setting("TURMOIL_SEED").unwrap_or(1),
        setting("TURMOIL_SEEDS").unwrap_or(SEEDS),
    );
    let disturbed = setting(MILLIS).map_or(DISTURBED, Duration::from_millis);
    let mut sums = [0; 7];
    for seed in from..from + count {
        let said = in_its_own_process(seed, disturbed, setting(STORY).is_some());
        let lines = said
            .lines()
            .filter(|line| !line.starts_with(TOTALS) && line.contains("seed "));
        lines.for_each(|line| println!("{line}"));
        let totals = said.lines().find_map(|line| line.strip_prefix(TOTALS)).unwrap();
        for (sum, number) in sums.iter_mut().zip(totals.split(' ')) {
            *sum += number.parse::<u64>().unwrap();
        }
    }
    let [
        elections,
        faults,
        acknowledged,
        refused,
        skipped,
        installs,
        seconds,
    ] = sums;
    println!(
        "{count} seeds, {seconds} s: {faults} faults, {elections} elections, {acknowledged} batches acknowledged, \
         {refused} commands refused, {skipped} batches skipped, {installs} snapshots installed; no law broken"
    );
    assert!(!only().is_empty() || 3 * count <= elections, "too few elections");
    assert!(5 * count <= faults, "too few faults");
    assert!(100 * count <= acknowledged, "too few batches");
}

#[test]
fn a_seed_gives_the_same_history_twice() {
    let seed = setting("TURMOIL_SEED").unwrap_or(1);
    let twin = || in_its_own_process(seed, DISTURBED_TWICE, true);
    let (one, other) = (twin(), twin());
    let history = |said: &str| -> Vec<String> {
        let lines = said.lines().filter(|line| !line.starts_with("test "));
        lines.map(str::to_owned).collect()
    };
    let (one, other) = (history(&one), history(&other));

    let differs = one.iter().zip(&other).position(|(one, other)| one != other);
    if let Some(at) = differs {
        for line in at.saturating_sub(5)..at + 3 {
            println!("{:?}\n{:?}", one.get(line), other.get(line));
        }
    }
    assert!(1_000 < one.len(), "a history of {} lines", one.len());
    assert_eq!(
        (differs, one.len()),
        (None, other.len()),
        "the first line that differs"
    );
}
