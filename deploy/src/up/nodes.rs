//! The processes: begun, watched, told to stop.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use host::{Disk, File, OpenHow, OsDisk};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::process::Command;
use tokio::sync::mpsc;

use super::found::{self, Found};
use super::layout::Binaries;
use super::orphans::end_with_parent;
use super::plan::{Node, Plan, Role};
use crate::outcome::Failure;
use crate::terminal::tell;

/// How much of a log is read for its last lines, and how many of them are shown.
const TAIL_BYTES: u64 = 16 << 10;
const TAIL_LINES: usize = 12;

/// A node that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub name: String,
    /// With which exit code, or by which signal.
    pub how: String,
    /// Where it wrote, if this command began it.
    pub log: Option<PathBuf>,
    /// What it wrote last there.
    pub last_lines: Vec<String>,
    /// What begins it again.
    pub command: String,
}

#[derive(Debug)]
struct Running {
    role: Role,
    pid: u32,
    /// Signalled by this: the number may be another process's as soon as the parent knows of the end.
    handle: Arc<OwnedFd>,
    /// Where it writes; whoever begins one by hand chooses that.
    log: Option<PathBuf>,
    command: String,
}

impl Running {
    fn of(node: &Node, program: &Path, pid: u32, handle: Arc<OwnedFd>) -> Self {
        Self {
            role: node.role,
            pid,
            handle,
            log: Some(node.log_path()),
            command: format!("{} --config {}", program.display(), node.config_path().display()),
        }
    }
}

/// The processes of a cluster that have not ended.
#[derive(Debug)]
pub struct Nodes {
    running: BTreeMap<String, Running>,
    /// How many controllers were begun: a majority of them must run to decide anything.
    controllers: usize,
    /// Which node ended, and how.
    ends: mpsc::UnboundedReceiver<(String, String)>,
    ended: mpsc::UnboundedSender<(String, String)>,
}

impl Nodes {
    /// Begins every node of a plan, controllers first.
    ///
    /// # Errors
    /// When a process cannot be begun; those that were are killed then.
    pub fn start(plan: &Plan, binaries: &Binaries) -> Result<Self, Failure> {
        let (ended, ends) = mpsc::unbounded_channel();
        let mut running = BTreeMap::new();
        for node in &plan.nodes {
            let program = binaries.of(node.role);
            let mut child = begin(node, program)
                .map_err(|error| Failure::machine(&format!("{} cannot be begun", node.name()), &error))?;
            let pid = child
                .id()
                .ok_or_else(|| Failure::Refused(format!("{} has no process id", node.name())))?;
            // Before anything waits for it: its number is its own until then.
            let handle = found::handle(pid)
                .map_err(|error| Failure::machine(&format!("{} cannot be watched", node.name()), &error))?;
            let (name, ended) = (node.name(), ended.clone());
            tell(&format!("started {name} at {} (process {pid})", node.address));
            running.insert(name.clone(), Running::of(node, program, pid, Arc::new(handle)));
            // The child is killed with its task, so nothing outlives a command that fails.
            tokio::spawn(async move {
                let how = child.wait().await;
                let how = how.map_or_else(|error| error.to_string(), description);
                let _ = ended.send((name, how));
            });
        }
        let controllers = plan.nodes.iter().filter(|node| node.role == Role::Controller);
        Ok(Self {
            controllers: controllers.count(),
            running,
            ends,
            ended,
        })
    }

    /// Takes in nodes that ended and were begun again by hand, so that they are stopped with the others.
    pub fn adopt(&mut self, plan: &Plan, binaries: &Binaries) {
        for Found { node, pid, handle } in found::running(plan) {
            let name = node.name();
            if self.running.contains_key(&name) {
                continue;
            }
            let handle = Arc::new(handle);
            tell(&format!(
                "{name} was begun by hand (process {pid}), and is stopped as well"
            ));
            let program = binaries.of(node.role);
            let mut running = Running::of(node, program, pid, Arc::clone(&handle));
            running.log = None;
            self.running.insert(name.clone(), running);
            let ended = self.ended.clone();
            // Detached: a node that stays does not hold this command up.
            std::thread::spawn(move || {
                let mut awaited = [PollFd::new(&*handle, PollFlags::IN)];
                let how = match retry_on_intr(|| poll(&mut awaited, None)) {
                    Ok(_) => "begun by hand".to_owned(),
                    Err(error) => error.to_string(),
                };
                let _ = ended.send((name, how));
            });
        }
    }

    /// The next node that ends. Waits for ever where none is left.
    pub async fn next_end(&mut self) -> Ended {
        loop {
            let (name, how) = self.ends.recv().await.expect("this holds a sender of its own");
            if let Some(node) = self.running.remove(&name) {
                return Ended {
                    name,
                    how,
                    last_lines: node.log.as_deref().map(last_lines).unwrap_or_default(),
                    log: node.log,
                    command: node.command,
                };
            }
        }
    }

    /// The names of the nodes that run.
    pub fn running(&self) -> Vec<String> {
        self.running.keys().cloned().collect()
    }

    /// The names of the nodes of a role that run.
    pub fn running_as(&self, role: Role) -> Vec<String> {
        self.running
            .iter()
            .filter(|(_, node)| node.role == role)
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Why brokers cannot hand their leaderships over, if so: too few controllers run.
    pub fn without_quorum(&self) -> Option<String> {
        let (running, begun) = (self.running_as(Role::Controller).len(), self.controllers);
        match running {
            0 => Some("no controller runs".to_owned()),
            _ if begun < 2 * running => None,
            1 => Some(format!("only 1 of {begun} controllers runs")),
            _ => Some(format!("only {running} of {begun} controllers run")),
        }
    }

    /// Process ids by name.
    pub fn pids(&self) -> Vec<(String, u32)> {
        self.running
            .iter()
            .map(|(name, node)| (name.clone(), node.pid))
            .collect()
    }

    /// Sends a signal to every node of a role that runs.
    pub fn signal(&self, role: Role, signal: Signal) {
        for (name, node) in self.running.iter().filter(|(_, node)| node.role == role) {
            // One that has just ended cannot be told any more, and need not be.
            if let Err(error) = pidfd_send_signal(&*node.handle, signal)
                && error != rustix::io::Errno::SRCH
            {
                tell(&format!("{name} cannot be signalled: {error}"));
            }
        }
    }
}

/// In a process group of its own: Ctrl-C must reach this command only, which then stops the nodes in order.
fn begin(node: &Node, program: &Path) -> std::io::Result<tokio::process::Child> {
    let log = OsDisk.open(&node.log_path(), OpenHow::CreateOrWrite)?;
    let mut command = Command::new(program);
    command
        .arg("--config")
        .arg(node.config_path())
        // What is written to a file should be plain.
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(appending(log.as_ref())?)
        .stderr(appending(log.as_ref())?)
        .process_group(0)
        .kill_on_drop(true);
    end_with_parent(&mut command).spawn()
}

/// A file as the output of a process that writes behind what stands there.
fn appending(file: &dyn File) -> std::io::Result<Stdio> {
    let descriptor = file
        .as_fd()
        .ok_or_else(|| std::io::Error::other("a log needs a descriptor"))?;
    let flags = fcntl_getfl(descriptor)?;
    fcntl_setfl(descriptor, flags | OFlags::APPEND)?;
    Ok(Stdio::from(descriptor.try_clone_to_owned()?))
}

fn description(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "for no known reason".to_owned(),
    }
}

fn last_lines(log: &Path) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let file = OsDisk.open(log, OpenHow::Read)?;
        let end = file.len()?;
        let start = end.saturating_sub(TAIL_BYTES);
        let mut bytes = vec![0; usize::try_from(end - start).map_err(std::io::Error::other)?];
        file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(TAIL_LINES)..]
                .iter()
                .map(|line| (*line).to_owned())
                .collect()
        }
        Err(error) => vec![format!("(it cannot be read: {error})")],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use crate::address::Address;

    fn node(dir: &Path) -> Node {
        let address = Address {
            host: "127.0.0.1".to_owned(),
            port: 1,
        };
        Node {
            role: Role::Broker,
            id: 1,
            metrics: address.clone(),
            address,
            dir: dir.to_owned(),
        }
    }

    #[tokio::test]
    async fn what_a_process_says_stands_behind_what_was_said_before() {
        let dir = tempfile::tempdir().unwrap();
        let node = node(dir.path());
        for _ in 0..2 {
            let mut child = begin(&node, Path::new("/bin/echo")).unwrap();
            assert!(child.wait().await.unwrap().success());
        }
        let line = format!("--config {}", node.config_path().display());
        assert_eq!(last_lines(&node.log_path()), [line.clone(), line]);
    }

    #[test]
    fn only_the_last_lines_of_a_log_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let text: String = (0..5000).map(|line| format!("line {line}\n")).collect();
        host::replace_file(&OsDisk, &path, text.as_bytes()).unwrap();
        let lines = last_lines(&path);
        assert_eq!(
            (lines.len(), lines[TAIL_LINES - 1].as_str()),
            (TAIL_LINES, "line 4999")
        );
        assert!(last_lines(&dir.path().join("none"))[0].starts_with("(it cannot be read"));
    }

    #[tokio::test]
    async fn how_a_process_ended_is_said_in_words() {
        let failed = Command::new("/bin/sh")
            .args(["-c", "exit 2"])
            .status()
            .await
            .unwrap();
        assert_eq!(description(failed), "exit code 2");
        let killed = Command::new("/bin/sh")
            .args(["-c", "kill -9 $$"])
            .status()
            .await
            .unwrap();
        assert_eq!(description(killed), "killed by signal 9");
    }
}
