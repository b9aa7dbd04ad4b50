//! What the made-up broker answers about records: partition 0 of `orders` holds one, partition 1 has no leader, and nothing
//! can be written.

use bytes::Bytes;
use wire::batch::BatchBuilder;
use wire::codec::Codec;
use wire::messages::fetch::{FetchPartition, FetchTopic, FetchableTopicResponse, PartitionData};
use wire::messages::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use wire::messages::produce::{PartitionProduceData, PartitionProduceResponse, TopicProduceResponse};
use wire::messages::{
    FetchRequest, FetchResponse, JoinGroupResponse, ListOffsetsRequest, ListOffsetsResponse, ProduceRequest,
    ProduceResponse,
};
use wire::{ErrorCode, Records};

/// Nobody may join, as where the coordinator cannot write.
pub fn not_joined() -> JoinGroupResponse {
    JoinGroupResponse {
        error_code: ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ..Default::default()
    }
}

/// Too few replicas are in sync.
pub fn not_written(asked: &ProduceRequest) -> ProduceResponse {
    let partition = |partition: &PartitionProduceData| PartitionProduceResponse {
        index: partition.index,
        error_code: ErrorCode::NOT_ENOUGH_REPLICAS,
        base_offset: -1,
        ..Default::default()
    };
    let responses = asked.topic_data.iter().map(|topic| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: topic.partition_data.iter().map(partition).collect(),
    });
    ProduceResponse {
        responses: responses.collect(),
        ..Default::default()
    }
}

/// Each partition begins at 0 and ends at 1.
pub fn offsets(asked: &ListOffsetsRequest) -> ListOffsetsResponse {
    let topics = asked.topics.iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| ListOffsetsPartitionResponse {
                partition_index: partition.partition_index,
                offset: if partition.timestamp == -1 { 1 } else { 0 },
                ..Default::default()
            })
            .collect(),
    });
    ListOffsetsResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}

/// The one record, whose value is `v`, from offset 0; nothing from behind it. At offset 7 the disk fails.
pub fn fetched(asked: &FetchRequest) -> FetchResponse {
    let partition = |partition: &FetchPartition| {
        let mut batch = BatchBuilder::new(Codec::None);
        batch.append(1000, None, Some(b"v"), &[]);
        let bytes = match partition.fetch_offset {
            0 => Bytes::from(batch.build().to_vec()),
            _ => Bytes::new(),
        };
        let error_code = match partition.fetch_offset {
            7 => ErrorCode::KAFKA_STORAGE_ERROR,
            _ => ErrorCode::NONE,
        };
        PartitionData {
            error_code,
            partition_index: partition.partition,
            high_watermark: 1,
            last_stable_offset: 1,
            records: Records::Bytes(bytes),
            ..Default::default()
        }
    };
    let topic = |topic: &FetchTopic| FetchableTopicResponse {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(partition).collect(),
    };
    FetchResponse {
        responses: asked.topics.iter().map(topic).collect(),
        ..Default::default()
    }
}
