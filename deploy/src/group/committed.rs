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
    let mut client = coordinator::of(cluster, group).await?;
    let (version, answer) = client.ask(9, &question).await?;
    told(version, answer, group)
}

fn told(version: ApiVersion, answer: OffsetFetchResponse, group: &str) -> Result<Vec<Committed>, Failure> {
    let mut found = Vec::new();
    let mut keep = |topic: &str, partition: i32, offset: i64, code: ErrorCode| {
        ask::refuse(code, None, &format!("offsets of {group} in {topic}-{partition}"))?;
        if 0 <= offset {
            found.push(Committed {
                topic: topic.to_owned(),
                partition,
                offset,
            });
        }
        Ok::<(), Failure>(())
    };
    let what = format!("offsets of {group}");
    if version.0 < 8 {
        ask::refuse(answer.error_code, None, &what)?;
        for topic in &answer.topics {
            for one in &topic.partitions {
                keep(
                    &topic.name,
                    one.partition_index,
                    one.committed_offset,
                    one.error_code,
                )?;
            }
        }
    }
    for group in &answer.groups {
        ask::refuse(group.error_code, None, &what)?;
        for topic in &group.topics {
            for one in &topic.partitions {
                keep(
                    &topic.name,
                    one.partition_index,
                    one.committed_offset,
                    one.error_code,
                )?;
            }
        }
    }
    found.sort_by(|one, other| (&one.topic, one.partition).cmp(&(&other.topic, other.partition)));
    Ok(found)
}
