//! Where the binaries under test are. They are built once per test process, from this workspace and in the
//! profile of the test itself, so that a test can never run against yesterday's code. `MILLRACE_TEST_BINARIES`
//! names a folder of others, built by hand, instead.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};

/// The folder of this workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests folder has a parent")
}

/// The binary called `name`, built if it was not yet.
pub fn binary(name: &str) -> Result<PathBuf> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    let folder = folder.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    let path = folder.join(name);
    ensure!(path.exists(), "{} was not built", path.display());
    Ok(path)
}

/// What is built with planted faults: the processes, the simulator, and the test programs that judge.
const MUTATED: &[&str] = &[
    "--bin=millrace-controller",
    "--bin=millrace-broker",
    "--bin=sim",
    "--test=it",
    "--test=power_loss",
    "--test=laws",
];

/// A folder with the programs of a build with planted faults, each chosen at run time with `MILLRACE_MUTANT`. They are
/// built where the others are, so that only our own packages are built anew, and moved aside. `MILLRACE_TEST_MUTANTS`
/// names a folder of others, built by hand, instead.
pub fn mutants() -> Result<PathBuf> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| build_mutants().map_err(|error| format!("{error:#}")));
    folder.clone().map_err(|error| anyhow::anyhow!("{error}"))
}

fn build_mutants() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("MILLRACE_TEST_MUTANTS") {
        return Ok(PathBuf::from(folder));
    }
    let target = target_folder()?;
    let aside = target.join("mutants").join(profile());
    std::fs::create_dir_all(&aside)?;
    let features = "controller/mutants,broker/mutants,sim/mutants,tests/mutants";
    let mut build = cargo(&target);
    build
        .args(MUTATED)
        .args(["--features", features, "--message-format=json"]);
    let built = build.stderr(std::process::Stdio::inherit()).output()?;
    ensure!(built.status.success(), "the build with planted faults failed");
    for line in String::from_utf8(built.stdout)?.lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        let Some(program) = message["executable"].as_str() else {
            continue;
        };
        let target = message["target"]["name"].as_str().unwrap_or_default();
        let name = match message["target"]["kind"][0].as_str() {
            Some("test") => format!("{}-{target}", package(&message)),
            _ => target.to_owned(),
        };
        std::fs::copy(program, aside.join(name))?;
    }
    // What ships stands where it is looked for again.
    cargo_build(&target)?;
    Ok(aside)
}

/// The package of an artifact: the last word of its identity, which is the folder's name where both are the same.
fn package(message: &serde_json::Value) -> &str {
    let identity = message["package_id"].as_str().unwrap_or_default();
    let (folder, version) = identity.rsplit_once('#').unwrap_or((identity, ""));
    match version.split_once('@') {
        Some((name, _)) => name,
        None => folder.rsplit('/').next().unwrap_or_default(),
    }
}

fn profile() -> &'static str {
    if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    }
}

fn target_folder() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let inside = own
        .ancestors()
        .find(|path| path.file_name().is_some_and(|name| name == profile()));
    Ok(inside
        .and_then(Path::parent)
        .context("the test does not run from a target folder")?
        .to_path_buf())
}

fn build() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("MILLRACE_TEST_BINARIES") {
        return Ok(PathBuf::from(folder));
    }
    let target = target_folder()?;
    cargo_build(&target)?;
    Ok(target.join(profile()))
}

fn cargo_build(target: &Path) -> Result<()> {
    let built = cargo(target).arg("--bins").status()?;
    ensure!(built.success(), "the build of the binaries failed");
    Ok(())
}

/// A build of the whole workspace: chosen packages alone would be built anew with other features of what they share.
fn cargo(target: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(workspace())
        .args(["build", "--quiet", "--workspace"])
        .env("CARGO_TARGET_DIR", target);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // Cargo sets these for the test run; the nested build must look like one from a shell, or it rebuilds.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
        command.env_remove(name);
    }
    command
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("CARGO_MANIFEST_PATH");
    command
}
