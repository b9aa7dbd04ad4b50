//! A cluster under an idempotent load with a reader beside it, and the oracle's verdict when it is over.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cluster::Cluster;
use crate::load::{Acknowledgements, Load, Plan, Tail, read_all};
use crate::oracle::{History, Reader, Verdict, check};
use crate::raw::Connection;
use crate::raw::requests::{NewTopic, code};
use crate::{ask, wait};

/// The topic under load: replication factor 3, min.insync.replicas 2.
pub const TOPIC: &str = "siege";

/// Its partitions.
pub const PARTITIONS: i32 = 12;

/// librdkafka's own values of what a load sets otherwise.
const DEFAULTS: &[(&str, &str)] = &[
    ("linger.ms", "5"),
    ("queue.buffering.max.messages", "100000"),
    ("retry.backoff.ms", "100"),
    ("retry.backoff.max.ms", "1000"),
    ("reconnect.backoff.ms", "100"),
    ("reconnect.backoff.max.ms", "10000"),
];

/// How long the cluster may take to be whole again after anything.
const WHOLE_WITHIN: Duration = Duration::from_secs(90);

/// A cluster under load.
pub struct Siege {
    /// The cluster.
    pub cluster: Cluster,
    /// The longest gap between acknowledgements of a partition while nothing was done.
    pub quiet: Duration,
    load: Load,
    tail: Tail,
    asked: u32,
}

/// What one blow did.
#[derive(Clone, Copy, Debug)]
pub struct Blow {
    /// Records acknowledged meanwhile.
    pub acknowledged: usize,
    /// The longest gap between acknowledgements of a partition.
    pub gap: Duration,
}

impl Siege {
    /// Creates the topic, starts the load, and measures `quiet` time without a disturbance.
    pub fn lay(cluster: Cluster, quiet: Duration) -> Result<Siege> {
        let mut siege = Siege::begin(cluster, &[])?;
        siege.keep_quiet(quiet);
        Ok(siege)
    }

    /// The same with a client that was told nothing but what its load is, and no quiet time yet.
    pub fn lay_with_defaults(cluster: Cluster) -> Result<Siege> {
        Siege::begin(cluster, DEFAULTS)
    }

    /// Measures so much time without a disturbance.
    pub fn keep_quiet(&mut self, quiet: Duration) {
        let from = Instant::now();
        wait::pass(quiet);
        self.quiet = self.load.acknowledgements().longest_gap(from, Instant::now());
    }

    fn begin(cluster: Cluster, settings: &[(&str, &str)]) -> Result<Siege> {
        let bootstrap = cluster.bootstrap();
        let wanted = NewTopic::new(TOPIC, PARTITIONS, 3).with("min.insync.replicas", "2");
        ask::create(&bootstrap, wanted)?;
        let tail = Tail::start(&bootstrap, TOPIC, PARTITIONS, Reader(1))?;
        let settings = settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let load = Load::start(Plan {
            settings: settings.collect(),
            ..Plan::new(&bootstrap, TOPIC, PARTITIONS)
        })?;
        load.wait_for_more(5_000, Duration::from_secs(60))?;
        Ok(Siege {
            cluster,
            quiet: Duration::ZERO,
            load,
            tail,
            asked: 0,
        })
    }

    /// Does something to the cluster, waits until it is whole again and acknowledges, and measures.
    pub fn blow(&mut self, strike: impl FnOnce(&mut Siege) -> Result<()>) -> Result<Blow> {
        let from = Instant::now();
        strike(self)?;
        self.whole()?;
        self.load.wait_for_more(2_000, WHOLE_WITHIN)?;
        self.every_partition_again(Instant::now())?;
        let to = Instant::now();
        let acks: Acknowledgements = self.load.acknowledgements();
        Ok(Blow {
            acknowledged: acks.count_between(from, to),
            gap: acks.longest_gap(from, to),
        })
    }

    /// Waits until every partition has acknowledged something after `since`: what one blow costs must not be
    /// counted for the next.
    fn every_partition_again(&self, since: Instant) -> Result<()> {
        wait::until_equal(
            "every partition acknowledges",
            WHOLE_WITHIN,
            PARTITIONS as usize,
            || Ok(self.load.acknowledgements().partitions_since(since)),
        )
    }

    /// Waits for so many further acknowledgements.
    pub fn go_on(&self, records: usize) -> Result<()> {
        self.load.wait_for_more(records, WHOLE_WITHIN)
    }

    /// Waits until every broker shows every replica in sync.
    pub fn whole(&mut self) -> Result<()> {
        self.cluster.wait_until_serving()?;
        ask::everything_in_sync(&self.cluster.bootstrap(), TOPIC, WHOLE_WITHIN)
    }

    /// How long after `since` the cluster first commits a change of metadata: topics are created through any
    /// broker until one is acknowledged. Three replicas each, since a broker that holds the only one is not fenced
    /// before its session timeout, which would tell in the rows that follow.
    pub fn next_commit(&mut self, since: Instant) -> Result<Duration> {
        let brokers = self.cluster.brokers();
        let addresses = brokers
            .into_iter()
            .filter(|id| self.cluster.runs(*id))
            .collect::<Vec<_>>();
        let addresses = addresses
            .into_iter()
            .map(|id| self.cluster.address(id))
            .collect::<Result<Vec<_>>>()?;
        wait::until("a metadata commit", Duration::from_secs(30), || {
            self.asked += 1;
            let at = &addresses[self.asked as usize % addresses.len()];
            let mut connection = Connection::open(at)?;
            connection.answers_within(Duration::from_secs(5))?;
            let wanted = NewTopic::new(&format!("commit-{}", self.asked), 1, 3);
            let answer = connection.create_topics(&[wanted])?;
            let error = answer.first().context("an answer")?.1;
            ensure!(error == code::NONE, "error {error}");
            Ok(())
        })?;
        Ok(since.elapsed())
    }

    /// Stops the load, reads everything, and asks the oracle. An alarm in any log is an error.
    pub fn lift(self) -> Result<Verdict> {
        let bootstrap = self.cluster.bootstrap();
        let written = self.load.finish()?;
        ensure!(written.errors.is_empty(), "the producer saw {:?}", written.errors);
        let mut reads = self.tail.finish()?;
        reads.extend(read_all(&bootstrap, TOPIC, PARTITIONS, Reader(2), WHOLE_WITHIN)?);
        let complete = [Reader(2)].into();
        let verdict = check(&History {
            sends: written.sends,
            reads,
            complete,
            ..History::default()
        });
        let surprises = self.cluster.surprises();
        ensure!(
            surprises.is_empty(),
            "alarms in the logs:\n{}",
            surprises.join("\n")
        );
        Ok(verdict)
    }
}
