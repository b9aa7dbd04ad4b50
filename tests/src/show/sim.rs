//! `cargo show sim`: whole clusters from seeds, with faults, and judged: how many, that each is decided by its seed, and
//! that they reach the rare branches.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sim::corpus;
use sim::hunt::{Hunt, Order, hunt};
use sim::marks::{Mark, Marks};
use sim::plan::Limits;
use sim::run::{command, run};

use super::{Board, at_least, mutants};
use crate::binaries::workspace;

/// The row of the hunt proves nothing in less.
const MINUTES_MIN: u64 = 10;
/// On so many cores.
const CORES: usize = 2;
/// What CI runs of the simulator, its fixed corpus included, takes no longer.
const CI_MAX: Duration = Duration::from_secs(5 * 60);
/// Fresh seeds in every CI run.
const CI_SEEDS: u64 = 200;
/// Seeds whose hashes are compared between builds.
const HASHED: std::ops::Range<u64> = 1..13;

/// All rows, the quick ones first. The hunt lasts for `minutes`; without, for as long as it must.
pub fn show(board: &mut Board, minutes: Option<u64>) {
    // A process of a simulated cluster that panics is an outcome, and told as one.
    std::panic::set_hook(Box::new(|_| {}));
    board.row("sim two runs of a seed", same_hash_twice);
    board.row("sim debug and release", same_hash_in_both_builds);
    board.row("sim corpus", corpus_reaches_marks);
    board.row("sim as in ci", as_in_ci);
    board.row("sim turmoil", turmoil);
    mutants::rows(board, mutants::ALL);
    board.row("sim hunt", || hunted(minutes.unwrap_or(MINUTES_MIN)));
}

fn same_hash_twice() -> Result<String> {
    for seed in HASHED {
        let (one, other) = (run(seed, &Limits::default()), run(seed, &Limits::default()));
        ensure!(
            one.tally == other.tally,
            "seed {seed}: {:?} and {:?}",
            one.tally,
            other.tally
        );
        ensure!(one.story == other.story, "seed {seed}: the stories differ");
    }
    Ok(format!(
        "{} seeds, equal hashes and stories",
        HASHED.end - HASHED.start
    ))
}

fn same_hash_in_both_builds() -> Result<String> {
    let count = HASHED.end - HASHED.start;
    let (first, seeds) = (HASHED.start.to_string(), count.to_string());
    let arguments = [first.as_str(), "--seeds", &seeds, "--hashes"];
    let hashes = |profile: &[&str]| -> Result<Vec<String>> {
        let text = cargo(&[&["run", "-q"], profile, &["--bin", "sim", "--"], &arguments].concat())?;
        let is_hash = |line: &&str| {
            let parts = line.split_once(' ');
            parts.is_some_and(|(seed, hash)| {
                seed.parse::<u64>().is_ok() && hash.len() == 16 && u64::from_str_radix(hash, 16).is_ok()
            })
        };
        Ok(text.lines().filter(is_hash).map(str::to_owned).collect())
    };
    let (debug, release) = (hashes(&[])?, hashes(&["--release"])?);
    at_least("hashes", release.len() as u64, count)?;
    ensure!(debug == release, "debug {debug:?}, release {release:?}");
    Ok(format!("{} seeds, equal hashes", release.len()))
}

fn corpus_reaches_marks() -> Result<String> {
    let found = hunt(&Order {
        first: corpus::SEEDS.start,
        count: corpus::SEEDS.end - corpus::SEEDS.start,
        until: None,
        jobs: CORES,
        limits: Limits::default(),
    });
    no_failure(&found)?;
    let missing = corpus::missing(&found.marks);
    ensure!(missing.is_empty(), "never reached: {missing:?}");
    Ok(format!("{} seeds\n{}", found.runs.len(), counts(&found.marks)))
}

fn counts(marks: &Marks) -> String {
    let lines = Mark::ALL.iter().map(|mark| {
        let rare = if corpus::NOT_REQUIRED.contains(mark) {
            ", not required"
        } else {
            ""
        };
        format!("{} {}{rare}", mark.name(), marks.count(*mark))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn hunted(minutes: u64) -> Result<String> {
    use host::Entropy;
    let lasts = Duration::from_secs(minutes * 60);
    let first = host::OsEntropy.below(1 << 32);
    let found = hunt(&Order {
        first,
        count: u64::MAX,
        until: Some(Instant::now() + lasts),
        jobs: CORES,
        limits: Limits::default(),
    });
    no_failure(&found)?;
    found.proves_enough().map_err(anyhow::Error::msg)?;
    let told = found.told().join("\n");
    let ran = at_least("minutes", found.took.as_secs() / 60, MINUTES_MIN);
    ran.map_err(|error| anyhow::anyhow!("{error}\n{told}"))?;
    Ok(format!("from seed {first} on, no violation\n{told}"))
}

/// The stage of `.ci/run`, and the tests that hold the corpus, in the build that CI makes.
fn as_in_ci() -> Result<String> {
    let script = std::fs::read_to_string(workspace().join(".ci/run"))?;
    let stage = format!("debug/sim\" --seeds {CI_SEEDS} --jobs {CORES}");
    ensure!(
        script.contains(&stage),
        "`.ci/run` does not run {CI_SEEDS} fresh seeds"
    );
    cargo(&["test", "-q", "--no-run", "--workspace"])?;
    let began = Instant::now();
    let corpus = cargo(&["test", "--test", "corpus"])?;
    ensure!(
        corpus.contains("the_fixed_corpus_holds_and_reaches_every_required_mark ... ok"),
        "{corpus}"
    );
    let corpus = began.elapsed();
    let (seeds, jobs) = (CI_SEEDS.to_string(), CORES.to_string());
    let fresh = cargo(&[
        "run", "-q", "--bin", "sim", "--", "--seeds", &seeds, "--jobs", &jobs,
    ])?;
    let ran = fresh.lines().find(|line| line.contains(" seeds, "));
    let ran = ran.filter(|line| line.starts_with(&format!("{CI_SEEDS} ")));
    let ran = ran.with_context(|| format!("{CI_SEEDS} seeds were to be run: {fresh}"))?;
    let took = began.elapsed();
    let figure = format!(
        "{} s, {} s of it the corpus; fresh: {ran}",
        took.as_secs(),
        corpus.as_secs()
    );
    ensure!(took <= CI_MAX, "{figure}");
    Ok(figure)
}

/// What a cargo command prints; one that fails fails the row.
fn cargo(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(env!("CARGO"));
    let output = command.current_dir(workspace()).args(arguments).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}

fn no_failure(found: &Hunt) -> Result<()> {
    let Some((seed, outcome)) = &found.failure else {
        return Ok(());
    };
    let violation = outcome.violation.as_ref();
    let what = violation.map_or(String::new(), |it| format!("{}: {}", it.what, it.how));
    anyhow::bail!(
        "seed {seed}: {what}\nreplay: {}",
        command(*seed, &Limits::default())
    )
}

/// The tests of the real quorum in a simulated network.
fn turmoil() -> Result<String> {
    let text = cargo(&["test", "--test", "turmoil"])?;
    let passed = text
        .lines()
        .find(|line| line.starts_with("test result"))
        .unwrap_or_default();
    ensure!(!passed.contains(" 0 passed"), "no test ran");
    Ok(passed.to_owned())
}
