//! One node: its folder, its configuration file, its log, and its process while it runs.
#![allow(
    clippy::print_stderr,
    reason = "the tail of a failed node's log belongs on the terminal"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Builder, NodeId, names, ports};
use crate::kafka;
use crate::process::Process;

/// Lines of a log that are shown when a test fails.
const TAIL_LINES: usize = 25;

/// What runs as a node.
#[derive(Clone)]
pub enum Program {
    /// One of our binaries.
    Millrace(PathBuf),
    /// Apache Kafka, from this folder of jars.
    ApacheKafka(PathBuf),
}

/// A node of a cluster, up or down.
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// What runs as this node.
    pub program: Program,
    /// Where its log is written, over all its lives.
    pub log: PathBuf,
    /// Its data directory, the first if there are several.
    pub data: PathBuf,
    /// All of its data directories.
    pub directories: Vec<PathBuf>,
    /// The address that it listens on.
    pub host: String,
    /// The port that others are told.
    pub door: u16,
    /// Where metrics and probes are served, if it is one of ours.
    pub watch: u16,
    /// The host names that only nodes can resolve, if there are any.
    pub names: Option<PathBuf>,
    /// The process, while it runs.
    pub process: Option<Process>,
    properties: PathBuf,
    environment: Vec<(String, String)>,
}

impl Node {
    /// Writes the folder and the configuration.
    pub fn prepare(
        folder: &Path,
        id: NodeId,
        program: Program,
        (inner, outer): (u16, u16),
        voters: &str,
        builder: &Builder,
    ) -> Result<Node> {
        let controls = id.0 > 100;
        let directories = directories(folder, id, if controls { 1 } else { builder.directories })?;
        let log_dirs: Vec<String> = directories.iter().map(|it| it.display().to_string()).collect();
        let (role, name) = if controls {
            ("controller", "CONTROLLER")
        } else {
            ("broker", "PLAINTEXT")
        };
        let mut pairs = vec![
            ("process.roles".to_owned(), role.to_owned()),
            ("node.id".to_owned(), id.to_string()),
            ("controller.quorum.voters".to_owned(), voters.to_owned()),
            ("listeners".to_owned(), format!("{name}://127.0.0.1:{inner}")),
            ("log.dirs".to_owned(), log_dirs.join(",")),
        ];
        if !controls {
            pairs.push((
                "advertised.listeners".to_owned(),
                format!("{name}://127.0.0.1:{outer}"),
            ));
        }
        let apache = matches!(program, Program::ApacheKafka(_));
        let watch = ports::free()?;
        if !apache {
            pairs.push(("metrics.listener".to_owned(), format!("127.0.0.1:{watch}")));
        }
        if controls || apache {
            pairs.push(("controller.listener.names".to_owned(), "CONTROLLER".to_owned()));
        }
        if apache {
            pairs.extend(kafka::settings_beside(builder.brokers));
        }
        pairs.extend(builder.settings.iter().cloned());
        let properties = folder.join(format!("node-{id}.properties"));
        fs::write(
            &properties,
            pairs
                .iter()
                .map(|(k, v)| format!("{k}={v}\n"))
                .collect::<String>(),
        )?;
        Ok(Node {
            id,
            program,
            log: folder.join(format!("node-{id}.log")),
            data: directories[0].clone(),
            directories,
            host: "127.0.0.1".to_owned(),
            door: outer,
            watch,
            names: None,
            process: None,
            properties,
            environment: {
                let own = builder.environment.iter().filter(|(role, ..)| *role == id.role());
                own.map(|(_, name, value)| (name.clone(), value.clone()))
                    .collect()
            },
        })
    }

    /// Starts the process.
    pub fn start(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "node {} runs already", self.id);
        let command = self.command(&self.properties, &self.data)?;
        self.process = Some(Process::start(command, &self.log)?);
        Ok(())
    }

    fn command(&self, properties: &Path, data: &Path) -> Result<Command> {
        let inner = match &self.program {
            Program::Millrace(binary) => {
                let mut command = Command::new(binary);
                command.arg("--config").arg(properties);
                command
            }
            Program::ApacheKafka(jars) => {
                kafka::format(jars, properties, data)?;
                kafka::node_command(jars, properties)
            }
        };
        let mut command = match &self.names {
            Some(names) => names::with_names(names, &inner),
            None => inner,
        };
        command.env("NO_COLOR", "1").env("RUST_BACKTRACE", "1");
        command.current_dir(data.parent().context("a data directory stands in a folder")?);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// The properties with `changes` applied.
    fn changed(&self, changes: &[(&str, String)]) -> Result<String> {
        let text = fs::read_to_string(&self.properties)?;
        let lines = text.lines().map(|line| {
            let key = line.split('=').next().unwrap_or_default();
            let change = changes.iter().find(|(changed, _)| *changed == key);
            change.map_or_else(|| line.to_owned(), |(key, value)| format!("{key}={value}"))
        });
        Ok(lines.map(|line| line + "\n").collect())
    }

    /// From the next start on it listens on `host`.
    pub fn listen_on(&mut self, host: &str) -> Result<()> {
        ensure!(self.process.is_none(), "node {} still runs", self.id);
        let name = if self.id.0 > 100 {
            "CONTROLLER"
        } else {
            "PLAINTEXT"
        };
        let text = self.changed(&[("listeners", format!("{name}://{host}:{}", self.door))])?;
        fs::write(&self.properties, text)?;
        host.clone_into(&mut self.host);
        Ok(())
    }

    /// A second process with this node's id, on an empty disk and a port of its own.
    pub fn twin(&self) -> Result<Process> {
        let folder = self
            .data
            .parent()
            .context("a data directory stands in a folder")?;
        let data = folder.join(format!("twin-{}", self.id));
        fs::create_dir_all(&data)?;
        let listener = format!("PLAINTEXT://127.0.0.1:{}", super::ports::free()?);
        let changes = [
            ("log.dirs", data.display().to_string()),
            ("listeners", listener.clone()),
            ("advertised.listeners", listener),
            ("metrics.listener", "127.0.0.1:0".to_owned()),
        ];
        let properties = folder.join(format!("twin-{}.properties", self.id));
        fs::write(&properties, self.changed(&changes)?)?;
        let log = folder.join(format!("twin-{}.log", self.id));
        Process::start(self.command(&properties, &data)?, &log)
    }

    /// Everything that it has logged so far.
    pub fn log_text(&self) -> Result<String> {
        if !self.log.exists() {
            return Ok(String::new());
        }
        Ok(String::from_utf8_lossy(&fs::read(&self.log)?).into_owned())
    }

    /// Prints the last lines of the log.
    pub fn print_tail(&self) {
        let text = self.log_text().unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        eprintln!("--- node {}, last of {} lines", self.id, lines.len());
        for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
            eprintln!("{line}");
        }
    }
}

/// Creates so many log directories of a node, beside each other.
fn directories(folder: &Path, id: NodeId, count: u32) -> Result<Vec<PathBuf>> {
    let name = |n| match n {
        1 => format!("node-{id}"),
        n => format!("node-{id}-{n}"),
    };
    let directories: Vec<PathBuf> = (1..=count).map(|n| folder.join(name(n))).collect();
    for directory in &directories {
        fs::create_dir_all(directory)?;
    }
    Ok(directories)
}

/// Whether a log line says that a human must act.
pub fn is_alarm(line: &str) -> bool {
    let level = line.split_whitespace().take(3).any(|word| word == "ERROR");
    level || line.contains("\"level\":\"ERROR\"") || line.contains("panicked at")
}

#[cfg(test)]
mod tests {
    use super::is_alarm;

    #[test]
    fn an_error_or_a_panic_is_an_alarm_and_a_warning_is_not() {
        assert!(is_alarm(
            "2026-11-29T19:00:00.000001Z ERROR broker::lane: a sync failed"
        ));
        assert!(is_alarm("{\"timestamp\":\"t\",\"level\":\"ERROR\"}"));
        assert!(is_alarm(
            "thread 'lane-1' (17) panicked at broker/src/lane.rs:10:5:"
        ));
        assert!(!is_alarm(
            "2026-11-29T19:00:00.000001Z  WARN broker: answered NOT_LEADER ERROR to a client"
        ));
        assert!(!is_alarm(""));
    }
}
