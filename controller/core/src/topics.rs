//! Creating and deleting topics (R2.1–R2.9, R2.40–R2.43). Each topic of a request stands for itself; all that is
//! written goes into one batch.

use std::collections::BTreeSet;

use metadata::config::validate_topic;
use metadata::ids::{BrokerId, LeaderEpoch, PartitionEpoch, PartitionId, PartitionIndex, TopicId};
use metadata::image::{Image, Partition, Topic};
use metadata::record::{ConfigResource, LeaderRecovery, PartitionCreated, Record};
use metadata::uuid::Uuid;

use crate::chance::Draws;
use crate::command::{
    Assignment, CreateTopics, DeleteTopics, NewTopic, Reply, TopicCreation, TopicDeletion, TopicMade,
    TopicRef,
};
use crate::decision::{Decision, View};
use crate::directories::Directories;
use crate::placement::{Candidates, NoPlacement};
use crate::refusal::Refusal;
use crate::topic_names::{NormalisedNames, valid_name};

/// Partitions that one request may create (R2.2).
pub(crate) const PARTITIONS_MAX: i64 = 10_000;

/// Never a topic: Kafka keeps its metadata under this name.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// Creates topics.
///
/// # Errors
/// When the time was over before it began (R0.4). Refusals of single topics are in the reply.
pub fn create(view: &View<'_>, command: &CreateTopics) -> Result<Decision, Refusal> {
    in_time(command.timeout_ms)?;
    let mut draws = Draws::from_seed(command.entropy);
    let mut directories = Directories::of(view.image);
    let normalised = NormalisedNames::of(view.image);
    let (once, repeated) = named_once(&command.topics, |topic| &topic.name);
    let too_many = too_many_together(view, &once);
    let mut results: Vec<TopicCreation> = repeated
        .into_iter()
        .map(|topic| TopicCreation {
            name: topic.name.clone(),
            result: Err(Refusal::InvalidRequest(format!(
                "topic {:?} is given twice",
                topic.name
            ))),
        })
        .collect();
    let mut records = Vec::new();
    for topic in once {
        let made = match &too_many {
            _ if topic.name == METADATA_TOPIC => Err(Refusal::InvalidRequest(format!(
                "{METADATA_TOPIC} cannot be created"
            ))),
            Some(refusal) => Err(refusal.clone()),
            None => create_one(view, topic, &normalised, &mut draws, &mut directories),
        };
        let result = made.map(|(made, new_records)| {
            records.extend(new_records);
            made
        });
        results.push(TopicCreation {
            name: topic.name.clone(),
            result,
        });
    }
    if command.validate_only {
        records.clear();
    }
    Ok(Decision {
        records,
        ..Decision::of(Reply::TopicsCreated(results))
    })
}

pub(crate) fn in_time(timeout_ms: i32) -> Result<(), Refusal> {
    if timeout_ms <= 0 {
        return Err(Refusal::TimedOut { timeout_ms });
    }
    Ok(())
}

/// Entries whose key comes once, and the first of each whose key comes more often.
pub(crate) fn named_once<'a, T, K: Ord + ?Sized + 'a>(
    entries: &'a [T],
    key: impl Fn(&'a T) -> &'a K,
) -> (Vec<&'a T>, Vec<&'a T>) {
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for entry in entries {
        if !seen.insert(key(entry)) {
            twice.insert(key(entry));
        }
    }
    let mut told = BTreeSet::new();
    let firsts = entries.iter().filter(|entry| told.insert(key(entry)));
    firsts.partition(|entry| !twice.contains(key(entry)))
}

/// R2.2 comes before everything that a topic is checked for by itself.
fn too_many_together(view: &View<'_>, topics: &[&NewTopic]) -> Option<Refusal> {
    let default = i64::from(view.settings.topics.partitions);
    let count = |topic: &&NewTopic| match topic.assignments.len() {
        0 => topic.partitions.map_or(default, i64::from),
        by_hand => i64::try_from(by_hand).unwrap_or(i64::MAX),
    };
    let together = topics.iter().map(count).fold(0, i64::saturating_add);
    (together > PARTITIONS_MAX).then(|| {
        Refusal::PolicyViolation(format!(
            "{together} partitions: one request creates at most {PARTITIONS_MAX}"
        ))
    })
}

/// The rows of R2.3, in order.
fn create_one(
    view: &View<'_>,
    topic: &NewTopic,
    normalised: &NormalisedNames,
    draws: &mut Draws,
    directories: &mut Directories<'_>,
) -> Result<(TopicMade, Vec<Record>), Refusal> {
    let image = view.image;
    if image.topic_names.contains_key(&topic.name) {
        return Err(Refusal::TopicExists {
            name: topic.name.clone(),
        });
    }
    valid_name(&topic.name)?;
    normalised.free(&topic.name)?;
    let configs = validate_topic(&topic.configs, &view.settings.node)
        .map_err(|refusal| Refusal::InvalidConfig(refusal.to_string()))?;
    let replicas = if topic.assignments.is_empty() {
        placed(view, topic, draws)?
    } else {
        assigned(image, topic)?
    };
    let id = fresh_id(image, draws);
    let made = TopicMade {
        topic: id,
        partitions: count(replicas.len()),
        replication_factor: count(replicas[0].len()),
    };
    let created = Record::TopicCreated {
        topic: id,
        name: topic.name.clone(),
    };
    let configured = configs.into_iter().map(|(key, value)| Record::ConfigChanged {
        resource: ConfigResource::Topic(topic.name.clone()),
        key,
        value: Some(value),
    });
    let partitions = replicas.into_iter().zip(0..).map(|(replicas, index)| {
        let partition = PartitionId {
            topic: id,
            index: PartitionIndex(index),
        };
        let state = initial(image, replicas, directories);
        Record::PartitionCreated(PartitionCreated { partition, state })
    });
    let records = std::iter::once(created).chain(configured).chain(partitions);
    Ok((made, records.collect()))
}

fn count(length: usize) -> i32 {
    i32::try_from(length).expect("it is at most the partitions of one request")
}

/// R2.6: random, and no text form that a shell could take for an option.
fn fresh_id(image: &Image, draws: &mut Draws) -> TopicId {
    loop {
        let id = TopicId(Uuid::from_random_bits(draws.wide()));
        if !id.to_string().contains('-') && !image.topics.contains_key(&id) {
            return id;
        }
    }
}

/// Replicas chosen here.
fn placed(view: &View<'_>, topic: &NewTopic, draws: &mut Draws) -> Result<Vec<Vec<BrokerId>>, Refusal> {
    let default_factor = i32::from(view.settings.topics.replication_factor);
    let factor = topic.replication_factor.unwrap_or(default_factor);
    if factor <= 0 {
        return Err(unplaceable(factor, NoPlacement::NotPositive.to_string()));
    }
    let default_partitions = i32::try_from(view.settings.topics.partitions).unwrap_or(i32::MAX);
    let partitions = topic.partitions.unwrap_or(default_partitions);
    let wanted = usize::try_from(partitions).ok().filter(|count| *count > 0);
    let Some(wanted) = wanted else {
        return Err(Refusal::InvalidPartitions {
            given: partitions,
            reason: "there must be at least 1".to_owned(),
        });
    };
    let factor = usize::try_from(factor).expect("it is positive");
    place(view.image, wanted, factor, draws)
}

fn unplaceable(given: i32, reason: String) -> Refusal {
    Refusal::InvalidReplicationFactor { given, reason }
}

/// Replicas for new partitions, chosen here.
pub(crate) fn place(
    image: &Image,
    partitions: usize,
    factor: usize,
    draws: &mut Draws,
) -> Result<Vec<Vec<BrokerId>>, Refusal> {
    let given = i32::try_from(factor).unwrap_or(i32::MAX);
    let replicas = Candidates::of(image)
        .place(partitions, factor, draws)
        .map_err(|reason| unplaceable(given, reason.to_string()))?;
    let has_active = |replicas: &Vec<BrokerId>| replicas.iter().any(|id| is_active(image, *id));
    if !replicas.iter().all(has_active) {
        return Err(unplaceable(
            given,
            "a partition would have no live replica".to_owned(),
        ));
    }
    Ok(replicas)
}

/// Replicas chosen by the caller.
fn assigned(image: &Image, topic: &NewTopic) -> Result<Vec<Vec<BrokerId>>, Refusal> {
    if topic.replication_factor.is_some() || topic.partitions.is_some() {
        return Err(Refusal::InvalidRequest(
            "replicas by hand go with neither a partition count nor a replication factor".to_owned(),
        ));
    }
    let mut by_index: Vec<&Assignment> = topic.assignments.iter().collect();
    by_index.sort_by_key(|assignment| assignment.partition);
    let factor = topic.assignments[0].replicas.len();
    for (assignment, expected) in by_index.iter().zip(0..) {
        let given = assignment.partition;
        if given != expected {
            let reason = format!("partition {given} stands where {expected} is due");
            return Err(Refusal::InvalidReplicaAssignment(reason));
        }
        assignable(image, given, &assignment.replicas, factor)?;
    }
    Ok(by_index
        .into_iter()
        .map(|assignment| assignment.replicas.clone())
        .collect())
}

/// Whether these replicas, chosen by a caller, can be those of a new partition.
pub(crate) fn assignable(
    image: &Image,
    partition: i32,
    replicas: &[BrokerId],
    factor: usize,
) -> Result<(), Refusal> {
    let invalid = |reason: &str| {
        let reason = format!("partition {partition}: {reason}");
        Err(Refusal::InvalidReplicaAssignment(reason))
    };
    if replicas.is_empty() {
        return invalid("it has no replica");
    }
    if replicas.len() != factor {
        return invalid(&format!("it has {} replicas, not {factor}", replicas.len()));
    }
    for (at, id) in replicas.iter().enumerate() {
        if !image.brokers.contains_key(id) {
            return invalid(&format!("broker {id} is not registered"));
        }
        if replicas[..at].contains(id) {
            return invalid(&format!("broker {id} is given twice"));
        }
    }
    if !replicas.iter().any(|id| is_active(image, *id)) {
        return invalid("none of its brokers is live");
    }
    Ok(())
}

pub(crate) fn is_active(image: &Image, id: BrokerId) -> bool {
    image.brokers.get(&id).is_some_and(|broker| broker.is_active())
}

/// R2.5, R3.80.
pub(crate) fn initial(
    image: &Image,
    replicas: Vec<BrokerId>,
    directories: &mut Directories<'_>,
) -> Partition {
    let in_sync: Vec<BrokerId> = replicas
        .iter()
        .copied()
        .filter(|id| is_active(image, *id))
        .collect();
    Partition {
        directories: replicas.iter().map(|id| directories.for_new(*id)).collect(),
        leader: in_sync.first().copied(),
        in_sync,
        replicas,
        eligible: Vec::new(),
        last_known_leader: None,
        adding: Vec::new(),
        removing: Vec::new(),
        recovery: LeaderRecovery::Recovered,
        leader_epoch: LeaderEpoch(0),
        epoch: PartitionEpoch(0),
    }
}

/// Deletes topics.
///
/// # Errors
/// When deletion is disabled (R2.40), or the time was over before it began (R0.4). Refusals of single topics are in
/// the reply.
pub fn delete(view: &View<'_>, command: &DeleteTopics) -> Result<Decision, Refusal> {
    if !view.settings.topics.deletable {
        return Err(Refusal::TopicDeletionDisabled);
    }
    in_time(command.timeout_ms)?;
    let (once, repeated) = named_once(&command.topics, |topic| topic);
    let mut results: Vec<TopicDeletion> = repeated.into_iter().map(given_twice).collect();
    let found: Vec<(&TopicRef, Option<&Topic>)> = once
        .into_iter()
        .map(|given| (given, find(view.image, given)))
        .collect();
    let mut records = Vec::new();
    for (given, topic) in &found {
        let Some(topic) = topic else {
            results.push(unknown(given));
            continue;
        };
        // By name and by id: the same topic again, so neither is carried out (R2.41).
        let hits = found
            .iter()
            .filter(|(_, other)| other.is_some_and(|other| other.id == topic.id));
        let is_repeated = hits.count() > 1;
        if is_repeated && matches!(given, TopicRef::Id(_)) {
            continue;
        }
        if !is_repeated {
            records.push(Record::TopicDeleted { topic: topic.id });
        }
        results.push(TopicDeletion {
            name: Some(topic.name.clone()),
            topic: Some(topic.id),
            refused: is_repeated
                .then(|| Refusal::InvalidRequest(format!("topic {} is given twice", topic.name))),
        });
    }
    Ok(Decision {
        records,
        ..Decision::of(Reply::TopicsDeleted(results))
    })
}

fn find<'a>(image: &'a Image, given: &TopicRef) -> Option<&'a Topic> {
    match given {
        TopicRef::Name(name) => image.topic_named(name).map(AsRef::as_ref),
        TopicRef::Id(id) => image.topics.get(id).map(AsRef::as_ref),
    }
}

fn given_twice(given: &TopicRef) -> TopicDeletion {
    deletion_of(
        given,
        Refusal::InvalidRequest("the topic is given twice".to_owned()),
    )
}

fn unknown(given: &TopicRef) -> TopicDeletion {
    let refusal = match given {
        TopicRef::Name(name) => Refusal::UnknownTopic { name: name.clone() },
        TopicRef::Id(id) => Refusal::UnknownTopicId(*id),
    };
    // An id that names nothing is not echoed: only the refusal says it (R2.42).
    deletion_of(given, refusal)
}

fn deletion_of(given: &TopicRef, refusal: Refusal) -> TopicDeletion {
    let (name, topic) = match given {
        TopicRef::Name(name) => (Some(name.clone()), None),
        TopicRef::Id(id) => (None, Some(*id)),
    };
    TopicDeletion {
        name,
        topic,
        refused: Some(refusal),
    }
}
