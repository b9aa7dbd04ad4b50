//! Planted faults: each must be caught by the judge that it names, for the reason that it names, and the judge must hold
//! without the fault. They exist only in builds with the cargo feature `mutants`, and are chosen at run time.

mod judge;
mod table;

use anyhow::Result;

use crate::cluster::{Cluster, Role};
use crate::show::Board;

pub use judge::caught;
pub use table::ALL;

/// A fault, and the judge that must notice it.
pub struct Mutant {
    /// What is planted.
    pub name: &'static str,
    /// Who must notice.
    pub judge: Judge,
}

/// What notices a fault.
pub enum Judge {
    /// The simulator, in one of the first seeds.
    Seeds {
        /// From seed 1 on, at most so many are run.
        most: u64,
        /// What is held fixed, in words of `cargo sim`.
        held: &'static str,
        /// The invariant that is broken, by the beginning of its name.
        broken: &'static str,
    },
    /// A test, by program and full name.
    Test {
        /// Its package.
        package: &'static str,
        /// The program that it is in.
        program: &'static str,
        /// Its name.
        test: &'static str,
        /// What it says when it fails.
        says: &'static str,
    },
    /// A case on one controller and brokers, as processes with real disks and sockets.
    Case {
        /// What it is a row of.
        show: &'static str,
        /// The fault is in nodes of these roles.
        roles: &'static [Role],
        /// How many brokers.
        brokers: u32,
        /// The case.
        case: fn(&mut Cluster) -> Result<String>,
        /// What it says when it fails.
        says: &'static str,
    },
}

impl Judge {
    /// In a few words.
    fn told(&self) -> String {
        match self {
            Self::Seeds { broken, .. } => format!("core sim: {broken}"),
            Self::Test { package, test, .. } => {
                let name = test.rsplit("::").next().unwrap_or(test).replace('_', " ");
                format!("test of {package}: {name}")
            }
            Self::Case { .. } => "processes".to_owned(),
        }
    }

    /// How a person runs it.
    fn command(&self, mutant: &str) -> String {
        match self {
            Self::Seeds { most, held, .. } => {
                let held = format!(" {held}");
                format!(
                    "cargo run --release -p sim --features mutants -- 1 --seeds {most} --mutant {mutant}{}",
                    held.trim_end()
                )
            }
            Self::Test {
                package,
                program,
                test,
                ..
            } => format!(
                "MILLRACE_MUTANT={mutant} cargo test -p {package} --features mutants --test {program} -- {test}"
            ),
            Self::Case { show, .. } => format!("cargo show {show} --only 'mutant {mutant}'"),
        }
    }

    /// What it takes.
    fn needs(&self) -> String {
        match self {
            Self::Seeds { most, .. } => format!("up to {most} seeds"),
            Self::Test { .. } => "seconds".to_owned(),
            Self::Case { .. } => "a minute".to_owned(),
        }
    }
}

/// One row for each fault of a table.
pub fn rows(board: &mut Board, table: &[Mutant]) {
    for mutant in table {
        board.row(&format!("mutant {}", mutant.name), || caught(mutant));
    }
}

/// The table of the simulator's README.
pub fn told() -> String {
    let mut told = "| Bug | Judge | Needs | Command |\n|---|---|---|---|\n".to_owned();
    for Mutant { name, judge } in ALL {
        let (told_judge, needs, command) = (judge.told(), judge.needs(), judge.command(name));
        told += &format!("| `{name}` | {told_judge} | {needs} | `{command}` |\n");
    }
    told
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_readme_of_the_simulator_has_the_table() {
        let readme =
            std::fs::read_to_string(crate::binaries::workspace().join("tests/sim/README.md")).unwrap();
        assert!(readme.contains(&told()), "it should read:\n{}", told());
    }

    #[test]
    fn there_are_enough_and_no_name_comes_twice() {
        let names: BTreeSet<&str> = ALL.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(20 <= names.len(), "{}", names.len());
    }
}
