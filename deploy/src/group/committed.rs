//! What a group has committed.

use std::collections::BTreeMap;

use wire::messages::OffsetFetchRequest;
use wire::messages::offset_fetch::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics, OffsetFetchResponse,
};
use wire::{ApiVersion, ErrorCode};

use crate::cluster::Cluster;
use crate::outcome::Failure;
use crate::{ask, coordinator};

/// A committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// The offset of the next record that the group reads.
    pub offset: i64,
}

/// The offsets that a group committed, of these partitions or of all; partitions without one are left out.
///
/// # Errors
/// When the coordinator cannot be asked or refuses.
pub async fn offsets(
    cluster: &mut Cluster,
    group: &str,
    wanted: Option<&BTreeMap<String, Vec<i32>>>,
) -> Result<Vec<Committed>, Failure> {
    let old = |(name, partitions): (&String, &Vec<i32>)| OffsetFetchRequestTopic {
        name: name.clone(),
        partition_indexes: partitions.clone(),
    };
    let new = |(name, partitions): (&String, &Vec<i32>)| OffsetFetchRequestTopics {
        name: name.clone(),
        partition_indexes: partitions.clone(),
        ..Default::default()
    };
    let question = OffsetFetchRequest {
        group_id: group.to_owned(),
        topics: wanted.map(|wanted| wanted.iter().map(old).collect()),
        groups: vec![OffsetFetchRequestGroup {
            group_id: group.to_owned(),
            topics: wanted.map(|wanted| wanted.iter().map(new).collect()),
            ..Default::default()
        }],
        require_stable: false,
    };
    let code = |version: ApiVersion, answer: &OffsetFetchResponse| match answer.groups.first() {
        Some(group) if 8 <= version.0 => group.error_code,
        _ => answer.error_code,
    };
    let asked = coordinator::ask(cluster, group, 9, &question, code).await?;
    told(asked.version, asked.answer, group)
}

fn told(version: ApiVersion, answer: OffsetFetchResponse, group: &str) -> Result<Vec<Committed>, Failure> {
    let what = format!("offsets of {group}");
    let mut answered: Vec<(&str, i32, i64, ErrorCode)> = Vec::new();
    if version.0 < 8 {
        ask::refuse(answer.error_code, None, &what)?;
        answered.extend(answer.topics.iter().flat_map(|topic| {
            let each = topic.partitions.iter();
            each.map(|one| {
                (
                    &*topic.name,
                    one.partition_index,
                    one.committed_offset,
                    one.error_code,
                )
            })
        }));
    }
    for group in &answer.groups {
        ask::refuse(group.error_code, None, &what)?;
        answered.extend(group.topics.iter().flat_map(|topic| {
            let each = topic.partitions.iter();
            each.map(|one| {
                (
                    &*topic.name,
                    one.partition_index,
                    one.committed_offset,
                    one.error_code,
                )
            })
        }));
    }
    let mut found = Vec::new();
    for (topic, partition, offset, code) in answered {
        ask::refuse(code, None, &format!("offsets of {group} in {topic}-{partition}"))?;
        if 0 <= offset {
            found.push(Committed {
                topic: topic.to_owned(),
                partition,
                offset,
            });
        }
    }
    found.sort_by(|one, other| (&one.topic, one.partition).cmp(&(&other.topic, other.partition)));
    Ok(found)
}
