//! A cluster of real processes on loopback, with verbs that break it.
//!
//! Brokers are nodes 1, 2, …; controllers are nodes 101, 102, …. Every node has its own folder and log file.
//! A line of level ERROR, or a panic, in any log fails the test that owns the cluster unless it was expected.
//! Nothing here decides anything about Kafka: it starts, breaks, asks, and cleans up.

mod names;
pub mod node;
pub mod ports;
pub mod proxy;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{Figures, Process};
use crate::{ask, kafka, wait};
use node::{Node, Program};
use proxy::Links;

/// The id of a node, as in `node.id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It decides about metadata.
    Controller,
    /// It keeps logs and serves clients.
    Broker,
}

impl NodeId {
    /// Which kind of node has this id.
    pub fn role(self) -> Role {
        if self.0 > 100 {
            Role::Controller
        } else {
            Role::Broker
        }
    }
}

/// Broker `n`, counted from 1.
pub const fn broker(n: u32) -> NodeId {
    NodeId(n)
}

/// Controller `n`, counted from 1.
pub const fn controller(n: u32) -> NodeId {
    NodeId(100 + n)
}

/// How long a cluster may take until every broker serves.
const SERVING_WITHIN: Duration = Duration::from_secs(60);

/// What to start.
pub struct Builder {
    controllers: u32,
    brokers: u32,
    settings: Vec<(String, String)>,
    environment: Vec<(Role, String, String)>,
    directories: u32,
    cuttable: bool,
    apache_kafka: bool,
    folder: Option<PathBuf>,
    binaries: Option<PathBuf>,
    named: bool,
}

impl Builder {
    /// So many controllers, one unless said.
    pub fn controllers(mut self, count: u32) -> Builder {
        self.controllers = count;
        self
    }

    /// So many brokers, one unless said.
    pub fn brokers(mut self, count: u32) -> Builder {
        self.brokers = count;
        self
    }

    /// So many log directories in every broker, one unless said.
    pub fn directories(mut self, count: u32) -> Builder {
        self.directories = count;
        self
    }

    /// One configuration key of every node.
    pub fn set(mut self, key: &str, value: impl fmt::Display) -> Builder {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }

    /// One environment variable of every node with this role.
    pub fn environment(mut self, role: Role, name: &str, value: &str) -> Builder {
        self.environment.push((role, name.to_owned(), value.to_owned()));
        self
    }

    /// Puts a forwarder in front of every listener, so that links can be cut.
    pub fn cuttable(mut self) -> Builder {
        self.cuttable = true;
        self
    }

    /// Starts Apache Kafka instead, as a peer to compare with.
    pub fn apache_kafka(mut self) -> Builder {
        self.apache_kafka = true;
        self
    }

    /// Takes the binaries from `folder`.
    pub fn binaries(mut self, folder: PathBuf) -> Builder {
        self.binaries = Some(folder);
        self
    }

    /// Keeps everything under `folder`, which stays when the cluster is gone.
    pub fn folder(mut self, folder: PathBuf) -> Builder {
        self.folder = Some(folder);
        self
    }

    /// Nodes know each other by host names, which only they can resolve: see `Cluster::resolve`.
    pub fn named(mut self) -> Builder {
        self.named = true;
        self
    }

    /// Starts all nodes and waits until every broker knows every broker.
    pub fn start(self) -> Result<Cluster> {
        let mut cluster = self.prepare()?;
        cluster.start_all()?;
        Ok(cluster)
    }

    /// Writes every node's folder and configuration, and starts nothing.
    pub fn prepare(self) -> Result<Cluster> {
        let owned = tempfile::Builder::new().prefix("millrace-test-").tempdir()?;
        let folder = self.folder.clone().unwrap_or_else(|| owned.path().to_path_buf());
        let ids = (1..=self.controllers)
            .map(controller)
            .chain((1..=self.brokers).map(broker));
        let mut doors = BTreeMap::new();
        for id in ids {
            let inner = ports::free()?;
            doors.insert(id, (inner, if self.cuttable { ports::free()? } else { inner }));
        }
        let voters = (1..=self.controllers).map(|n| {
            let id = controller(n);
            format!("{id}@{}:{}", self.host(id), doors[&id].1)
        });
        let voters = voters.collect::<Vec<_>>().join(",");
        let links = Arc::new(Links::default());
        std::fs::create_dir_all(&folder)?;
        let names = names::Names::in_folder(&folder)?;
        let mut nodes = BTreeMap::new();
        for (id, (inner, outer)) in doors {
            if self.cuttable {
                proxy::forward(&links, outer, id, inner)?;
            }
            let program = self.program(id)?;
            let mut node = Node::prepare(&folder, id, program, (inner, outer), &voters, &self)?;
            if self.named {
                names.resolve(&self.host(id), &node.host)?;
                node.names = Some(names.file().to_path_buf());
            }
            nodes.insert(id, node);
        }
        Ok(Cluster {
            nodes,
            links,
            names,
            voters,
            folder,
            expected: Vec::new(),
            owned,
        })
    }

    /// What other nodes call `id`.
    fn host(&self, id: NodeId) -> String {
        if self.named {
            names::name_of(id)
        } else {
            "127.0.0.1".to_owned()
        }
    }

    fn program(&self, id: NodeId) -> Result<Program> {
        if self.apache_kafka {
            return Ok(Program::ApacheKafka(kafka::jars()?));
        }
        let name = if id.0 > 100 {
            "millrace-controller"
        } else {
            "millrace-broker"
        };
        Ok(Program::Millrace(match &self.binaries {
            Some(folder) => folder.join(name),
            None => crate::binaries::binary(name)?,
        }))
    }
}

/// Running nodes. Dropping it kills them, removes their folders, and judges their logs.
pub struct Cluster {
    nodes: BTreeMap<NodeId, Node>,
    links: Arc<Links>,
    names: names::Names,
    voters: String,
    folder: PathBuf,
    expected: Vec<String>,
    owned: tempfile::TempDir,
}

impl Cluster {
    /// One controller and one broker, unless said otherwise. With `MILLRACE_TEST_PEER=apache-kafka` in the
    /// environment they are Apache Kafka's, which shows what a test demands of its own reference.
    pub fn builder() -> Builder {
        Builder {
            controllers: 1,
            brokers: 1,
            settings: Vec::new(),
            environment: Vec::new(),
            directories: 1,
            cuttable: false,
            apache_kafka: std::env::var("MILLRACE_TEST_PEER").is_ok_and(|peer| peer == "apache-kafka"),
            folder: None,
            binaries: None,
            named: false,
        }
    }

    fn node(&self, id: NodeId) -> Result<&Node> {
        self.nodes
            .get(&id)
            .with_context(|| format!("there is no node {id}"))
    }

    fn node_mut(&mut self, id: NodeId) -> Result<&mut Node> {
        self.nodes
            .get_mut(&id)
            .with_context(|| format!("there is no node {id}"))
    }

    /// The brokers' ids.
    pub fn brokers(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().filter(|id| id.0 < 100).collect()
    }

    /// The controllers' ids.
    pub fn controllers(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().filter(|id| id.0 > 100).collect()
    }

    /// Where clients connect to `id`: the forwarder, if there is one.
    pub fn address(&self, id: NodeId) -> Result<String> {
        let node = self.node(id)?;
        Ok(format!("{}:{}", node.host, node.door))
    }

    /// Where metrics and probes of `id` are served.
    pub fn watched_at(&self, id: NodeId) -> Result<String> {
        Ok(format!("127.0.0.1:{}", self.node(id)?.watch))
    }

    /// Every broker, for `bootstrap.servers`.
    pub fn bootstrap(&self) -> String {
        let addresses = self.nodes.iter().filter(|(id, _)| id.0 < 100);
        addresses
            .map(|(_, node)| format!("127.0.0.1:{}", node.door))
            .collect::<Vec<_>>()
            .join(",")
    }

    /// The value of `controller.quorum.voters`.
    pub fn voters(&self) -> &str {
        &self.voters
    }

    /// The folder above all nodes' folders.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log directories of `id`, in the order of `log.dirs`.
    pub fn directories(&self, id: NodeId) -> Result<Vec<PathBuf>> {
        Ok(self.node(id)?.directories.clone())
    }

    /// The data directory of `id`, the first if there are several.
    pub fn data(&self, id: NodeId) -> Result<PathBuf> {
        Ok(self.node(id)?.data.clone())
    }

    /// What `id` has logged so far.
    pub fn log(&self, id: NodeId) -> Result<String> {
        self.node(id)?.log_text()
    }

    /// What the kernel says about `id`.
    pub fn figures(&self, id: NodeId) -> Result<Figures> {
        self.running(id)?.figures()
    }

    fn running(&self, id: NodeId) -> Result<&Process> {
        self.node(id)?
            .process
            .as_ref()
            .with_context(|| format!("node {id} is down"))
    }

    fn running_mut(&mut self, id: NodeId) -> Result<&mut Process> {
        self.node_mut(id)?
            .process
            .as_mut()
            .with_context(|| format!("node {id} is down"))
    }

    /// Whether `id` runs.
    pub fn runs(&mut self, id: NodeId) -> bool {
        self.running_mut(id)
            .is_ok_and(|process| process.ended().is_none())
    }

    /// Starts `id`, which is down, with the configuration it had.
    pub fn start(&mut self, id: NodeId) -> Result<()> {
        let node = self.node_mut(id)?;
        node.start()?;
        let pid = node
            .process
            .as_ref()
            .map(Process::id)
            .context("it has just been started")?;
        self.links.runs_as(id, pid);
        Ok(())
    }

    /// Starts every node that is down, controllers first, and waits until the cluster serves.
    pub fn start_all(&mut self) -> Result<()> {
        let down = self
            .nodes
            .iter()
            .filter(|(_, node)| node.process.is_none())
            .map(|(id, _)| *id);
        let mut down: Vec<NodeId> = down.collect();
        down.sort_by_key(|id| (id.0 < 100, *id));
        for id in down {
            self.start(id)?;
        }
        self.wait_until_serving()
    }

    /// Waits until every running broker lists every running broker.
    pub fn wait_until_serving(&mut self) -> Result<()> {
        let brokers: Vec<NodeId> = self.brokers().into_iter().filter(|id| self.runs(*id)).collect();
        let mut wanted: Vec<i32> = brokers.iter().map(|id| id.0.cast_signed()).collect();
        wanted.sort_unstable();
        for id in brokers {
            let address = self.address(id)?;
            wait::until(&format!("broker {id} serves"), SERVING_WITHIN, || {
                if let Some(status) = self.running_mut(id)?.ended() {
                    bail!("broker {id} ended: {status}");
                }
                let known = ask::brokers(&address)?;
                ensure!(known == wanted, "it knows {known:?} instead of {wanted:?}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// SIGKILL.
    pub fn kill(&mut self, id: NodeId) -> Result<()> {
        self.running_mut(id)?.kill()?;
        self.node_mut(id)?.process = None;
        Ok(())
    }

    /// SIGTERM, and wait for the end.
    pub fn term(&mut self, id: NodeId) -> Result<ExitStatus> {
        let status = self.running_mut(id)?.terminate(Duration::from_secs(40))?;
        self.node_mut(id)?.process = None;
        Ok(status)
    }

    /// SIGTERM without waiting for the end.
    pub fn ask_to_end(&self, id: NodeId) -> Result<()> {
        self.running(id)?.ask_to_end()
    }

    /// Waits for the end of `id`, which was asked for.
    pub fn wait_for_end(&mut self, id: NodeId) -> Result<ExitStatus> {
        let process = self.running_mut(id)?;
        let status = wait::until(&format!("the end of {id}"), Duration::from_secs(40), || {
            process.ended().context("still running")
        })?;
        self.node_mut(id)?.process = None;
        Ok(status)
    }

    /// SIGSTOP: the process is alive and silent.
    pub fn stop(&mut self, id: NodeId) -> Result<()> {
        self.running_mut(id)?.pause()
    }

    /// SIGCONT.
    pub fn cont(&mut self, id: NodeId) -> Result<()> {
        self.running_mut(id)?.resume()
    }

    /// Empties the disk of a node that is down.
    pub fn wipe(&mut self, id: NodeId) -> Result<()> {
        let node = self.node(id)?;
        ensure!(node.process.is_none(), "node {id} still runs");
        for directory in &node.directories {
            std::fs::remove_dir_all(directory)?;
            std::fs::create_dir_all(directory)?;
        }
        Ok(())
    }

    /// SIGKILL, if it runs, and a new start.
    pub fn restart(&mut self, id: NodeId) -> Result<()> {
        if self.runs(id) {
            self.kill(id)?;
        }
        self.start(id)
    }

    /// A node that is down comes back at another address of loopback, and its name follows.
    pub fn move_to(&mut self, id: NodeId, host: &str) -> Result<()> {
        self.node_mut(id)?.listen_on(host)?;
        self.resolve(id)
    }

    /// Lets the nodes of a named cluster resolve the name of `id`.
    pub fn resolve(&self, id: NodeId) -> Result<()> {
        self.names.resolve(&names::name_of(id), &self.node(id)?.host)
    }

    /// Takes the name of `id` away from the nodes of a named cluster.
    pub fn unresolve(&self, id: NodeId) -> Result<()> {
        self.names.forget(&names::name_of(id))
    }

    /// Starts a second process with the id of `id`, on an empty disk and a port of its own.
    pub fn twin(&self, id: NodeId) -> Result<Process> {
        self.node(id)?.twin()
    }

    /// SIGKILL for several nodes at once.
    pub fn kill_all(&mut self, ids: &[NodeId]) -> Result<()> {
        ids.iter().try_for_each(|id| self.kill(*id))
    }

    /// Holds everything between two nodes; needs `cuttable`.
    pub fn cut(&self, one: NodeId, other: NodeId) {
        self.links.cut(one, other);
    }

    /// Lets everything between two nodes pass again.
    pub fn join(&self, one: NodeId, other: NodeId) {
        self.links.join(one, other);
    }

    /// Cuts `id` from each of `others`.
    pub fn isolate(&self, id: NodeId, others: &[NodeId]) {
        others
            .iter()
            .filter(|other| **other != id)
            .for_each(|other| self.links.cut(id, *other));
    }

    /// Joins `id` with each of `others`.
    pub fn heal(&self, id: NodeId, others: &[NodeId]) {
        others.iter().for_each(|other| self.links.join(id, *other));
    }

    /// Log lines with `part` in them are no surprise.
    pub fn expect_in_logs(&mut self, part: &str) {
        self.expected.push(part.to_owned());
    }

    /// Every line of level ERROR, and every panic, that nobody expected.
    pub fn surprises(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (id, node) in &self.nodes {
            let text = node.log_text().unwrap_or_default();
            let bad = text.lines().filter(|line| node::is_alarm(line));
            let unexpected = bad.filter(|line| !self.expected.iter().any(|part| line.contains(part)));
            found.extend(unexpected.map(|line| format!("{id}: {line}")));
        }
        found
    }
}

impl Cluster {
    /// What a cluster that surprised somebody has on its disks stays there where `MILLRACE_TEST_KEEP` is set.
    #[allow(clippy::print_stderr, reason = "it reports to a terminal")]
    fn keep_if_asked(&mut self) {
        if std::env::var_os("MILLRACE_TEST_KEEP").is_some() {
            self.owned.disable_cleanup(true);
            eprintln!("kept: {}", self.owned.path().display());
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.links.end();
        for node in self.nodes.values_mut() {
            node.process = None;
        }
        let apache = self
            .nodes
            .values()
            .any(|node| matches!(node.program, Program::ApacheKafka(_)));
        let surprises = if apache { Vec::new() } else { self.surprises() };
        if std::thread::panicking() || !surprises.is_empty() {
            self.nodes.values().for_each(Node::print_tail);
            self.keep_if_asked();
        }
        if !std::thread::panicking() {
            assert!(
                surprises.is_empty(),
                "alarms in the logs:\n{}",
                surprises.join("\n")
            );
        }
    }
}
