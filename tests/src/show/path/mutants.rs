//! Planted faults: each must be caught by a check that holds without it. They exist only in builds with the cargo
//! feature `mutants`, and are chosen at run time.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::binaries::{mutants, workspace};
use crate::cases::{produce, replicas};
use crate::cluster::{Cluster, Role};
use crate::show::Board;

/// A fault, and the check that must notice it.
struct Mutant {
    name: &'static str,
    check: Check,
}

/// What notices a fault.
enum Check {
    /// A case on one controller and this many brokers; the fault is in nodes of these roles.
    Case(&'static [Role], u32, fn(&mut Cluster) -> Result<String>),
    /// A test of a package, by the arguments of `cargo test`.
    Test(&'static [&'static str]),
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "watermark_ignores_min_isr",
        check: Check::Case(&[Role::Broker], 3, replicas::watermark_below_min_in_sync),
    },
    Mutant {
        name: "commit_before_sync",
        check: Check::Test(&[
            "-p",
            "controller",
            "--features",
            "mutants",
            "--test",
            "power_loss",
        ]),
    },
    Mutant {
        name: "epoch_not_bumped",
        check: Check::Case(
            &[Role::Controller, Role::Broker],
            3,
            replicas::a_new_leader_has_a_new_epoch,
        ),
    },
    Mutant {
        name: "truncate_one_too_few",
        check: Check::Case(&[Role::Broker], 3, replicas::a_diverged_leader_is_cut_back),
    },
    Mutant {
        name: "duplicate_sequence_accepted",
        check: Check::Case(&[Role::Broker], 1, |cluster| produce::sequences(cluster)),
    },
    Mutant {
        name: "skipped_chain_check",
        check: Check::Test(&["-p", "tests", "--features", "mutants", "--test", "laws"]),
    },
];

/// One row for each fault.
pub fn rows(board: &mut Board) {
    for mutant in MUTANTS {
        board.row(&format!("mutant {}", mutant.name), || caught(mutant));
    }
}

/// The row of one fault.
pub fn one(board: &mut Board, name: &str) {
    match MUTANTS.iter().find(|mutant| mutant.name == name) {
        Some(mutant) => board.row(&format!("mutant {name}"), || caught(mutant)),
        None => board.row(&format!("mutant {name}"), || {
            anyhow::bail!("there is none of that name")
        }),
    }
}

/// Runs the check without the fault, when it must hold, and with it, when it must not.
fn caught(mutant: &Mutant) -> Result<String> {
    if let Err(error) = checked(mutant, false) {
        anyhow::bail!("the check does not hold without the fault: {error:#}");
    }
    match checked(mutant, true) {
        Ok(figure) => anyhow::bail!("not caught: {figure}"),
        Err(error) => {
            let text = format!("{error:#}");
            let telling = text
                .lines()
                .find(|line| line.contains("panicked") || line.contains("lost"));
            let line = telling.or_else(|| text.lines().next()).unwrap_or_default();
            Ok(format!("caught: {}", line.chars().take(160).collect::<String>()))
        }
    }
}

fn checked(mutant: &Mutant, planted: bool) -> Result<String> {
    match &mutant.check {
        Check::Case(roles, brokers, case) => {
            let mut builder = Cluster::builder().brokers(*brokers).binaries(mutants()?);
            for role in roles.iter().filter(|_| planted) {
                builder = builder.environment(*role, "MILLRACE_MUTANT", mutant.name);
            }
            // A cluster that does not even start catches nothing.
            let mut cluster = match builder.start() {
                Ok(cluster) => cluster,
                Err(error) if planted => return Ok(format!("the cluster did not start: {error:#}")),
                Err(error) => return Err(error),
            };
            cluster.expect_in_logs("");
            case(&mut cluster)
        }
        Check::Test(arguments) => tested(arguments, planted.then_some(mutant.name)),
    }
}

fn tested(arguments: &[&str], mutant: Option<&str>) -> Result<String> {
    let command = |extra: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command
            .current_dir(workspace())
            .arg("test")
            .args(arguments)
            .args(extra);
        command
    };
    // A build that fails is not a catch.
    ensure!(
        command(&["--no-run"]).output()?.status.success(),
        "cargo test {arguments:?} does not build"
    );
    let mut run = command(&[]);
    if let Some(name) = mutant {
        run.env("MILLRACE_MUTANT", name);
    }
    let output = run.output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    ensure!(!text.contains("there is no mutant"), "{text}");
    ensure!(output.status.success(), "{text}");
    Ok("the tests pass".to_owned())
}
