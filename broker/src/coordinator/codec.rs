//! Records of groups in Kafka's formats, in the versions that Kafka 4.4 writes.
//!
//! Must not: decide what is written.

use broker_core::group::{Generation, GroupValue, MemberValue, OffsetValue, Record};
use bytes::Bytes;
use wire::EncodeError;
use wire::internal::group_metadata::MemberMetadata;
use wire::internal::{
    self, GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, RecordKey,
};

use crate::seam;

/// How offsets are written; with an explicit end only this older version has a place for it.
const OFFSET_VERSION: i16 = 4;
const OFFSET_VERSION_WITH_END: i16 = 1;
const GROUP_VERSION: i16 = 3;
/// Keys of offsets from before they had a kind of their own; the same otherwise.
const OLD_OFFSET_KIND: i16 = 0;
/// "None", for times and epochs.
const NONE: i64 = -1;

/// The key and the value of a record.
///
/// # Errors
/// When a text is too long for its field.
pub fn encode(record: &Record) -> Result<(Bytes, Option<Bytes>), EncodeError> {
    match record {
        Record::Group { group, value } => {
            let key = GroupMetadataKey {
                group: group.as_str().to_owned(),
            };
            let value = value
                .as_ref()
                .map(|value| internal::encode_value(&group_to_wire(value), GROUP_VERSION));
            Ok((internal::encode_key(&key)?, value.transpose()?))
        }
        Record::Offset {
            group,
            topic,
            partition,
            value,
        } => {
            let key = OffsetCommitKey {
                group: group.as_str().to_owned(),
                topic: topic.as_str().to_owned(),
                partition: *partition,
            };
            let value = value.as_ref().map(|value| {
                let version = value
                    .expires_ms
                    .map_or(OFFSET_VERSION, |_| OFFSET_VERSION_WITH_END);
                internal::encode_value(&offset_to_wire(value), version)
            });
            Ok((internal::encode_key(&key)?, value.transpose()?))
        }
    }
}

/// The record of a key and a value; nothing for kinds that are not known here (T-36).
///
/// # Errors
/// When the bytes are no record of their kind, or of a newer version.
pub fn decode(key: &Bytes, value: Option<Bytes>) -> Result<Option<Record>, wire::DecodeError> {
    match internal::kind_of(key) {
        Some(OLD_OFFSET_KIND | OffsetCommitKey::KIND) => {
            let key: OffsetCommitKey = internal::decode_key(key.clone())?;
            let value = value
                .map(internal::decode_value::<OffsetCommitValue>)
                .transpose()?;
            Ok(Some(Record::Offset {
                group: key.group.into(),
                topic: key.topic.into(),
                partition: key.partition,
                value: value.map(offset_from_wire),
            }))
        }
        Some(GroupMetadataKey::KIND) => {
            let key: GroupMetadataKey = internal::decode_key(key.clone())?;
            let value = value
                .map(internal::decode_value::<GroupMetadataValue>)
                .transpose()?;
            Ok(Some(Record::Group {
                group: key.group.into(),
                value: value.map(group_from_wire),
            }))
        }
        _ => Ok(None),
    }
}

fn offset_to_wire(value: &OffsetValue) -> OffsetCommitValue {
    OffsetCommitValue {
        offset: value.offset,
        leader_epoch: value.leader_epoch.unwrap_or(-1),
        metadata: value.metadata.clone(),
        commit_timestamp: value.committed_ms,
        expire_timestamp: value.expires_ms.unwrap_or(NONE),
        topic_id: value.topic.map_or(wire::Uuid::ZERO, seam::topic_to_wire),
    }
}

fn offset_from_wire(value: OffsetCommitValue) -> OffsetValue {
    OffsetValue {
        offset: value.offset,
        leader_epoch: Some(value.leader_epoch).filter(|epoch| 0 <= *epoch),
        metadata: value.metadata,
        committed_ms: value.commit_timestamp,
        expires_ms: Some(value.expire_timestamp).filter(|time| *time != NONE),
        topic: Some(value.topic_id)
            .filter(|id| !id.is_zero())
            .map(seam::topic_from_wire),
    }
}

fn group_to_wire(value: &GroupValue) -> GroupMetadataValue {
    let member = |member: &MemberValue| MemberMetadata {
        member_id: member.member.as_str().to_owned(),
        group_instance_id: member
            .instance
            .as_ref()
            .map(|instance| instance.as_str().to_owned()),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: member.subscription.clone(),
        assignment: member.assignment.clone(),
    };
    GroupMetadataValue {
        protocol_type: value.protocol_type.clone(),
        generation: value.generation.0,
        protocol: value.protocol.clone(),
        leader: value.leader.as_ref().map(|leader| leader.as_str().to_owned()),
        current_state_timestamp: value.since_ms.unwrap_or(NONE),
        members: value.members.iter().map(member).collect(),
    }
}

fn group_from_wire(value: GroupMetadataValue) -> GroupValue {
    let member = |member: MemberMetadata| MemberValue {
        member: member.member_id.into(),
        instance: member.group_instance_id.map(Into::into),
        client_id: member.client_id,
        client_host: member.client_host,
        // The oldest version has one time for both.
        rebalance_timeout_ms: match member.rebalance_timeout {
            -1 => member.session_timeout,
            timeout => timeout,
        },
        session_timeout_ms: member.session_timeout,
        subscription: member.subscription,
        assignment: member.assignment,
    };
    GroupValue {
        protocol_type: value.protocol_type,
        generation: Generation(value.generation),
        protocol: value.protocol,
        leader: value.leader.map(Into::into),
        since_ms: Some(value.current_state_timestamp).filter(|time| *time != NONE),
        members: value.members.into_iter().map(member).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use metadata::ids::TopicId;
    use metadata::uuid::Uuid;

    fn both_ways(record: Record) {
        let (key, value) = encode(&record).unwrap();
        assert_eq!(decode(&key, value).unwrap(), Some(record));
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let offset = OffsetValue {
            offset: 7,
            leader_epoch: Some(3),
            metadata: "grüße".into(),
            committed_ms: 1000,
            expires_ms: None,
            topic: Some(TopicId(Uuid(9))),
        };
        let of = |value| Record::Offset {
            group: "g".into(),
            topic: "t".into(),
            partition: 1,
            value,
        };
        both_ways(of(Some(offset.clone())));
        both_ways(of(None));
        // The version with an explicit end has neither epoch nor topic.
        both_ways(of(Some(OffsetValue {
            leader_epoch: None,
            topic: None,
            expires_ms: Some(9000),
            ..offset
        })));
        let member = MemberValue {
            member: "m".into(),
            instance: Some("i".into()),
            client_id: "c".into(),
            client_host: "/h".into(),
            rebalance_timeout_ms: 1,
            session_timeout_ms: 2,
            subscription: Bytes::from_static(b"s"),
            assignment: Bytes::from_static(b"a"),
        };
        both_ways(Record::Group {
            group: "g".into(),
            value: Some(GroupValue {
                protocol_type: "consumer".into(),
                generation: Generation(4),
                protocol: Some("range".into()),
                leader: Some("m".into()),
                since_ms: Some(5),
                members: vec![member],
            }),
        });
        both_ways(Record::Group {
            group: "g".into(),
            value: None,
        });
    }

    #[test]
    fn a_kind_from_the_future_is_skipped_and_a_version_from_the_future_is_not() {
        let unknown = Bytes::from_static(&[0, 99, 1]);
        assert_eq!(decode(&unknown, None).unwrap(), None);
        let key = OffsetCommitKey::default();
        let key = internal::encode_key(&key).unwrap();
        assert!(decode(&key, Some(Bytes::from_static(&[0, 9]))).is_err());
    }
}
