//! What several handlers say of topics and partitions, from one image.
//!
//! Must not: differ by API; what does is in the handler.

use metadata::ids::{BrokerId, PartitionIndex};
use metadata::image::{Image, Partition, Topic};
use wire::{ErrorCode, Uuid};

/// Topics that the cluster itself writes.
const INTERNAL: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// Longest topic name in bytes.
const NAME_BYTES_MAX: usize = 249;

/// Whether a topic belongs to the cluster itself.
pub fn is_internal(name: &str) -> bool {
    INTERNAL.contains(&name)
}

/// Whether a topic may have this name.
pub fn is_valid_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name != "." && name != ".." && name.bytes().all(legal)
}

/// An identity as it goes over the wire.
pub fn uuid(topic: &Topic) -> Uuid {
    Uuid(topic.id.0.to_bytes())
}

/// Where the leader of a partition can be reached from a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// There.
    At(BrokerId),
    /// Nobody leads, or the leader is not registered (R5.55).
    Nobody,
    /// It has no endpoint under that listener.
    Unreachable(BrokerId),
}

/// Who leads a partition, as seen from a listener.
pub fn leadership(image: &Image, listener: &str, partition: &Partition) -> Leadership {
    let Some(leader) = partition.leader else {
        return Leadership::Nobody;
    };
    match image.brokers.get(&leader) {
        None => Leadership::Nobody,
        Some(broker) if broker.endpoint(listener).is_none() => Leadership::Unreachable(leader),
        Some(_) => Leadership::At(leader),
    }
}

/// The replicas that cannot serve: unregistered, fenced, without this listener, or with their directory gone (R5.55).
pub fn offline_replicas(image: &Image, listener: &str, partition: &Partition) -> Vec<i32> {
    partition
        .replicas
        .iter()
        .zip(&partition.directories)
        .filter(|&(replica, directory)| {
            let Some(broker) = image.brokers.get(replica) else {
                return true;
            };
            broker.fenced || broker.endpoint(listener).is_none() || !broker.has_online(*directory)
        })
        .map(|(replica, _)| replica.0)
        .collect()
}

/// Ids as the wire has them.
pub fn ids(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

/// A partition of a topic by the number in a request.
pub fn partition(topic: &Topic, index: i32) -> Option<&Partition> {
    topic.partitions.get(&PartitionIndex(index)).map(AsRef::as_ref)
}

/// The code for a leader that a client cannot be sent to.
pub fn leadership_code(leadership: Leadership, knows_listener_errors: KnowsListenerErrors) -> ErrorCode {
    match (leadership, knows_listener_errors) {
        (Leadership::At(_), _) => ErrorCode::NONE,
        (Leadership::Unreachable(_), KnowsListenerErrors::Yes) => ErrorCode::LISTENER_NOT_FOUND,
        (Leadership::Unreachable(_) | Leadership::Nobody, _) => ErrorCode::LEADER_NOT_AVAILABLE,
    }
}

/// Whether the version of a request knows LISTENER_NOT_FOUND (Metadata from 6 on).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnowsListenerErrors {
    /// It does.
    Yes,
    /// It does not.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_are_what_kafka_allows() {
        for good in ["a", "a.b_c-D9", &"x".repeat(249), "..."] {
            assert!(is_valid_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "a b",
            "a/b",
            "zoë",
            &"x".repeat(250),
            "a:b",
            "a\0b",
            "a,b",
        ] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}
