//! Many partitions: how long they take to create, to come back and to fail over, and what an idle one costs. The
//! figures are printed beside the goals; what holds or not is what would be grossly off.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cluster::{Cluster, NodeId, broker};
use crate::process::Figures;
use crate::raw::Connection;
use crate::raw::requests::{NewTopic, code};
use crate::show::{Board, at_most};
use crate::{ask, wait, watch};

/// Topics over which the partitions are spread.
const TOPICS: i32 = 10;
const PATIENCE: Duration = Duration::from_secs(180);
/// A descriptor for each replica would be thousands.
const DESCRIPTORS_OVER_BASE_MAX: usize = 100;
const SERIES_MAX: usize = 3_000;
/// The goal is 50 ms; a busy machine may take several times that.
const SCRAPE_MAX: Duration = Duration::from_millis(250);
const START_CLEAN_MAX: Duration = Duration::from_secs(10);
const END_MAX: Duration = Duration::from_secs(20);
const FAILOVER_MAX: Duration = Duration::from_secs(5);

/// All rows.
pub fn rows(board: &mut Board) {
    if board.wants_some_of("scale 10,000") {
        with_cluster(board, "scale 10,000", (1, 1), 10_000, 1);
    }
    if board.wants_some_of("scale 2,000 x 3") {
        with_cluster(board, "scale 2,000 x 3", (3, 3), 2_000, 3);
    }
}

fn with_cluster(board: &mut Board, name: &str, nodes: (u32, u32), partitions: i32, copies: i16) {
    let mut scale = match Scale::begin(nodes, partitions, copies) {
        Ok(scale) => scale,
        Err(error) => return board.row(name, || Err(error)),
    };
    board.row(&format!("{name}: create"), || scale.create());
    board.row(&format!("{name}: idle"), || scale.idle());
    board.row(&format!("{name}: SIGTERM, start"), || scale.restart_in_order());
    if copies > 1 {
        board.row(&format!("{name}: kill a broker, fail over"), || scale.fail_over());
    } else {
        board.row(&format!("{name}: kill, start"), || scale.restart_after_a_kill());
    }
}

struct Scale {
    cluster: Cluster,
    partitions: i32,
    copies: i16,
    /// Of the first broker, before there was a partition.
    base: Figures,
}

impl Scale {
    fn begin((controllers, brokers): (u32, u32), partitions: i32, copies: i16) -> Result<Scale> {
        let cluster = Cluster::builder()
            .controllers(controllers)
            .brokers(brokers)
            .start()?;
        let base = cluster.figures(broker(1))?;
        Ok(Scale {
            cluster,
            partitions,
            copies,
            base,
        })
    }

    fn topics(&self) -> impl Iterator<Item = String> {
        (0..TOPICS).map(|n| format!("scale-{n}"))
    }

    fn create(&mut self) -> Result<String> {
        let began = Instant::now();
        let each = self.partitions / TOPICS;
        for topic in self.topics() {
            let mut connection = Connection::open(&self.cluster.address(broker(1))?)?;
            connection.answers_within(PATIENCE)?;
            let answers = connection.create_topics(&[NewTopic::new(&topic, each, self.copies)])?;
            let (_, error, why) = answers.first().context("an answer")?;
            ensure!(*error == code::NONE, "{topic}: error {error} {why}");
        }
        let created = began.elapsed();
        self.everything_serves()?;
        self.everything_is_open(broker(1))?;
        let all = began.elapsed();
        Ok(format!(
            "created after {} ms, every replica in sync and its log there after {} ms",
            created.as_millis(),
            all.as_millis()
        ))
    }

    /// The only replica is in sync before its log is there: a broker has to say itself how many it holds.
    fn everything_is_open(&self, id: NodeId) -> Result<()> {
        let (address, wanted) = (self.cluster.watched_at(id)?, self.replicas_of_one());
        wait::until("every log is there", PATIENCE, || {
            let scrape = watch::scrape(&address)?.body;
            let counted = watch::value(&scrape, "kafka_server_replicamanager_partitioncount")?;
            ensure!(
                counted as usize == wanted,
                "{counted} partitions are counted, not {wanted}"
            );
            Ok(())
        })
    }

    /// Every partition has a leader, and all its replicas are in sync.
    fn everything_serves(&self) -> Result<()> {
        let bootstrap = self.cluster.bootstrap();
        let mut topics = self.topics();
        topics.try_for_each(|topic| ask::everything_in_sync(&bootstrap, &topic, PATIENCE))
    }

    fn idle(&mut self) -> Result<String> {
        let replicas = self.replicas_of_one();
        let most = self.base.descriptors + DESCRIPTORS_OVER_BASE_MAX;
        // Files that were just written to are put away after a while without traffic.
        let figures = wait::until("idle replicas hold no file", Duration::from_secs(60), || {
            let figures = self.cluster.figures(broker(1))?;
            at_most("descriptors", figures.descriptors, &most)?;
            Ok(figures)
        })?;
        let address = self.cluster.watched_at(broker(1))?;
        watch::scrape(&address)?;
        let scrape = watch::scrape(&address)?;
        let series = watch::series(&scrape.body);
        let controller = watch::scrape(&self.cluster.watched_at(self.cluster.controllers()[0])?)?;
        let more = figures.resident_bytes.saturating_sub(self.base.resident_bytes);
        let figure = format!(
            "RSS {} MiB, before {} MiB: {} KiB a replica (goal 16); {} descriptors, before {}; \
             scrape {} ms, {series} series (goal 50, 3000); controller's {} ms, {} series",
            figures.resident_bytes >> 20,
            self.base.resident_bytes >> 20,
            more / 1024 / replicas as u64,
            figures.descriptors,
            self.base.descriptors,
            scrape.took.as_millis(),
            controller.took.as_millis(),
            watch::series(&controller.body),
        );
        ensure!(series <= SERIES_MAX, "too many series; {figure}");
        ensure!(scrape.took <= SCRAPE_MAX, "a slow scrape; {figure}");
        Ok(figure)
    }

    /// On each broker there are as many.
    fn replicas_of_one(&self) -> usize {
        let all = self.partitions as usize * self.copies.unsigned_abs() as usize;
        all / self.cluster.brokers().len()
    }

    fn restart_in_order(&mut self) -> Result<String> {
        let began = Instant::now();
        self.cluster.ask_to_end(broker(1))?;
        let status = self.cluster.wait_for_end(broker(1))?;
        let ended = began.elapsed();
        ensure!(status.success(), "it ended with {status}");
        let start = self.start(broker(1))?;
        let figure = format!(
            "ended after {} ms, ready {} ms after the start (goal 1000 for 10,000), RSS {} MiB",
            ended.as_millis(),
            start.as_millis(),
            self.cluster.figures(broker(1))?.resident_bytes >> 20
        );
        ensure!(ended <= END_MAX, "a slow end; {figure}");
        ensure!(start <= START_CLEAN_MAX, "a slow start; {figure}");
        self.everything_serves()?;
        Ok(figure)
    }

    fn restart_after_a_kill(&mut self) -> Result<String> {
        self.cluster.kill(broker(1))?;
        let start = self.start(broker(1))?;
        self.everything_serves()?;
        Ok(format!("ready {} ms after the start", start.as_millis()))
    }

    /// How long a broker takes until it says that it is ready.
    fn start(&mut self, id: NodeId) -> Result<Duration> {
        let address = self.cluster.watched_at(id)?;
        let began = Instant::now();
        self.cluster.start(id)?;
        wait::until("it is ready", PATIENCE, || watch::ready(&address))?;
        Ok(began.elapsed())
    }

    /// Until every partition that the killed one led has another leader.
    fn fail_over(&mut self) -> Result<String> {
        let killed = broker(2);
        let led = self.led_by(killed)?;
        let began = Instant::now();
        self.cluster.kill(killed)?;
        let left = self.cluster.address(broker(1))?;
        for topic in self.topics() {
            wait::until("others lead", PATIENCE, || {
                let partitions = ask::partitions(&left, &topic)?;
                let still = partitions
                    .iter()
                    .filter(|p| p.leader < 0 || p.leader == 2)
                    .count();
                ensure!(still == 0, "{still} of {topic} have no other leader");
                Ok(())
            })?;
        }
        let took = began.elapsed();
        let start = self.start(killed)?;
        self.everything_serves()?;
        let all = began.elapsed();
        let figure = format!(
            "{led} leaderships moved after {} ms; ready {} ms after the start, everything in sync after {} ms in all",
            took.as_millis(),
            start.as_millis(),
            all.as_millis()
        );
        ensure!(took <= FAILOVER_MAX, "slow; {figure}");
        Ok(figure)
    }

    fn led_by(&self, id: NodeId) -> Result<usize> {
        let mut led = 0;
        for topic in self.topics() {
            let partitions = ask::partitions(&self.cluster.bootstrap(), &topic)?;
            led += partitions
                .iter()
                .filter(|p| p.leader == id.0.cast_signed())
                .count();
        }
        ensure!(led > 0, "broker {id} leads nothing");
        Ok(led)
    }
}
