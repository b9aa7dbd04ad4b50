//! Nodes of a cluster that run and are not this command's own: begun by hand, or left by a command that was killed.
//!
//! Must not: stop them.

use std::path::{Path, PathBuf};

use procfs::process::{Process, all_processes};

use super::plan::{Node, Plan, Role};

/// A process that runs as a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'a> {
    /// As which one.
    pub node: &'a Node,
    /// Its process id.
    pub pid: u32,
}

/// The processes of this machine that were begun with the configuration of a node, in the order of the plan. None where
/// processes cannot be seen.
pub fn running(plan: &Plan) -> Vec<Found<'_>> {
    let all = all_processes().into_iter().flatten().flatten();
    let begun: Vec<(u32, PathBuf)> = all
        .filter_map(|process| Some((u32::try_from(process.pid).ok()?, configuration(&process)?)))
        .collect();
    let mut found = Vec::new();
    for node in &plan.nodes {
        let path = node.config_path();
        let of_node = begun.iter().filter(|(_, given)| *given == path);
        found.extend(of_node.map(|(pid, _)| Found { node, pid: *pid }));
    }
    found
}

/// The file that a process was begun with, if it is one of our nodes.
fn configuration(process: &Process) -> Option<PathBuf> {
    let words = process.cmdline().ok()?;
    let given = Path::new(given_to_a_node(&words)?);
    // What is absolute stays as it is.
    Some(process.cwd().unwrap_or_default().join(given))
}

/// What stands behind `--config` in the words that began a node.
fn given_to_a_node(words: &[String]) -> Option<&str> {
    let is_node = |word: &String| {
        let name = Path::new(word).file_name();
        [Role::Controller, Role::Broker]
            .iter()
            .any(|role| name.is_some_and(|name| name == role.program()))
    };
    // The program may stand behind one that runs it.
    let program = words.iter().position(is_node)?;
    let mut options = words[program + 1..].iter();
    while let Some(word) = options.next() {
        if word == "--config" {
            return options.next().map(String::as_str);
        }
        if let Some(path) = word.strip_prefix("--config=") {
            return Some(path);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn given(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        given_to_a_node(&words).map(str::to_owned)
    }

    #[test]
    fn a_node_is_known_by_its_program_and_its_configuration() {
        let path = Some("/d/broker-1/server.properties".to_owned());
        assert_eq!(
            given("/b/millrace-broker --config /d/broker-1/server.properties"),
            path
        );
        assert_eq!(
            given("nice millrace-broker --set a=b --config=/d/broker-1/server.properties"),
            path
        );
        assert_eq!(given("vi --config /d/broker-1/server.properties"), None);
        assert_eq!(given("/b/millrace-broker --set a=b"), None);
        assert_eq!(given("/b/millrace-broker --config"), None);
    }
}
