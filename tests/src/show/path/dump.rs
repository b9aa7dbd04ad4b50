//! Segments in both directions: Kafka's dump tool reads ours without a complaint, and our reader prints one that
//! Apache Kafka wrote exactly as that tool does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cluster::{Cluster, broker};
use crate::load::{Load, Plan};
use crate::raw::requests::NewTopic;
use crate::show::{Board, at_least};
use crate::{ask, clients, dump, kafka};

const TOPIC: &str = "segments";

/// Records of the idempotent load, beside a thousand lines of each codec.
const LOAD_RECORDS: usize = 20_000;

/// Small, so that segments roll.
const SEGMENT_BYTES: u32 = 1 << 20;

/// Words that the tool uses when something is wrong with a file.
const COMPLAINTS: &[&str] = &[
    "Found ",
    "mismatch",
    "isvalid: false",
    "Exception",
    "Non-consecutive",
    "out of order",
    "rror",
];

/// One row each.
pub fn rows(board: &mut Board) {
    board.row("dump ours by Kafka's tool", ours);
    board.row("dump Kafka's by ours", theirs);
}

/// Fills a topic with every codec and an idempotent load, stops the cluster in order, and gives the topic's folder.
fn written(cluster: &mut Cluster) -> Result<PathBuf> {
    let bootstrap = cluster.bootstrap();
    ask::create(
        &bootstrap,
        NewTopic::new(TOPIC, 1, 1).with("segment.bytes", &SEGMENT_BYTES.to_string()),
    )?;
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let lines: String = (0..1000)
            .map(|n| format!("{codec} line {n} {}\n", "abc".repeat(20)))
            .collect();
        clients::kcat_produce(&bootstrap, TOPIC, codec, lines.as_bytes())?;
    }
    let load = Load::start(Plan {
        records_per_second: 5_000,
        ..Plan::new(&bootstrap, TOPIC, 1)
    })?;
    load.wait_for_more(LOAD_RECORDS, Duration::from_secs(120))?;
    load.finish()?;
    let folder = cluster.data(broker(1))?.join(format!("{TOPIC}-0"));
    cluster.term(broker(1))?;
    Ok(folder)
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    Ok(paths)
}

fn by_the_tool(file: &Path, contents: &str) -> Result<String> {
    let name = file.to_str().context("a path in UTF-8")?;
    kafka::run("kafka-dump-log", &["--deep-iteration", contents, "--files", name])
}

fn ours() -> Result<String> {
    let mut cluster = Cluster::builder().start()?;
    let folder = written(&mut cluster)?;
    let (mut segments, mut records) = (0_u64, 0_u64);
    for kind in ["log", "index", "timeindex", "snapshot"] {
        for file in files(&folder, kind)? {
            let text = by_the_tool(&file, "--skip-record-metadata")?;
            let complaint = COMPLAINTS
                .iter()
                .copied()
                .find(|complaint| text.contains(complaint));
            ensure!(
                complaint.is_none(),
                "{}: {}",
                file.display(),
                excerpt(&text, complaint)
            );
            if kind == "log" {
                segments += 1;
                let counts = text.lines().filter_map(|line| line.split("count: ").nth(1));
                records += counts
                    .filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok())
                    .sum::<u64>();
            }
        }
    }
    at_least("segments", segments, 3)?;
    at_least("records", records, 5_000 + LOAD_RECORDS as u64)?;
    Ok(format!(
        "{segments} segments, {records} records, and their indexes, no complaint"
    ))
}

fn excerpt(text: &str, complaint: Option<&str>) -> String {
    let line = text
        .lines()
        .find(|line| complaint.is_some_and(|complaint| line.contains(complaint)));
    line.unwrap_or_default().chars().take(300).collect()
}

fn theirs() -> Result<String> {
    let mut cluster = Cluster::builder().apache_kafka().start()?;
    let folder = written(&mut cluster)?;
    let (mut segments, mut lines) = (0_u64, 0_u64);
    for file in files(&folder, "log")? {
        let wanted = by_the_tool(&file, "--print-data-log")?;
        let wanted = wanted
            .lines()
            .filter(|line| !line.starts_with("Dumping ") && !line.starts_with("Log starting"));
        let got = dump::dump(&file)?;
        for pair in zip_longest(wanted, got.lines()) {
            ensure!(
                pair.0 == pair.1,
                "{}:\n{:?}\n{:?}",
                file.display(),
                pair.0,
                pair.1
            );
            lines += 1;
        }
        segments += 1;
    }
    at_least("segments", segments, 3)?;
    at_least("lines", lines, 5_000 + LOAD_RECORDS as u64)?;
    Ok(format!("{segments} segments, {lines} lines, all the same"))
}

/// Pairs until both have ended.
fn zip_longest<'a>(
    mut one: impl Iterator<Item = &'a str>,
    mut other: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = (Option<&'a str>, Option<&'a str>)> {
    std::iter::from_fn(move || match (one.next(), other.next()) {
        (None, None) => None,
        pair => Some(pair),
    })
}
