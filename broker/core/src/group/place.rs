//! Which partition of an internal topic a key belongs to, and who coordinates it.

use metadata::ids::{BrokerId, PartitionIndex};
use metadata::image::{Image, Partition};

/// The internal topic of the group coordinator.
pub const OFFSETS: &str = "__consumer_offsets";

/// The partition of `__consumer_offsets` that a group belongs to, if the topic exists: its leader coordinates the group.
#[must_use]
pub fn place_of<'a>(image: &'a Image, group: &str) -> Option<(PartitionIndex, &'a Partition)> {
    let topic = image.topic_named(OFFSETS)?;
    let count = i32::try_from(topic.partitions.len()).ok()?;
    let index = PartitionIndex(partition_of(group, count)?);
    topic
        .partitions
        .get(&index)
        .map(|partition| (index, &**partition))
}

/// The partition of `key` among `count`: Java's `String.hashCode` over UTF-16 units, its absolute value, the rest.
/// Nothing if there are no partitions.
#[must_use]
pub fn partition_of(key: &str, count: i32) -> Option<i32> {
    let hash = key.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    // Java has no absolute value of the least number; Kafka takes 0 for it.
    hash.checked_abs()
        .unwrap_or(0)
        .checked_rem(count)
        .filter(|_| 0 < count)
}

/// The partition under whose post a group is looked for here, if the image says that it is coordinated here. Where there is
/// no such post yet, it is about to be loaded.
#[must_use]
pub fn coordinated_by(image: &Image, me: BrokerId, group: &str) -> Option<PartitionIndex> {
    let (index, partition) = place_of(image, group)?;
    (partition.leader == Some(me)).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_javas_hash() {
        for (key, hash) in [
            ("", 0),
            ("a", 97),
            ("Aa", 2112),
            ("BB", 2112),
            ("group-1", 293_427_299),
            ("grüße", 98_768_023),
        ] {
            assert_eq!(partition_of(key, i32::MAX), Some(hash), "{key}");
        }
        assert_eq!(
            partition_of("polygenelubricants", 50),
            Some(0),
            "the least number"
        );
        assert_eq!(partition_of("a", 0), None);
    }
}
