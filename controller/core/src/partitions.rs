//! More partitions for topics that exist (R2.30, R2.31). Each topic of a request stands for itself; all that is written
//! goes into one batch.

use metadata::ids::{BrokerId, PartitionId, PartitionIndex};
use metadata::image::{Image, Topic};
use metadata::record::{PartitionCreated, Record};

use crate::chance::Draws;
use crate::command::{CreatePartitions, MorePartitions, MorePartitionsOutcome, Reply};
use crate::decision::{Decision, View};
use crate::directories::Directories;
use crate::refusal::Refusal;
use crate::topics::{PARTITIONS_MAX, assignable, in_time, initial, named_once, place};

/// Gives topics more partitions.
///
/// # Errors
/// When the time was over before it began (R0.4). Refusals of single topics are in the reply.
pub fn create(view: &View<'_>, command: &CreatePartitions) -> Result<Decision, Refusal> {
    in_time(command.timeout_ms)?;
    let image = view.image;
    let mut draws = Draws::from_seed(command.entropy);
    let mut directories = Directories::of(image);
    let (once, repeated) = named_once(&command.topics, |topic| &topic.name);
    let too_many = too_many_together(image, &once);
    let twice = |topic: &&MorePartitions| MorePartitionsOutcome {
        name: topic.name.clone(),
        refused: Some(Refusal::InvalidRequest(format!(
            "topic {:?} is given twice",
            topic.name
        ))),
    };
    let mut outcomes: Vec<MorePartitionsOutcome> = repeated.iter().map(twice).collect();
    let mut records = Vec::new();
    for topic in once {
        let made = match &too_many {
            Some(refusal) => Err(refusal.clone()),
            None => grow(image, topic, &mut draws, &mut directories),
        };
        let refused = match made {
            Ok(new_records) => {
                records.extend(new_records);
                None
            }
            Err(refusal) => Some(refusal),
        };
        let name = topic.name.clone();
        outcomes.push(MorePartitionsOutcome { name, refused });
    }
    if command.validate_only {
        records.clear();
    }
    Ok(Decision {
        records,
        ..Decision::of(Reply::PartitionsCreated(outcomes))
    })
}

/// R2.2 comes before everything that a topic is checked for by itself.
fn too_many_together(image: &Image, topics: &[&MorePartitions]) -> Option<Refusal> {
    let more = |topic: &&MorePartitions| {
        let held = image
            .topic_named(&topic.name)
            .map_or(0, |held| held.partitions.len());
        i64::from(topic.count)
            .saturating_sub(i64::try_from(held).unwrap_or(i64::MAX))
            .max(0)
    };
    let together = topics.iter().map(more).fold(0, i64::saturating_add);
    (together > PARTITIONS_MAX).then(|| {
        Refusal::PolicyViolation(format!(
            "{together} partitions: one request creates at most {PARTITIONS_MAX}"
        ))
    })
}

/// The rows of R2.30, in order.
fn grow(
    image: &Image,
    wanted: &MorePartitions,
    draws: &mut Draws,
    directories: &mut Directories<'_>,
) -> Result<Vec<Record>, Refusal> {
    let topic = image
        .topic_named(&wanted.name)
        .ok_or_else(|| Refusal::UnknownTopic {
            name: wanted.name.clone(),
        })?;
    let held = i32::try_from(topic.partitions.len()).expect("indexes are i32 and dense");
    let more = usize::try_from(i64::from(wanted.count) - i64::from(held))
        .ok()
        .filter(|more| *more > 0)
        .ok_or_else(|| Refusal::InvalidPartitions {
            given: wanted.count,
            reason: format!("the topic has {held} already, and can only get more"),
        })?;
    let factor = replication_factor(topic);
    let replicas = match &wanted.assignments {
        None => place(image, more, factor, draws)?,
        Some(by_hand) => assigned(image, by_hand, held, more, factor)?,
    };
    let created = replicas.into_iter().zip(held..).map(|(replicas, index)| {
        let partition = PartitionId {
            topic: topic.id,
            index: PartitionIndex(index),
        };
        let state = initial(image, replicas, directories);
        Record::PartitionCreated(PartitionCreated { partition, state })
    });
    Ok(created.collect())
}

/// That of the first partition, replicas on their way included (R2.31).
fn replication_factor(topic: &Topic) -> usize {
    let first = topic.partitions.values().next();
    first.map_or(1, |partition| partition.replicas.len())
}

fn assigned(
    image: &Image,
    by_hand: &[Vec<BrokerId>],
    held: i32,
    more: usize,
    factor: usize,
) -> Result<Vec<Vec<BrokerId>>, Refusal> {
    if by_hand.len() != more {
        let reason = format!("replicas for {} partitions, but {more} are new", by_hand.len());
        return Err(Refusal::InvalidReplicaAssignment(reason));
    }
    for (replicas, index) in by_hand.iter().zip(held..) {
        assignable(image, index, replicas, factor)?;
    }
    Ok(by_hand.to_vec())
}
