//! Where partitions begin and end, and which offset stands at a time: questions to their leaders.

use std::collections::BTreeMap;
use std::time::Duration;

use host::{Clock as _, OsClock};
use wire::messages::ListOffsetsRequest;
use wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};

use crate::ask;
use crate::client::ClientError;
use crate::cluster::{Cluster, Topic};
use crate::outcome::Failure;
use crate::waiting::{Waiting, no_leader};

/// How long leaders are waited for at most: an election takes less.
const LIMIT: Duration = Duration::from_secs(15);

const PAUSE: Duration = Duration::from_millis(100);

/// A place in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Its first record.
    Beginning,
    /// Behind its last record.
    End,
    /// An offset.
    At(i64),
    /// So many records before its end.
    BeforeEnd(i64),
    /// The first record of this time or later, in ms since 1970.
    Time(i64),
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not beginning, end, OFFSET, -COUNT or @MILLISECONDS");
        let number = |text: &str| {
            text.parse::<i64>()
                .ok()
                .filter(|number| 0 <= *number)
                .ok_or_else(bad)
        };
        match text {
            "beginning" | "earliest" => Ok(Self::Beginning),
            "end" | "latest" => Ok(Self::End),
            _ => match (text.strip_prefix('-'), text.strip_prefix('@')) {
                (Some(count), _) => number(count).map(Self::BeforeEnd),
                (_, Some(time)) => number(time).map(Self::Time),
                _ => number(text).map(Self::At),
            },
        }
    }
}

impl Place {
    /// What ListOffsets calls it.
    const fn timestamp(self) -> i64 {
        match self {
            Self::End | Self::BeforeEnd(_) => -1,
            Self::Beginning | Self::At(_) => -2,
            Self::Time(time) => time,
        }
    }
}

/// The offset of a place in each of these partitions. What is waited for is told.
///
/// # Errors
/// When a partition has no leader, or its leader does not answer, for longer than is waited; when a leader refuses.
pub async fn of(
    cluster: &mut Cluster,
    topic: &Topic,
    partitions: &[i32],
    place: Place,
) -> Result<BTreeMap<i32, i64>, Failure> {
    let clock = OsClock::new();
    let began = clock.now();
    let mut waiting = Waiting::begin();
    let mut topic = topic.clone();
    let mut all = BTreeMap::new();
    loop {
        let left: Vec<i32> = partitions
            .iter()
            .filter(|one| !all.contains_key(*one))
            .copied()
            .collect();
        let (found, missing) = known(cluster, &topic, &left, place).await?;
        all.extend(found);
        let Some(why) = missing else {
            return Ok(all);
        };
        if LIMIT <= clock.now().since(began) {
            return Err(Failure::Refused(why));
        }
        waiting.still(&why);
        tokio::time::sleep(PAUSE).await;
        // A leader may have just been elected.
        topic = cluster.topic(&topic.name).await?;
    }
}

/// The offset of a place in as many of these partitions as say it now, and the first reason why others do not, where
/// asking again may help.
///
/// # Errors
/// When a leader refuses.
pub async fn known(
    cluster: &mut Cluster,
    topic: &Topic,
    partitions: &[i32],
    place: Place,
) -> Result<(BTreeMap<i32, i64>, Option<String>), Failure> {
    if let Place::At(offset) = place {
        let all = partitions.iter().map(|partition| (*partition, offset));
        return Ok((all.collect(), None));
    }
    let mut found = BTreeMap::new();
    let mut why = ask_once(cluster, topic, partitions, place.timestamp(), &mut found).await?;
    if let Place::BeforeEnd(count) = place {
        let all: Vec<i32> = found.keys().copied().collect();
        let mut begins = BTreeMap::new();
        let begin = Place::Beginning.timestamp();
        why = why.or(ask_once(cluster, topic, &all, begin, &mut begins).await?);
        found.retain(|partition, _| begins.contains_key(partition));
        for (partition, offset) in &mut found {
            *offset = (*offset - count).max(begins[partition]);
        }
    }
    // Nothing of that time or later: what comes next is the first of it.
    let late: Vec<i32> = found
        .iter()
        .filter(|(_, at)| **at < 0)
        .map(|(partition, _)| *partition)
        .collect();
    found.retain(|_, at| 0 <= *at);
    why = why.or(ask_once(cluster, topic, &late, Place::End.timestamp(), &mut found).await?);
    Ok((found, why))
}

/// The ends of these partitions, as far as their leaders say them now.
pub async fn ends_known(cluster: &mut Cluster, topic: &Topic, partitions: &[i32]) -> BTreeMap<i32, i64> {
    let mut found = BTreeMap::new();
    // What is not known is not there: whoever asks shows a dash.
    let _ = ask_once(cluster, topic, partitions, Place::End.timestamp(), &mut found).await;
    found
}

/// Asks every leader once. Gives the first reason why something is missing, where asking again may help.
async fn ask_once(
    cluster: &mut Cluster,
    topic: &Topic,
    partitions: &[i32],
    timestamp: i64,
    found: &mut BTreeMap<i32, i64>,
) -> Result<Option<String>, Failure> {
    let mut why = None;
    let mut missing = |reason: String| {
        why.get_or_insert(reason);
    };
    let mut by_leader: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        match topic.leaders.get(partition).copied().flatten() {
            Some(leader) => by_leader.entry(leader).or_default().push(*partition),
            None => missing(no_leader(&topic.name, *partition)),
        }
    }
    for (leader, partitions) in by_leader {
        let mut client = match cluster.take(leader).await {
            Ok(client) => client,
            Err(failure) => {
                missing(failure.to_string());
                continue;
            }
        };
        let answer = match client.ask(9, &question(topic, &partitions, timestamp)).await {
            Ok((_, answer)) => answer,
            Err(error @ ClientError::NotServed { .. }) => return Err(error.into()),
            Err(error) => {
                missing(error.to_string());
                continue;
            }
        };
        cluster.give_back(leader, client);
        for result in answer.topics.iter().flat_map(|topic| &topic.partitions) {
            let what = format!("offsets of {}-{}", topic.name, result.partition_index);
            match result.error_code {
                code if code.is_retriable() => missing(format!("{what}: {code}")),
                code => {
                    ask::refuse(code, None, &what)?;
                    found.insert(result.partition_index, result.offset);
                }
            }
        }
    }
    Ok(why)
}

fn question(topic: &Topic, partitions: &[i32], timestamp: i64) -> ListOffsetsRequest {
    let partition = |index: &i32| ListOffsetsPartition {
        partition_index: *index,
        timestamp,
        ..Default::default()
    };
    ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: topic.name.clone(),
            partitions: partitions.iter().map(partition).collect(),
        }],
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn places_are_named_as_people_name_them() {
        let place = |text: &str| text.parse::<Place>();
        assert_eq!(place("earliest"), Ok(Place::Beginning));
        assert_eq!(place("end"), Ok(Place::End));
        assert_eq!(place("17"), Ok(Place::At(17)));
        assert_eq!(place("-5"), Ok(Place::BeforeEnd(5)));
        assert_eq!(place("@1700000000000"), Ok(Place::Time(1_700_000_000_000)));
        for bad in ["", "middle", "--5", "@", "1.5"] {
            assert!(place(bad).is_err(), "{bad:?}");
        }
    }
}
