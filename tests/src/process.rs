//! A child process and what the kernel says about it. It must know nothing of what the process is for.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// What `/proc` tells about one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// CPU time spent so far, user and system.
    pub cpu: Duration,
    /// Threads.
    pub threads: usize,
}

/// A child that is killed when this is dropped.
pub struct Process {
    child: Child,
    started: Instant,
    stopped: bool,
}

impl Process {
    /// Starts `command` with both outputs appended to `log`.
    pub fn start(mut command: Command, log: &Path) -> Result<Process> {
        let out = fs::OpenOptions::new().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        Ok(Process {
            child,
            started: Instant::now(),
            stopped: false,
        })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Since when it runs.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("a process id")?;
        kill_process(pid, signal).context("signal")
    }

    /// SIGKILL, and wait until it is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGTERM, and wait until it has ended by itself.
    pub fn terminate(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        wait::until("the end after SIGTERM", limit, || {
            self.ended().context("still running")
        })
    }

    /// SIGINT, as from Ctrl-C, and wait until it has ended by itself.
    pub fn interrupt(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::INT)?;
        wait::until("the end after SIGINT", limit, || {
            self.ended().context("still running")
        })
    }

    /// SIGTERM without waiting.
    pub fn ask_to_end(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGSTOP: alive, and silent. The signal stops a process only when one of its threads takes it in; until then the
    /// others go on, and answer.
    pub fn pause(&mut self) -> Result<()> {
        self.stopped = true;
        self.signal(Signal::STOP)?;
        let pid = self.child.id();
        wait::until("every thread stopped", Duration::from_secs(10), || {
            let moving = threads(pid)?.into_iter().filter(|state| *state != 'T').count();
            anyhow::ensure!(moving == 0, "{moving} threads go on");
            Ok(())
        })
    }

    /// SIGCONT.
    pub fn resume(&mut self) -> Result<()> {
        self.stopped = false;
        self.signal(Signal::CONT)
    }

    /// What the kernel says about it now.
    pub fn figures(&self) -> Result<Figures> {
        figures(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The state of each thread of process `pid`: R, S, D, T as in proc(5).
fn threads(pid: u32) -> Result<Vec<char>> {
    let mut states = Vec::new();
    for thread in fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"))? {
        let stat = fs::read_to_string(thread?.path().join("stat"))?;
        // The name before it stands in brackets and may hold anything.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        states.extend(state);
    }
    anyhow::ensure!(!states.is_empty(), "process {pid} has no threads");
    Ok(states)
}

/// What the kernel says about process `pid` now.
pub fn figures(pid: u32) -> Result<Figures> {
    let folder = Path::new("/proc").join(pid.to_string());
    let status = fs::read_to_string(folder.join("status"))?;
    let number = |key: &str| -> Result<u64> {
        let line = status
            .lines()
            .find(|line| line.starts_with(key))
            .with_context(|| format!("no {key}"))?;
        Ok(line.split_whitespace().nth(1).context("a number")?.parse()?)
    };
    // The command name may hold spaces, so the fields count from the parenthesis that closes it.
    let stat = fs::read_to_string(folder.join("stat"))?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Figures {
        resident_bytes: number("VmRSS:")? * 1024,
        threads: usize::try_from(number("Threads:")?)?,
        descriptors: fs::read_dir(folder.join("fd"))?.count(),
        cpu: Duration::from_millis(ticks * 1000 / per_second),
    })
}

/// The owner, among `pids`, of the loopback connection from `local` port to `remote` port.
pub fn owner_of_connection(local: u16, remote: u16, pids: &[u32]) -> Option<u32> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let ends = (format!(":{local:04X}"), format!(":{remote:04X}"));
    let inode = table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let same = fields.len() > 9 && fields[1].ends_with(&ends.0) && fields[2].ends_with(&ends.1);
        same.then(|| format!("socket:[{}]", fields[9]))
    })?;
    pids.iter().copied().find(|pid| {
        let links = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        links
            .filter_map(|link| fs::read_link(link.path()).ok())
            .any(|to| to.to_string_lossy() == inode)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_figures_of_this_process_are_plausible() {
        let own = figures(std::process::id()).unwrap();
        assert!(own.resident_bytes > 1 << 20);
        assert!(own.descriptors >= 3);
        assert!(own.threads >= 1);
    }

    /// A broker that was told to stop still answered one more fetch, and a test took what it acknowledged for a fault.
    #[test]
    fn a_paused_process_does_nothing_any_more() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            let mut busy = Process::start(command, &dir.path().join("log")).unwrap();
            busy.pause().unwrap();
            assert_eq!(threads(busy.id()).unwrap(), ['T']);
        }
    }

    #[test]
    fn a_connection_leads_back_to_the_process_that_made_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let local = stream.local_addr().unwrap().port();
        assert_eq!(
            owner_of_connection(local, port, &[std::process::id()]),
            Some(std::process::id())
        );
        assert_eq!(owner_of_connection(local, port, &[1]), None);
    }
}
