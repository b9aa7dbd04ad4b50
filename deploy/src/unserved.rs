//! Partitions whose leader has no log of theirs that works: it could not be opened, or it lies in a directory that failed and
//! the controller takes it to lie in another. All the metadata say is that they are well.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use crate::ask::{self, BrokerView, TopicView};
use crate::client::Client;
use crate::disks::{self, LogDirView};

/// A broker that has just heard of a partition opens its log in this time, or it is asked about once too early.
const LOOKED_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How many partitions a line names.
const NAMED: usize = 5;

/// What one broker leads and cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unserved {
    /// The broker.
    pub broker: i32,
    /// The partitions, as topic-number.
    pub partitions: BTreeSet<String>,
}

impl Unserved {
    /// What is wrong.
    pub fn trouble(&self) -> String {
        let named: Vec<&str> = self.partitions.iter().take(NAMED).map(String::as_str).collect();
        let rest = match self.partitions.len().saturating_sub(NAMED) {
            0 => String::new(),
            rest => format!(" and {rest} more"),
        };
        format!(
            "broker {}: leads {}{rest} and has no log there that works: nobody can read or write; what the broker logs says why",
            self.broker,
            named.join(", ")
        )
    }
}

/// Compares what brokers lead with what lies in their directories. What was only just made, or moved, was seen at two
/// moments; it is looked at again.
pub async fn find(
    client: &mut Client,
    brokers: &[BrokerView],
    topics: &[TopicView],
    log_dirs: &[LogDirView],
) -> Vec<Unserved> {
    let suspected = compared(topics, log_dirs);
    if suspected.is_empty() {
        return suspected;
    }
    tokio::time::sleep(LOOKED_AGAIN_AFTER).await;
    let Ok(topics) = ask::all_topics(client).await else {
        return Vec::new();
    };
    let disks = disks::of(brokers).await;
    in_both(&suspected, &compared(&topics, &disks.found))
}

fn compared(topics: &[TopicView], log_dirs: &[LogDirView]) -> Vec<Unserved> {
    let mut held: BTreeMap<i32, BTreeSet<(&str, i32)>> = BTreeMap::new();
    for dir in log_dirs {
        let logs = dir
            .logs
            .iter()
            .map(|(topic, partition)| (topic.as_str(), *partition));
        held.entry(dir.broker).or_default().extend(logs);
    }
    let mut found: BTreeMap<i32, BTreeSet<String>> = BTreeMap::new();
    for (topic, one) in topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |one| (&topic.name, one)))
    {
        // Who could not be asked is not known to lack anything.
        let Some((leader, logs)) = one.leader.and_then(|leader| Some((leader, held.get(&leader)?))) else {
            continue;
        };
        if !logs.contains(&(topic.as_str(), one.partition)) {
            let name = format!("{topic}-{}", one.partition);
            found.entry(leader).or_default().insert(name);
        }
    }
    found
        .into_iter()
        .map(|(broker, partitions)| Unserved { broker, partitions })
        .collect()
}

fn in_both(before: &[Unserved], now: &[Unserved]) -> Vec<Unserved> {
    let still = |one: &Unserved| {
        let again = now.iter().find(|other| other.broker == one.broker)?;
        let partitions: BTreeSet<String> = one.partitions.intersection(&again.partitions).cloned().collect();
        (!partitions.is_empty()).then_some(Unserved {
            broker: one.broker,
            partitions,
        })
    };
    before.iter().filter_map(still).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::PartitionView;

    fn orders(leaders: &[Option<i32>]) -> TopicView {
        let partition = |(number, leader): (usize, &Option<i32>)| PartitionView {
            partition: number as i32,
            leader: *leader,
            leader_epoch: Some(0),
            replicas: vec![1, 2, 3],
            in_sync: vec![1, 2, 3],
            offline: vec![],
            eligible_leaders: None,
            last_known_leaders: None,
        };
        TopicView {
            name: "orders".to_owned(),
            id: "x".to_owned(),
            internal: false,
            partitions: leaders.iter().enumerate().map(partition).collect(),
        }
    }

    fn dir(broker: i32, partitions: &[i32]) -> LogDirView {
        LogDirView {
            broker,
            path: "/data".to_owned(),
            offline: None,
            usable_bytes: None,
            total_bytes: None,
            logs: partitions.iter().map(|one| ("orders".to_owned(), *one)).collect(),
        }
    }

    fn of(broker: i32, partitions: &[&str]) -> Unserved {
        Unserved {
            broker,
            partitions: partitions.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// A log lay in another directory than the assigned one, and that one failed: its partition kept a leader that could not
    /// serve it, and nothing said so.
    #[test]
    fn what_a_leader_has_in_no_directory_is_found() {
        let topics = [orders(&[Some(1), Some(1), Some(2), Some(3), None])];
        let dirs = [dir(1, &[]), dir(1, &[1, 2]), dir(2, &[0, 1])];
        assert_eq!(
            compared(&topics, &dirs),
            [of(1, &["orders-0"]), of(2, &["orders-2"])],
            "broker 3 was not asked"
        );
    }

    #[test]
    fn what_was_only_just_made_is_not_told() {
        let before = [of(1, &["orders-0", "orders-1"]), of(2, &["orders-2"])];
        let now = [of(1, &["orders-1", "orders-3"])];
        assert_eq!(in_both(&before, &now), [of(1, &["orders-1"])]);
    }

    #[test]
    fn of_many_partitions_the_first_are_named() {
        let names: Vec<String> = (0..8).map(|at| format!("t-{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let told = of(1, &names).trouble();
        assert!(
            told.starts_with("broker 1: leads t-0, t-1, t-2, t-3, t-4 and 3 more and has no log"),
            "{told}"
        );
    }
}
