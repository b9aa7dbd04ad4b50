//! `millrace up`: a whole cluster on this machine, as processes of its own on loopback.
//!
//! Nothing is begun before everything that can be checked is checked; what was begun is stopped in order.

mod found;
mod layout;
mod nodes;
pub(crate) mod orphans;
pub(crate) mod plan;
pub(crate) mod ready;
mod stop;

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::UpArgs;
use crate::ask;
use crate::client::Client;
use crate::outcome::Failure;
use crate::terminal::{say, tell};
use crate::topic::Style;

use layout::Layout;
use nodes::{Ended, Nodes};
use plan::{Plan, Role};

/// The topic of the things to try.
const TOPIC: &str = "orders";

/// How long a broker may take to say which topics there are.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts the cluster, says how to use it, and stops it when it is told to.
///
/// # Errors
/// With exit code 2 when it cannot begin, with 1 when a node ends before all serve or has to be killed at the end.
pub async fn run(args: &UpArgs, style: Style) -> Result<(), Failure> {
    let layout = layout::open(args)?;
    let plan = &layout.plan;
    let mut signals = Signals::new()?;
    tell(&format!("cluster {} in {}", plan.cluster_id, plan.dir.display()));
    let mut nodes = Nodes::start(plan, &layout.binaries)?;
    let begun = tokio::select! {
        () = ready::all_serve(plan) => Begun::Serving,
        ended = nodes.next_end() => Begun::Ended(ended),
        () = signals.next() => Begun::Stopped,
    };
    let served = match begun {
        Begun::Serving => {
            announce(plan, &nodes, style).await;
            watch(&layout, &mut nodes, &mut signals).await
        }
        Begun::Ended(ended) => {
            report(&ended);
            let line = format!(
                "{} ended before all nodes served; mend what its log says and start again",
                ended.name
            );
            Err(Failure::Refused(line))
        }
        Begun::Stopped => Ok(()),
    };
    nodes.adopt(plan, &layout.binaries);
    stop::in_order(&mut nodes, &mut signals).await?;
    served
}

enum Begun {
    Serving,
    Ended(Ended),
    Stopped,
}

/// Stays until it is told to stop, or no node is left. A node that ends is reported, and the others go on: that is what
/// they are for. Those that were begun by hand count as well, so their ends are waited for too.
async fn watch(layout: &Layout, nodes: &mut Nodes, signals: &mut Signals) -> Result<(), Failure> {
    loop {
        let ended = tokio::select! {
            ended = nodes.next_end() => ended,
            () = signals.next() => return Ok(()),
        };
        report(&ended);
        nodes.adopt(&layout.plan, &layout.binaries);
        if nodes.running().is_empty() {
            return Err(Failure::Refused("no node is left".to_owned()));
        }
        tell(&format!(
            "the others go on; this starts it again, and Ctrl-C here stops it with them: {}",
            ended.command
        ));
    }
}

fn report(ended: &Ended) {
    let (name, how) = (&ended.name, &ended.how);
    match &ended.log {
        Some(log) => tell(&format!(
            "{name} ended by itself: {how}; the end of {}:",
            log.display()
        )),
        None => tell(&format!("{name} ended by itself: {how}")),
    }
    for line in &ended.last_lines {
        tell(&format!("  | {line}"));
    }
}

async fn announce(plan: &Plan, nodes: &Nodes, style: Style) {
    match style {
        Style::Json => say(&serving_json(plan, nodes).to_string()),
        Style::Text => {
            // As it was typed, so that the lines can be pasted.
            let own = std::env::args().next().unwrap_or_else(|| "millrace".to_owned());
            let lines = serving_lines(plan, &own, &topics(plan).await);
            lines.iter().for_each(|line| say(line));
        }
    }
}

/// The topics that are there, as after a start on data; none, where that cannot be asked.
async fn topics(plan: &Plan) -> Vec<String> {
    let brokers = plan.nodes.iter().filter(|node| node.role == Role::Broker);
    let addresses: Vec<_> = brokers.map(|node| node.address.clone()).collect();
    let Ok(mut client) = Client::connect(&addresses).await else {
        return Vec::new();
    };
    client.wait_at_most(PATIENCE);
    let topics = ask::all_topics(&mut client).await.unwrap_or_default();
    topics.into_iter().map(|topic| topic.name).collect()
}

fn serving_json(plan: &Plan, nodes: &Nodes) -> serde_json::Value {
    let pids: serde_json::Map<String, serde_json::Value> = nodes
        .pids()
        .into_iter()
        .map(|(name, pid)| (name, pid.into()))
        .collect();
    serde_json::json!({
        "cluster_id": plan.cluster_id,
        "bootstrap": plan.addresses(Role::Broker),
        "controllers": plan.addresses(Role::Controller),
        "pids": pids,
    })
}

fn serving_lines(plan: &Plan, own: &str, topics: &[String]) -> Vec<String> {
    let bootstrap = plan.addresses(Role::Broker);
    let first = bootstrap.split(',').next().unwrap_or_default();
    let at = if first == "127.0.0.1:9092" {
        String::new()
    } else {
        format!(" --bootstrap {first}")
    };
    let copies = plan.copies();
    let first_try = match topics.iter().any(|topic| topic == TOPIC) {
        true => format!("topic describe {TOPIC}"),
        false => format!("topic create {TOPIC} --partitions 12 --replication-factor {copies}"),
    };
    vec![
        String::new(),
        format!("Serving. Bootstrap address: {bootstrap}"),
        String::new(),
        "Three things to try:".to_owned(),
        format!("  {own} {first_try}{at}"),
        format!(
            "  seq 1000 | {own} produce {TOPIC}{at}; {own} consume {TOPIC} --from-beginning --exit-at-end{at} | wc -l"
        ),
        format!("  {own} status{at}"),
        String::new(),
        "Ctrl-C stops everything in order.".to_owned(),
    ]
}

/// What tells this command to stop.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let open =
            |kind| signal(kind).map_err(|error| Failure::machine("signals cannot be received", &error));
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
        })
    }

    /// Comes back when the next signal has come.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    /// After a start on data it proposed to create the topic that was there.
    #[test]
    fn what_is_proposed_can_be_done() {
        let args = UpArgs {
            controllers: 1,
            brokers: 2,
            dir: "d".into(),
            port: 9092,
            sets: vec![],
        };
        let plan = Plan::new(&args, "/d".into(), "c".to_owned()).unwrap();
        let tried = |topics: &[String]| serving_lines(&plan, "millrace", topics)[4].clone();
        assert_eq!(
            tried(&[]),
            "  millrace topic create orders --partitions 12 --replication-factor 2"
        );
        assert_eq!(tried(&["orders".to_owned()]), "  millrace topic describe orders");
    }
}
