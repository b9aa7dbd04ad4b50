//! Nodes of a cluster that run and are not this command's own: begun by hand, or left by a command that was killed.
//!
//! Must not: stop them.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use procfs::process::{Process, all_processes};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::plan::{Node, Plan, Role};

/// A process that runs as a node.
#[derive(Debug)]
pub struct Found<'a> {
    /// As which one.
    pub node: &'a Node,
    /// Its process id.
    pub pid: u32,
    /// What stands for it, see [`handle`].
    pub handle: OwnedFd,
}

/// The processes of this machine that were begun with the configuration of a node, in the order of the plan. None where
/// processes cannot be seen, and none that this user may not look into. One that sees other file systems, as in a
/// container, means another file by the same path, and is none of ours.
pub fn running(plan: &Plan) -> Vec<Found<'_>> {
    let own = Process::myself().ok();
    let Some(here) = own.as_ref().and_then(file_systems) else {
        return Vec::new();
    };
    let all = all_processes().into_iter().flatten().flatten();
    let mut found: Vec<(usize, Found<'_>)> = all
        .filter_map(|process| {
            let pid = u32::try_from(process.pid).ok()?;
            // First, so that what is read afterwards is said of the process that it stands for.
            let handle = handle(pid).ok()?;
            let path = configuration(&process)?;
            let place = plan.nodes.iter().position(|node| node.config_path() == path)?;
            let node = &plan.nodes[place];
            (file_systems(&process)? == here).then_some((place, Found { node, pid, handle }))
        })
        .collect();
    found.sort_by_key(|(place, one)| (*place, one.pid));
    found.into_iter().map(|(_, one)| one).collect()
}

/// What stands for a process, and never for a later one with the same number. Readable when the process ends.
///
/// # Errors
/// When there is no such process.
pub fn handle(pid: u32) -> std::io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::other("no process id"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Which file systems a process sees: its mount namespace, as device and number.
fn file_systems(process: &Process) -> Option<(u64, u64)> {
    let spaces = process.namespaces().ok()?;
    let mounts = spaces.0.get(OsStr::new("mnt"))?;
    Some((mounts.device_id, mounts.identifier))
}

/// The file that a process was begun with, if it is one of our nodes.
fn configuration(process: &Process) -> Option<PathBuf> {
    let words = process.cmdline().ok()?;
    let given = Path::new(given_to_a_node(&words)?);
    // What is absolute stays as it is.
    Some(process.cwd().unwrap_or_default().join(given))
}

/// What stands behind `--config` in the words that began a node. Others may name a node too, as an editor, a debugger or
/// a tracer does: the program must be the first word, or be a script that the first one interprets.
fn given_to_a_node(words: &[String]) -> Option<&str> {
    let file_name = |word: &String| Path::new(word).file_name().map(OsStr::to_owned);
    let first = file_name(words.first()?)?;
    let program = usize::from(first.to_string_lossy().starts_with("python"));
    let name = file_name(words.get(program)?)?;
    if ![Role::Controller, Role::Broker]
        .iter()
        .any(|role| name == role.program())
    {
        return None;
    }
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
            given("millrace-broker --set a=b --config=/d/broker-1/server.properties"),
            path
        );
        assert_eq!(
            given("/usr/bin/python3 /b/millrace-broker --config /d/broker-1/server.properties"),
            path
        );
        assert_eq!(given("/b/millrace-broker --set a=b"), None);
        assert_eq!(given("/b/millrace-broker --config"), None);
    }
    /// It was taken for the node, and would have been stopped.
    #[test]
    fn what_only_names_a_node_is_none() {
        for before in ["vi", "strace", "gdb --args", "sudo", "python3 -m pdb"] {
            let line = format!("{before} /b/millrace-broker --config /d/broker-1/server.properties");
            assert_eq!(given(&line), None, "{before}");
        }
        assert_eq!(given("vi --config /d/broker-1/server.properties"), None);
    }
}
