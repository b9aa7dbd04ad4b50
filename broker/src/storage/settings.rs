//! From the catalogue's types to the log's.
//!
//! Must not: know a key, apart from those that no topic can set.

use std::time::Duration;

use metadata::config::{CleanupPolicy, Compression, TimestampType, TopicSettings};
use partition_log::{CleanupPolicy as LogCleanup, LogConfig, StoredCompression, TimestampKind};

/// The configuration of a topic's logs, where idle producers are forgotten after `producer_expiration`.
pub fn log_config(topic: &TopicSettings, producer_expiration: Duration) -> LogConfig {
    LogConfig {
        segment_bytes: topic.segment_bytes,
        segment_ms: millis(topic.segment_age),
        segment_jitter_ms: millis(topic.segment_jitter),
        index_interval_bytes: topic.index_interval_bytes,
        segment_index_bytes: topic.index_bytes_max,
        max_message_bytes: topic.batch_bytes_max,
        timestamp_kind: match topic.timestamp_type {
            TimestampType::CreateTime => TimestampKind::CreateTime,
            TimestampType::LogAppendTime => TimestampKind::LogAppendTime,
        },
        timestamp_before_max_ms: millis(topic.timestamp_before_max),
        timestamp_after_max_ms: millis(topic.timestamp_after_max),
        compression: compression(topic.compression),
        cleanup: cleanup(topic.cleanup),
        flush_messages: topic.flush_records.unwrap_or(u64::MAX),
        flush_interval: topic.flush_interval,
        retention_ms: topic.retention.map(millis),
        retention_bytes: topic.retention_bytes,
        producer_id_expiration_ms: millis(producer_expiration),
        decompressed_bytes_max: topic.decompressed_bytes_max,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn compression(compression: Compression) -> StoredCompression {
    match compression {
        Compression::Producer => StoredCompression::Producer,
        Compression::Uncompressed => StoredCompression::Uncompressed,
        Compression::Gzip { level } => {
            StoredCompression::Gzip(level.and_then(|level| i32::try_from(level).ok()).unwrap_or(-1))
        }
        Compression::Snappy => StoredCompression::Snappy,
        Compression::Lz4 { level } => StoredCompression::Lz4(i32::try_from(level).unwrap_or(i32::MAX)),
        Compression::Zstd { level } => StoredCompression::Zstd(level),
    }
}

fn cleanup(policy: CleanupPolicy) -> LogCleanup {
    match (policy.delete, policy.compact) {
        (true, false) => LogCleanup::Delete,
        (false, true) => LogCleanup::Compact,
        (true, true) => LogCleanup::CompactAndDelete,
        (false, false) => LogCleanup::None,
    }
}
