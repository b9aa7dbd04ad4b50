//! All six nodes are stopped in order and started again, one after the other, under the load of stock clients.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::ask;
use crate::cluster::{Cluster, NodeId};
use crate::load::java::JavaLoad;
use crate::raw::requests::NewTopic;
use crate::show::{Board, at_least};
use crate::siege::{PARTITIONS, Siege};

/// How long nothing is done, to know what is usual.
const QUIET: Duration = Duration::from_secs(12);
/// What a step may add to the longest gap of the quiet time.
const GATE: Duration = Duration::from_millis(500);
/// What it should add at most.
const GOAL: Duration = Duration::from_millis(100);
/// From SIGTERM to the end of the process.
const END_MAX: Duration = Duration::from_secs(5);
/// The fewest records acknowledged to either client in one step.
const STEP_RECORDS_MIN: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// The topic of the Java client; the oracle must know every record of the other one.
const JAVA_TOPIC: &str = "roll-java";

/// One row for each node, and one for what the clients saw.
pub fn rows(board: &mut Board) {
    if !board.wants_some_of("roll") {
        return;
    }
    let mut roll = match Roll::begin() {
        Ok(roll) => roll,
        Err(error) => return board.row("roll", || Err(error)),
    };
    let nodes = [roll.siege.cluster.brokers(), roll.siege.cluster.controllers()].concat();
    for id in nodes {
        board.row(&format!("roll SIGTERM {}, restart", name(id)), || roll.step(id));
    }
    board.row("roll errors and lost records", || roll.end());
}

fn name(id: NodeId) -> String {
    if id.0 > 100 {
        format!("controller {id}")
    } else {
        format!("broker {id}")
    }
}

struct Roll {
    siege: Siege,
    java: JavaLoad,
    /// The longest gap of the Java client while nothing was done.
    java_quiet: Duration,
}

impl Roll {
    fn begin() -> Result<Roll> {
        let cluster = Cluster::builder().controllers(3).brokers(3).start()?;
        let bootstrap = cluster.bootstrap();
        let mut siege = Siege::lay_with_defaults(cluster)?;
        let topic = NewTopic::new(JAVA_TOPIC, PARTITIONS, 3).with("min.insync.replicas", "2");
        ask::create(&bootstrap, topic)?;
        let java = JavaLoad::start(&bootstrap, JAVA_TOPIC)?;
        java.wait_for_more(5_000, PATIENCE)?;
        let from = Instant::now();
        siege.keep_quiet(QUIET);
        let java_quiet = java.said().acknowledgements.longest_gap(from, Instant::now());
        Ok(Roll {
            siege,
            java,
            java_quiet,
        })
    }

    fn step(&mut self, id: NodeId) -> Result<String> {
        let from = Instant::now();
        let mut ended_after = None;
        let blow = self.siege.blow(|siege| {
            siege.cluster.ask_to_end(id)?;
            let status = siege.cluster.wait_for_end(id)?;
            ended_after = Some(from.elapsed());
            ensure!(status.success(), "it ended with {status}");
            siege.go_on(1_000)?;
            siege.cluster.start(id)
        })?;
        ask::everything_in_sync(&self.siege.cluster.bootstrap(), JAVA_TOPIC, PATIENCE)?;
        self.java.wait_for_more(1_000, PATIENCE)?;
        let said = self.java.said();
        let java_gap = said.acknowledgements.longest_gap(from, Instant::now());
        let java_acknowledged = said.acknowledgements.count_between(from, Instant::now());
        let ended_after = ended_after.context("its end")?;

        at_least(
            "records acknowledged to librdkafka",
            blow.acknowledged as u64,
            STEP_RECORDS_MIN,
        )?;
        at_least(
            "records acknowledged to the Java client",
            java_acknowledged as u64,
            STEP_RECORDS_MIN,
        )?;
        let figure = format!(
            "ended after {} ms; longest gap: librdkafka {} ms (quiet {}), Java {} ms (quiet {}); goal quiet + {}: {}",
            ended_after.as_millis(),
            blow.gap.as_millis(),
            self.siege.quiet.as_millis(),
            java_gap.as_millis(),
            self.java_quiet.as_millis(),
            GOAL.as_millis(),
            if blow.gap <= self.siege.quiet + GOAL && java_gap <= self.java_quiet + GOAL {
                "met"
            } else {
                "missed"
            }
        );
        ensure!(
            said.errors.is_empty(),
            "the Java client saw {:?}; {figure}",
            said.errors
        );
        ensure!(blow.gap <= self.siege.quiet + GATE, "librdkafka; {figure}");
        ensure!(java_gap <= self.java_quiet + GATE, "Java; {figure}");
        ensure!(ended_after <= END_MAX, "too slow; {figure}");
        Ok(figure)
    }

    fn end(self) -> Result<String> {
        let said = self.java.finish()?;
        ensure!(said.errors.is_empty(), "the Java client saw {:?}", said.errors);
        let verdict = self.siege.lift()?;
        ensure!(verdict.holds(), "{verdict}");
        let java = said.acknowledgements.count();
        Ok(format!(
            "{verdict}; no error surfaced by either client, {java} acknowledged to the Java client"
        ))
    }
}
