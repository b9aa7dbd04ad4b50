//! Why a partition takes no writes: nobody leads it, or too few of its replicas are in sync; and who is missing.

use crate::ask::{self, PartitionView};
use crate::cluster::Cluster;
use crate::table::{counted, numbers};
use crate::waiting::no_leader;

const MIN_IN_SYNC: &str = "min.insync.replicas";

/// In a sentence, with the next step; `None` where nothing is wrong with it, or it cannot be asked.
pub async fn of(cluster: &mut Cluster, topic: &str, partition: i32) -> Option<String> {
    // Whoever answered until now may have died; this finds somebody else.
    cluster.metadata(&[topic]).await.ok()?;
    let names = [topic.to_owned()];
    let topics = ask::topics(cluster.any(), &names).await.ok()?;
    let found = topics.iter().find(|found| found.name == topic)?;
    let mut partitions = found.partitions.iter();
    let one = partitions.find(|one| one.partition == partition)?;
    let configs = ask::topic_configs(cluster.any(), &names, Some(&[MIN_IN_SYNC])).await;
    let limit = || {
        configs
            .ok()?
            .get(topic)?
            .get(MIN_IN_SYNC)?
            .value
            .as_ref()?
            .parse()
            .ok()
    };
    said(topic, one, limit().unwrap_or(1))
}

fn said(topic: &str, one: &PartitionView, limit: usize) -> Option<String> {
    if one.leader.is_none() {
        return Some(no_leader(topic, one.partition));
    }
    // As in Kafka, all of the replicas suffice where a topic has fewer than the limit.
    if limit.min(one.replicas.len()) <= one.in_sync.len() {
        return None;
    }
    let missing = one.replicas.iter().filter(|id| !one.in_sync.contains(id));
    let mut missing: Vec<i32> = missing.copied().collect();
    missing.sort_unstable();
    let (away, there): (Vec<i32>, Vec<i32>) = missing.iter().partition(|id| one.offline.contains(id));
    let step = match (away.as_slice(), there.as_slice()) {
        ([], there) => format!("broker {} is there and not in sync yet", numbers(there)),
        ([one], _) => format!("bring back broker {one}"),
        (many, _) => format!("bring back one of the brokers {}", numbers(many)),
    };
    Some(format!(
        "{topic}-{} takes no writes: {} in sync ({}), {MIN_IN_SYNC} is {limit}; {step}; `millrace status` shows more",
        one.partition,
        counted(one.in_sync.len(), "replica"),
        numbers(&one.in_sync),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(leader: Option<i32>, in_sync: &[i32], offline: &[i32]) -> PartitionView {
        PartitionView {
            partition: 0,
            leader,
            leader_epoch: Some(3),
            replicas: vec![3, 1, 2],
            in_sync: in_sync.to_vec(),
            offline: offline.to_vec(),
            eligible_leaders: None,
            last_known_leaders: None,
        }
    }

    #[test]
    fn who_is_missing_is_named_with_the_limit_and_the_next_step() {
        assert_eq!(
            said("orders", &orders(Some(1), &[1], &[2, 3]), 2).as_deref(),
            Some(
                "orders-0 takes no writes: 1 replica in sync (1), min.insync.replicas is 2; bring back one of the brokers \
                 2,3; `millrace status` shows more"
            )
        );
        let one = said("orders", &orders(Some(1), &[1], &[3]), 2).unwrap_or_default();
        assert!(one.contains("bring back broker 3"), "{one}");
        let late = said("orders", &orders(Some(1), &[1, 3], &[]), 3).unwrap_or_default();
        assert!(late.contains("broker 2 is there and not in sync yet"), "{late}");
        let none = said("orders", &orders(None, &[], &[1, 2, 3]), 2).unwrap_or_default();
        assert!(none.contains("orders-0 has no leader"), "{none}");
    }

    #[test]
    fn nothing_is_short_where_all_replicas_of_a_small_topic_are_in_sync() {
        assert_eq!(said("orders", &orders(Some(1), &[1, 2], &[3]), 2), None);
        assert_eq!(said("orders", &orders(Some(1), &[1, 2, 3], &[]), 5), None);
    }
}
