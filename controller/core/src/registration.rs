//! Broker registration: which process may carry a broker id, and under which epoch (R1.1–R1.9).
//!
//! A new incarnation starts fenced, and what the old one had is settled in the same result, before the registration:
//! a controller that dies in between leaves a broker that must try again, never one that is half registered.

use metadata::feature::METADATA_VERSION;
use metadata::ids::{BrokerEpoch, DirectoryId};
use metadata::image::{Broker, Image};
use metadata::record::{BrokerRegistered, LevelRange, Record};

use crate::command::{RegisterBroker, Reply};
use crate::decision::{Decision, View};
use crate::departure::{self, Stop};
use crate::liveness::Hold;
use crate::mutants::{self, Mutant};
use crate::refusal::Refusal;
use crate::rules::eligible_replicas_served;

/// Registers a broker process, or says why not.
///
/// # Errors
/// The first row of R1.1 that applies.
pub fn register(view: &View<'_>, command: &RegisterBroker) -> Result<Decision, Refusal> {
    let image = view.image;
    if let Some(given) = &command.cluster_id
        && *given != view.settings.cluster_id
    {
        return Err(Refusal::InconsistentClusterId {
            held: view.settings.cluster_id.clone(),
            given: given.clone(),
        });
    }
    let held = image.brokers.get(&command.broker).map(AsRef::as_ref);
    free_to_take(view, command, held)?;
    directories_are_sound(image, command)?;
    features_fit(image, command)?;
    Ok(match held {
        Some(held) if held.incarnation == command.incarnation => amend(command, held),
        _ => succeed(view, command, held),
    })
}

/// Row 3, with the rulings for quick restarts: an id is held by a live session, unless whoever held it took leave,
/// was fenced or was shutting down, or its stream broke (or never came, after a failover) and the newcomer brings the
/// same directories, which no two live processes can share.
fn free_to_take(view: &View<'_>, command: &RegisterBroker, held: Option<&Broker>) -> Result<(), Refusal> {
    let Some(held) = held.filter(|held| held.incarnation != command.incarnation) else {
        return Ok(());
    };
    let hold = view
        .liveness
        .hold(command.broker, held.epoch, view.now, view.settings);
    let is_free = match hold {
        Hold::Free => true,
        Hold::StreamBroken => held.in_controlled_shutdown || same_directories(command, held),
        Hold::Live => false,
    };
    if is_free {
        return Ok(());
    }
    Err(Refusal::DuplicateBrokerRegistration {
        broker: command.broker,
        held: held.incarnation,
        epoch: held.epoch,
    })
}

fn same_directories(command: &RegisterBroker, held: &Broker) -> bool {
    let sorted = |ids: &[DirectoryId]| {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids
    };
    sorted(&command.directories) == sorted(&held.directories)
}

/// Row 5.
fn directories_are_sound(image: &Image, command: &RegisterBroker) -> Result<(), Refusal> {
    let invalid = |reason: String| {
        Err(Refusal::InvalidRegistration {
            broker: command.broker,
            reason,
        })
    };
    if command.directories.is_empty() {
        return invalid("it has no log directory".to_owned());
    }
    for (at, directory) in command.directories.iter().enumerate() {
        if directory.is_reserved() {
            return invalid(format!("the directory id {directory} is reserved"));
        }
        if command.directories[..at].contains(directory) {
            return invalid(format!("the directory {directory} is given twice"));
        }
        let owner = image
            .brokers
            .iter()
            .find(|(id, broker)| **id != command.broker && broker.directories.contains(directory));
        if let Some((owner, _)) = owner {
            return invalid(format!("the directory {directory} belongs to broker {owner}"));
        }
    }
    Ok(())
}

/// Rows 6 to 8.
fn features_fit(image: &Image, command: &RegisterBroker) -> Result<(), Refusal> {
    let unsupported = |feature: &str, level: i16, offered: String| {
        Err(Refusal::UnsupportedVersion {
            broker: command.broker,
            feature: feature.to_owned(),
            level,
            offered,
        })
    };
    for (name, range) in &command.features {
        let level = image.feature_level(name);
        if !range.contains(level) {
            let LevelRange { min, max } = *range;
            return unsupported(name, level, format!("{min} to {max}"));
        }
    }
    let is_listed = |name: &str| command.features.iter().any(|(listed, _)| listed == name);
    if !is_listed(METADATA_VERSION) {
        return Err(Refusal::InvalidRegistration {
            broker: command.broker,
            reason: format!("it does not say which {METADATA_VERSION} it runs"),
        });
    }
    for (name, level) in &image.features {
        if !is_listed(name) {
            return unsupported(name, *level, "nothing of it".to_owned());
        }
    }
    Ok(())
}

/// The same process again (R1.5): what it says of itself is replaced, its standing is not.
fn amend(command: &RegisterBroker, held: &Broker) -> Decision {
    let record = BrokerRegistered {
        registered_at: Some(held.registered_at),
        fenced: held.fenced,
        in_controlled_shutdown: held.in_controlled_shutdown,
        ..registered(command, held.epoch)
    };
    Decision {
        records: vec![Record::BrokerRegistered(record)],
        ..Decision::of(Reply::Registered { epoch: held.epoch })
    }
}

/// A new process (R1.3, R1.6). Its epoch is the offset at which it was decided.
fn succeed(view: &View<'_>, command: &RegisterBroker, held: Option<&Broker>) -> Decision {
    let epoch = BrokerEpoch(view.image.next_offset.0);
    let mut records = left_behind(view, command, held);
    records.push(Record::BrokerRegistered(registered(command, epoch)));
    Decision {
        records,
        ..Decision::of(Reply::Registered { epoch }).splittable()
    }
}

fn left_behind(view: &View<'_>, command: &RegisterBroker, held: Option<&Broker>) -> Vec<Record> {
    let (image, settings) = (view.image, view.settings);
    let is_trusted = held.is_some_and(|held| stopped_cleanly(command, held))
        || mutants::is_selected(Mutant::UncleanRestartKeepsItsPlace);
    let stop = match is_trusted || !eligible_replicas_served(image) {
        true => Stop::Clean,
        false => Stop::Unclean,
    };
    departure::restart(image, settings, command.broker, stop, &command.directories)
}

/// Whether what the registered process left can be trusted (R1.6): it stopped in order, or was stopped before it heard
/// of its epoch. A registration that was asked for may be decided when whoever asked is gone.
fn stopped_cleanly(command: &RegisterBroker, held: &Broker) -> bool {
    command.previous_epoch == Some(held.epoch) || command.unserved.contains(&held.incarnation)
}

fn registered(command: &RegisterBroker, epoch: BrokerEpoch) -> BrokerRegistered {
    let mut features = command.features.clone();
    features.sort_by(|one, other| one.0.cmp(&other.0));
    BrokerRegistered {
        broker: command.broker,
        epoch,
        registered_at: None,
        incarnation: command.incarnation,
        endpoints: command.endpoints.clone(),
        features,
        rack: command.rack.clone(),
        directories: command.directories.clone(),
        fenced: true,
        in_controlled_shutdown: false,
    }
}
