//! Reading through librdkafka, without a group: everything to the end, or along with the load.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use crate::oracle::{Partition, Read, Reader};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(100);

/// Keeps the client's log lines off the terminal; errors come back from the polls.
struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, _: rdkafka::config::RDKafkaLogLevel, _: &str, _: &str) {}
    fn error(&self, _: KafkaError, _: &str) {}
}

impl rdkafka::consumer::ConsumerContext for Quiet {}

fn consumer(bootstrap: &str, topic: &str, partitions: i32) -> Result<BaseConsumer<Quiet>> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("enable.auto.commit", "false");
    config
        .set("group.id", "none")
        .set("check.crcs", "true")
        .set("enable.partition.eof", "true");
    config
        .set("auto.offset.reset", "earliest")
        .set("fetch.wait.max.ms", "100");
    config
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "200");
    let consumer: BaseConsumer<Quiet> = config.create_with_context(Quiet)?;
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    Ok(consumer)
}

fn as_read(reader: Reader, message: &impl Message) -> Read {
    Read {
        reader,
        partition: Partition(message.partition().cast_unsigned()),
        offset: message.offset(),
        payload: message.payload().unwrap_or_default().to_vec(),
    }
}

/// Everything in a topic, from the start of each partition to its end.
pub fn read_all(
    bootstrap: &str,
    topic: &str,
    partitions: i32,
    reader: Reader,
    limit: Duration,
) -> Result<Vec<Read>> {
    let mut reads = Vec::new();
    let all = (topic, partitions);
    each_record(bootstrap, all, limit, |message| {
        reads.push(as_read(reader, message));
        Ok(())
    })?;
    Ok(reads)
}

/// Gives every record of a topic with so many partitions, from the start of each partition to its end.
pub fn each_record(
    bootstrap: &str,
    (topic, partitions): (&str, i32),
    limit: Duration,
    mut take: impl FnMut(&BorrowedMessage<'_>) -> Result<()>,
) -> Result<()> {
    let consumer = consumer(bootstrap, topic, partitions)?;
    let began = Instant::now();
    let mut ended = BTreeSet::new();
    while ended.len() < usize::try_from(partitions)? {
        let open = usize::try_from(partitions)? - ended.len();
        ensure!(began.elapsed() < limit, "{open} partitions without an end");
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(message)) => take(&message)?,
            Some(Err(KafkaError::PartitionEOF(partition))) => drop(ended.insert(partition)),
            // A broker that is away is asked again by the client itself.
            Some(Err(KafkaError::MessageConsumption(code))) => {
                ensure!(!fatal(code), "reading {topic}: {code}");
            }
            Some(Err(error)) => return Err(error).with_context(|| format!("reading {topic}")),
        }
    }
    Ok(())
}

fn fatal(code: rdkafka::types::RDKafkaErrorCode) -> bool {
    use rdkafka::types::RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::BadMessage | Code::Fatal | Code::AutoOffsetReset | Code::UnknownTopicOrPartition
    )
}

/// A reader that follows the load while the cluster is broken under it.
pub struct Tail {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Read>>>,
}

impl Tail {
    /// Starts reading every partition from its start.
    pub fn start(bootstrap: &str, topic: &str, partitions: i32, reader: Reader) -> Result<Tail> {
        let consumer = consumer(bootstrap, topic, partitions)?;
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = std::thread::Builder::new()
            .name("tail".to_owned())
            .spawn(move || {
                let mut reads = Vec::new();
                while !ended.load(Ordering::Relaxed) {
                    if let Some(Ok(message)) = consumer.poll(POLL) {
                        reads.push(as_read(reader, &message));
                    }
                }
                reads
            })?;
        Ok(Tail {
            over,
            thread: Some(thread),
        })
    }

    /// Stops, and gives everything that was read.
    pub fn finish(mut self) -> Result<Vec<Read>> {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("a tail finishes once")?;
        thread.join().map_err(|_| anyhow!("the tail panicked"))
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
