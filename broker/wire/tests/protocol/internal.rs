//! Records of internal topics: every layout of the schema files, and bytes that Kafka's tools read.

use bytes::Bytes;
use wire::internal::{
    self, GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, RecordKey, RecordPart,
};

use crate::dice::Dice;
use crate::hex;
use crate::samples;
use crate::schema::RecordKind;

/// Random keys and values per version.
const SAMPLES: u64 = 100;

fn compare<K: RecordKey>(kinds: &[RecordKind]) {
    let name = K::NAME.trim_end_matches("Key");
    let kind = kinds.iter().find(|kind| kind.name == name).unwrap();
    assert_eq!(kind.kind, K::KIND);
    for seed in 0..SAMPLES {
        let mut key = kind.kind.to_be_bytes().to_vec();
        key.extend(samples::body(&kind.key, 0, &mut Dice::new(seed)));
        let read: K = internal::decode_key(Bytes::from(key.clone())).unwrap();
        assert_eq!(
            internal::encode_key(&read).unwrap(),
            key,
            "{} seed {seed}",
            K::NAME
        );
    }
    for version in K::Value::VERSIONS {
        for seed in 0..SAMPLES {
            let mut value = version.to_be_bytes().to_vec();
            value.extend(samples::body(&kind.value, version, &mut Dice::new(seed)));
            let read: K::Value = internal::decode_value(Bytes::from(value.clone())).unwrap();
            let written = internal::encode_value(&read, version).unwrap();
            assert_eq!(written, value, "{} v{version} seed {seed}", K::Value::NAME);
        }
    }
}

#[test]
fn every_version_of_a_record_is_read_and_written_back_to_the_same_bytes() {
    let kinds = samples::record_kinds();
    compare::<OffsetCommitKey>(&kinds);
    compare::<GroupMetadataKey>(&kinds);
    assert_eq!(kinds.len(), 2, "every kind is compared");
}

#[test]
fn a_committed_offset_has_kafkas_bytes() {
    let key = OffsetCommitKey {
        group: "g".into(),
        topic: "t".into(),
        partition: 3,
    };
    assert_eq!(
        internal::encode_key(&key).unwrap(),
        hex("0001 0001 67 0001 74 00000003")
    );
    let value = OffsetCommitValue {
        offset: 42,
        leader_epoch: 7,
        metadata: "m".into(),
        commit_timestamp: 1000,
        topic_id: wire::Uuid([1; 16]),
        ..OffsetCommitValue::default()
    };
    let id = "01".repeat(16);
    assert_eq!(
        internal::encode_value(&value, 4).unwrap(),
        hex(&format!(
            "0004 000000000000002a 00000007 02 6d 00000000000003e8 01 00 10 {id}"
        ))
    );
    assert_eq!(
        internal::encode_value(
            &OffsetCommitValue {
                expire_timestamp: 9,
                ..value
            },
            1
        )
        .unwrap(),
        hex("0001 000000000000002a 0001 6d 00000000000003e8 0000000000000009")
    );
}

#[test]
fn a_group_has_kafkas_bytes() {
    let value = GroupMetadataValue {
        protocol_type: "consumer".into(),
        generation: 2,
        protocol: None,
        leader: None,
        current_state_timestamp: 5,
        members: Vec::new(),
    };
    assert_eq!(
        internal::encode_value(&value, 3).unwrap(),
        hex("0003 0008 636f6e73756d6572 00000002 ffff ffff 0000000000000005 00000000")
    );
}

#[test]
fn what_is_no_record_is_an_error() {
    let future = Bytes::from_static(&[0, 9, 1, 2, 3]);
    assert!(internal::decode_value::<OffsetCommitValue>(future).is_err());
    for cut in 0..11 {
        let bytes = hex("0001 0001 67 0001 74 00000003")[..cut].to_vec();
        assert!(
            internal::decode_key::<OffsetCommitKey>(Bytes::from(bytes)).is_err(),
            "{cut}"
        );
    }
    assert_eq!(internal::kind_of(&[0]), None);
    assert_eq!(internal::kind_of(&[0, 2, 9]), Some(2));
}
