//! A paced producer: librdkafka, idempotent, acks=all, in a thread of its own. Every send and its end is kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};

use super::gaps::Acknowledgements;
use crate::oracle::{Outcome, Partition, Send};
use crate::wait;

/// How often the producer catches up with its pace.
const EVERY: Duration = Duration::from_millis(5);

/// How long the last acknowledgements may take after the load has stopped.
const FLUSH_WITHIN: Duration = Duration::from_secs(60);

/// What to send, where, and how fast.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `bootstrap.servers`.
    pub bootstrap: String,
    /// The topic, which exists.
    pub topic: String,
    /// How many partitions it has; they are written in turn.
    pub partitions: i32,
    /// The pace.
    pub records_per_second: u32,
    /// Bytes of each value.
    pub payload_bytes: usize,
    /// The producer's number in the history.
    pub producer: u32,
    /// Further settings of the client.
    pub settings: Vec<(String, String)>,
}

impl Plan {
    /// 2,400 records of 100 bytes a second, by producer 1.
    pub fn new(bootstrap: &str, topic: &str, partitions: i32) -> Plan {
        Plan {
            bootstrap: bootstrap.to_owned(),
            topic: topic.to_owned(),
            partitions,
            records_per_second: 2_400,
            payload_bytes: 100,
            producer: 1,
            settings: Vec::new(),
        }
    }
}

/// What was sent and how each send ended.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Every send, in order.
    pub sends: Vec<Send>,
    /// When it was acknowledged.
    pub acknowledgements: Acknowledgements,
    /// Errors of the client that it calls fatal, and errors of single sends.
    pub errors: Vec<String>,
}

/// Receives delivery reports.
struct Reports(Arc<Mutex<Record>>);

impl ClientContext for Reports {
    fn log(&self, _: rdkafka::config::RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.0
                .lock()
                .expect("no holder panics")
                .errors
                .push(format!("fatal: {reason}"));
        }
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, index: Box<usize>) {
        let now = Instant::now();
        let mut record = self.0.lock().expect("no holder panics");
        match result {
            Ok(message) => {
                record.acknowledgements.record(now, message.partition());
                record.sends[*index].outcome = match message.offset() {
                    told @ 0.. => Outcome::Acknowledged(told),
                    _ => Outcome::Confirmed,
                };
            }
            Err((error, _)) => record.errors.push(error.to_string()),
        }
    }
}

/// A load that runs until it is stopped.
pub struct Load {
    over: Arc<AtomicBool>,
    record: Arc<Mutex<Record>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Load {
    /// Starts sending.
    pub fn start(plan: Plan) -> Result<Load> {
        let record = Arc::new(Mutex::new(Record::default()));
        let over = Arc::new(AtomicBool::new(false));
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &plan.bootstrap)
            .set("enable.idempotence", "true");
        config
            .set("acks", "all")
            .set("linger.ms", "2")
            .set("queue.buffering.max.messages", "1000000");
        config
            .set("retry.backoff.ms", "20")
            .set("retry.backoff.max.ms", "100");
        config
            .set("reconnect.backoff.ms", "20")
            .set("reconnect.backoff.max.ms", "200");
        for (key, value) in &plan.settings {
            config.set(key, value);
        }
        let producer: ThreadedProducer<Reports> = config.create_with_context(Reports(Arc::clone(&record)))?;
        let (ended, kept) = (Arc::clone(&over), Arc::clone(&record));
        let thread = std::thread::Builder::new().name("load".to_owned());
        let thread = thread.spawn(move || pace(&plan, &producer, &ended, &kept))?;
        Ok(Load {
            over,
            record,
            thread: Some(thread),
        })
    }

    /// What has been acknowledged so far.
    pub fn acknowledgements(&self) -> Acknowledgements {
        self.record
            .lock()
            .expect("no holder panics")
            .acknowledgements
            .clone()
    }

    /// How many records have been acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.record
            .lock()
            .expect("no holder panics")
            .acknowledgements
            .count()
    }

    /// Waits for so many further acknowledgements.
    pub fn wait_for_more(&self, count: usize, limit: Duration) -> Result<()> {
        let wanted = self.acknowledged() + count;
        wait::until(&format!("{count} further acknowledgements"), limit, || {
            let got = self.acknowledged();
            anyhow::ensure!(got >= wanted, "{got} of {wanted}");
            Ok(())
        })
    }

    /// Stops sending, waits for the last acknowledgements, and gives everything.
    pub fn finish(mut self) -> Result<Record> {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("a load finishes once")?;
        thread.join().map_err(|_| anyhow!("the load panicked"))??;
        Ok(std::mem::take(
            &mut *self.record.lock().expect("no holder panics"),
        ))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            let _ = thread.join();
        }
    }
}

/// A value that says who sent it, and fills up with bytes that differ from record to record.
pub fn payload(producer: u32, index: usize, bytes: usize) -> Vec<u8> {
    let mut value = format!("{producer}:{index}:").into_bytes();
    let mut state = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while value.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.push(b'a' + (state % 26) as u8);
    }
    value
}

fn pace(
    plan: &Plan,
    producer: &ThreadedProducer<Reports>,
    over: &AtomicBool,
    record: &Mutex<Record>,
) -> Result<()> {
    let began = Instant::now();
    let mut sent = 0_usize;
    while !over.load(Ordering::Relaxed) {
        let due = began.elapsed().as_secs_f64() * f64::from(plan.records_per_second);
        while sent < due as usize && !over.load(Ordering::Relaxed) {
            send_one(plan, producer, sent, record)?;
            sent += 1;
        }
        wait::pass(EVERY);
    }
    producer.flush(FLUSH_WITHIN).context("the last acknowledgements")
}

fn send_one(
    plan: &Plan,
    producer: &ThreadedProducer<Reports>,
    index: usize,
    record: &Mutex<Record>,
) -> Result<()> {
    let partition = i32::try_from(index)? % plan.partitions;
    let value = payload(plan.producer, index, plan.payload_bytes);
    // Recorded before it is sent: the report may come at once.
    record.lock().expect("no holder panics").sends.push(Send {
        producer: plan.producer,
        partition: Partition(partition.cast_unsigned()),
        payload: value.clone(),
        batch: None,
        outcome: Outcome::Unknown,
    });
    let mut message = BaseRecord::<(), Vec<u8>, Box<usize>>::with_opaque_to(&plan.topic, Box::new(index));
    message = message.partition(partition).payload(&value);
    loop {
        match producer.send(message) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                message = again;
                wait::pass(EVERY);
            }
            Err((error, _)) => return Err(error).context("the client refuses to send"),
        }
    }
}
