//! What a topic's configuration means to its log.
//!
//! Must not: know key names or synonyms; the catalogue does.

use std::time::Duration;

/// Which time the records of a topic carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampKind {
    /// What the producer wrote (`message.timestamp.type=CreateTime`).
    CreateTime,
    /// When the leader appended (`LogAppendTime`).
    LogAppendTime,
}

/// How batches are stored (`compression.type` and the levels).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredCompression {
    /// As the producer sent them.
    Producer,
    /// Never compressed.
    Uncompressed,
    /// gzip at a level 1..=9, or −1 for the library's own.
    Gzip(i32),
    /// snappy in the framing of Kafka's Java client.
    Snappy,
    /// LZ4 frames at a level 1..=17.
    Lz4(i32),
    /// zstd at a level −131072..=22.
    Zstd(i32),
}

/// What may remove records (`cleanup.policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupPolicy {
    /// Age and size.
    Delete,
    /// A newer record with the same key.
    Compact,
    /// Both.
    CompactAndDelete,
    /// Only a raised log start.
    None,
}

impl CleanupPolicy {
    /// Whether records must have keys.
    pub fn compacts(self) -> bool {
        matches!(self, CleanupPolicy::Compact | CleanupPolicy::CompactAndDelete)
    }

    /// Whether age and size delete segments (L-32).
    pub fn deletes(self) -> bool {
        matches!(self, CleanupPolicy::Delete | CleanupPolicy::CompactAndDelete)
    }
}

/// Configuration of one log. `Default` gives Kafka's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A segment is rolled before it would exceed this (`segment.bytes`).
    pub segment_bytes: u32,
    /// A segment is rolled when its records span more than this (`segment.ms`).
    pub segment_ms: u64,
    /// A random part of this is taken off `segment_ms`, per segment (`segment.jitter.ms`).
    pub segment_jitter_ms: u64,
    /// Bytes between two index entries (`index.interval.bytes`).
    pub index_interval_bytes: u32,
    /// Size at which an index is full (`segment.index.bytes`).
    pub segment_index_bytes: u32,
    /// Largest batch that a client may append (`max.message.bytes`).
    pub max_message_bytes: u32,
    /// `message.timestamp.type`.
    pub timestamp_kind: TimestampKind,
    /// How far behind the broker's clock a record may be (`message.timestamp.before.max.ms`).
    pub timestamp_before_max_ms: u64,
    /// How far ahead of the broker's clock a record may be (`message.timestamp.after.max.ms`).
    pub timestamp_after_max_ms: u64,
    /// `compression.type`.
    pub compression: StoredCompression,
    /// `cleanup.policy`.
    pub cleanup: CleanupPolicy,
    /// Records after which an append waits for a sync (`flush.messages`); `u64::MAX` is never.
    pub flush_messages: u64,
    /// How long something may stay unsynced (`flush.ms`); `None` leaves it to the operating system.
    pub flush_interval: Option<Duration>,
    /// `retention.ms`; `None` keeps for ever.
    pub retention_ms: Option<u64>,
    /// `retention.bytes`; `None` is no limit.
    pub retention_bytes: Option<u64>,
    /// When an idle producer is forgotten (`producer.id.expiration.ms`).
    pub producer_id_expiration_ms: u64,
    /// Largest size to which one batch may decompress (`max.decompressed.message.bytes`): a few bytes could fill memory.
    pub decompressed_bytes_max: u32,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            segment_bytes: 1024 * 1024 * 1024,
            segment_ms: 604_800_000,
            segment_jitter_ms: 0,
            index_interval_bytes: 4096,
            segment_index_bytes: 10 * 1024 * 1024,
            max_message_bytes: 1_048_588,
            timestamp_kind: TimestampKind::CreateTime,
            timestamp_before_max_ms: i64::MAX as u64,
            timestamp_after_max_ms: 3_600_000,
            compression: StoredCompression::Producer,
            cleanup: CleanupPolicy::Delete,
            flush_messages: u64::MAX,
            flush_interval: None,
            retention_ms: Some(604_800_000),
            retention_bytes: None,
            producer_id_expiration_ms: 86_400_000,
            decompressed_bytes_max: 256 * 1024 * 1024,
        }
    }
}
