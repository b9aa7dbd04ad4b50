//! The few requests that the tests send by hand, in the last versions before the compact encoding.

use anyhow::{Context, Result, ensure};

use super::Connection;
use super::bytes::{Reader, Writer};

/// Error codes that tests look for, as Kafka numbers them.
pub mod code {
    #![allow(missing_docs, reason = "the names are Kafka's own")]
    pub const NONE: i16 = 0;
    pub const OFFSET_OUT_OF_RANGE: i16 = 1;
    pub const CORRUPT_MESSAGE: i16 = 2;
    pub const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
    pub const LEADER_NOT_AVAILABLE: i16 = 5;
    pub const NOT_LEADER_OR_FOLLOWER: i16 = 6;
    pub const REQUEST_TIMED_OUT: i16 = 7;
    pub const MESSAGE_TOO_LARGE: i16 = 10;
    pub const OFFSET_METADATA_TOO_LARGE: i16 = 12;
    pub const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
    pub const COORDINATOR_NOT_AVAILABLE: i16 = 15;
    pub const NOT_COORDINATOR: i16 = 16;
    pub const INVALID_TOPIC_EXCEPTION: i16 = 17;
    pub const NOT_ENOUGH_REPLICAS: i16 = 19;
    pub const NOT_ENOUGH_REPLICAS_AFTER_APPEND: i16 = 20;
    pub const INVALID_REQUIRED_ACKS: i16 = 21;
    pub const INVALID_TIMESTAMP: i16 = 32;
    pub const UNSUPPORTED_VERSION: i16 = 35;
    pub const TOPIC_ALREADY_EXISTS: i16 = 36;
    pub const INVALID_PARTITIONS: i16 = 37;
    pub const INVALID_REPLICA_ASSIGNMENT: i16 = 39;
    pub const INVALID_CONFIG: i16 = 40;
    pub const INVALID_REQUEST: i16 = 42;
    pub const POLICY_VIOLATION: i16 = 44;
    pub const DUPLICATE_SEQUENCE_NUMBER: i16 = 46;
    pub const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
    pub const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
    pub const FENCED_LEADER_EPOCH: i16 = 74;
    pub const UNKNOWN_LEADER_EPOCH: i16 = 75;
    pub const OFFSET_NOT_AVAILABLE: i16 = 78;
    pub const PREFERRED_LEADER_NOT_AVAILABLE: i16 = 80;
    pub const ELIGIBLE_LEADERS_NOT_AVAILABLE: i16 = 83;
    pub const ELECTION_NOT_NEEDED: i16 = 84;
    pub const INVALID_RECORD: i16 = 87;
}

/// An API key with its first and last version.
pub type ApiVersion = (i16, i16, i16);

/// One partition, as Metadata shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Error code.
    pub error: i16,
    /// Its number.
    pub index: i32,
    /// −1 without a leader.
    pub leader: i32,
    /// Grows with every election.
    pub leader_epoch: i32,
    /// Assigned replicas, preferred first.
    pub replicas: Vec<i32>,
    /// Replicas in sync, sorted.
    pub in_sync: Vec<i32>,
}

/// One topic, as Metadata shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Error code.
    pub error: i16,
    /// Its name.
    pub name: String,
    /// Its partitions, sorted.
    pub partitions: Vec<Partition>,
}

/// The answer to Metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Ids and addresses of the brokers that are not fenced, sorted.
    pub brokers: Vec<(i32, String)>,
    /// The cluster's id.
    pub cluster_id: String,
    /// The topics that were asked for.
    pub topics: Vec<Topic>,
}

/// What one partition of a Produce was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Produced {
    /// Which partition.
    pub index: i32,
    /// Error code.
    pub error: i16,
    /// Offset of the first record, −1 with an error.
    pub base_offset: i64,
    /// −1 unless the broker stamped the records.
    pub log_append_time: i64,
    /// The records that were refused, with the reason.
    pub record_errors: Vec<(i32, String)>,
}

/// What one partition of a Fetch was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Error code.
    pub error: i16,
    /// End of what is committed.
    pub high_watermark: i64,
    /// First offset that is still there.
    pub log_start: i64,
    /// The batches.
    pub records: Vec<u8>,
}

/// A topic to create.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// −1 leaves it to the broker or to `assignment`.
    pub partitions: i32,
    /// −1 leaves it to the broker or to `assignment`.
    pub replication_factor: i16,
    /// Replicas by partition; empty leaves the choice to the cluster.
    pub assignment: Vec<(i32, Vec<i32>)>,
    /// Configurations.
    pub configs: Vec<(String, String)>,
}

impl NewTopic {
    /// A topic with so many partitions and replicas.
    pub fn new(name: &str, partitions: i32, replication_factor: i16) -> NewTopic {
        NewTopic {
            name: name.to_owned(),
            partitions,
            replication_factor,
            assignment: Vec::new(),
            configs: Vec::new(),
        }
    }

    /// With this configuration.
    pub fn with(mut self, key: &str, value: &str) -> NewTopic {
        self.configs.push((key.to_owned(), value.to_owned()));
        self
    }

    /// With these replicas, one list a partition.
    pub fn on(mut self, assignment: &[(i32, &[i32])]) -> NewTopic {
        self.partitions = -1;
        self.replication_factor = -1;
        self.assignment = assignment
            .iter()
            .map(|(index, replicas)| (*index, replicas.to_vec()))
            .collect();
        self
    }
}

fn ids(reader: &mut Reader<'_>) -> Result<Vec<i32>> {
    reader.list(Reader::i32)
}

impl Connection {
    /// Metadata v8 of `topics`, of all of them where there are none. Creates nothing.
    pub fn metadata(&mut self, topics: Option<&[&str]>) -> Result<Metadata> {
        let mut body = Writer::new();
        match topics {
            None => body.i32(-1),
            Some(names) => names
                .iter()
                .fold(body.count(names.len()), |body, name| body.string(name)),
        };
        body.i8(0).i8(0).i8(0);
        let answer = self.ask(3, 8, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let mut brokers = reader.list(|reader| {
            let (id, host, port) = (reader.i32()?, reader.string()?, reader.i32()?);
            reader.string()?;
            Ok((id, format!("{host}:{port}")))
        })?;
        brokers.sort();
        let cluster_id = reader.string()?;
        reader.i32()?;
        let topics = reader.list(topic)?;
        reader.i32()?;
        reader.end()?;
        Ok(Metadata {
            brokers,
            cluster_id,
            topics,
        })
    }

    /// Produce v8 of `records` to one partition, without waiting for the answer.
    pub fn send_produce(&mut self, topic: &str, index: i32, acks: i16, records: &[u8]) -> Result<i32> {
        self.send(0, 8, produce_body(acks, &[(topic, index, records)]).bytes())
    }

    /// Produce v8 of `records` to one partition.
    pub fn produce(&mut self, topic: &str, index: i32, acks: i16, records: &[u8]) -> Result<Produced> {
        let mut answers = self.produce_many(acks, &[(topic, index, records)])?;
        ensure!(answers.len() == 1, "{} answers to one partition", answers.len());
        Ok(answers.remove(0))
    }

    /// Produce v8 to several partitions of one topic; the answers are sorted by partition.
    pub fn produce_many(&mut self, acks: i16, parts: &[(&str, i32, &[u8])]) -> Result<Vec<Produced>> {
        let answer = self.ask(0, 8, produce_body(acks, parts).bytes())?;
        let mut reader = Reader::new(&answer);
        let topics = reader.list(|reader| {
            reader.string()?;
            reader.list(|reader| {
                let index = reader.i32()?;
                let (error, base_offset, log_append_time) = (reader.i16()?, reader.i64()?, reader.i64()?);
                reader.i64()?;
                let record_errors = reader.list(|reader| Ok((reader.i32()?, reader.string()?)))?;
                reader.string()?;
                Ok(Produced {
                    index,
                    error,
                    base_offset,
                    log_append_time,
                    record_errors,
                })
            })
        })?;
        reader.i32()?;
        reader.end()?;
        let mut answers: Vec<Produced> = topics.into_iter().flatten().collect();
        answers.sort_by_key(|answer| answer.index);
        Ok(answers)
    }

    /// Fetch v11 from one partition, without a session; waits at most `wait_ms` for `min_bytes`.
    pub fn fetch(&mut self, topic: &str, index: i32, offset: i64, limits: FetchLimits) -> Result<Fetched> {
        let mut answers = self.fetch_many(&[(topic, index, offset)], limits)?;
        ensure!(answers.len() == 1, "{} answers to one partition", answers.len());
        Ok(answers.remove(0))
    }

    /// Fetch v11 from several partitions.
    pub fn fetch_many(&mut self, parts: &[(&str, i32, i64)], limits: FetchLimits) -> Result<Vec<Fetched>> {
        let mut body = Writer::new();
        body.i32(-1)
            .i32(limits.wait_ms)
            .i32(limits.min_bytes)
            .i32(limits.max_bytes)
            .i8(0)
            .i32(0)
            .i32(-1);
        body.count(parts.len());
        for (topic, index, offset) in parts {
            body.string(topic)
                .count(1)
                .i32(*index)
                .i32(-1)
                .i64(*offset)
                .i64(-1)
                .i32(limits.partition_max_bytes);
        }
        body.count(0).string("");
        let answer = self.ask(1, 11, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let error = reader.i16()?;
        ensure!(error == 0, "Fetch was answered with error {error}");
        reader.i32()?;
        let topics = reader.list(|reader| {
            reader.string()?;
            reader.list(fetched)
        })?;
        reader.end()?;
        Ok(topics.into_iter().flatten().collect())
    }

    /// ListOffsets v5 of one partition: error, timestamp, offset. −1 asks for the latest, −2 for the earliest.
    pub fn list_offset(&mut self, topic: &str, index: i32, time: i64) -> Result<(i16, i64, i64)> {
        let mut body = Writer::new();
        body.i32(-1)
            .i8(0)
            .count(1)
            .string(topic)
            .count(1)
            .i32(index)
            .i32(-1)
            .i64(time);
        let answer = self.ask(2, 5, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let topics = reader.list(|reader| {
            reader.string()?;
            reader.list(|reader| {
                reader.i32()?;
                let found = (reader.i16()?, reader.i64()?, reader.i64()?);
                reader.i32()?;
                Ok(found)
            })
        })?;
        reader.end()?;
        topics
            .into_iter()
            .flatten()
            .next()
            .context("no partition in the answer")
    }

    /// OffsetForLeaderEpoch v3 of one partition, as a consumer asks it: error, epoch, where that epoch ends.
    pub fn epoch_end(
        &mut self,
        topic: &str,
        index: i32,
        current: i32,
        epoch: i32,
    ) -> Result<(i16, i32, i64)> {
        let mut body = Writer::new();
        body.i32(-1)
            .count(1)
            .string(topic)
            .count(1)
            .i32(index)
            .i32(current)
            .i32(epoch);
        let answer = self.ask(23, 3, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let topics = reader.list(|reader| {
            reader.string()?;
            reader.list(|reader| {
                let error = reader.i16()?;
                reader.i32()?;
                Ok((error, reader.i32()?, reader.i64()?))
            })
        })?;
        reader.end()?;
        topics
            .concat()
            .first()
            .copied()
            .context("no partition in the answer")
    }

    /// CreateTopics v4: an error code and its message for each topic, in the order of the answer.
    pub fn create_topics(&mut self, topics: &[NewTopic]) -> Result<Vec<(String, i16, String)>> {
        let mut body = Writer::new();
        body.count(topics.len());
        for topic in topics {
            body.string(&topic.name)
                .i32(topic.partitions)
                .i16(topic.replication_factor);
            body.count(topic.assignment.len());
            for (index, replicas) in &topic.assignment {
                replicas
                    .iter()
                    .fold(body.i32(*index).count(replicas.len()), |body, id| body.i32(*id));
            }
            body.count(topic.configs.len());
            for (key, value) in &topic.configs {
                body.string(key).string(value);
            }
        }
        body.i32(10_000).i8(0);
        let answer = self.ask(19, 4, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let topics = reader.list(|reader| Ok((reader.string()?, reader.i16()?, reader.string()?)))?;
        reader.end()?;
        Ok(topics)
    }

    /// DeleteTopics v3: an error code for each topic.
    pub fn delete_topics(&mut self, names: &[&str]) -> Result<Vec<(String, i16)>> {
        let mut body = Writer::new();
        names
            .iter()
            .fold(body.count(names.len()), |body, name| body.string(name))
            .i32(10_000);
        let answer = self.ask(20, 3, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let topics = reader.list(|reader| Ok((reader.string()?, reader.i16()?)))?;
        reader.end()?;
        Ok(topics)
    }

    /// InitProducerId v1 without a transactional id: producer id and epoch.
    pub fn producer_id(&mut self) -> Result<(i64, i16)> {
        let mut body = Writer::new();
        body.null_string().i32(60_000);
        let answer = self.ask(22, 1, body.bytes())?;
        let mut reader = Reader::new(&answer);
        reader.i32()?;
        let error = reader.i16()?;
        ensure!(error == 0, "InitProducerId was answered with error {error}");
        let given = (reader.i64()?, reader.i16()?);
        reader.end()?;
        Ok(given)
    }

    /// ApiVersions v0: error, and each key with its first and last version.
    pub fn api_versions(&mut self) -> Result<(i16, Vec<ApiVersion>)> {
        let answer = self.ask(18, 0, &[])?;
        api_versions(&answer)
    }
}

/// The body of an ApiVersions v0 answer.
pub fn api_versions(answer: &[u8]) -> Result<(i16, Vec<ApiVersion>)> {
    let mut reader = Reader::new(answer);
    let error = reader.i16()?;
    let keys = reader.list(|reader| Ok((reader.i16()?, reader.i16()?, reader.i16()?)))?;
    reader.end()?;
    Ok((error, keys))
}

/// How much a Fetch may bring, and how long it may wait.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// Longest wait for `min_bytes`.
    pub wait_ms: i32,
    /// Fewest bytes worth an answer before the wait is over.
    pub min_bytes: i32,
    /// Most bytes of the whole answer.
    pub max_bytes: i32,
    /// Most bytes of each partition.
    pub partition_max_bytes: i32,
}

impl Default for FetchLimits {
    fn default() -> FetchLimits {
        FetchLimits {
            wait_ms: 100,
            min_bytes: 1,
            max_bytes: 50 << 20,
            partition_max_bytes: 10 << 20,
        }
    }
}

fn produce_body(acks: i16, parts: &[(&str, i32, &[u8])]) -> Writer {
    let mut body = Writer::new();
    let topic = parts.first().map_or("", |(topic, ..)| topic);
    body.null_string()
        .i16(acks)
        .i32(10_000)
        .count(1)
        .string(topic)
        .count(parts.len());
    for (_, index, records) in parts {
        body.i32(*index).sized(records);
    }
    body
}

fn topic(reader: &mut Reader<'_>) -> Result<Topic> {
    let (error, name) = (reader.i16()?, reader.string()?);
    reader.i8()?;
    let mut partitions = reader.list(|reader| {
        let (error, index, leader, leader_epoch) =
            (reader.i16()?, reader.i32()?, reader.i32()?, reader.i32()?);
        let (replicas, mut in_sync) = (ids(reader)?, ids(reader)?);
        in_sync.sort_unstable();
        ids(reader)?;
        Ok(Partition {
            error,
            index,
            leader,
            leader_epoch,
            replicas,
            in_sync,
        })
    })?;
    partitions.sort_by_key(|partition| partition.index);
    reader.i32()?;
    Ok(Topic {
        error,
        name,
        partitions,
    })
}

fn fetched(reader: &mut Reader<'_>) -> Result<Fetched> {
    reader.i32()?;
    let (error, high_watermark) = (reader.i16()?, reader.i64()?);
    reader.i64()?;
    let log_start = reader.i64()?;
    reader.list(|reader| Ok((reader.i64()?, reader.i64()?)))?;
    reader.i32()?;
    Ok(Fetched {
        error,
        high_watermark,
        log_start,
        records: reader.sized()?.to_vec(),
    })
}
