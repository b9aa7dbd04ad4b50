//! One load on one cluster: who sends and reads what, from when to when it counts, and what comes out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parking_lot::Mutex;
use wire::{ApiKey, ApiVersion, Uuid};

use super::args::ShapeArgs;
use super::batch::Template;
use super::clock::Clock;
use super::figures::{Quantiles, Times};
use super::process::{self, Usage, Watched};
use super::{read, write};
use crate::address::Address;
use crate::args::Acks;
use crate::cluster::{Cluster, Topic};
use crate::offsets::{self, Place};
use crate::outcome::Failure;
use crate::producer_id;
use crate::waiting::no_leader;

/// What is done to a cluster.
#[derive(Debug, Clone)]
pub struct Load {
    /// Bytes of a record's value.
    pub record_size: usize,
    /// Records a second, read as they come; none for as many as it takes, read afterwards.
    pub rate: Option<u64>,
    /// Everything else.
    pub shape: ShapeArgs,
}

/// What came out.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Seconds that were measured.
    pub seconds: f64,
    /// Records acknowledged in them.
    pub records: u64,
    /// From when a record was due, or was sent where there is no rate, to its acknowledgement.
    pub ack: Option<Quantiles>,
    /// From when a record was due to when a reader had it.
    pub end_to_end: Option<Quantiles>,
    /// What writing, and reading where it went on beside it, cost.
    pub cost: Cost,
    /// Reading afterwards.
    pub read: Option<ReadBack>,
}

/// Reading what was written.
#[derive(Debug, Clone)]
pub struct ReadBack {
    /// Seconds that it took.
    pub seconds: f64,
    /// Records that came.
    pub records: u64,
    /// What it cost.
    pub cost: Cost,
}

/// What was used meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// CPU of the brokers in seconds, where it is known.
    pub brokers_cpu: Option<f64>,
    /// Memory of the brokers in bytes at the end.
    pub brokers_rss: Option<u64>,
    /// CPU of this process in seconds.
    pub own_cpu: Option<f64>,
}

/// Who is sent to and read from.
#[derive(Debug, Clone)]
pub struct Target {
    /// The topic's name.
    pub topic: String,
    /// The topic's id.
    pub topic_id: Uuid,
    /// The brokers and the partitions that each leads.
    pub leaders: Vec<Leader>,
    /// How Produce is spoken.
    pub produce: ApiVersion,
    /// How Fetch is spoken.
    pub fetch: ApiVersion,
    /// The idempotent producer, id and epoch.
    pub producer: Option<(i64, i16)>,
}

/// A broker and the partitions that it leads.
#[derive(Debug, Clone)]
pub struct Leader {
    /// Where it is.
    pub address: Address,
    /// What it leads.
    pub partitions: Vec<i32>,
}

/// What all threads of a load look at.
#[derive(Debug)]
pub struct Gauge {
    /// The clock of all times here.
    pub clock: Clock,
    /// When records are due from.
    pub began: u64,
    /// When it counts, from and up to.
    pub window: (u64, u64),
    enough: AtomicBool,
    written: AtomicBool,
    failed: Mutex<Option<String>>,
}

impl Gauge {
    fn new(load: &Load) -> Self {
        let clock = Clock::new();
        // All connections stand by then.
        let began = clock.now() + 100_000_000;
        let from = began + load.shape.warm_up * 1_000_000_000;
        Self {
            clock,
            began,
            window: (from, from + load.shape.seconds * 1_000_000_000),
            enough: AtomicBool::new(false),
            written: AtomicBool::new(false),
            failed: Mutex::new(None),
        }
    }

    /// Whether what is due or done at this time counts.
    pub const fn counts(&self, at: u64) -> bool {
        self.window.0 <= at && at < self.window.1
    }

    /// Whether nothing more is to be sent.
    pub fn enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    /// Whether everything that was sent is acknowledged.
    pub fn all_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }

    /// Ends the load, which then came to nothing.
    pub fn fail(&self, why: String) {
        self.failed.lock().get_or_insert(why);
        self.enough.store(true, Ordering::Relaxed);
        self.written.store(true, Ordering::Relaxed);
    }

    fn outcome(&self) -> Result<(), Failure> {
        self.failed
            .lock()
            .take()
            .map_or(Ok(()), |why| Err(Failure::Refused(why)))
    }
}

/// Where the brokers of a cluster are.
///
/// # Errors
/// When none answers.
pub async fn brokers(bootstrap: &[Address]) -> Result<Vec<Address>, Failure> {
    let mut cluster = Cluster::connect(bootstrap).await?;
    cluster.metadata(&[]).await?;
    Ok(cluster.brokers().values().cloned().collect())
}

/// Puts the load on and measures.
///
/// # Errors
/// When the cluster cannot be asked, or a record is refused or lost.
pub async fn run(
    bootstrap: &[Address],
    topic: &str,
    load: &Load,
    watched: &Watched,
) -> Result<Measured, Failure> {
    if load.shape.acks == Acks::None {
        let line = "--acks 0: there is no time to an acknowledgement that never comes".to_owned();
        return Err(Failure::Usage(vec![line]));
    }
    let mut cluster = Cluster::connect(bootstrap).await?;
    let topic = cluster.topic(topic).await?;
    let all: Vec<i32> = topic.leaders.keys().copied().collect();
    let target = target(&mut cluster, &topic, &load.shape).await?;
    let starts = offsets::of(&mut cluster, &topic, &all, Place::End).await?;
    let (job, begin, eyes) = (load.clone(), starts.clone(), watched.clone());
    let loaded = target.clone();
    let mut measured = on_threads(move || measure(&loaded, &job, &begin, &eyes)).await?;
    if load.rate.is_none() {
        let ends = offsets::of(&mut cluster, &topic, &all, Place::End).await?;
        let (job, eyes) = (load.clone(), watched.clone());
        measured.read = Some(on_threads(move || read_back(&target, &job, &starts, &ends, &eyes)).await?);
    }
    Ok(measured)
}

async fn on_threads<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn target(cluster: &mut Cluster, topic: &Topic, shape: &ShapeArgs) -> Result<Target, Failure> {
    let producer = match shape.acks == Acks::All && !shape.no_idempotence {
        false => None,
        true => Some(producer_id::new(cluster).await?),
    };
    let mut by_leader: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (partition, leader) in &topic.leaders {
        let leaderless = || Failure::Refused(no_leader(&topic.name, *partition));
        by_leader
            .entry(leader.ok_or_else(leaderless)?)
            .or_default()
            .push(*partition);
    }
    let addresses = cluster.brokers().clone();
    let leaders = by_leader.into_iter().map(|(broker, partitions)| {
        let unknown = || Failure::Refused(format!("broker {broker} is not known"));
        let address = addresses.get(&broker).cloned().ok_or_else(unknown)?;
        Ok(Leader { address, partitions })
    });
    let leaders: Result<Vec<Leader>, Failure> = leaders.collect();
    let leaders = leaders?;
    let spoken = |cluster: &mut Cluster, api: ApiKey, newest: i16| {
        let missing = || Failure::Refused(format!("the brokers do not serve {api}"));
        cluster.any().version(api, newest).ok_or_else(missing)
    };
    Ok(Target {
        topic: topic.name.clone(),
        topic_id: topic.id,
        leaders,
        produce: spoken(cluster, ApiKey::Produce, 13)?,
        fetch: spoken(cluster, ApiKey::Fetch, 17)?,
        producer,
    })
}

fn measure(
    target: &Target,
    load: &Load,
    starts: &BTreeMap<i32, i64>,
    watched: &Watched,
) -> Result<Measured, Failure> {
    let template = Template::new(load.record_size, load.shape.batch_size as usize);
    let partitions: usize = target.leaders.iter().map(|leader| leader.partitions.len()).sum();
    let gauge = Gauge::new(load);
    let gauge = &gauge;
    let (mut acks, mut seen, mut records) = (Times::new(), Times::new(), 0);
    let cost = thread::scope(|scope| {
        let mut writers = Vec::new();
        let mut readers = Vec::new();
        for leader in &target.leaders {
            let share = leader.partitions.len() as f64 / partitions as f64;
            let rate = load.rate.map(|rate| rate as f64 * share);
            let writer = write::Writer {
                gauge,
                target,
                leader,
                template: &template,
                shape: &load.shape,
                rate,
            };
            writers.push(scope.spawn(move || writer.run()));
            if load.rate.is_some() {
                let from = of_leader(starts, leader);
                readers.push(scope.spawn(move || read::follow(gauge, target, leader, from)));
            }
        }
        gauge.clock.sleep_until(gauge.window.0);
        let before = (watched.usage(), process::own());
        gauge.clock.sleep_until(gauge.window.1);
        let cost = cost_since(before, (watched.usage(), process::own()));
        gauge.enough.store(true, Ordering::Relaxed);
        for writer in writers {
            let written = writer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            acks.merge(&written.acks);
            records += written.records;
        }
        gauge.written.store(true, Ordering::Relaxed);
        for reader in readers {
            let read = reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            seen.merge(&read.times);
        }
        cost
    });
    gauge.outcome()?;
    let seconds = (gauge.window.1 - gauge.window.0) as f64 / 1e9;
    Ok(Measured {
        seconds,
        records,
        ack: acks.quantiles(),
        end_to_end: seen.quantiles(),
        cost,
        read: None,
    })
}

/// Reads everything that was written, from all leaders at once.
fn read_back(
    target: &Target,
    load: &Load,
    starts: &BTreeMap<i32, i64>,
    ends: &BTreeMap<i32, i64>,
    watched: &Watched,
) -> Result<ReadBack, Failure> {
    let gauge = Gauge::new(load);
    let gauge = &gauge;
    let began = gauge.clock.now();
    let before = (watched.usage(), process::own());
    let limit = began + load.shape.seconds * 1_000_000_000;
    let records = thread::scope(|scope| {
        let reading = target.leaders.iter().map(|leader| {
            let (from, to) = (of_leader(starts, leader), of_leader(ends, leader));
            scope.spawn(move || read::to_the_end(gauge, target, leader, from, &to, limit))
        });
        let reading: Vec<_> = reading.collect();
        let joined = reading.into_iter().map(|one| {
            one.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.sum()
    });
    let seconds = (gauge.clock.now() - began) as f64 / 1e9;
    let cost = cost_since(before, (watched.usage(), process::own()));
    gauge.outcome()?;
    Ok(ReadBack {
        seconds,
        records,
        cost,
    })
}

fn of_leader(offsets: &BTreeMap<i32, i64>, leader: &Leader) -> BTreeMap<i32, i64> {
    let at = |partition: &i32| (*partition, offsets.get(partition).copied().unwrap_or(0));
    leader.partitions.iter().map(at).collect()
}

fn cost_since(before: (Option<Usage>, Option<Usage>), after: (Option<Usage>, Option<Usage>)) -> Cost {
    let passed = |before: Option<Usage>, after: Option<Usage>| {
        before
            .zip(after)
            .map(|(before, after)| after.cpu_seconds - before.cpu_seconds)
    };
    Cost {
        brokers_cpu: passed(before.0, after.0),
        brokers_rss: after.0.map(|usage| usage.rss_bytes),
        own_cpu: passed(before.1, after.1),
    }
}
