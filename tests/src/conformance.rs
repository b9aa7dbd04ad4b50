//! Runs the wire probes of `tests/conformance` and counts their answers. The probes are Python; nothing here
//! looks at an answer, so nothing here can soften one.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

use crate::binaries::workspace;
use crate::cluster::{Builder, Cluster};

/// Keys of the recorded settings that need an authorizer, which is not served.
const NEED_AN_AUTHORIZER: &[&str] = &["authorizer.class.name", "super.users"];

/// How the cases ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answered as Apache Kafka did.
    pub same: usize,
    /// Differs, as the accepted file says, with a reason.
    pub accepted: usize,
    /// Differs, and nobody said so.
    pub differs: usize,
    /// Needs an API or version that is not advertised.
    pub not_served: usize,
    /// Every line that is not `same`.
    pub lines: Vec<String>,
}

fn folder() -> PathBuf {
    workspace().join("tests/conformance")
}

/// A Python with the codecs that the probes use.
pub fn python() -> Result<PathBuf> {
    python_with("cramjam", "cramjam")
}

/// A Python with a module of a package: the system's, or one in the cache if the system's lacks it.
pub fn python_with(package: &str, module: &str) -> Result<PathBuf> {
    let has_it = |python: &PathBuf| {
        let mut command = Command::new(python);
        command
            .args(["-c", &format!("import {module}")])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let system = PathBuf::from("python3");
    if has_it(&system) {
        return Ok(system);
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME, for a cache folder")?).join(".cache"),
    };
    let home = cache.join("millrace/python");
    let own = home.join("bin/python3");
    if !own.exists() {
        let made = Command::new(&system).args(["-m", "venv"]).arg(&home).status()?;
        ensure!(made.success(), "python3 -m venv failed");
    }
    if !has_it(&own) {
        let got = Command::new(&own)
            .args(["-m", "pip", "install", "-q", package])
            .status()?;
        ensure!(got.success(), "pip install {package} failed");
    }
    Ok(own)
}

/// A cluster with the settings that the recorded answers assume.
pub fn cluster() -> Result<Builder> {
    let settings = std::fs::read_to_string(folder().join("probe/settings.properties"))?;
    let pairs = settings
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='));
    let kept = pairs.filter(|(key, _)| !NEED_AN_AUTHORIZER.contains(key));
    Ok(kept.fold(
        Cluster::builder().controllers(3).brokers(3),
        |builder, (key, value)| builder.set(key, value),
    ))
}

fn script(name: &str, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(python()?);
    command.arg(folder().join("probe").join(name)).args(arguments);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command.output()?)
}

/// Asks the cases whose names begin with one of `only`; all of them where there is none.
pub fn check(bootstrap: &str, only: &[&str]) -> Result<Counts> {
    let accepted = folder().join("accepted.txt");
    let accepted = accepted.to_str().context("a path in UTF-8")?;
    let mut arguments = vec![
        "check",
        bootstrap,
        "--show",
        "--jobs",
        "3",
        "--accepted",
        accepted,
    ];
    only.iter()
        .for_each(|prefix| arguments.extend(["--only", prefix]));
    let output = script("probe.py", &arguments)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let counts = counted(&text)?;
    ensure!(
        output.status.success() == (counts.differs == 0),
        "the probes ended with {}:\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(counts)
}

/// Reads the lines that the probes print.
fn counted(text: &str) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut totals = None;
    for line in text.lines() {
        let count = match line {
            line if line.starts_with("same, though") => &mut counts.differs,
            line if line.starts_with("same ") => {
                counts.same += 1;
                continue;
            }
            line if line.starts_with("accepted ") => &mut counts.accepted,
            line if line.starts_with("differs ") || line.starts_with("error ") => &mut counts.differs,
            line if line.starts_with("not served ") => &mut counts.not_served,
            line if line.starts_with("skip ") => bail!("a skipped case: {line}"),
            line if line.ends_with(" skipped") => {
                totals = Some(line.to_owned());
                continue;
            }
            // A path of the case above.
            line => {
                counts.lines.push(line.to_owned());
                continue;
            }
        };
        *count += 1;
        counts.lines.push(line.to_owned());
    }
    ensure!(totals.is_some(), "the probes did not reach their end:\n{text}");
    Ok(counts)
}

/// Asks every API at every version that `address` advertises; what was printed, and whether all was exact.
pub fn versions(address: &str) -> Result<(bool, String)> {
    let output = script("versions.py", &[address])?;
    let text = [output.stdout, output.stderr].concat();
    Ok((
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn every_verdict_is_counted_where_it_belongs() {
        let text = "same        a/one\naccepted    a/two  because\ndiffers     a/three\n              x: 1 | 2\n\
                    error       a/four  KeyError\nnot served  b/five  Heartbeat v4\n\
                    same, though a difference is claimed a/six  because\n3 passed, 3 failed, 1 skipped\n";
        let counts = counted(text).unwrap();
        assert_eq!(
            (counts.same, counts.accepted, counts.differs, counts.not_served),
            (1, 1, 3, 1)
        );
    }

    #[test]
    fn probes_that_broke_off_or_skipped_prove_nothing() {
        assert!(counted("same        a/one\n").is_err());
        assert!(counted("skip        a/one  needs 3 brokers\n1 passed, 0 failed, 1 skipped\n").is_err());
    }
}
