//! A clean clone: it builds, `millrace up` serves, and `.ci/run` passes in time.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::binaries::workspace;
use crate::cluster::ports;
use crate::process::Process;
use crate::raw::requests::NewTopic;
use crate::show::Board;
use crate::{ask, clients, wait};

/// The whole of `.ci/run`, with nothing built before.
const CI_MAX: Duration = Duration::from_secs(18 * 60);

/// One row each.
pub fn rows(board: &mut Board) {
    if !board.wants_some_of("clean") {
        return;
    }
    let folder = match clone() {
        Ok(folder) => folder,
        Err(error) => return board.row("clean clone", || Err(error)),
    };
    board.row("clean ci", || continuous_integration(folder.path(), CI_MAX));
    board.row("clean up", || build_and_serve(folder.path()));
}

/// A clone of what is committed, in a folder of its own.
pub fn clone() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let mut git = Command::new("git");
    git.args(["clone", "-q", "--no-hardlinks"])
        .arg(workspace())
        .arg(folder.path());
    ensure!(git.status()?.success(), "git clone failed");
    Ok(folder)
}

/// Without what Cargo tells the programs that it runs, so that the clone is built as from a shell.
fn in_clone(program: &str, clone: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(clone);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO") && name != "CARGO_HOME") {
        command.env_remove(name);
    }
    command
}

/// Runs `.ci/run` in a clone, with nothing built before.
pub fn continuous_integration(clone: &Path, limit: Duration) -> Result<String> {
    let began = Instant::now();
    let mut command = in_clone(".ci/run", clone);
    // A target folder of its own: nothing may be built before.
    let output = command
        .env("CI", "true")
        .env("CARGO_TARGET_DIR", clone.join("target"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let stages: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("── ") && line.ends_with(" s"))
        .collect();
    ensure!(
        output.status.success(),
        "{}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let took = began.elapsed();
    ensure!(took <= limit, "{} s\n{}", took.as_secs(), stages.join("\n"));
    Ok(format!("{} s\n{}", took.as_secs(), stages.join("\n")))
}

/// Runs the tests of these names in a clone, with what was built there: the names of those that passed.
pub fn passed(clone: &Path, names: &[&str]) -> Result<BTreeSet<String>> {
    let output = in_clone("cargo", clone)
        .args(["test", "--workspace", "--no-fail-fast", "--"])
        .args(names)
        .env("CI", "true")
        // As `.ci/run` has it: another value would build everything anew.
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TARGET_DIR", clone.join("target"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = text.lines().filter_map(|line| {
        let path = line.strip_prefix("test ")?.strip_suffix(" ... ok")?;
        path.rsplit("::").next().map(str::to_owned)
    });
    let passed: BTreeSet<String> = passed.collect();
    ensure!(output.status.success(), "{}\n{text}", output.status);
    Ok(passed)
}

fn build_and_serve(clone: &Path) -> Result<String> {
    let began = Instant::now();
    let built = in_clone("cargo", clone)
        .args(["build", "--release", "--quiet"])
        .status()?;
    ensure!(built.success(), "cargo build --release failed");
    let built = began.elapsed();
    let port = ports::row(6)?;
    let up = |log: &str| {
        let mut command = in_clone("target/release/millrace", clone);
        command
            .args(["up", "--port", &port.to_string()])
            .env("NO_COLOR", "1");
        Process::start(command, &clone.join(log))
    };
    let began = Instant::now();
    let mut process = up("first.log")?;
    let bootstrap = announced(&clone.join("first.log"), &mut process)?;
    let serving = began.elapsed();
    ask::create(&bootstrap, NewTopic::new("hello", 1, 3))?;
    clients::kcat_produce(&bootstrap, "hello", "none", b"one\ntwo\n")?;
    ensure!(
        clients::kcat_consume(&bootstrap, "hello", 0, 2)? == b"one\ntwo\n",
        "kcat read something else"
    );
    let status = process.interrupt(Duration::from_secs(40))?;
    ensure!(status.success(), "after Ctrl-C it ended with {status}");
    let mut again = up("second.log")?;
    let bootstrap = announced(&clone.join("second.log"), &mut again)?;
    ask::everything_in_sync(&bootstrap, "hello", Duration::from_secs(30))?;
    ensure!(
        clients::kcat_consume(&bootstrap, "hello", 0, 2)? == b"one\ntwo\n",
        "the data is gone"
    );
    ensure!(
        again.interrupt(Duration::from_secs(40))?.success(),
        "the second end was not clean"
    );
    let (built, serving) = (built.as_secs(), serving.as_millis());
    Ok(format!(
        "built in {built} s, serving after {serving} ms, the same data after a restart"
    ))
}

/// The bootstrap address that `millrace up` prints once everything serves.
fn announced(log: &Path, process: &mut Process) -> Result<String> {
    wait::until("the bootstrap address", Duration::from_secs(60), || {
        if let Some(status) = process.ended() {
            anyhow::bail!("it ended: {status}\n{}", std::fs::read_to_string(log)?);
        }
        let text = std::fs::read_to_string(log)?;
        let words = text.split(|c: char| c.is_whitespace() || c == '`' || c == '\'');
        let word = words.rev().find(|word| word.matches("127.0.0.1:").count() >= 3);
        let word = word
            .with_context(|| format!("not yet in:\n{text}"))?
            .trim_end_matches(['.', ')']);
        ask::brokers(word.split(',').next().context("an address")?)?;
        Ok(word.to_owned())
    })
}
