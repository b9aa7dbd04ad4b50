//! `cargo sim`: runs seeds, tells the shortest story of a failure and the command that replays it.
#![allow(clippy::print_stdout, reason = "it talks to a terminal")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use sim::hunt::{Hunt, Order, hunt};
use sim::marks::Mark;
use sim::plan::{Extra, FaultKind, Limits, Topology};
use sim::run::{Outcome, command, run, shrink};

/// Runs whole clusters from seeds, with faults, and judges them.
#[derive(Parser)]
struct Arguments {
    /// The first seed; without one, a new one is drawn.
    seed: Option<u64>,
    /// How many seeds to run, one after the other.
    #[arg(long)]
    seeds: Option<u64>,
    /// Run seeds for so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// How many runs at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Print the hash of every run.
    #[arg(long)]
    hashes: bool,
    /// Only these kinds of faults, by name.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Controllers and brokers, as in `3+5`.
    #[arg(long)]
    topology: Option<String>,
    /// Only the faults at these places of the plan; empty is none.
    #[arg(long, value_delimiter = ',')]
    faults: Option<Vec<String>>,
    /// The safety phase lasts no longer than this.
    #[arg(long)]
    safety_ms: Option<u64>,
    /// None of what plans drew later than everything else: what a seed did before stays what it did.
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Break this rule on purpose, in a build with the feature `mutants`.
    #[arg(long)]
    mutant: Option<String>,
    /// Tell a failure in one line, without looking for less that still fails.
    #[arg(long)]
    brief: bool,
    /// Tell the story also of a run in which nothing is wrong.
    #[arg(long)]
    story: bool,
}

fn limits(arguments: &Arguments) -> Result<Limits, String> {
    let mut limits = Limits::default();
    if !arguments.only.is_empty() {
        let kinds = arguments.only.iter().map(|name| {
            let names: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
            FaultKind::named(name).ok_or_else(|| format!("no fault {name}; there are {}", names.join(", ")))
        });
        limits.only = Some(kinds.collect::<Result<_, _>>()?);
    }
    if let Some(text) = &arguments.topology {
        let wrong = || format!("{text} is no topology: 3+5 is 3 controllers and 5 brokers");
        let (controllers, brokers) = text.split_once('+').ok_or_else(wrong)?;
        let controllers: usize = controllers.parse().map_err(|_| wrong())?;
        let brokers: usize = brokers.parse().map_err(|_| wrong())?;
        if !(1..=5).contains(&controllers) || !(1..=7).contains(&brokers) {
            return Err("1 to 5 controllers and 1 to 7 brokers".to_owned());
        }
        limits.topology = Some(Topology { controllers, brokers });
    }
    if let Some(places) = &arguments.faults {
        let places = places
            .iter()
            .filter(|place| !place.is_empty())
            .map(|place| place.parse());
        limits.faults = Some(
            places
                .collect::<Result<_, _>>()
                .map_err(|_| "faults are numbers".to_owned())?,
        );
    }
    limits.safety_max = arguments.safety_ms.map(Duration::from_millis);
    let extras = arguments.without.iter().map(|name| {
        let names: Vec<&str> = Extra::ALL.iter().map(|extra| extra.name()).collect();
        Extra::named(name).ok_or_else(|| format!("{name} cannot be left out; {} can", names.join(", ")))
    });
    limits.without = extras.collect::<Result<_, _>>()?;
    Ok(limits)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let limits = match limits(&arguments) {
        Ok(limits) => limits,
        Err(why) => {
            println!("{why}");
            return ExitCode::from(2);
        }
    };
    if let Some(mutant) = &arguments.mutant
        && !sim::mutants::select(mutant)
    {
        println!("no mutant {mutant} in this build: it needs --features mutants");
        return ExitCode::from(2);
    }
    // What a process says when it panics is told with its story.
    std::panic::set_hook(Box::new(|_| {}));
    let first = arguments.seed.unwrap_or_else(drawn);
    let count = arguments
        .seeds
        .or((arguments.minutes.is_none()).then_some(1))
        .unwrap_or(u64::MAX);
    let until = arguments
        .minutes
        .map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let order = Order {
        first,
        count,
        until,
        jobs: arguments.jobs,
        limits,
    };
    if count == 1 {
        return one(&order, &arguments);
    }
    println!("seeds from {first} on");
    let found = hunt(&order);
    if arguments.hashes {
        let lines = found.runs.iter();
        lines.for_each(|(seed, tally)| println!("{seed} {:016x}", tally.hash));
    }
    summarise(&found);
    if let Some((seed, outcome)) = &found.failure {
        tell_failure(*seed, &order.limits, outcome, &arguments);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn one(order: &Order, arguments: &Arguments) -> ExitCode {
    let outcome = run(order.first, &order.limits);
    if outcome.violation.is_some() {
        tell_failure(order.first, &order.limits, &outcome, arguments);
        return ExitCode::FAILURE;
    }
    println!("{}", outcome.plan);
    if arguments.story {
        outcome.story.iter().for_each(|line| println!("{line}"));
    }
    let tally = &outcome.tally;
    println!(
        "{} events, {} faults, {} acknowledged records",
        tally.events, tally.faults, tally.acknowledged
    );
    println!("hash {:016x}", tally.hash);
    ExitCode::SUCCESS
}

/// A seed that nobody chose.
fn drawn() -> u64 {
    use host::Entropy;
    host::OsEntropy.below(1 << 32)
}

fn tell_failure(seed: u64, limits: &Limits, outcome: &Outcome, arguments: &Arguments) {
    if let Some(violation) = outcome.violation.as_ref().filter(|_| arguments.brief) {
        return println!("seed {seed} BROKEN: {}: {}", violation.what, violation.how);
    }
    println!("{}", outcome.plan);
    if let Some(violation) = &outcome.violation {
        println!(
            "  BROKEN at {:.3}s: {}\n  {}",
            violation.at.as_secs_f64(),
            violation.what,
            violation.how
        );
    }
    outcome
        .story
        .iter()
        .rev()
        .take(25)
        .rev()
        .for_each(|line| println!("{line}"));
    println!("  looking for less that still fails …");
    let (least, shortest) = shrink(seed, limits, outcome);
    println!("{}", shortest.plan);
    shortest.story.iter().for_each(|line| println!("{line}"));
    println!("replay: {}", command(seed, &least));
}

fn summarise(found: &Hunt) {
    found.told().iter().for_each(|line| println!("{line}"));
    for mark in Mark::ALL {
        println!("  {:<24} {}", mark.name(), found.marks.count(*mark));
    }
}
