//! The controllers' store: the suite that openraft ships, SIGKILL in the middle of writes, damaged tails. An
//! acknowledged entry is never lost, and no store starts with a hole or below its floor.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::binaries::workspace;
use crate::cases::quorum::settled;
use crate::cluster::{Cluster, controller};
use crate::quorum::{active, status};
use crate::raw::Connection;
use crate::raw::requests::{NewTopic, code};
use crate::show::{Board, at_least};
use crate::wait;

/// How often the only controller is killed while it writes.
const KILLS: u32 = 200;

/// How often the tail of a store is damaged.
const DAMAGES: u32 = 100;

/// One row each.
pub fn rows(board: &mut Board) {
    board.row("store suite", suite);
    board.row("store kill -9", kills);
    board.row("store damaged tails", damages);
}

/// Runs tests of the workspace and gives the number of those that passed.
pub fn cargo_tests(arguments: &[&str]) -> Result<u64> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(workspace()).arg("test").args(arguments);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success(),
        "cargo test {arguments:?}:\n{text}{complaints}"
    );
    let passed = text
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. "));
    Ok(passed
        .filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok())
        .sum())
}

fn suite() -> Result<String> {
    let suites = at_least("suites", cargo_tests(&["--lib", "librarys_suite"])?, 2)?;
    let all = ["--lib", "--test", "cluster", "--test", "metrics", "quorum"];
    let laws = at_least("tests", cargo_tests(&all)?, 24)?;
    Ok(format!(
        "openraft's suite on {suites} stores, {laws} tests of store and quorum"
    ))
}

/// Numbers that differ from round to round, the same in every run.
fn drawn(round: u32, most: u64) -> u64 {
    let mixed = (u64::from(round) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)) % most
}

/// Creates topics as fast as it goes until told to stop, and gives the names of those acknowledged.
fn create_until(over: &AtomicBool, address: &str, round: u32) -> Vec<String> {
    let mut made = Vec::new();
    let Ok(mut connection) = Connection::open(address) else {
        return made;
    };
    let _ = connection.answers_within(Duration::from_secs(2));
    while !over.load(Ordering::Relaxed) {
        let name = format!("store-{round}-{}", made.len());
        match connection.create_topics(&[NewTopic::new(&name, 1, 1)]) {
            Ok(answer) if answer.first().is_some_and(|(_, error, _)| *error == code::NONE) => made.push(name),
            _ => break,
        }
    }
    made
}

/// Fails unless the controllers know every one of `names`.
fn all_exist(address: &str, names: &[String]) -> Result<()> {
    for some in names.chunks(100) {
        let wanted: Vec<NewTopic> = some.iter().map(|name| NewTopic::new(name, 1, 1)).collect();
        let answers = wait::until("the controller answers", Duration::from_secs(30), || {
            let mut connection = Connection::open(address)?;
            let answers = connection.create_topics(&wanted)?;
            let known = answers
                .iter()
                .all(|(_, error, _)| [code::NONE, code::TOPIC_ALREADY_EXISTS].contains(error));
            ensure!(known && answers.len() == wanted.len(), "{answers:?}");
            Ok(answers)
        })?;
        let lost: Vec<_> = answers
            .iter()
            .filter(|(_, error, _)| *error == code::NONE)
            .collect();
        ensure!(lost.is_empty(), "acknowledged, and gone after SIGKILL: {lost:?}");
    }
    Ok(())
}

fn kills() -> Result<String> {
    let mut cluster = Cluster::builder().start()?;
    let address = cluster.bootstrap();
    let mut acknowledged = Vec::new();
    for round in 0..KILLS {
        let over = Arc::new(AtomicBool::new(false));
        let (ended, at) = (Arc::clone(&over), address.clone());
        let writer = std::thread::spawn(move || create_until(&ended, &at, round));
        wait::pass(Duration::from_millis(50 + drawn(round, 350)));
        cluster.kill(controller(1))?;
        over.store(true, Ordering::Relaxed);
        let made = writer
            .join()
            .map_err(|_| anyhow::anyhow!("the writer panicked"))?;
        cluster.start(controller(1))?;
        active(&cluster)?;
        all_exist(&address, &made)?;
        acknowledged.extend(made);
    }
    all_exist(&address, &acknowledged)?;
    at_least("topics acknowledged", acknowledged.len() as u64, u64::from(KILLS))?;
    Ok(format!(
        "{KILLS} rounds, {} changes acknowledged, none lost",
        acknowledged.len()
    ))
}

/// The file of the store that was written last.
fn newest(folder: &Path) -> Result<PathBuf> {
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false if entry.file_name() == "db" => {
                    found.push((entry.metadata()?.modified()?, entry.path()))
                }
                false => {}
            }
        }
    }
    Ok(found
        .into_iter()
        .max()
        .context("a store below the data directory")?
        .1)
}

/// Truncates, zeroes or overwrites up to 9 KB at the end of what the file holds.
fn damage(file: &Path, round: u32) -> Result<&'static str> {
    let mut bytes = std::fs::read(file)?;
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let from = end.saturating_sub(1 + usize::try_from(drawn(round, 9 << 10))?);
    let kind = match round % 3 {
        0 => {
            bytes.truncate(from);
            "cut"
        }
        1 => {
            bytes[from..end].fill(0);
            "zeroed"
        }
        _ => {
            bytes[from..end]
                .iter_mut()
                .zip(0_u32..)
                .for_each(|(byte, n)| *byte ^= (drawn(n, 255) + 1) as u8);
            "garbage"
        }
    };
    std::fs::write(file, bytes)?;
    Ok(kind)
}

/// A controller with two healthy ones beside it: whatever its tail looks like, it comes back with everything, or
/// refuses to start and says so.
fn damages() -> Result<String> {
    let mut cluster = Cluster::builder().controllers(3).brokers(1).start()?;
    cluster.expect_in_logs("damaged");
    let address = cluster.bootstrap();
    let began = Instant::now();
    let (mut healed, mut all) = (0_u32, Vec::new());
    for round in 0..DAMAGES {
        let over = AtomicBool::new(false);
        let names = std::thread::scope(|scope| {
            let writer = scope.spawn(|| create_until(&over, &address, 10_000 + round));
            wait::pass(Duration::from_millis(100));
            over.store(true, Ordering::Relaxed);
            writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))
        })?;
        settled(&cluster, Duration::from_secs(20))?;
        let id = controller(1 + round % 3);
        cluster.kill(id)?;
        let before = status(&cluster.address(active(&cluster)?)?)?.committed_end;
        let kind = damage(&newest(&cluster.data(id)?)?, round)?;
        cluster.start(id)?;
        settled(&cluster, Duration::from_secs(30)).with_context(|| format!("round {round}, {kind}"))?;
        // One that is settled may still be a few no-ops behind.
        wait::until("it has everything again", Duration::from_secs(30), || {
            let after = status(&cluster.address(id)?)?.applied_end;
            ensure!(
                after >= before,
                "round {round}, {kind}: controller {id} ends at {after}, below {before}"
            );
            Ok(())
        })?;
        healed += 1;
        all.extend(names);
    }
    all_exist(&address, &all)?;
    at_least("changes acknowledged", all.len() as u64, u64::from(DAMAGES))?;
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    Ok(format!(
        "{healed} damages, {} changes acknowledged, none lost, {minutes:.1} minutes",
        all.len()
    ))
}
