//! The orderly end: brokers hand their leaderships over while controllers are there to take note, then these stop.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{interval, sleep};

use super::Signals;
use super::nodes::Nodes;
use super::plan::Role;
use crate::outcome::Failure;
use crate::terminal::tell;

/// How long the nodes of a role may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long brokers may take that no quorum of controllers can relieve of their leaderships.
const PATIENCE_ALONE: Duration = Duration::from_secs(5);

/// How long nodes may take that were asked again.
const PATIENCE_AGAIN: Duration = Duration::from_secs(10);

/// How often a person is told what is waited for.
const REMINDER: Duration = Duration::from_secs(5);

/// Stops brokers, then controllers. After too long a wait they are asked again, for a broker then waits for no controller
/// and still ends in order; a second signal, or too long a wait for that, kills what is left.
///
/// # Errors
/// When something had to be killed.
pub async fn in_order(nodes: &mut Nodes, signals: &mut Signals) -> Result<(), Failure> {
    let mut killed = Vec::new();
    for role in [Role::Broker, Role::Controller] {
        if !nodes.running_as(role).is_empty() {
            killed.extend(stop(nodes, signals, role).await);
        }
    }
    if killed.is_empty() {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "killed: {}; the next start recovers them",
        killed.join(", ")
    )))
}

/// How hard nodes are pressed to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pressure {
    Asked,
    AskedAgain,
    Killed,
}

/// Stops the nodes of a role; gives those that had to be killed.
async fn stop(nodes: &mut Nodes, signals: &mut Signals, role: Role) -> Vec<String> {
    let running = nodes.running_as(role).join(", ");
    tell(&format!("stopping {}s: {running}", role.word()));
    nodes.signal(role, Signal::TERM);
    let alone = nodes.without_quorum().filter(|_| role == Role::Broker);
    if let Some(why) = &alone {
        tell(&format!(
            "{why}: nobody can take over from them; after {} s they stop without that",
            PATIENCE_ALONE.as_secs()
        ));
    }
    let patience = sleep(if alone.is_some() { PATIENCE_ALONE } else { PATIENCE });
    tokio::pin!(patience);
    let mut reminder = interval(REMINDER);
    reminder.reset();
    let mut pressure = Pressure::Asked;
    let mut killed = Vec::new();
    while !nodes.running_as(role).is_empty() {
        tokio::select! {
            ended = nodes.next_end() => tell(&format!("{} stopped ({})", ended.name, ended.how)),
            () = &mut patience, if pressure != Pressure::Killed => {
                if pressure == Pressure::Asked {
                    pressure = Pressure::AskedAgain;
                    tell(&format!("asking again: {}", nodes.running_as(role).join(", ")));
                    nodes.signal(role, Signal::TERM);
                    patience.set(sleep(PATIENCE_AGAIN));
                } else {
                    pressure = Pressure::Killed;
                    killed = kill(nodes, role, "takes too long");
                }
            }
            _ = reminder.tick(), if pressure == Pressure::Asked && alone.is_none() => tell(&format!(
                "still waiting for {}; Ctrl-C again kills what is left",
                nodes.running_as(role).join(", ")
            )),
            () = signals.next(), if pressure != Pressure::Killed => {
                pressure = Pressure::Killed;
                killed = kill(nodes, role, "second signal");
            }
        }
    }
    killed
}

fn kill(nodes: &Nodes, role: Role, why: &str) -> Vec<String> {
    let left = nodes.running_as(role);
    tell(&format!("killing {}: {why}", left.join(", ")));
    nodes.signal(role, Signal::KILL);
    left
}
