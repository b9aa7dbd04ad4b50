//! The reading half of a load, for one broker: fetches as a stock consumer does, and looks at the stamps.

use std::collections::BTreeMap;
use std::io;

use wire::batch::Batches;
use wire::messages::fetch::{FetchPartition, FetchTopic};
use wire::messages::{FetchRequest, FetchResponse};

use super::batch::stamp;
use super::figures::Times;
use super::link::{self, Answers, Requests};
use super::load::{Gauge, Leader, Target};

/// What a stock consumer of Kafka 4.4 asks for: wait half a second for the first byte, 1 MiB of a partition, 50 in all.
const WAIT_MS: i32 = 500;
const PARTITION_BYTES: i32 = 1 << 20;
const ANSWER_BYTES: i32 = 50 << 20;

/// What was read beside the writing.
#[derive(Debug)]
pub struct Seen {
    /// From when each record was due to when it was here.
    pub times: Times,
}

struct Reader<'a> {
    gauge: &'a Gauge,
    target: &'a Target,
    requests: Requests,
    answers: Answers,
    positions: BTreeMap<i32, i64>,
    number: i32,
}

/// Reads what is written as it comes, until all is written and read.
pub fn follow(gauge: &Gauge, target: &Target, leader: &Leader, from: BTreeMap<i32, i64>) -> Seen {
    let mut seen = Seen { times: Times::new() };
    let done = Reader::new(gauge, target, leader, from).and_then(|mut reader| {
        loop {
            // Asked before the fetch: what it then does not give is not there.
            let all_written = gauge.all_written();
            if reader.fetch(Some(&mut seen.times))? == 0 && all_written {
                return Ok(());
            }
        }
    });
    if let Err(error) = done {
        gauge.fail(format!("reading from {}: {error}", leader.address));
    }
    seen
}

/// Reads up to these offsets, or until the time is over, and gives the number of records.
pub fn to_the_end(
    gauge: &Gauge,
    target: &Target,
    leader: &Leader,
    from: BTreeMap<i32, i64>,
    ends: &BTreeMap<i32, i64>,
    limit: u64,
) -> u64 {
    let mut records = 0;
    let done = Reader::new(gauge, target, leader, from).and_then(|mut reader| {
        let left = |reader: &mut Reader<'_>| {
            reader
                .positions
                .retain(|partition, at| ends.get(partition).is_some_and(|end| *at < *end));
            !reader.positions.is_empty() && gauge.clock.now() < limit
        };
        while left(&mut reader) {
            records += reader.fetch(None)?;
        }
        Ok(())
    });
    if let Err(error) = done {
        gauge.fail(format!("reading from {}: {error}", leader.address));
    }
    records
}

impl<'a> Reader<'a> {
    fn new(
        gauge: &'a Gauge,
        target: &'a Target,
        leader: &Leader,
        positions: BTreeMap<i32, i64>,
    ) -> io::Result<Self> {
        let (requests, answers) = link::connect(&leader.address)?;
        Ok(Self {
            gauge,
            target,
            requests,
            answers,
            positions,
            number: 0,
        })
    }

    /// One question and its answer; gives the number of records.
    fn fetch(&mut self, times: Option<&mut Times>) -> io::Result<u64> {
        self.number += 1;
        self.requests
            .send(self.target.fetch, self.number, &self.question())?;
        let (answer, frame) = self.answers.next::<FetchRequest>(self.target.fetch)?;
        let records = self.take_in(&answer, times)?;
        drop(answer);
        self.answers.reuse(frame);
        Ok(records)
    }

    fn question(&self) -> FetchRequest {
        let partition = |(index, offset): (&i32, &i64)| FetchPartition {
            partition: *index,
            fetch_offset: *offset,
            partition_max_bytes: PARTITION_BYTES,
            ..Default::default()
        };
        FetchRequest {
            max_wait_ms: WAIT_MS,
            min_bytes: 1,
            max_bytes: ANSWER_BYTES,
            topics: vec![FetchTopic {
                topic: self.target.topic.clone(),
                topic_id: self.target.topic_id,
                partitions: self.positions.iter().map(partition).collect(),
            }],
            ..Default::default()
        }
    }

    fn take_in(&mut self, answer: &FetchResponse, mut times: Option<&mut Times>) -> io::Result<u64> {
        let refused = |what: String| Err(io::Error::other(what));
        if answer.error_code.is_error() {
            return refused(answer.error_code.to_string());
        }
        let now = self.gauge.clock.now();
        let mut records = 0;
        for result in answer.responses.iter().flat_map(|topic| &topic.partitions) {
            let partition = result.partition_index;
            if result.error_code.is_error() {
                return refused(format!("partition {partition}: {}", result.error_code));
            }
            let Some(position) = self.positions.get_mut(&partition) else {
                continue;
            };
            for batch in Batches::new(result.records.bytes().cloned().unwrap_or_default()) {
                let batch = batch.map_err(io::Error::other)?;
                let count = u64::try_from(batch.header.record_count).unwrap_or(0);
                if let (Some(times), Some(stamp)) = (&mut times, stamp(&batch)) {
                    let due = (0..count).map(|record| stamp.first + record * stamp.step);
                    for due in due.filter(|due| self.gauge.counts(*due)) {
                        times.record(now.saturating_sub(due));
                    }
                }
                if *position < batch.header.base_offset {
                    return refused(format!(
                        "partition {partition}: offsets from {position} on are missing"
                    ));
                }
                records += count;
                *position = batch.header.last_offset() + 1;
            }
        }
        Ok(records)
    }
}
