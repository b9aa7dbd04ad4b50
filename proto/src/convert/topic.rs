//! Partitions in messages: a topic's id and an index.

use metadata::ids::{PartitionId, PartitionIndex, TopicId};

use super::{Malformed, id};

/// The partition that a message names.
///
/// # Errors
/// [`Malformed`] when the topic's id is none.
pub fn partition(topic_id: &str, index: i32) -> Result<PartitionId, Malformed> {
    Ok(PartitionId {
        topic: TopicId(id("topic_id", topic_id)?),
        index: PartitionIndex(index),
    })
}
