//! The records of groups in the log of `__consumer_offsets`, in Kafka's formats.
//!
//! Must not: decide what is written. Holds only what the members of this simulation can say.

use broker_core::group::{Generation, GroupValue, MemberValue, OffsetValue, Record};
use bytes::Bytes;
use metadata::ids::TopicId;
use metadata::uuid::Uuid;
use wire::internal::group_metadata::MemberMetadata;
use wire::internal::{
    GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, RecordKey, decode_key,
    decode_value, encode_key, encode_value, kind_of,
};

const OFFSET_VERSION: i16 = 4;
const GROUP_VERSION: i16 = 3;

/// The key and the value of a record; nothing if a text is too long.
pub(super) fn encode(record: &Record) -> Option<(Bytes, Option<Bytes>)> {
    match record {
        Record::Group { group, value } => {
            let group = group.as_str().to_owned();
            let key = encode_key(&GroupMetadataKey { group }).ok()?;
            let encoded = value
                .as_ref()
                .map(|value| encode_value(&group_value(value), GROUP_VERSION));
            Some((key, encoded.transpose().ok()?))
        }
        Record::Offset {
            group,
            topic,
            partition,
            value,
        } => {
            let key = encode_key(&OffsetCommitKey {
                group: group.as_str().to_owned(),
                topic: topic.as_str().to_owned(),
                partition: *partition,
            });
            let encoded = value
                .as_ref()
                .map(|value| encode_value(&offset_value(value), OFFSET_VERSION));
            Some((key.ok()?, encoded.transpose().ok()?))
        }
    }
}

/// The record of a key and a value; nothing if they are none.
pub(super) fn decode(key: &[u8], value: Option<&[u8]>) -> Option<Record> {
    let (kind, key) = (kind_of(key)?, Bytes::copy_from_slice(key));
    let value = value.map(Bytes::copy_from_slice);
    if kind == GroupMetadataKey::KIND {
        let key: GroupMetadataKey = decode_key(key).ok()?;
        let value = value.map(decode_value::<GroupMetadataValue>).transpose().ok()?;
        return Some(Record::Group {
            group: key.group.into(),
            value: value.map(group_of),
        });
    }
    let key: OffsetCommitKey = decode_key(key).ok()?;
    let value = value.map(decode_value::<OffsetCommitValue>).transpose().ok()?;
    Some(Record::Offset {
        group: key.group.into(),
        topic: key.topic.into(),
        partition: key.partition,
        value: value.map(offset_of),
    })
}

fn offset_value(value: &OffsetValue) -> OffsetCommitValue {
    OffsetCommitValue {
        offset: value.offset,
        leader_epoch: value.leader_epoch.unwrap_or(-1),
        metadata: value.metadata.clone(),
        commit_timestamp: value.committed_ms,
        topic_id: value
            .topic
            .map_or(wire::Uuid::ZERO, |topic| wire::Uuid(topic.0.to_bytes())),
        ..OffsetCommitValue::default()
    }
}

fn offset_of(value: OffsetCommitValue) -> OffsetValue {
    let topic = Some(value.topic_id).filter(|topic| !topic.is_zero());
    OffsetValue {
        offset: value.offset,
        leader_epoch: Some(value.leader_epoch).filter(|epoch| 0 <= *epoch),
        metadata: value.metadata,
        committed_ms: value.commit_timestamp,
        expires_ms: None,
        topic: topic.map(|topic| TopicId(Uuid::from_bytes(topic.0))),
    }
}

fn group_value(value: &GroupValue) -> GroupMetadataValue {
    let member = |member: &MemberValue| MemberMetadata {
        member_id: member.member.as_str().to_owned(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: member.subscription.clone(),
        assignment: member.assignment.clone(),
        ..MemberMetadata::default()
    };
    GroupMetadataValue {
        protocol_type: value.protocol_type.clone(),
        generation: value.generation.0,
        protocol: value.protocol.clone(),
        leader: value.leader.as_ref().map(|leader| leader.as_str().to_owned()),
        current_state_timestamp: value.since_ms.unwrap_or(-1),
        members: value.members.iter().map(member).collect(),
    }
}

fn group_of(value: GroupMetadataValue) -> GroupValue {
    let member = |member: MemberMetadata| MemberValue {
        member: member.member_id.into(),
        instance: None,
        client_id: member.client_id,
        client_host: member.client_host,
        rebalance_timeout_ms: member.rebalance_timeout,
        session_timeout_ms: member.session_timeout,
        subscription: member.subscription,
        assignment: member.assignment,
    };
    GroupValue {
        protocol_type: value.protocol_type,
        generation: Generation(value.generation),
        protocol: value.protocol,
        leader: value.leader.map(Into::into),
        since_ms: Some(value.current_state_timestamp).filter(|time| 0 <= *time),
        members: value.members.into_iter().map(member).collect(),
    }
}
