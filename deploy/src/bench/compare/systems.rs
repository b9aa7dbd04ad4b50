//! The two systems, started from nothing: as many controllers and brokers, with the same configuration, on loopback.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use host::{Clock as _, Disk as _, OpenHow, OsClock, OsDisk, replace_file};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::address::Address;
use crate::args::UpArgs;
use crate::bench::process::Watched;
use crate::outcome::Failure;
use crate::up::orphans::end_with_parent;
use crate::up::plan::{Node, Plan, Role};
use crate::up::ready;

/// The release that is compared with.
pub const KAFKA: &str = "4.4.0";

/// How long a cluster may take to serve, or to stop.
const LIMIT: Duration = Duration::from_secs(300);

/// The id of a cluster that lives for a minute.
const CLUSTER_ID: &str = "bWlsbHJhY2UtYmVuY2gtMQ";

/// What `kafka-server-start` gives the JVM.
const JVM: [&str; 9] = [
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
];

/// What only Apache Kafka must be told on loopback.
const KAFKA_ONLY: &str = "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n";

/// Which system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// Apache Kafka.
    Kafka,
    /// This one.
    Millrace,
}

impl System {
    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kafka => "Apache Kafka",
            Self::Millrace => "Millrace",
        }
    }
}

/// Where and with what.
#[derive(Debug, Clone)]
pub struct Ground {
    /// Apache Kafka's jars.
    pub jars: PathBuf,
    /// Where clusters keep their files.
    pub dir: PathBuf,
    /// The first port.
    pub port: u16,
}

/// A cluster that serves.
pub struct Running {
    /// Where its brokers are.
    pub bootstrap: Vec<Address>,
    /// Its brokers' processes.
    pub brokers: Watched,
    /// All its processes.
    pub everything: Watched,
    /// From the start of the first process until every broker says that it serves, in seconds.
    pub start_seconds: f64,
    children: Vec<Child>,
    dir: PathBuf,
}

impl Ground {
    fn plan(&self, system: System, nodes: u8) -> Result<Plan, Failure> {
        let args = self.up_args(system, nodes);
        Plan::new(&args, args.dir.clone(), CLUSTER_ID.to_owned()).map_err(Failure::Usage)
    }

    fn up_args(&self, system: System, nodes: u8) -> UpArgs {
        // Ports of their own, so that what is left of one cluster is never taken for the other.
        let (name, port) = match system {
            System::Kafka => ("kafka", self.port),
            System::Millrace => ("millrace", self.port + 100),
        };
        UpArgs {
            controllers: nodes,
            brokers: nodes,
            dir: self.dir.join(name),
            port,
            sets: Vec::new(),
        }
    }

    /// What the first broker is told, and how its process is started.
    ///
    /// # Errors
    /// When the ports do not suffice.
    pub fn configuration(&self, system: System, nodes: u8) -> Result<Vec<String>, Failure> {
        let plan = self.plan(system, nodes)?;
        let broker = plan.nodes.iter().find(|node| node.role == Role::Broker);
        let text = broker
            .map(|broker| self.properties(system, &plan, broker))
            .unwrap_or_default();
        let mut lines = vec![match system {
            System::Kafka => format!("java {} kafka.Kafka, release {KAFKA}", JVM.join(" ")),
            System::Millrace => format!("millrace-broker {}", env!("CARGO_PKG_VERSION")),
        }];
        lines.extend(
            text.lines()
                .filter(|line| !line.starts_with('#'))
                .map(str::to_owned),
        );
        Ok(lines)
    }

    fn properties(&self, system: System, plan: &Plan, node: &Node) -> String {
        let same = plan.properties(node);
        match system {
            System::Millrace => same,
            System::Kafka => format!("{same}{KAFKA_ONLY}"),
        }
    }

    /// Starts a cluster of so many brokers and as many controllers, on an empty disk.
    ///
    /// # Errors
    /// When a process cannot be started or ends, or the cluster does not serve in time.
    pub async fn start(&self, system: System, nodes: u8) -> Result<Running, Failure> {
        let args = self.up_args(system, nodes);
        empty(&args.dir)?;
        let began = timeout(LIMIT, async {
            match system {
                System::Kafka => self.start_kafka(nodes).await,
                System::Millrace => start_millrace(&args).await,
            }
        });
        let late = |_| {
            Failure::Refused(format!(
                "{} does not serve after {} s",
                system.name(),
                LIMIT.as_secs()
            ))
        };
        began.await.map_err(late)?
    }

    async fn start_kafka(&self, nodes: u8) -> Result<Running, Failure> {
        let plan = self.plan(System::Kafka, nodes)?;
        for node in &plan.nodes {
            write(&node.config_path(), &self.properties(System::Kafka, &plan, node))?;
            self.format(node).await?;
        }
        let clock = OsClock::new();
        let began = clock.now();
        let mut children = Vec::new();
        for node in &plan.nodes {
            let log = OsDisk.open(&node.log_path(), OpenHow::CreateOrWrite);
            let log = log.and_then(|file| file.as_fd().map(|fd| fd.try_clone_to_owned()).transpose());
            let log = log.ok().flatten().map_or_else(Stdio::null, Stdio::from);
            let mut java = self.java(&JVM, "kafka.Kafka");
            java.arg(node.config_path())
                .stdin(Stdio::null())
                .stdout(log)
                .stderr(Stdio::null());
            java.process_group(0).kill_on_drop(true);
            let child = end_with_parent(&mut java).spawn();
            children.push(child.map_err(|error| Failure::machine("java", &error))?);
        }
        ready::all_serve(&plan).await;
        let start_seconds = clock.now().since(began).as_secs_f64();
        let pids = |wanted: Option<Role>| {
            let of = plan
                .nodes
                .iter()
                .zip(&children)
                .filter(move |(node, _)| wanted.is_none_or(|role| node.role == role));
            of.filter_map(|(_, child)| i32::try_from(child.id()?).ok())
                .collect()
        };
        let brokers = plan.nodes.iter().filter(|node| node.role == Role::Broker);
        Ok(Running {
            bootstrap: brokers.map(|node| node.address.clone()).collect(),
            brokers: Watched::Processes(pids(Some(Role::Broker))),
            everything: Watched::Processes(pids(None)),
            start_seconds,
            children,
            dir: plan.dir,
        })
    }

    async fn format(&self, node: &Node) -> Result<(), Failure> {
        let mut java = self.java(&["-Xmx256m"], "kafka.tools.StorageTool");
        java.args(["format", "-t", CLUSTER_ID, "-c"])
            .arg(node.config_path());
        let output = java
            .output()
            .await
            .map_err(|error| Failure::machine("java", &error))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                Err(Failure::Refused(format!(
                    "{} cannot be formatted: {text}",
                    node.name()
                )))
            }
        }
    }

    fn java(&self, options: &[&str], class: &str) -> Command {
        let mut java = Command::new("java");
        java.args(options)
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
        java.arg("-cp")
            .arg(format!("{}/*", self.jars.display()))
            .arg(class);
        java
    }
}

async fn start_millrace(args: &UpArgs) -> Result<Running, Failure> {
    let own =
        std::env::current_exe().map_err(|error| Failure::machine("the path of this program", &error))?;
    let (controllers, brokers) = (args.controllers.to_string(), args.brokers.to_string());
    let mut up = Command::new(own);
    up.args([
        "up",
        "--json",
        "--controllers",
        &controllers,
        "--brokers",
        &brokers,
        "--port",
    ]);
    up.arg(args.port.to_string()).arg("--dir").arg(&args.dir);
    up.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let clock = OsClock::new();
    let began = clock.now();
    let mut child = end_with_parent(&mut up)
        .spawn()
        .map_err(|error| Failure::machine("millrace up", &error))?;
    let out = child
        .stdout
        .take()
        .ok_or_else(|| Failure::Refused("millrace up has no output".to_owned()))?;
    let line = BufReader::new(out).lines().next_line().await;
    let start_seconds = clock.now().since(began).as_secs_f64();
    let line = line.ok().flatten().unwrap_or_default();
    let told: Value = serde_json::from_str(&line)
        .map_err(|_| Failure::Refused(format!("millrace up did not serve; see {}", args.dir.display())))?;
    let bootstrap = told["bootstrap"].as_str().unwrap_or_default();
    let bootstrap = bootstrap
        .split(',')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(Failure::Refused)?;
    let pids = |part: &str| {
        let all = told["pids"].as_object().into_iter().flatten();
        let wanted = all.filter(|(name, _)| name.starts_with(part));
        wanted
            .filter_map(|(_, pid)| i32::try_from(pid.as_i64()?).ok())
            .collect()
    };
    Ok(Running {
        bootstrap,
        brokers: Watched::Processes(pids("broker")),
        everything: Watched::Processes(pids("")),
        start_seconds,
        children: vec![child],
        dir: args.dir.clone(),
    })
}

impl Running {
    /// Stops it and removes what it kept.
    ///
    /// # Errors
    /// When it does not stop, or its files cannot be removed.
    pub async fn stop(mut self) -> Result<(), Failure> {
        for child in self.children.iter().rev() {
            let pid = child
                .id()
                .and_then(|pid| i32::try_from(pid).ok())
                .and_then(Pid::from_raw);
            // One that has ended cannot be told any more.
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        for child in self.children.iter_mut().rev() {
            if timeout(Duration::from_secs(20), child.wait()).await.is_err() {
                // Its files go anyway.
                let _ = child.kill().await;
            }
        }
        empty(&self.dir)
    }
}

fn empty(dir: &Path) -> Result<(), Failure> {
    match OsDisk.remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::machine(&dir.display().to_string(), &error))
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let dir = path.parent().unwrap_or(path);
    let written = OsDisk
        .create_dir_all(dir)
        .and_then(|()| replace_file(&OsDisk, path, text.as_bytes()));
    written.map_err(|error| Failure::machine(&path.display().to_string(), &error))
}
