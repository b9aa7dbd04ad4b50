//! Apache Kafka itself: its jars, its tools and its nodes, as the reference that we are compared with.
//!
//! `tests/kafka/pom.xml` names the release. The jars are fetched once, by Maven, into a cache outside the
//! workspace. Nothing of ours is ever put on its class path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

use crate::binaries::workspace;

/// The release that `tests/kafka/pom.xml` names.
pub const RELEASE: &str = "4.4.0";

/// The tools that a distribution has scripts for, and the classes behind them.
const TOOLS: &[(&str, &str)] = &[
    ("kafka-topics", "org.apache.kafka.tools.TopicCommand"),
    (
        "kafka-producer-perf-test",
        "org.apache.kafka.tools.ProducerPerformance",
    ),
    ("kafka-console-producer", "org.apache.kafka.tools.ConsoleProducer"),
    (
        "kafka-console-consumer",
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
    ),
    (
        "kafka-consumer-groups",
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    ),
    (
        "kafka-consumer-perf-test",
        "org.apache.kafka.tools.ConsumerPerformance",
    ),
    (
        "kafka-verifiable-consumer",
        "org.apache.kafka.tools.VerifiableConsumer",
    ),
    ("kafka-get-offsets", "org.apache.kafka.tools.GetOffsetShell"),
    (
        "kafka-broker-api-versions",
        "org.apache.kafka.tools.BrokerApiVersionsCommand",
    ),
    ("kafka-cluster", "org.apache.kafka.tools.ClusterTool"),
    ("kafka-dump-log", "org.apache.kafka.tools.DumpLogSegments"),
    ("kafka-configs", "org.apache.kafka.tools.ConfigCommand"),
    ("kafka-storage", "kafka.tools.StorageTool"),
    (
        "kafka-verifiable-producer",
        "org.apache.kafka.tools.VerifiableProducer",
    ),
    (
        "kafka-leader-election",
        "org.apache.kafka.tools.LeaderElectionCommand",
    ),
    (
        "kafka-metadata-quorum",
        "org.apache.kafka.tools.MetadataQuorumCommand",
    ),
    ("kafka-log-dirs", "org.apache.kafka.tools.LogDirsCommand"),
    (
        "kafka-delete-records",
        "org.apache.kafka.tools.DeleteRecordsCommand",
    ),
];

/// The folder with the jars, fetched if they are not there.
pub fn jars() -> Result<PathBuf> {
    let folder = match (std::env::var_os("KAFKA_LIB"), std::env::var_os("XDG_CACHE_HOME")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, Some(cache)) => PathBuf::from(cache).join(format!("millrace/kafka-{RELEASE}")),
        (None, None) => {
            let home = std::env::var_os("HOME").context("HOME, for a cache folder")?;
            PathBuf::from(home).join(format!(".cache/millrace/kafka-{RELEASE}"))
        }
    };
    let wanted = |name: &str| folder.join(format!("{name}-{RELEASE}.jar")).exists();
    if !(wanted("kafka_2.13") && wanted("kafka-tools") && wanted("kafka-clients")) {
        let pom = workspace().join("tests/kafka/pom.xml");
        let mut maven = Command::new("mvn");
        maven
            .args(["-q", "-B", "-f"])
            .arg(pom)
            .arg("dependency:copy-dependencies");
        maven.arg(format!("-DoutputDirectory={}", folder.display()));
        ensure!(
            maven.status().context("mvn")?.success(),
            "the jars could not be fetched"
        );
    }
    Ok(folder)
}

fn java(jars: &Path, class: &str, heap: &str) -> Command {
    let mut command = Command::new("java");
    command
        .arg(format!("-Xmx{heap}"))
        .arg("-XX:+UseSerialGC")
        .arg("-XX:TieredStopAtLevel=1");
    command.arg("-cp").arg(format!("{}/*", jars.display()));
    if class != "kafka.Kafka" {
        command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
    }
    command.arg(class);
    command
}

/// The command of a tool, by the name of its script, without arguments.
pub fn tool(name: &str) -> Result<Command> {
    let class = TOOLS.iter().find(|(script, _)| *script == name);
    let class = class
        .with_context(|| format!("{name} is not in the table of tools"))?
        .1;
    Ok(java(&jars()?, class, "512m"))
}

/// Runs a tool to its end and gives what it printed; an unsuccessful end is an error that shows everything.
pub fn run(name: &str, arguments: &[&str]) -> Result<String> {
    let mut command = tool(name)?;
    let output = command.args(arguments).output()?;
    let text = shown(&output);
    ensure!(
        output.status.success(),
        "{name} {}: {}\n{text}",
        arguments.join(" "),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a tool to its end: whether it succeeded, and what it printed.
pub fn attempt(name: &str, arguments: &[&str]) -> Result<(bool, String)> {
    let output = tool(name)?.args(arguments).output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.success(), printed))
}

fn shown(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// What Apache Kafka wants to be told on loopback and we do not.
pub fn settings_beside(brokers: u32) -> Vec<(String, String)> {
    let copies = brokers.min(3);
    let pairs = [
        (
            "listener.security.protocol.map",
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT".to_owned(),
        ),
        ("offsets.topic.replication.factor", copies.to_string()),
        ("transaction.state.log.replication.factor", copies.to_string()),
        ("transaction.state.log.min.isr", copies.min(2).to_string()),
        (
            "share.coordinator.state.topic.replication.factor",
            copies.to_string(),
        ),
        ("share.coordinator.state.topic.min.isr", copies.min(2).to_string()),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value)).into()
}

/// The id that every cluster of a test is formatted with.
const CLUSTER_ID: &str = "bWlsbHJhY2UtdGVzdC1pZA";

/// Formats a data directory, unless it is.
pub fn format(jars: &Path, properties: &Path, data: &Path) -> Result<()> {
    if data.join("meta.properties").exists() {
        return Ok(());
    }
    fs::create_dir_all(data)?;
    let mut command = java(jars, "kafka.tools.StorageTool", "256m");
    command.args(["format", "-t", CLUSTER_ID, "-c"]).arg(properties);
    let output = command.output()?;
    ensure!(
        output.status.success(),
        "kafka-storage format: {}",
        shown(&output)
    );
    Ok(())
}

/// The command that runs a node.
pub fn node_command(jars: &Path, properties: &Path) -> Command {
    let mut command = java(jars, "kafka.Kafka", "768m");
    command.arg(properties);
    command
}
