//! Runs a judge without a fault, when it must hold, and with it, when it must not, for the reason that is named.

use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

use super::{Judge, Mutant};
use crate::binaries::{mutants, workspace};
use crate::cluster::{Cluster, Role};

/// How a fault was caught.
///
/// # Errors
/// When it was not, or not for the reason that its judge should name, or when the judge does not hold without it.
pub fn caught(mutant: &Mutant) -> Result<String> {
    let name = mutant.name;
    match &mutant.judge {
        Judge::Seeds { most, held, broken } => in_seeds(name, (*most, held), broken),
        Judge::Test {
            package,
            program,
            test,
            says,
        } => by_test(name, &format!("{package}-{program}"), test, says),
        Judge::Case {
            roles,
            brokers,
            case,
            says,
            ..
        } => in_case(name, (roles, *brokers), *case, says),
    }
    .with_context(|| format!("{}: {}", mutant.judge.told(), mutant.judge.command(name)))
}

fn program(name: &str) -> Result<Command> {
    let mut command = Command::new(mutants()?.join(name));
    command.current_dir(workspace()).env_remove("MILLRACE_MUTANT");
    Ok(command)
}

fn text(output: &Output) -> String {
    let all = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn in_seeds(name: &str, (most, held): (u64, &str), broken: &str) -> Result<String> {
    let sim = |first: &str, more: &[&str]| -> Result<Output> {
        let mut command = program("sim")?;
        command.args([first, "--brief"]).args(more);
        Ok(command.args(held.split_whitespace()).output()?)
    };
    let with = sim("1", &["--seeds", &most.to_string(), "--mutant", name])?;
    let told = text(&with);
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("seed ")?.split_once(" BROKEN: "));
    let (seed, how) = line.with_context(|| format!("not caught in {most} seeds: {told}"))?;
    ensure!(
        how.starts_with(broken),
        "seed {seed} breaks something else: {how}"
    );
    let without = sim(seed, &[])?;
    ensure!(
        without.status.success(),
        "seed {seed} does not hold without the fault: {}",
        text(&without)
    );
    Ok(format!("seed {seed}: {}", short(how)))
}

fn by_test(name: &str, file: &str, test: &str, says: &str) -> Result<String> {
    let run = |command: &mut Command| command.args([test, "--exact", "--test-threads=1"]).output();
    let without = run(&mut program(file)?)?;
    let told = text(&without);
    ensure!(
        without.status.success() && told.contains("1 passed"),
        "it does not hold without the fault: {told}"
    );
    let with = run(program(file)?.env("MILLRACE_MUTANT", name))?;
    let told = text(&with);
    ensure!(!with.status.success(), "not caught: {told}");
    let line = told.lines().find(|line| line.contains(says));
    Ok(short(line.with_context(|| {
        format!("it fails for another reason: {told}")
    })?))
}

fn in_case(
    name: &str,
    (roles, brokers): (&[Role], u32),
    case: fn(&mut Cluster) -> Result<String>,
    says: &str,
) -> Result<String> {
    let start = |planted: &[Role]| {
        let mut builder = Cluster::builder().brokers(brokers).binaries(mutants()?);
        for role in planted {
            builder = builder.environment(*role, "MILLRACE_MUTANT", name);
        }
        // A cluster that does not even start catches nothing.
        let mut cluster = builder.start().context("the cluster did not start")?;
        cluster.expect_in_logs("");
        Ok::<_, anyhow::Error>(cluster)
    };
    case(&mut start(&[])?).context("it does not hold without the fault")?;
    match case(&mut start(roles)?) {
        Ok(figure) => bail!("not caught: {figure}"),
        Err(error) => {
            let told = format!("{error:#}");
            let line = told.lines().find(|line| line.contains(says));
            Ok(short(line.with_context(|| {
                format!("it fails for another reason: {told}")
            })?))
        }
    }
}

fn short(line: &str) -> String {
    line.trim().chars().take(160).collect()
}
