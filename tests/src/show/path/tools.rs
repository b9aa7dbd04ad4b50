//! Kafka's own tools and other stock clients against three controllers and three brokers.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::message::Message;

use crate::cluster::Cluster;
use crate::load::each_record;
use crate::load::perf::Ledger;
use crate::raw::requests::{FetchLimits, NewTopic};
use crate::show::Board;
use crate::{ask, clients, kafka};

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 12;
const RECORDS: u32 = 1_000_000;
const RECORD_BYTES: usize = 1024;
const CODECS: [(&str, u8); 5] = [("none", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)];

/// One row each.
pub fn rows(board: &mut Board) {
    if !board.wants_some_of("tool") {
        return;
    }
    let cluster = match Cluster::builder().controllers(3).brokers(3).start() {
        Ok(cluster) => cluster,
        Err(error) => return board.row("tool", || Err(error)),
    };
    let bootstrap = cluster.bootstrap();
    board.row("tool kafka-topics", || create_and_describe(&bootstrap));
    board.row("tool kafka-producer-perf-test", || produce(&bootstrap));
    board.row("tool kafka-console-consumer", || read_with_java(&bootstrap));
    board.row("tool librdkafka", || read_with_librdkafka(&bootstrap));
    board.row("tool kcat", || each_codec(&bootstrap));
    let compared = ["get-offsets", "broker-api-versions", "cluster"];
    if compared
        .iter()
        .any(|name| board.wants(&format!("tool kafka-{name}")))
    {
        beside_apache_kafka(board, &bootstrap);
    }
    board.row("tool logs", || super::cases::judged(cluster));
}

fn create_and_describe(bootstrap: &str) -> Result<String> {
    let (partitions, server) = (PARTITIONS.to_string(), ["--bootstrap-server", bootstrap]);
    let mut create = vec!["--create", "--topic", TOPIC, "--partitions", &partitions];
    create.extend(["--replication-factor", "3", "--config", "min.insync.replicas=2"]);
    kafka::run("kafka-topics", &[&server[..], &create].concat())?;
    ask::everything_in_sync(bootstrap, TOPIC, Duration::from_secs(30))?;
    let shown = kafka::run(
        "kafka-topics",
        &[&server[..], &["--describe", "--topic", TOPIC]].concat(),
    )?;
    let head = shown.lines().next().unwrap_or_default();
    for part in [
        "PartitionCount: 12",
        "ReplicationFactor: 3",
        "min.insync.replicas=2",
    ] {
        ensure!(head.contains(part), "no {part} in:\n{shown}");
    }
    let rows: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains("Partition: "))
        .collect();
    ensure!(rows.len() == 12, "{} partitions in:\n{shown}", rows.len());
    let mut leaders = Vec::new();
    for row in rows {
        let field = |name: &str| {
            row.split(name)
                .nth(1)
                .and_then(|rest| rest.split_whitespace().next())
        };
        let three = |name: &str| field(name).is_some_and(|list| list.split(',').count() == 3);
        ensure!(three("Replicas: ") && three("Isr: "), "{row}");
        leaders.push(field("Leader: ").context("a leader")?.to_owned());
    }
    leaders.sort();
    leaders.dedup();
    ensure!(leaders.len() == 3, "all led by {leaders:?}");
    Ok("12 partitions, 3 replicas each in sync, 3 leaders".to_owned())
}

fn produce(bootstrap: &str) -> Result<String> {
    let (count, size) = (RECORDS.to_string(), RECORD_BYTES.to_string());
    let mut arguments = vec![
        "--bootstrap-server",
        bootstrap,
        "--topic",
        TOPIC,
        "--num-records",
        &count,
    ];
    arguments.extend(["--record-size", &size, "--throughput", "-1", "--random-seed", "0"]);
    arguments.extend([
        "--command-property",
        "acks=all",
        "--command-property",
        "enable.idempotence=true",
    ]);
    let printed = kafka::run("kafka-producer-perf-test", &arguments)?;
    let last = printed.lines().last().unwrap_or_default().to_owned();
    ensure!(last.starts_with(&format!("{RECORDS} records sent")), "{printed}");
    Ok(last)
}

fn read_with_java(bootstrap: &str) -> Result<String> {
    let began = Instant::now();
    let mut ledger = Ledger::of(RECORDS, RECORD_BYTES);
    for partition in 0..PARTITIONS {
        let (_, _, end) = ask::leader(bootstrap, TOPIC, partition)?.list_offset(TOPIC, partition, -1)?;
        if end == 0 {
            continue;
        }
        let mut command = kafka::tool("kafka-console-consumer")?;
        command.args([
            "--bootstrap-server",
            bootstrap,
            "--topic",
            TOPIC,
            "--offset",
            "earliest",
        ]);
        command.args([
            "--partition",
            &partition.to_string(),
            "--max-messages",
            &end.to_string(),
        ]);
        command.args(["--timeout-ms", "60000"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("its output is piped")?);
        for line in output.split(b'\n') {
            ledger.read(partition, &line?)?;
        }
        ensure!(
            child.wait()?.success(),
            "the consumer of partition {partition} failed"
        );
    }
    Ok(format!(
        "{} records, each byte as sent, {} s",
        ledger.close()?,
        began.elapsed().as_secs()
    ))
}

fn read_with_librdkafka(bootstrap: &str) -> Result<String> {
    let began = Instant::now();
    let mut ledger = Ledger::of(RECORDS, RECORD_BYTES);
    each_record(
        bootstrap,
        (TOPIC, PARTITIONS),
        Duration::from_secs(300),
        |message| ledger.read(message.partition(), message.payload().unwrap_or_default()),
    )?;
    Ok(format!(
        "{} records, each byte as sent, {} s",
        ledger.close()?,
        began.elapsed().as_secs()
    ))
}

fn each_codec(bootstrap: &str) -> Result<String> {
    let mut stored = Vec::new();
    for (codec, number) in CODECS {
        let topic = format!("codec-{codec}");
        ask::create(
            bootstrap,
            NewTopic::new(&topic, 1, 3).with("min.insync.replicas", "2"),
        )?;
        let lines: String = (0..1000)
            .map(|n| format!("{codec} line {n} {}\n", "abc".repeat(20)))
            .collect();
        clients::kcat_produce(bootstrap, &topic, codec, lines.as_bytes())?;
        let read = clients::kcat_consume(bootstrap, &topic, 0, 1000)?;
        ensure!(
            read == lines.as_bytes(),
            "{codec}: {} bytes came back of {}",
            read.len(),
            lines.len()
        );
        let batch = ask::leader(bootstrap, &topic, 0)?
            .fetch(&topic, 0, 0, FetchLimits::default())?
            .records;
        ensure!(
            batch[22] & 7 == number,
            "{codec} is stored with codec {}",
            batch[22] & 7
        );
        stored.push(codec);
    }
    Ok(format!(
        "{} codecs round-tripped and stored as they came",
        stored.len()
    ))
}

fn beside_apache_kafka(board: &mut Board, ours: &str) {
    let started = Cluster::builder().apache_kafka().start();
    let theirs = match &started {
        Ok(kafka) => kafka.bootstrap(),
        Err(error) => return board.row("tool Apache Kafka", || anyhow::bail!("{error:#}")),
    };
    board.row("tool kafka-get-offsets", || {
        let lines: String = (0..123).map(|n| format!("line {n}\n")).collect();
        for bootstrap in [ours, &theirs] {
            ask::create(bootstrap, NewTopic::new("offsets", 1, 1))?;
            clients::kcat_produce(bootstrap, "offsets", "none", lines.as_bytes())?;
        }
        let ask = |bootstrap: &str, time: &str| {
            kafka::run(
                "kafka-get-offsets",
                &[
                    "--bootstrap-server",
                    bootstrap,
                    "--topic",
                    "offsets",
                    "--time",
                    time,
                ],
            )
        };
        for time in ["latest", "earliest", "max-timestamp"] {
            let (one, other) = (ask(ours, time)?, ask(&theirs, time)?);
            ensure!(
                one == other || time == "max-timestamp",
                "{time}: {one} instead of {other}"
            );
            ensure!(one.starts_with("offsets:0:"), "{time}: {one}");
        }
        Ok(ask(ours, "latest")?.trim().to_owned())
    });
    board.row("tool kafka-broker-api-versions", || api_versions(ours, &theirs));
    board.row("tool kafka-cluster", || {
        let ask =
            |bootstrap: &str| kafka::run("kafka-cluster", &["cluster-id", "--bootstrap-server", bootstrap]);
        let (one, other) = (ask(ours)?, ask(&theirs)?);
        let form = |text: &str| {
            text.trim()
                .rsplit_once(' ')
                .map(|(words, id)| (words.to_owned(), id.len()))
        };
        ensure!(form(&one) == form(&other), "{one} instead of {other}");
        Ok(one.trim().to_owned())
    });
}

fn api_versions(ours: &str, theirs: &str) -> Result<String> {
    let ask = |bootstrap: &str| kafka::run("kafka-broker-api-versions", &["--bootstrap-server", bootstrap]);
    let (one, other) = (ask(ours)?, ask(theirs)?);
    let api_lines = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .map(|line| line.trim().trim_end_matches(',').to_owned());
        lines.filter(|line| line.contains("): ")).collect()
    };
    let reference = api_lines(&other);
    let (mut same, mut unserved) = (0_usize, 0_usize);
    for line in api_lines(&one) {
        if line.ends_with("UNSUPPORTED") {
            unserved += 1;
        } else {
            ensure!(reference.contains(&line), "{line} is not what Apache Kafka says");
            same += 1;
        }
    }
    ensure!(same >= 3 * 21, "only {same} lines of three brokers");
    Ok(format!(
        "{} APIs a broker as Apache Kafka says, {} not served",
        same / 3,
        unserved / 3
    ))
}
