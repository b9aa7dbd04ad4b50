//! Heartbeats: what a broker's wishes make of its standing (R1.20–R1.29).
//!
//! Contact times are taken before this runs. Must not fence for silence: that is [`crate::liveness`].

use metadata::image::Broker;
use metadata::record::Record;

use crate::command::{Heartbeat, HeartbeatReply, Reply};
use crate::decision::{Decision, View, registered};
use crate::departure;
use crate::refusal::Refusal;

/// What a broker is, and what it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not trusted with anything.
    Fenced,
    /// In service.
    Unfenced,
    /// Leaving in order: it waits until nothing depends on it.
    ControlledShutdown,
    /// It may stop; it is fenced.
    ShutdownNow,
}

/// Decides about a heartbeat.
///
/// # Errors
/// When the broker is not registered under this epoch (R1.21).
pub fn heartbeat(view: &View<'_>, command: &Heartbeat) -> Result<Decision, Refusal> {
    let broker = registered(view.image, command.broker, command.epoch)?;
    let is_caught_up = command.applied_end.is_some_and(|end| end > broker.registered_at);
    let current = standing(view, command, broker);
    let next = next(view, command, current, is_caught_up);
    let mut records = transition(view, command, broker, current, next);
    records.extend(offline_directories(view, command, &records));
    let reply = HeartbeatReply {
        is_caught_up,
        is_fenced: matches!(next, Standing::Fenced | Standing::ShutdownNow),
        should_shut_down: next == Standing::ShutdownNow,
    };
    let decision = Decision {
        records,
        ..Decision::of(Reply::Heartbeat(reply)).splittable()
    };
    Ok(match next {
        Standing::ControlledShutdown => decision.shutting_down(command.broker, command.epoch),
        _ => decision,
    })
}

/// The shutdown offset is what tells a broker in controlled shutdown from one that must ask again, as after a
/// failover (R1.33).
fn standing(view: &View<'_>, command: &Heartbeat, broker: &Broker) -> Standing {
    if broker.fenced {
        return Standing::Fenced;
    }
    match view.liveness.shutdown_end(command.broker, command.epoch) {
        Some(_) => Standing::ControlledShutdown,
        None => Standing::Unfenced,
    }
}

/// The table of R1.24.
fn next(view: &View<'_>, command: &Heartbeat, current: Standing, is_caught_up: bool) -> Standing {
    let leads = view.image.lookup().led_by(command.broker).next().is_some();
    let (want_fence, want_shutdown) = (command.want_fence, command.want_shutdown);
    match current {
        Standing::Fenced if want_shutdown => Standing::ShutdownNow,
        Standing::Fenced if !want_fence && is_caught_up => Standing::Unfenced,
        Standing::Fenced => Standing::Fenced,
        Standing::Unfenced if want_fence && want_shutdown => Standing::ShutdownNow,
        Standing::Unfenced if want_fence => Standing::Fenced,
        Standing::Unfenced if want_shutdown && leads => Standing::ControlledShutdown,
        Standing::Unfenced if want_shutdown => Standing::ShutdownNow,
        Standing::Unfenced => Standing::Unfenced,
        Standing::ControlledShutdown if !leads && moves_are_known(view, command) => Standing::ShutdownNow,
        Standing::ControlledShutdown | Standing::ShutdownNow => Standing::ControlledShutdown,
    }
}

/// Every other active broker has applied the moves (R1.25).
fn moves_are_known(view: &View<'_>, command: &Heartbeat) -> bool {
    let shutdown_end = view.liveness.shutdown_end(command.broker, command.epoch);
    shutdown_end.is_some_and(|end| view.liveness.all_active_have_applied(view.image, end))
}

fn transition(
    view: &View<'_>,
    command: &Heartbeat,
    broker: &Broker,
    current: Standing,
    next: Standing,
) -> Vec<Record> {
    let (image, settings) = (view.image, view.settings);
    let (id, epoch) = (command.broker, command.epoch);
    match (current, next) {
        (Standing::Fenced, Standing::Unfenced) => {
            // The unfence comes first: every prefix must have leaders that are active.
            // A shutdown that a fence cut short is over: whoever comes back wants to serve.
            let was_leaving = broker.in_controlled_shutdown;
            let mut records = vec![departure::standing(id, epoch, |change| {
                change.fenced = Some(false);
                change.in_controlled_shutdown = was_leaving.then_some(false);
            })];
            records.extend(departure::arrive(image, settings, id));
            records
        }
        (Standing::Unfenced, Standing::ControlledShutdown) => {
            let mut records = Vec::new();
            if !broker.in_controlled_shutdown {
                records.push(departure::standing(id, epoch, |change| {
                    change.in_controlled_shutdown = Some(true);
                }));
            }
            records.extend(departure::leave(image, settings, id));
            records
        }
        (Standing::Unfenced, Standing::Fenced)
        | (Standing::Unfenced | Standing::ControlledShutdown, Standing::ShutdownNow) => {
            departure::fence(image, settings, id, epoch)
        }
        _ => Vec::new(),
    }
}

/// Failed directories are looked at after the transition, on what it leaves (R1.29).
fn offline_directories(view: &View<'_>, command: &Heartbeat, so_far: &[Record]) -> Vec<Record> {
    if command.offline_directories.is_empty() {
        return Vec::new();
    }
    let mut after = view.image.clone();
    after
        .replay_all(so_far)
        .expect("what was decided on an image replays on it");
    departure::lose_directories(
        &after,
        view.settings,
        command.broker,
        &command.offline_directories,
    )
}
