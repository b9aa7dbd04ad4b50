//! The writing half of a load, for one broker: one thread sends, one takes the acknowledgements.

use std::collections::VecDeque;
use std::io;
use std::thread;

use parking_lot::{Condvar, Mutex};
use wire::Records;
use wire::batch::ProducerState;
use wire::messages::ProduceRequest;
use wire::messages::produce::{PartitionProduceData, TopicProduceData};

use super::args::ShapeArgs;
use super::batch::{Stamp, Template};
use super::figures::Times;
use super::link::{self, Answers, Requests};
use super::load::{Gauge, Leader, Target};
use super::schedule::Schedule;

/// What one request may hold: `max.request.size` of Kafka's producer.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// How long a broker may wait for replicas.
const REPLICAS_TIMEOUT_MS: i32 = 30_000;

/// How long a sender without work sleeps at most, so that it sees that there is enough.
const GLANCE_NS: u64 = 20_000_000;

/// Sends to one broker.
pub struct Writer<'a> {
    /// What all look at.
    pub gauge: &'a Gauge,
    /// The topic.
    pub target: &'a Target,
    /// The broker.
    pub leader: &'a Leader,
    /// The batches.
    pub template: &'a Template,
    /// How the load looks.
    pub shape: &'a ShapeArgs,
    /// Records a second to this broker; none for as many as it takes.
    pub rate: Option<f64>,
}

/// What a broker acknowledged.
#[derive(Debug)]
pub struct Written {
    /// How long each record took.
    pub acks: Times,
    /// How many were acknowledged while it counted.
    pub records: u64,
}

/// One request that is not answered: its batches.
type Sent = Vec<(usize, Stamp)>;

/// The requests of a connection that are not answered.
#[derive(Default)]
struct Flight {
    state: Mutex<(VecDeque<Sent>, bool)>,
    changed: Condvar,
}

impl Flight {
    /// Waits until there are fewer than so many; false where nobody answers any more.
    fn wait_below(&self, count: usize) -> bool {
        let mut state = self.state.lock();
        while count <= state.0.len() && !state.1 {
            self.changed.wait(&mut state);
        }
        !state.1
    }

    fn push(&self, sent: Sent) {
        self.state.lock().0.push_back(sent);
    }

    fn pop(&self) -> Option<Sent> {
        let sent = self.state.lock().0.pop_front();
        self.changed.notify_one();
        sent
    }

    fn close(&self) {
        self.state.lock().1 = true;
        self.changed.notify_one();
    }
}

impl Writer<'_> {
    /// Sends until there is enough, and waits for every acknowledgement.
    pub fn run(&self) -> Written {
        let (mut requests, answers) = match link::connect(&self.leader.address) {
            Ok(link) => link,
            Err(error) => {
                self.gauge.fail(format!("{}: {error}", self.leader.address));
                return Written {
                    acks: Times::new(),
                    records: 0,
                };
            }
        };
        let flight = Flight::default();
        thread::scope(|scope| {
            let receiving = scope.spawn(|| self.receive(answers, &flight));
            if let Err(error) = self.send(&mut requests, &flight) {
                self.gauge.fail(format!("{}: {error}", self.leader.address));
            } else {
                flight.wait_below(1);
            }
            flight.close();
            requests.close();
            receiving
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn send(&self, requests: &mut Requests, flight: &Flight) -> io::Result<()> {
        let partitions = self.leader.partitions.len();
        let most = partitions
            .min(REQUEST_BYTES_MAX / self.shape.batch_size as usize)
            .max(1);
        let mut sequences = vec![0_i32; partitions];
        let linger = (self.shape.linger_ms * 1e6) as u64;
        let records_max = self.template.records_max();
        let mut schedule = self
            .rate
            .map(|rate| Schedule::new(self.gauge.began, rate, linger, records_max));
        let (mut next, mut number) = (0, 0);
        self.gauge.clock.sleep_until(self.gauge.began);
        while flight.wait_below(usize::from(self.shape.in_flight)) && !self.gauge.enough() {
            let sent = match &mut schedule {
                None => vec![
                    (
                        records_max,
                        Stamp {
                            first: self.gauge.clock.now(),
                            step: 0
                        }
                    );
                    most
                ],
                Some(schedule) => self.due(schedule, most),
            };
            if sent.is_empty() {
                continue;
            }
            let time = self.gauge.clock.wall_ms();
            let batches = sent.iter().map(|(count, stamp)| {
                let index = next % partitions;
                next += 1;
                let producer = self.target.producer.map(|(id, epoch)| {
                    let base_sequence = sequences[index];
                    let after = (i64::from(base_sequence) + *count as i64) % (1 << 31);
                    sequences[index] = i32::try_from(after).expect("the remainder of 2³¹ fits");
                    ProducerState {
                        id,
                        epoch,
                        base_sequence,
                    }
                });
                PartitionProduceData {
                    index: self.leader.partitions[index],
                    records: Records::Bytes(self.template.batch(*count, time, producer, *stamp)),
                }
            });
            let request = self.request(batches.collect());
            flight.push(sent);
            number += 1;
            requests.send(self.target.produce, number, &request)?;
        }
        Ok(())
    }

    /// The batches that are due; none after a while without any.
    fn due(&self, schedule: &mut Schedule, most: usize) -> Sent {
        let now = self.gauge.clock.now();
        let ready = schedule.ready_at();
        if now < ready {
            self.gauge.clock.sleep_until(ready.min(now + GLANCE_NS));
        }
        let now = self.gauge.clock.now();
        std::iter::from_fn(|| schedule.take(now)).take(most).collect()
    }

    fn request(&self, partition_data: Vec<PartitionProduceData>) -> ProduceRequest {
        ProduceRequest {
            transactional_id: None,
            acks: self.shape.acks.number(),
            timeout_ms: REPLICAS_TIMEOUT_MS,
            topic_data: vec![TopicProduceData {
                name: self.target.topic.clone(),
                topic_id: self.target.topic_id,
                partition_data,
            }],
        }
    }

    fn receive(&self, mut answers: Answers, flight: &Flight) -> Written {
        let mut written = Written {
            acks: Times::new(),
            records: 0,
        };
        loop {
            let (answer, frame) = match answers.next::<ProduceRequest>(self.target.produce) {
                Ok(answer) => answer,
                Err(error) => {
                    if !flight.state.lock().1 {
                        self.gauge
                            .fail(format!("{} did not answer: {error}", self.leader.address));
                        flight.close();
                    }
                    return written;
                }
            };
            let now = self.gauge.clock.now();
            for result in answer
                .responses
                .iter()
                .flat_map(|topic| &topic.partition_responses)
            {
                if result.error_code.is_error() {
                    self.gauge.fail(format!(
                        "{}-{}: {}",
                        self.target.topic, result.index, result.error_code
                    ));
                }
            }
            for (count, stamp) in flight.pop().unwrap_or_default() {
                self.count(&mut written, now, count as u64, stamp);
            }
            drop(answer);
            answers.reuse(frame);
        }
    }

    fn count(&self, written: &mut Written, now: u64, count: u64, stamp: Stamp) {
        if self.gauge.counts(now) {
            written.records += count;
        }
        for record in 0..count {
            let due = stamp.first + record * stamp.step;
            if self.gauge.counts(due) {
                written.acks.record(now.saturating_sub(due));
            }
        }
    }
}
