//! Records and bytes that come and go: in all, and by topic.
//!
//! A partition holds the counts of its topic, so counting looks nothing up. There may be tens of thousands of topics, so
//! only the busiest are shown.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use metadata::ids::TopicId;
use observe::{Gathered, Metrics};
use parking_lot::Mutex;

/// Topics that are shown by name: those through which most bytes went.
const TOPICS_SHOWN: usize = 100;

/// The names and what they say, in the order of [`Flow`].
const FLOWS: [(&str, &str); FLOW_COUNT] = [
    ("messagesin", "Records appended for producers."),
    ("bytesin", "Bytes appended for producers."),
    ("bytesout", "Bytes given to consumers."),
    (
        "totalproducerequests",
        "Batches that producers sent, one for each partition of a request.",
    ),
    ("totalfetchrequests", "Partitions that fetches asked for."),
    (
        "failedproducerequests",
        "Batches that a log refused or could not take.",
    ),
    ("failedfetchrequests", "Partitions that could not be read."),
    ("bytesrejected", "Bytes of batches that were too large."),
    ("replicationbytesin", "Bytes appended that came from leaders."),
    ("replicationbytesout", "Bytes given to followers."),
];
const FLOW_COUNT: usize = 10;
/// Kafka shows replication in all only.
const FLOWS_BY_TOPIC: usize = 8;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    MessagesIn,
    BytesIn,
    BytesOut,
    Produces,
    Fetches,
    FailedProduces,
    FailedFetches,
    BytesRejected,
    ReplicationBytesIn,
    ReplicationBytesOut,
}

/// All traffic of this broker.
pub struct Traffic {
    all: Arc<[AtomicU64; FLOW_COUNT]>,
    topics: Mutex<BTreeMap<TopicId, Weak<TopicTraffic>>>,
}

/// The traffic of one topic; shared by its partitions.
pub struct TopicTraffic {
    name: String,
    all: Arc<[AtomicU64; FLOW_COUNT]>,
    here: [AtomicU64; FLOWS_BY_TOPIC],
}

impl std::fmt::Debug for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traffic").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TopicTraffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicTraffic")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Traffic {
    pub(super) fn new(metrics: &Metrics) -> Arc<Traffic> {
        let traffic = Arc::new(Traffic {
            all: Arc::new(std::array::from_fn(|_| AtomicU64::new(0))),
            topics: Mutex::default(),
        });
        let weak = Arc::downgrade(&traffic);
        metrics.gathered(move |gathered| {
            if let Some(traffic) = weak.upgrade() {
                traffic.gather(gathered);
            }
        });
        traffic
    }

    /// The counts of a topic, which last as long as somebody holds them.
    pub fn of(&self, topic: TopicId, name: &str) -> Arc<TopicTraffic> {
        let mut topics = self.topics.lock();
        if let Some(held) = topics.get(&topic).and_then(Weak::upgrade) {
            return held;
        }
        let made = Arc::new(TopicTraffic {
            name: name.to_owned(),
            all: Arc::clone(&self.all),
            here: std::array::from_fn(|_| AtomicU64::new(0)),
        });
        topics.insert(topic, Arc::downgrade(&made));
        made
    }

    fn gather(&self, gathered: &mut Gathered) {
        let mut topics: Vec<Arc<TopicTraffic>> = Vec::new();
        self.topics.lock().retain(|_, topic| {
            let held = topic.upgrade();
            let lives = held.is_some();
            topics.extend(held);
            lives
        });
        topics.retain(|topic| 0 < topic.busy());
        topics.sort_by_key(|topic| Reverse(topic.busy()));
        topics.truncate(TOPICS_SHOWN);
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        for (place, (flow, help)) in FLOWS.iter().enumerate() {
            // As in Kafka, all traffic stands beside that of each topic, under the same name without the label.
            let name = format!("kafka_server_brokertopicmetrics_{flow}_total");
            gathered.counter_of(&name, help, &[], self.all[place].load(Ordering::Relaxed));
            for topic in &topics {
                if let Some(count) = topic.here.get(place) {
                    let labels = [("topic", topic.name.as_str())];
                    gathered.counter_of(&name, help, &labels, count.load(Ordering::Relaxed));
                }
            }
        }
    }
}

impl TopicTraffic {
    fn add(&self, flow: Flow, amount: u64) {
        self.all[flow as usize].fetch_add(amount, Ordering::Relaxed);
        if let Some(here) = self.here.get(flow as usize) {
            here.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// A producer's batch is in the log.
    pub fn produced(&self, records: u64, bytes: u64) {
        self.add(Flow::Produces, 1);
        self.add(Flow::MessagesIn, records);
        self.add(Flow::BytesIn, bytes);
    }

    /// A producer's batch was not taken, for a reason that no client expects.
    pub fn produce_failed(&self) {
        self.add(Flow::Produces, 1);
        self.add(Flow::FailedProduces, 1);
    }

    /// A producer's batch was not taken, as may happen.
    pub fn produce_refused(&self) {
        self.add(Flow::Produces, 1);
    }

    /// A producer's batch was too large.
    pub fn too_large(&self, bytes: u64) {
        self.add(Flow::Produces, 1);
        self.add(Flow::BytesRejected, bytes);
    }

    /// A consumer was given so many bytes.
    pub fn consumed(&self, bytes: u64) {
        self.add(Flow::Fetches, 1);
        self.add(Flow::BytesOut, bytes);
    }

    /// A follower was given so many bytes.
    pub fn replicated_out(&self, bytes: u64) {
        self.add(Flow::Fetches, 1);
        self.add(Flow::ReplicationBytesOut, bytes);
    }

    /// The log could not be read.
    pub fn fetch_failed(&self) {
        self.add(Flow::Fetches, 1);
        self.add(Flow::FailedFetches, 1);
    }

    /// So many bytes of a leader were appended.
    pub fn replicated_in(&self, bytes: u64) {
        self.add(Flow::ReplicationBytesIn, bytes);
    }

    fn busy(&self) -> u64 {
        let of = |flow: Flow| self.here[flow as usize].load(Ordering::Relaxed);
        of(Flow::BytesIn) + of(Flow::BytesOut) + of(Flow::Fetches) + of(Flow::Produces)
    }
}
