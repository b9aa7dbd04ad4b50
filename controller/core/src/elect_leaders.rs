//! Elections that somebody asked for (R3.70, R3.71, R3.74).

use metadata::ids::{PartitionId, PartitionIndex};
use metadata::image::{Image, Partition, Topic};
use metadata::record::{LeaderChange, PartitionChanged, Record};

use crate::command::{ElectLeaders, ElectionKind, ElectionOutcome, Reply};
use crate::decision::{Decision, View};
use crate::election::{Election, PartitionChange};
use crate::refusal::Refusal;
use crate::rules::{ElectionRules, TopicRules, Unclean};
use crate::topics::in_time;

/// Elects.
///
/// # Errors
/// When the time was over before it began (R0.4). Refusals of single partitions are in the reply.
pub fn elect(view: &View<'_>, command: &ElectLeaders) -> Result<Decision, Refusal> {
    in_time(command.timeout_ms)?;
    let mut rules = TopicRules::of(view.image, view.settings);
    let mut records = Vec::new();
    let mut outcomes = Vec::new();
    let mut judge = |topic: &str, partition: i32| {
        let elected = elect_one(view.image, &mut rules, command.kind, topic, partition);
        let refused = match elected {
            Ok(record) => {
                records.push(Record::PartitionChanged(record));
                None
            }
            Err(refusal) => Some(refusal),
        };
        ElectionOutcome {
            topic: topic.to_owned(),
            partition,
            refused,
        }
    };
    match &command.partitions {
        Some(partitions) => {
            // One that is named twice is elected twice, as in Kafka.
            outcomes.extend(
                partitions
                    .iter()
                    .map(|(topic, partition)| judge(topic, *partition)),
            );
        }
        None => {
            let all = view
                .image
                .topic_names
                .keys()
                .filter_map(|name| view.image.topic_named(name));
            let each = all.flat_map(|topic| topic.partitions.keys().map(|index| (&topic.name, index.0)));
            let is_told =
                |outcome: &ElectionOutcome| !matches!(outcome.refused, Some(Refusal::ElectionNotNeeded(_)));
            outcomes.extend(each.map(|(topic, index)| judge(topic, index)).filter(is_told));
        }
    }
    let decision = Decision {
        records,
        ..Decision::of(Reply::LeadersElected(outcomes))
    };
    Ok(match command.partitions {
        Some(_) => decision,
        None => decision.splittable(),
    })
}

fn elect_one(
    image: &Image,
    rules: &mut TopicRules<'_>,
    kind: ElectionKind,
    name: &str,
    index: i32,
) -> Result<PartitionChanged, Refusal> {
    let unknown = || Refusal::UnknownTopic {
        name: name.to_owned(),
    };
    let topic: &Topic = image.topic_named(name).ok_or_else(unknown)?;
    let id = PartitionId {
        topic: topic.id,
        index: PartitionIndex(index),
    };
    let partition: &Partition = topic
        .partitions
        .get(&id.index)
        .ok_or(Refusal::UnknownPartition(id))?;
    let rules = rules.election(topic);
    match kind {
        ElectionKind::Preferred => {
            let preferred = partition.replicas.first().copied();
            if partition.leader == preferred {
                return Err(Refusal::ElectionNotNeeded(id));
            }
            let change = PartitionChange::of(id, partition, image, rules).electing(Election::Preferred);
            change
                .record()
                .filter(|record| record.leader == preferred.map(LeaderChange::To))
                .ok_or(Refusal::PreferredLeaderNotAvailable(id))
        }
        ElectionKind::Unclean => {
            if partition.leader.is_some() {
                return Err(Refusal::ElectionNotNeeded(id));
            }
            // Whoever asks takes the loss upon himself: the topic's configuration is not asked.
            let rules = ElectionRules {
                unclean: Unclean::Allowed,
                ..rules
            };
            let change = PartitionChange::of(id, partition, image, rules);
            change
                .record()
                .filter(|record| matches!(record.leader, Some(LeaderChange::To(_))))
                .ok_or(Refusal::EligibleLeadersNotAvailable(id))
        }
    }
}
