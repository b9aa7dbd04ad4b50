//! From a command to a decision: one function that reads and never writes. Deciding twice on one state gives the same.

use metadata::ids::{BrokerEpoch, BrokerId};
use metadata::image::{Broker, Image};
use metadata::record::Record;

use crate::command::{Command, Reply};
use crate::liveness::Liveness;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::time::Moment;
use crate::{
    alter_configs, alter_partition, departure, elect_leaders, heartbeat, partitions, producer_ids,
    registration, topics,
};

/// Preferred leaders elected by one command (R3.72).
pub(crate) const ELECTIONS_MAX: usize = 1000;

/// All that a decision may depend on, besides the command.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Everything decided so far, committed or not.
    pub image: &'a Image,
    /// Who was heard when.
    pub liveness: &'a Liveness,
    /// What the operator decided.
    pub settings: &'a Settings,
    /// The present.
    pub now: Moment,
}

/// What a command leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is to be written; may be nothing.
    pub records: Vec<Record>,
    /// The answer, once the records are committed.
    pub reply: Reply,
    /// Whether the records stand or fall together.
    pub unity: Unity,
    /// A broker that enters controlled shutdown with this decision: soft state, never in the log (R1.25).
    pub shutting_down: Option<(BrokerId, BrokerEpoch)>,
}

/// Whether the records of a decision stand or fall together (R0.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unity {
    /// All in one batch, or the command is refused.
    Atomic,
    /// Several batches when there are many; every prefix is a sound state.
    Splittable,
}

impl Decision {
    /// A decision that writes nothing.
    #[must_use]
    pub fn of(reply: Reply) -> Self {
        Self {
            records: Vec::new(),
            reply,
            unity: Unity::Atomic,
            shutting_down: None,
        }
    }

    pub(crate) fn splittable(mut self) -> Self {
        self.unity = Unity::Splittable;
        self
    }

    pub(crate) fn shutting_down(mut self, broker: BrokerId, epoch: BrokerEpoch) -> Self {
        self.shutting_down = Some((broker, epoch));
        self
    }
}

/// Decides one command.
///
/// # Errors
/// Why the command is not carried out; nothing is changed then.
pub fn decide(view: &View<'_>, command: &Command) -> Result<Decision, Refusal> {
    match command {
        Command::RegisterBroker(command) => registration::register(view, command),
        Command::Heartbeat(command) => heartbeat::heartbeat(view, command),
        Command::SessionLapsed { broker, epoch }
        | Command::StreamBroken { broker, epoch }
        | Command::TookLeave { broker, epoch } => fence_gone(view, *broker, *epoch),
        Command::CreateTopics(command) => topics::create(view, command),
        Command::DeleteTopics(command) => topics::delete(view, command),
        Command::AlterPartition(command) => alter_partition::alter(view, command),
        Command::AllocateProducerIds { broker, epoch } => producer_ids::allocate(view, *broker, *epoch),
        Command::ElectPreferredLeaders => Ok(Decision {
            records: departure::elect_preferred(view.image, view.settings, ELECTIONS_MAX),
            ..Decision::of(Reply::Done).splittable()
        }),
        Command::CreatePartitions(command) => partitions::create(view, command),
        Command::AlterConfigs(command) => alter_configs::alter(view, command),
        Command::ElectLeaders(command) => elect_leaders::elect(view, command),
    }
}

/// The registration under this epoch.
pub(crate) fn registered(image: &Image, broker: BrokerId, given: BrokerEpoch) -> Result<&Broker, Refusal> {
    let held = image.brokers.get(&broker);
    held.filter(|held| held.epoch == given)
        .map(AsRef::as_ref)
        .ok_or(Refusal::StaleBrokerEpoch {
            broker,
            held: held.map(|held| held.epoch),
            given,
        })
}

/// A broker that is not heard any more. One that is fenced already, or that came back as another incarnation, is left alone
/// (R1.31).
fn fence_gone(view: &View<'_>, broker: BrokerId, epoch: BrokerEpoch) -> Result<Decision, Refusal> {
    let held = registered(view.image, broker, epoch)?;
    let records = match held.fenced {
        true => Vec::new(),
        false => departure::fence(view.image, view.settings, broker, epoch),
    };
    Ok(Decision {
        records,
        ..Decision::of(Reply::Done).splittable()
    })
}
