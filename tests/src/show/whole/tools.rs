//! Kafka's tools for administrators: the same script against Millrace and against Apache Kafka, and the same answers.
//!
//! What may differ is taken out before the answers are compared, by [`plain`] and beside each script: ids, addresses,
//! paths and times. Nothing else may.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cluster::{Cluster, broker};
use crate::raw::requests::NewTopic;
use crate::show::Board;
use crate::{ask, clients, kafka, wait};

/// How soon what was asked for shows.
const WITHIN: Duration = Duration::from_secs(60);

/// A script: what it saw, one line each.
type Script = fn(&mut Cluster) -> Result<Vec<String>>;

/// Each with the fewest lines that prove something.
const SCRIPTS: &[(&str, Script, usize)] = &[
    ("tool kafka-configs of a topic", topic_configs, 8),
    ("tool kafka-configs of a broker", broker_configs, 6),
    ("tool kafka-configs of all brokers", default_configs, 5),
    ("tool kafka-topics --alter --partitions", more_partitions, 5),
    ("tool kafka-leader-election", preferred_leaders, 4),
    ("tool kafka-metadata-quorum --status", quorum_status, 7),
    ("tool kafka-metadata-quorum --replication", quorum_replication, 4),
    ("tool kafka-log-dirs", log_dirs, 4),
    ("tool kafka-delete-records", delete_records, 4),
];

/// One row each.
pub fn rows(board: &mut Board) {
    if !SCRIPTS.iter().any(|(name, ..)| board.wants(name)) {
        return;
    }
    let started = || -> Result<(Cluster, Cluster)> {
        let ours = Cluster::builder().brokers(2).start()?;
        Ok((ours, Cluster::builder().brokers(2).apache_kafka().start()?))
    };
    let (mut ours, mut theirs) = match started() {
        Ok(clusters) => clusters,
        Err(error) => return board.row("tool", || Err(error)),
    };
    for (name, script, least) in SCRIPTS {
        board.row(name, || {
            let (one, other) = (script(&mut ours)?, script(&mut theirs)?);
            ensure!(
                *least <= one.len(),
                "only {} lines:\n{}",
                one.len(),
                one.join("\n")
            );
            ensure!(
                one == other,
                "Millrace:\n{}\nApache Kafka:\n{}",
                one.join("\n"),
                other.join("\n")
            );
            Ok(format!("{} lines as Apache Kafka prints them", one.len()))
        });
    }
}

/// Runs a tool; its lines, and at the end how it ended. A failure is compared by that alone: its words are its own.
fn run(cluster: &Cluster, tool: &str, arguments: &[&str]) -> Result<Vec<String>> {
    let bootstrap = cluster.bootstrap();
    let all = [&["--bootstrap-server", bootstrap.as_str()][..], arguments].concat();
    let (succeeded, printed) = kafka::attempt(tool, &all)?;
    let mut lines: Vec<String> = match succeeded {
        true => printed
            .lines()
            .map(plain)
            .filter(|line| !line.is_empty())
            .collect(),
        false => Vec::new(),
    };
    lines.push(format!("{} {}: {succeeded}", tool, arguments.join(" ")));
    Ok(lines)
}

/// A line with one blank between its words and the overrides of a description in order.
fn plain(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.join(" ")
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn topic_configs(cluster: &mut Cluster) -> Result<Vec<String>> {
    ask::create(&cluster.bootstrap(), NewTopic::new("configured", 1, 1))?;
    let of_topic = |arguments: &[&str]| {
        let all = [
            &["--entity-type", "topics", "--entity-name", "configured"][..],
            arguments,
        ]
        .concat();
        run(cluster, "kafka-configs", &all).map(sorted)
    };
    let steps: [&[&str]; 7] = [
        &[
            "--alter",
            "--add-config",
            "retention.ms=5000,cleanup.policy=[compact,delete]",
        ],
        &["--describe"],
        &["--alter", "--delete-config", "retention.ms"],
        &["--describe"],
        &["--alter", "--add-config", "retention.ms=soon"],
        &["--alter", "--add-config", "nonsense=1"],
        &["--alter", "--delete-config", "nonsense"],
    ];
    let mut seen = Vec::new();
    for step in steps {
        seen.extend(of_topic(step)?);
    }
    seen.extend(run(
        cluster,
        "kafka-configs",
        &[
            "--entity-type",
            "topics",
            "--entity-name",
            "nothing",
            "--describe",
        ],
    )?);
    Ok(seen)
}

fn broker_configs(cluster: &mut Cluster) -> Result<Vec<String>> {
    let mut seen = Vec::new();
    let steps: [&[&str]; 6] = [
        &[
            "--alter",
            "--add-config",
            "message.max.bytes=2000000,log.retention.ms=100000",
        ],
        &["--describe"],
        &["--alter", "--add-config", "num.partitions=7"],
        &["--alter", "--add-config", "num.io.threads=none"],
        &["--alter", "--delete-config", "message.max.bytes,log.retention.ms"],
        &["--describe"],
    ];
    for step in steps {
        let all = [&["--entity-type", "brokers", "--entity-name", "1"][..], step].concat();
        seen.extend(run(cluster, "kafka-configs", &all).map(sorted)?);
    }
    Ok(seen)
}

fn default_configs(cluster: &mut Cluster) -> Result<Vec<String>> {
    let mut seen = Vec::new();
    let steps: [&[&str]; 5] = [
        &[
            "--alter",
            "--add-config",
            "log.retention.ms=90000,unclean.leader.election.enable=true",
        ],
        &["--describe"],
        &["--alter", "--add-config", "log.dirs=/elsewhere"],
        &[
            "--alter",
            "--delete-config",
            "log.retention.ms,unclean.leader.election.enable",
        ],
        &["--describe"],
    ];
    for step in steps {
        let all = [&["--entity-type", "brokers", "--entity-default"][..], step].concat();
        seen.extend(run(cluster, "kafka-configs", &all).map(sorted)?);
    }
    Ok(seen)
}

fn more_partitions(cluster: &mut Cluster) -> Result<Vec<String>> {
    ask::create(&cluster.bootstrap(), NewTopic::new("grown", 2, 2))?;
    let mut seen = Vec::new();
    let steps: [&[&str]; 4] = [
        &["--partitions", "5"],
        &["--partitions", "5"],
        &["--partitions", "3"],
        &[
            "--partitions",
            "6",
            "--replica-assignment",
            "1:2,1:2,1:2,1:2,1:2,2:1",
        ],
    ];
    for step in steps {
        let all = [&["--alter", "--topic", "grown"][..], step].concat();
        seen.extend(run(cluster, "kafka-topics", &all)?);
    }
    ask::everything_in_sync(&cluster.bootstrap(), "grown", WITHIN)?;
    let partitions = ask::partitions(&cluster.bootstrap(), "grown")?;
    let last = partitions.last().context("a partition")?;
    seen.push(format!(
        "{} partitions, the last on {:?}",
        partitions.len(),
        last.replicas
    ));
    Ok(seen)
}

fn preferred_leaders(cluster: &mut Cluster) -> Result<Vec<String>> {
    let (bootstrap, topic) = (cluster.bootstrap(), "led");
    ask::create(&bootstrap, NewTopic::new(topic, 1, 2).on(&[(0, &[2, 1])]))?;
    let elect = |cluster: &Cluster| {
        let arguments = [
            "--election-type",
            "preferred",
            "--topic",
            topic,
            "--partition",
            "0",
        ];
        run(cluster, "kafka-leader-election", &arguments)
    };
    let mut seen = elect(cluster)?;
    cluster.kill(broker(2))?;
    let first = cluster.address(broker(1))?;
    wait::until_equal("broker 1 leads", WITHIN, 1, || {
        Ok(ask::partitions(&first, topic)?[0].leader)
    })?;
    cluster.start(broker(2))?;
    cluster.wait_until_serving()?;
    ask::everything_in_sync(&bootstrap, topic, WITHIN)?;
    let leader = ask::partitions(&first, topic)?[0].leader;
    seen.push(format!("led by {leader} once all are in sync"));
    seen.extend(elect(cluster)?);
    wait::until_equal("broker 2 leads", WITHIN, 2, || {
        Ok(ask::partitions(&first, topic)?[0].leader)
    })?;
    Ok(seen)
}

fn quorum_status(cluster: &mut Cluster) -> Result<Vec<String>> {
    let lines = run(cluster, "kafka-metadata-quorum", &["describe", "--status"])?;
    // Names and what does not change; offsets, epochs and ids do.
    let kept = |line: String| match line.split_once(": ") {
        Some((name @ ("LeaderId" | "MaxFollowerLag"), value)) => format!("{name}: {value}"),
        Some((name @ ("ClusterId" | "LeaderEpoch" | "HighWatermark"), value)) => {
            format!(
                "{name}: {}",
                if value.is_empty() || value == "-1" {
                    "unknown"
                } else {
                    "known"
                }
            )
        }
        Some((name, _)) => name.to_owned(),
        None => line,
    };
    Ok(lines.into_iter().map(kept).collect())
}

fn quorum_replication(cluster: &mut Cluster) -> Result<Vec<String>> {
    // Everybody has heard of the newest record at some moment.
    wait::until("every follower at the end of the log", WITHIN, || {
        let lines = run(cluster, "kafka-metadata-quorum", &["describe", "--replication"])?;
        let rows: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
        let shown = rows.iter().map(|row| match row.as_slice() {
            [id, _, _, lag, _, _, status] if id.parse::<i32>().is_ok() => format!("{id} {lag} {status}"),
            other => other.join(" "),
        });
        let shown: Vec<String> = shown.collect();
        let observers = shown.iter().filter(|line| line.ends_with(" 0 Observer")).count();
        ensure!(observers == 2, "{shown:?}");
        Ok(sorted(shown))
    })
}

fn log_dirs(cluster: &mut Cluster) -> Result<Vec<String>> {
    let (bootstrap, topic) = (cluster.bootstrap(), "sized");
    ask::create(&bootstrap, NewTopic::new(topic, 1, 2).on(&[(0, &[1, 2])]))?;
    clients::kcat_produce(&bootstrap, topic, "none", b"one\ntwo\nthree\n")?;
    let sizes = || -> Result<Vec<String>> {
        let lines = run(cluster, "kafka-log-dirs", &["--describe", "--topic-list", topic])?;
        let json = lines
            .iter()
            .find(|line| line.starts_with('{'))
            .context("no JSON")?;
        let told: serde_json::Value = serde_json::from_str(json)?;
        let mut seen = BTreeMap::new();
        for broker in told["brokers"].as_array().context("brokers")? {
            for dir in broker["logDirs"].as_array().context("logDirs")? {
                for partition in dir["partitions"].as_array().context("partitions")? {
                    seen.insert(
                        broker["broker"].to_string(),
                        format!("{} {partition}", dir["error"]),
                    );
                }
            }
        }
        let rest = lines.into_iter().filter(|line| !line.starts_with('{'));
        Ok(rest
            .chain(seen.into_iter().map(|(broker, told)| format!("{broker}: {told}")))
            .collect())
    };
    // The follower comes a little later.
    wait::until("both replicas of one size", WITHIN, || {
        let seen = sizes()?;
        let told: Vec<&str> = seen
            .iter()
            .filter_map(|line| line.split_once(": null "))
            .map(|pair| pair.1)
            .collect();
        ensure!(told.len() == 2 && told[0] == told[1], "{seen:?}");
        Ok(seen)
    })
}

fn delete_records(cluster: &mut Cluster) -> Result<Vec<String>> {
    let (bootstrap, topic) = (cluster.bootstrap(), "shortened");
    ask::create(&bootstrap, NewTopic::new(topic, 1, 2))?;
    let lines: String = (0..100).map(|n| format!("line {n}\n")).collect();
    clients::kcat_produce(&bootstrap, topic, "none", lines.as_bytes())?;
    let file = cluster.folder().join("offsets.json");
    let mut seen = Vec::new();
    for before in [40, 20, 1000] {
        let wanted = format!(
            r#"{{"partitions":[{{"topic":"{topic}","partition":0,"offset":{before}}}],"version":1}}"#
        );
        std::fs::write(&file, wanted)?;
        let path = file.to_str().context("a path in UTF-8")?;
        let told = run(cluster, "kafka-delete-records", &["--offset-json-file", path])?;
        // The last line names the file.
        seen.extend(told.into_iter().filter(|line| !line.contains("offsets.json")));
    }
    let (_, _, earliest) = ask::leader(&bootstrap, topic, 0)?.list_offset(topic, 0, -2)?;
    seen.push(format!("begins at {earliest}"));
    Ok(seen)
}
