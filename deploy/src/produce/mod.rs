//! `millrace produce`: the lines of standard input as records of a topic.
//!
//! Idempotent unless told otherwise: a batch that is sent again after a lost answer is written once. Lines with a key
//! go where Kafka's own producer sends them.

mod deliver;
mod murmur;
mod rounds;

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::time::Duration;

use host::{Clock, OsClock};
use serde::Serialize;
use tokio::sync::mpsc;
use wire::codec::Codec;

use crate::args::{Acks, ProduceArgs};
use crate::cluster::Cluster;
use crate::outcome::Failure;
use crate::producer_id;
use crate::table::counted;
use crate::terminal::{say, say_json};
use crate::topic::Style;

use deliver::Delivery;
use rounds::{Producer, Rounds};

/// How many lines wait between the reader and the sender.
const LINES_AHEAD: usize = 8192;

/// How often a limited rate is caught up with.
const PACE: Duration = Duration::from_millis(20);

#[derive(Debug, Serialize)]
struct Written {
    topic: String,
    records: u64,
    bytes: u64,
    seconds: f64,
    partitions: Vec<PartitionWritten>,
}

/// What one partition got. Offsets are absent where no broker told them, with acks=0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PartitionWritten {
    partition: i32,
    records: u64,
    first_offset: Option<i64>,
    last_offset: Option<i64>,
}

/// Sends standard input to its end.
///
/// # Errors
/// When a record cannot be written, or a line has no key where one is wanted. What was written before stays.
pub async fn run(args: &ProduceArgs, style: Style) -> Result<(), Failure> {
    let clock = OsClock::new();
    let began = clock.now();
    let mut cluster = Cluster::connect(&args.at.bootstrap).await?;
    let topic = cluster.topic(&args.topic).await?;
    if let Some(only) = args.partition {
        topic.expect_partition(only)?;
    }
    let idempotent = args.acks == Acks::All && !args.no_idempotence;
    let producer = match idempotent {
        true => Some(producer(&mut cluster).await?),
        false => None,
    };
    let mut lines = lines_of_input();
    let mut rounds = Rounds::new(args, &topic, producer);
    let mut delivery = Delivery::new(cluster, topic, args);
    let (mut waiting, mut ended) = (Vec::new(), false);
    let (mut records, mut bytes) = (0_u64, 0_u64);
    while !(ended && waiting.is_empty()) {
        if waiting.is_empty() {
            match args.throughput {
                None => ended = lines.recv_many(&mut waiting, LINES_AHEAD).await == 0,
                Some(rate) => {
                    let due = due(rate, clock.now().since(began)).saturating_sub(records);
                    if due == 0 {
                        tokio::time::sleep(PACE).await;
                        continue;
                    }
                    let most = usize::try_from(due).unwrap_or(LINES_AHEAD).min(LINES_AHEAD);
                    ended = lines.recv_many(&mut waiting, most).await == 0;
                }
            }
            // Taken from the end, which is cheap; so the first line stands last.
            waiting.reverse();
        }
        let batches = rounds.next(&mut waiting, clock.wall().0)?;
        for batch in &batches {
            records += batch.records as u64;
            bytes += batch.plain_bytes as u64;
        }
        delivery.send(batches).await?;
    }
    let seconds = clock.now().since(began).as_secs_f64();
    let topic = args.topic.clone();
    let partitions = delivery.written.into_values().collect();
    show(
        &Written {
            topic,
            records,
            bytes,
            seconds,
            partitions,
        },
        style,
    );
    Ok(())
}

fn show(written: &Written, style: Style) {
    match style {
        Style::Json => say_json(written),
        Style::Text => say(&format!(
            "{}, {} written to {} of {} in {:.3} s",
            counted(written.records, "record"),
            counted(written.bytes, "byte"),
            counted(written.partitions.len(), "partition"),
            written.topic,
            written.seconds
        )),
    }
}

/// How many records a rate allows after a while.
fn due(rate: u64, passed: Duration) -> u64 {
    // The first record goes at once.
    1 + u64::try_from(passed.as_micros() * u128::from(rate) / 1_000_000).unwrap_or(u64::MAX - 1)
}

async fn producer(cluster: &mut Cluster) -> Result<Producer, Failure> {
    let (id, epoch) = producer_id::new(cluster).await?;
    Ok(Producer {
        id,
        epoch,
        next: BTreeMap::new(),
    })
}

/// The lines of standard input, without their ends. Read on a thread of its own, since reading blocks.
fn lines_of_input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(LINES_AHEAD);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The codec of a name on the command line.
///
/// # Errors
/// A sentence with the names that there are.
pub fn codec(name: &str) -> Result<Codec, String> {
    let found = Codec::ALL.into_iter().find(|codec| codec.name() == name);
    found.ok_or_else(|| "one of none, gzip, snappy, lz4, zstd".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_lets_the_first_record_go_at_once_and_the_others_in_time() {
        assert_eq!(due(1000, Duration::ZERO), 1);
        assert_eq!(due(1000, Duration::from_millis(500)), 501);
        assert_eq!(due(3, Duration::from_secs(10)), 31);
    }
}
