//! OffsetCommit and OffsetFetch (G-42 to G-51), and what the end of a topic means for its offsets (G-56).

use std::collections::{BTreeMap, BTreeSet};

use metadata::ids::TopicId;

use super::names::{GroupId, ReplyId, TopicName};
use super::record::{OffsetValue, Record};
use super::request::{Commit, CommittedOffset, Fetch, FetchedTopic, Refusal, Reply};
use super::state::{Group, State};
use super::work::{Settings, Then, Work};

/// Tombstones that are written together when a topic is gone.
const TOMBSTONES_MAX: usize = 1000;

impl Group {
    /// Whether this commit may be made (G-45).
    pub(super) fn admits_commit(&self, commit: &Commit) -> Result<(), Refusal> {
        let has_generation = 0 <= commit.generation.0;
        if !has_generation && self.state == State::Empty {
            return Ok(());
        }
        if has_generation || !commit.member.is_empty() || commit.instance.is_some() {
            self.member(&commit.member, commit.instance.as_ref())?;
            if commit.generation != self.generation {
                return Err(Refusal::IllegalGeneration);
            }
        } else if self.state != State::Empty {
            return Err(Refusal::UnknownMember);
        }
        if self.state == State::Completing {
            return Err(Refusal::RebalanceInProgress);
        }
        Ok(())
    }
}

/// Writes a commit that is admitted; offsets whose metadata is too long are refused one by one (G-47).
pub(super) fn commit(work: &mut Work<'_>, to: ReplyId, commit: Commit) {
    let retention = commit
        .retention
        .map(|kept| i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
    let expires_ms = retention.map(|kept| work.at.wall_ms.saturating_add(kept));
    let mut records = Vec::new();
    let mut results = Vec::new();
    for offset in commit.offsets {
        if fits(work.settings, &offset) {
            records.push(record(&commit.group, offset, work.at.wall_ms, expires_ms));
            results.push(Ok(()));
        } else {
            results.push(Err(Refusal::MetadataTooLarge));
        }
    }
    if !records.is_empty() {
        work.append(records, Then::Rest);
    }
    work.reply_when_written(to, Reply::Commit(Ok(results)));
}

fn fits(settings: &Settings, offset: &CommittedOffset) -> bool {
    // No text has more units than bytes.
    offset.metadata.len() <= settings.offset_metadata_units_max
        || offset.metadata.encode_utf16().count() <= settings.offset_metadata_units_max
}

fn record(group: &GroupId, offset: CommittedOffset, committed_ms: i64, expires_ms: Option<i64>) -> Record {
    Record::Offset {
        group: group.clone(),
        topic: offset.topic,
        partition: offset.partition,
        value: Some(OffsetValue {
            offset: offset.offset,
            leader_epoch: offset.leader_epoch,
            metadata: offset.metadata,
            committed_ms,
            expires_ms,
            topic: offset.topic_id,
        }),
    }
}

/// What is committed, of a group that may not exist (G-50).
pub(super) fn fetch(group: Option<&Group>, fetch: Fetch) -> Vec<FetchedTopic> {
    let none = BTreeMap::new();
    let offsets = group.map_or(&none, |group| &group.offsets);
    let Some(topics) = fetch.topics else {
        return all(offsets);
    };
    let topic = |topic: super::request::FetchTopic| {
        let partition = |index: i32| {
            let held = offsets.get(&(topic.name.clone(), index));
            // Of a topic that is gone, or of another one of its name, nothing is told, though it may not be forgotten yet.
            let still_counts = |held: &&OffsetValue| held.topic.is_none() || held.topic == topic.id;
            (index, held.filter(still_counts).cloned())
        };
        FetchedTopic {
            partitions: topic.partitions.iter().copied().map(partition).collect(),
            name: topic.name,
        }
    };
    topics.into_iter().map(topic).collect()
}

fn all(offsets: &BTreeMap<(TopicName, i32), OffsetValue>) -> Vec<FetchedTopic> {
    let mut topics: Vec<FetchedTopic> = Vec::new();
    for ((name, partition), value) in offsets {
        let committed = (*partition, Some(value.clone()));
        match topics.last_mut() {
            Some(last) if last.name == *name => last.partitions.push(committed),
            _ => topics.push(FetchedTopic {
                name: name.clone(),
                partitions: vec![committed],
            }),
        }
    }
    topics
}

/// Forgets the offsets of topics that are gone. What is being written counts as written: a commit for the next topic of a
/// name stands under the same key, and a tombstone behind it would take it away.
pub(super) fn forget_topics<'a>(
    work: &mut Work<'_>,
    groups: impl Iterator<Item = &'a Group>,
    gone: &BTreeSet<TopicId>,
) {
    let is_gone = |value: &OffsetValue| value.topic.is_some_and(|topic| gone.contains(&topic));
    let pending = pending(work);
    let mut tombstones: Vec<Record> = Vec::new();
    for group in groups {
        for ((topic, partition), held) in &group.offsets {
            let key = (group.id.clone(), topic.clone(), *partition);
            if is_gone(held) && !pending.contains_key(&key) {
                tombstones.push(tombstone(key));
            }
        }
    }
    let lost = pending
        .into_iter()
        .filter(|(_, value)| value.as_ref().is_some_and(is_gone));
    tombstones.extend(lost.map(|(key, _)| tombstone(key)));
    while !tombstones.is_empty() {
        let rest = tombstones.split_off(tombstones.len().min(TOMBSTONES_MAX));
        work.append(std::mem::replace(&mut tombstones, rest), Then::Rest);
    }
}

type Key = (GroupId, TopicName, i32);

/// The newest of what is being written for each key.
fn pending(work: &Work<'_>) -> BTreeMap<Key, Option<OffsetValue>> {
    let records = work.writes.queue.iter().flat_map(|write| &write.records);
    let offsets = records.filter_map(|record| match record {
        Record::Offset {
            group,
            topic,
            partition,
            value,
        } => Some(((group.clone(), topic.clone(), *partition), value.clone())),
        Record::Group { .. } => None,
    });
    offsets.collect()
}

fn tombstone((group, topic, partition): Key) -> Record {
    Record::Offset {
        group,
        topic,
        partition,
        value: None,
    }
}
