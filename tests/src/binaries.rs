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

/// A folder with the binaries of a build with planted faults, each chosen at run time. They are built where the
/// others are, so that only our own packages are built anew, and moved aside.
pub fn mutants() -> Result<PathBuf> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| build_mutants().map_err(|error| format!("{error:#}")));
    folder.clone().map_err(|error| anyhow::anyhow!("{error}"))
}

fn build_mutants() -> Result<PathBuf> {
    let target = target_folder()?;
    cargo_build(&target, &["--features", "controller/mutants,broker/mutants"])?;
    let aside = target.join("mutants");
    std::fs::create_dir_all(&aside)?;
    for name in ["millrace-controller", "millrace-broker"] {
        std::fs::copy(target.join(profile()).join(name), aside.join(name))?;
    }
    // What ships stands where it is looked for again.
    cargo_build(&target, &[])?;
    Ok(aside)
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
    cargo_build(&target, &[])?;
    Ok(target.join(profile()))
}

fn cargo_build(target: &Path, extra: &[&str]) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    // The whole workspace: chosen packages alone would be built anew with other features of what they share.
    command
        .current_dir(workspace())
        .args(["build", "--quiet", "--workspace", "--bins"])
        .args(extra);
    command.env("CARGO_TARGET_DIR", target);
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
    ensure!(command.status()?.success(), "the build of the binaries failed");
    Ok(())
}
