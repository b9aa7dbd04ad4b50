//! In-sync sets, as their leaders wish them (R3.50–R3.58).

use metadata::ids::{BrokerId, PartitionId};
use metadata::image::{Image, Partition};
use metadata::record::{LeaderRecovery, Record};

use crate::command::{AlterPartition, InSyncProposal, PartitionOutcome, PartitionStanding, Reply};
use crate::decision::{Decision, View, registered};
use crate::election::PartitionChange;
use crate::mutants::{self, Mutant};
use crate::refusal::Refusal;
use crate::rules::TopicRules;

/// Decides about each wish by itself.
///
/// # Errors
/// When the sender is not registered under this epoch (R3.50).
pub fn alter(view: &View<'_>, command: &AlterPartition) -> Result<Decision, Refusal> {
    registered(view.image, command.broker, command.epoch)?;
    let mut rules = TopicRules::of(view.image, view.settings);
    // A partition named twice is judged on what its first wish made of it.
    let mut after = view.image.clone();
    let mut records = Vec::new();
    let mut outcomes = Vec::new();
    for wish in &command.partitions {
        let result = judge(&after, command.broker, wish).map(|partition| {
            let topic = after
                .topics
                .get(&wish.partition.topic)
                .expect("the partition was found in it");
            let in_sync = wish.in_sync.iter().map(|member| member.broker).collect();
            PartitionChange::of(wish.partition, partition, &after, rules.election(topic))
                .with_in_sync(in_sync)
                .with_recovery(wish.recovery)
                .record()
        });
        let result = result.and_then(|record| {
            if let Some(record) = record {
                let record = Record::PartitionChanged(record);
                after
                    .replay(&record)
                    .expect("what was decided on an image replays on it");
                records.push(record);
            }
            outcome(&after, command.broker, wish.partition)
        });
        outcomes.push(PartitionOutcome {
            partition: wish.partition,
            result,
        });
    }
    Ok(Decision {
        records,
        ..Decision::of(Reply::PartitionsAltered(outcomes)).splittable()
    })
}

/// R3.53, and R3.54: when the change moved the leadership, its old holder must not go on.
fn outcome(after: &Image, sender: BrokerId, id: PartitionId) -> Result<PartitionStanding, Refusal> {
    let partition = after.partition(id).expect("the partition was found before");
    match partition.leader {
        Some(leader) if leader != sender => Err(Refusal::NewLeaderElected {
            partition: id,
            leader,
        }),
        _ => Ok(PartitionStanding {
            leader: partition.leader,
            leader_epoch: partition.leader_epoch,
            in_sync: partition.in_sync.clone(),
            recovery: partition.recovery,
            epoch: partition.epoch,
        }),
    }
}

/// The rows of R3.51, in order.
fn judge<'a>(image: &'a Image, sender: BrokerId, wish: &InSyncProposal) -> Result<&'a Partition, Refusal> {
    let id = wish.partition;
    let topic = image
        .topics
        .get(&id.topic)
        .ok_or(Refusal::UnknownTopicId(id.topic))?;
    let held = topic
        .partitions
        .get(&id.index)
        .ok_or(Refusal::UnknownPartition(id))?;
    if wish.leader_epoch > held.leader_epoch || wish.partition_epoch > held.epoch {
        return Err(Refusal::StaleControllerView {
            partition: id,
            leader_epoch: held.leader_epoch,
            epoch: held.epoch,
        });
    }
    if wish.leader_epoch < held.leader_epoch {
        return Err(Refusal::FencedLeaderEpoch {
            partition: id,
            held: held.leader_epoch,
            given: wish.leader_epoch,
        });
    }
    if held.leader != Some(sender) {
        return Err(Refusal::InvalidRequest(format!(
            "broker {sender} does not lead {id}"
        )));
    }
    if mutants::is_selected(Mutant::StaleAlterPartitionAccepted) {
        return Ok(held);
    }
    if wish.partition_epoch < held.epoch {
        return Err(Refusal::StalePartitionEpoch {
            partition: id,
            held: held.epoch,
            given: wish.partition_epoch,
        });
    }
    members_are_sound(held, sender, wish)?;
    recovery_is_sound(held, wish)?;
    members_are_eligible(image, held, wish)?;
    Ok(held)
}

/// Rows 7 and 8.
fn members_are_sound(held: &Partition, sender: BrokerId, wish: &InSyncProposal) -> Result<(), Refusal> {
    let id = wish.partition;
    let invalid = |reason: String| Err(Refusal::InvalidRequest(format!("{id}: {reason}")));
    for (at, member) in wish.in_sync.iter().enumerate() {
        let broker = member.broker;
        if !held.replicas.contains(&broker) {
            return invalid(format!("broker {broker} is no replica"));
        }
        if wish.in_sync[..at].iter().any(|other| other.broker == broker) {
            return invalid(format!("broker {broker} is in sync twice"));
        }
    }
    if !wish.in_sync.iter().any(|member| member.broker == sender) {
        return invalid("the leader is not in sync".to_owned());
    }
    Ok(())
}

/// Rows 9 and 10.
fn recovery_is_sound(held: &Partition, wish: &InSyncProposal) -> Result<(), Refusal> {
    let id = wish.partition;
    if wish.recovery == LeaderRecovery::Recovered {
        return Ok(());
    }
    if wish.in_sync.len() > 1 {
        let reason = format!("{id}: nobody is in sync with a leader that is recovering");
        return Err(Refusal::InvalidRequest(reason));
    }
    if held.recovery == LeaderRecovery::Recovered {
        return Err(Refusal::InvalidRequest(format!("{id}: the leader has recovered")));
    }
    Ok(())
}

/// Row 11, and beyond Kafka: a replica whose directory failed holds nothing that an in-sync set could count on.
fn members_are_eligible(image: &Image, held: &Partition, wish: &InSyncProposal) -> Result<(), Refusal> {
    for member in &wish.in_sync {
        let ineligible = |reason: String| {
            Err(Refusal::IneligibleReplica {
                partition: wish.partition,
                broker: member.broker,
                reason,
            })
        };
        let Some(broker) = image.brokers.get(&member.broker) else {
            return ineligible("it is not registered".to_owned());
        };
        if broker.in_controlled_shutdown {
            return ineligible("it is shutting down".to_owned());
        }
        if broker.fenced {
            return ineligible("it is fenced".to_owned());
        }
        if !image.replica_is_online(held, member.broker) {
            return ineligible("the directory of its replica failed".to_owned());
        }
        if let Some(given) = member.epoch
            && given != broker.epoch
        {
            return ineligible(format!("its epoch is {}, not {given}", broker.epoch));
        }
    }
    Ok(())
}
