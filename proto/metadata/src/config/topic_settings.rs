//! What a broker or controller does with the configuration of a topic, as types.

use std::time::Duration;

use super::catalogue::{Scope, catalogue};
use super::describe::{Layers, topic_value};
use super::value::Value;

/// The settings that hold for a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicSettings {
    /// `min.insync.replicas`, 1 or more.
    pub min_in_sync_replicas: u32,
    /// `unclean.leader.election.enable`.
    pub unclean_election: bool,
    /// `max.message.bytes`: the largest batch as it is stored.
    pub batch_bytes_max: u32,
    /// `max.decompressed.message.bytes`.
    pub decompressed_bytes_max: u32,
    /// `compression.type` and the level of its codec.
    pub compression: Compression,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max: Duration,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max: Duration,
    /// `internal.segment.bytes`, else `segment.bytes`.
    pub segment_bytes: u32,
    /// `segment.ms`.
    pub segment_age: Duration,
    /// `segment.jitter.ms`.
    pub segment_jitter: Duration,
    /// `segment.index.bytes`.
    pub index_bytes_max: u32,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `preallocate`.
    pub preallocate: bool,
    /// `flush.messages`; `None` leaves it to the operating system.
    pub flush_records: Option<u64>,
    /// `flush.ms`; `None` leaves it to the operating system.
    pub flush_interval: Option<Duration>,
    /// `cleanup.policy`.
    pub cleanup: CleanupPolicy,
    /// `retention.ms`; `None` is for ever.
    pub retention: Option<Duration>,
    /// `retention.bytes`; `None` is without limit.
    pub retention_bytes: Option<u64>,
    /// `file.delete.delay.ms`.
    pub file_delete_delay: Duration,
    /// `delete.retention.ms`: how long a compacted log keeps tombstones.
    pub tombstone_retention: Duration,
    /// `min.compaction.lag.ms`.
    pub compaction_lag_min: Duration,
    /// `max.compaction.lag.ms`.
    pub compaction_lag_max: Duration,
}

/// How batches are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As the producer sent them.
    Producer,
    /// Without compression.
    Uncompressed,
    /// With gzip; `None` is the codec's own level.
    Gzip {
        /// `compression.gzip.level`.
        level: Option<u32>,
    },
    /// With snappy.
    Snappy,
    /// With lz4.
    Lz4 {
        /// `compression.lz4.level`.
        level: u32,
    },
    /// With zstd.
    Zstd {
        /// `compression.zstd.level`.
        level: i32,
    },
}

/// Which time a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// That of the producer.
    CreateTime,
    /// That of the append.
    LogAppendTime,
}

/// What becomes of old records. With neither, everything is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Records beyond the retention are deleted.
    pub delete: bool,
    /// Of records with the same key the last is kept.
    pub compact: bool,
}

impl TopicSettings {
    /// The settings that hold for a topic where these levels say what they say.
    pub fn effective(layers: &Layers<'_>) -> Self {
        let read = Reader { layers };
        Self {
            min_in_sync_replicas: read.count("min.insync.replicas"),
            unclean_election: read.truth("unclean.leader.election.enable"),
            batch_bytes_max: read.count("max.message.bytes"),
            decompressed_bytes_max: read.count("max.decompressed.message.bytes"),
            compression: read.compression(),
            timestamp_type: match read.text("message.timestamp.type").as_str() {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_before_max: read.millis("message.timestamp.before.max.ms"),
            timestamp_after_max: read.millis("message.timestamp.after.max.ms"),
            segment_bytes: read.segment_bytes(),
            segment_age: read.millis("segment.ms"),
            segment_jitter: read.millis("segment.jitter.ms"),
            index_bytes_max: read.count("segment.index.bytes"),
            index_interval_bytes: read.count("index.interval.bytes"),
            preallocate: read.truth("preallocate"),
            flush_records: read.limit("flush.messages"),
            flush_interval: read.limit("flush.ms").map(Duration::from_millis),
            cleanup: read.cleanup(),
            retention: read.limit("retention.ms").map(Duration::from_millis),
            retention_bytes: read.limit("retention.bytes"),
            file_delete_delay: read.millis("file.delete.delay.ms"),
            tombstone_retention: read.millis("delete.retention.ms"),
            compaction_lag_min: read.millis("min.compaction.lag.ms"),
            compaction_lag_max: read.millis("max.compaction.lag.ms"),
        }
    }
}

struct Reader<'a> {
    layers: &'a Layers<'a>,
}

impl Reader<'_> {
    fn value(&self, name: &str) -> Value {
        let key = catalogue().find(Scope::Topic, name);
        let key = key.unwrap_or_else(|| panic!("only keys of the catalogue are asked for: {name}"));
        topic_value(key, self.layers)
    }

    fn integer(&self, name: &str) -> i64 {
        self.value(name)
            .integer()
            .unwrap_or_else(|| panic!("the key is a whole number: {name}"))
    }

    fn count(&self, name: &str) -> u32 {
        u32::try_from(self.integer(name))
            .unwrap_or_else(|_| panic!("the tables keep {name} from being negative"))
    }

    fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.integer(name)).unwrap_or(0))
    }

    /// A number that is no limit when it is negative or the largest there is.
    fn limit(&self, name: &str) -> Option<u64> {
        let number = self.integer(name);
        u64::try_from(number).ok().filter(|_| number != i64::MAX)
    }

    fn truth(&self, name: &str) -> bool {
        self.value(name) == Value::Boolean(true)
    }

    fn text(&self, name: &str) -> String {
        self.value(name).text().unwrap_or_default()
    }

    fn segment_bytes(&self) -> u32 {
        let internal = self.value("internal.segment.bytes").integer();
        let given = internal
            .and_then(|bytes| u32::try_from(bytes).ok())
            .filter(|bytes| 0 < *bytes);
        given.unwrap_or_else(|| self.count("segment.bytes"))
    }

    fn cleanup(&self) -> CleanupPolicy {
        let Value::List(items) = self.value("cleanup.policy") else {
            panic!("the key is a list: cleanup.policy")
        };
        let has = |word: &str| items.iter().any(|item| item == word);
        CleanupPolicy {
            delete: has("delete"),
            compact: has("compact"),
        }
    }

    fn compression(&self) -> Compression {
        let level = |name| i32::try_from(self.integer(name)).expect("the key is of 32 bits");
        match self.text("compression.type").as_str() {
            "uncompressed" => Compression::Uncompressed,
            "gzip" => Compression::Gzip {
                level: u32::try_from(level("compression.gzip.level")).ok(),
            },
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4 {
                level: self.count("compression.lz4.level"),
            },
            "zstd" => Compression::Zstd {
                level: level("compression.zstd.level"),
            },
            _ => Compression::Producer,
        }
    }
}
