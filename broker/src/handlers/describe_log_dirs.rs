//! DescribeLogDirs: this broker's directories, and the sizes of the logs in them (D-1).
//!
//! Must not: ask the disk on a network worker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::ErrorCode;
use wire::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult,
    DescribeLogDirsTopic,
};

use super::{Call, Refusable};
use crate::errors;
use crate::storage::dirs::{DirIndex, Standing};
use crate::storage::hosted::Hosted;

/// The partitions asked for; nothing is all of them.
type Asked = Option<BTreeMap<String, BTreeSet<i32>>>;

/// Answers the request.
pub async fn answer(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    let dirs = Arc::clone(&call.node.dirs);
    let standings = tokio::task::spawn_blocking(move || dirs.standings()).await;
    let Ok(standings) = standings else {
        return refused(errors::CRASHED);
    };
    let asked = asked(&request);
    let mut by_dir: BTreeMap<DirIndex, BTreeMap<String, Vec<DescribeLogDirsPartition>>> = BTreeMap::new();
    for hosted in call.node.partitions.all() {
        let (topic, partition) = (&hosted.name.topic, hosted.name.partition);
        let is_asked = |asked: &BTreeMap<String, BTreeSet<i32>>| {
            asked
                .get(topic)
                .is_some_and(|partitions| partitions.contains(&partition))
        };
        if asked.as_ref().is_none_or(is_asked) {
            let topics = by_dir.entry(hosted.dir).or_default();
            topics.entry(topic.clone()).or_default().push(described(&hosted));
        }
    }
    let results = standings
        .into_iter()
        .map(|(dir, standing)| result(standing, by_dir.remove(&dir).unwrap_or_default()));
    DescribeLogDirsResponse {
        results: results.collect(),
        ..Default::default()
    }
}

fn asked(request: &DescribeLogDirsRequest) -> Asked {
    let topics = request.topics.as_ref()?;
    let mut asked: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    for topic in topics {
        asked
            .entry(topic.topic.clone())
            .or_default()
            .extend(topic.partitions.iter().copied());
    }
    Some(asked)
}

fn described(hosted: &Hosted) -> DescribeLogDirsPartition {
    let bounds = hosted.log.bounds();
    DescribeLogDirsPartition {
        partition_index: hosted.name.partition,
        partition_size: i64::try_from(hosted.log.size_bytes()).unwrap_or(i64::MAX),
        offset_lag: (bounds.high_watermark.0 - bounds.log_end.0).max(0),
        is_future_key: false,
    }
}

fn result(
    standing: Standing,
    topics: BTreeMap<String, Vec<DescribeLogDirsPartition>>,
) -> DescribeLogDirsResult {
    let log_dir = standing.path.display().to_string();
    let Some(space) = standing.space else {
        return DescribeLogDirsResult {
            error_code: ErrorCode::KAFKA_STORAGE_ERROR,
            log_dir,
            ..Default::default()
        };
    };
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let topics = topics.into_iter().map(|(name, mut partitions)| {
        partitions.sort_by_key(|partition| partition.partition_index);
        DescribeLogDirsTopic { name, partitions }
    });
    DescribeLogDirsResult {
        log_dir,
        topics: topics.collect(),
        total_bytes: bytes(space.total_bytes),
        usable_bytes: bytes(space.free_bytes),
        ..Default::default()
    }
}

fn refused(code: ErrorCode) -> DescribeLogDirsResponse {
    DescribeLogDirsResponse {
        error_code: code,
        ..Default::default()
    }
}

impl Refusable for DescribeLogDirsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<DescribeLogDirsResponse> {
        Some(refused(code))
    }
}
