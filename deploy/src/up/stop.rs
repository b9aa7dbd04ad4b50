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

/// How often a person is told what is waited for.
const REMINDER: Duration = Duration::from_secs(5);

/// Stops brokers, then controllers. A second signal, or too long a wait, kills what is left.
///
/// # Errors
/// When something had to be killed.
pub async fn in_order(nodes: &mut Nodes, signals: &mut Signals) -> Result<(), Failure> {
    let mut killed = Vec::new();
    for role in [Role::Broker, Role::Controller] {
        let running = nodes.running_as(role);
        if running.is_empty() {
            continue;
        }
        tell(&format!("stopping {}s: {}", role.word(), running.join(", ")));
        nodes.signal(role, Signal::TERM);
        let alone = nodes.without_quorum().filter(|_| role == Role::Broker);
        if let Some(why) = &alone {
            tell(&format!(
                "{why}: nobody can take over from them; they are killed after {} s",
                PATIENCE_ALONE.as_secs()
            ));
        }
        let patience = sleep(if alone.is_some() { PATIENCE_ALONE } else { PATIENCE });
        tokio::pin!(patience);
        let mut reminder = interval(REMINDER);
        reminder.reset();
        let mut hurried = false;
        while !nodes.running_as(role).is_empty() {
            tokio::select! {
                ended = nodes.next_end() => tell(&format!("{} stopped ({})", ended.name, ended.how)),
                () = &mut patience, if !hurried => {
                    hurried = true;
                    killed.extend(kill(nodes, role, "takes too long"));
                }
                _ = reminder.tick(), if !hurried && alone.is_none() => tell(&format!(
                    "still waiting for {}; Ctrl-C again kills what is left",
                    nodes.running_as(role).join(", ")
                )),
                () = signals.next(), if !hurried => {
                    hurried = true;
                    killed.extend(kill(nodes, role, "second signal"));
                }
            }
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

fn kill(nodes: &Nodes, role: Role, why: &str) -> Vec<String> {
    let left = nodes.running_as(role);
    tell(&format!("killing {}: {why}", left.join(", ")));
    nodes.signal(role, Signal::KILL);
    left
}
