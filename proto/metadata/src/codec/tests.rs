//! Golden bytes of every record, and refusals of bytes that are not ours.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::*;
use crate::ids::*;
use crate::image::Partition;
use crate::record::*;
use crate::uuid::Uuid;

fn topic() -> TopicId {
    TopicId(Uuid(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF))
}

fn partition() -> PartitionId {
    PartitionId {
        topic: topic(),
        index: PartitionIndex(3),
    }
}

fn registered() -> BrokerRegistered {
    BrokerRegistered {
        broker: BrokerId(1),
        epoch: BrokerEpoch(7),
        registered_at: Some(MetadataOffset(9)),
        incarnation: IncarnationId(Uuid(0xA1)),
        endpoints: vec![Endpoint {
            listener: "PLAINTEXT".to_owned(),
            host: "localhost".to_owned(),
            port: 9092,
            security: SecurityProtocol::SaslSsl,
        }],
        features: vec![("metadata.version".to_owned(), LevelRange { min: 25, max: 33 })],
        rack: Some("a".to_owned()),
        directories: vec![DirectoryId(Uuid(500)), DirectoryId::UNASSIGNED],
        fenced: true,
        in_controlled_shutdown: true,
    }
}

fn created() -> PartitionCreated {
    PartitionCreated {
        partition: partition(),
        state: Partition {
            replicas: vec![BrokerId(1), BrokerId(2), BrokerId(300)],
            directories: vec![DirectoryId::MIGRATING, DirectoryId::UNASSIGNED, DirectoryId::LOST],
            in_sync: vec![BrokerId(1)],
            eligible: vec![BrokerId(2)],
            last_known_leader: Some(BrokerId(0)),
            adding: vec![BrokerId(2)],
            removing: vec![BrokerId(300)],
            leader: Some(BrokerId(1)),
            recovery: LeaderRecovery::Recovering,
            leader_epoch: LeaderEpoch(4),
            epoch: PartitionEpoch(5),
        },
    }
}

fn changed() -> PartitionChanged {
    PartitionChanged {
        in_sync: Some(vec![]),
        leader: Some(LeaderChange::Nobody),
        eligible: Some(vec![BrokerId(1), BrokerId(2)]),
        last_known_leader: Some(Some(BrokerId(0))),
        replicas: Some(vec![BrokerId(2), BrokerId(1)]),
        directories: Some(vec![DirectoryId::UNASSIGNED]),
        adding: Some(vec![]),
        removing: Some(vec![BrokerId(3)]),
        recovery: Some(LeaderRecovery::Recovered),
        ..PartitionChanged::of(partition())
    }
}

fn config(resource: ConfigResource, value: Option<&str>) -> Record {
    Record::ConfigChanged {
        resource,
        key: "k".to_owned(),
        value: value.map(str::to_owned),
    }
}

/// Every record with the bytes that stand for it for ever.
fn golden() -> Vec<(Record, &'static str)> {
    [golden_of_brokers(), golden_of_topics(), golden_of_the_rest()].concat()
}

fn golden_of_brokers() -> Vec<(Record, &'static str)> {
    vec![
        (Record::NoOp, "08141001"),
        (
            Record::BrokerRegistered(registered()),
            "10011a760801100718092210000000000000000000000000000000a12a1b0a09504c41494e544558\
                5412096c6f63616c686f7374188447200332160a106d657461646174612e76657273696f6e101918\
                213a01614220000000000000000000000000000001f4000000000000000000000000000000014801\
                5001",
        ),
        (
            Record::BrokerRegistered(BrokerRegistered {
                registered_at: None,
                rack: None,
                endpoints: vec![],
                features: vec![],
                directories: vec![],
                fenced: false,
                in_controlled_shutdown: false,
                ..registered()
            }),
            "10011a16080110072210000000000000000000000000000000a1",
        ),
        (
            Record::BrokerRegistrationChanged(BrokerRegistrationChanged {
                broker: BrokerId(1),
                epoch: BrokerEpoch(7),
                fenced: Some(false),
                in_controlled_shutdown: Some(true),
                directories: Some(vec![]),
            }),
            "081110011a0a08011007180020012a00",
        ),
        (
            Record::BrokerRegistrationChanged(BrokerRegistrationChanged {
                broker: BrokerId(1),
                epoch: BrokerEpoch(7),
                fenced: None,
                in_controlled_shutdown: None,
                directories: None,
            }),
            "081110011a0408011007",
        ),
        (
            Record::BrokerUnregistered {
                broker: BrokerId(1),
                epoch: BrokerEpoch(7),
            },
            "080110011a0408011007",
        ),
    ]
}

fn golden_of_topics() -> Vec<(Record, &'static str)> {
    vec![
        (
            Record::TopicCreated {
                topic: topic(),
                name: "orders".to_owned(),
            },
            "080210011a1a0a1000112233445566778899aabbccddeeff12066f7264657273",
        ),
        (
            Record::TopicDeleted { topic: topic() },
            "080910011a120a1000112233445566778899aabbccddeeff",
        ),
        (
            Record::PartitionCreated(created()),
            "080310011a630a1000112233445566778899aabbccddeeff10031a040102ac022230000000000000\
                00000000000000000000000000000000000000000000000000010000000000000000000000000000\
                00022a010132010238004201024a02ac025001580160046805",
        ),
        (
            Record::PartitionChanged(changed()),
            "080510011a430a1000112233445566778899aabbccddeeff10031a0022002a040a02010232020800\
                3a040a0202014210000000000000000000000000000000014a0052030a01035800",
        ),
        (
            Record::PartitionChanged(PartitionChanged {
                leader: Some(LeaderChange::To(BrokerId(0))),
                last_known_leader: Some(None),
                ..PartitionChanged::of(partition())
            }),
            "080510011a1a0a1000112233445566778899aabbccddeeff1003220208003200",
        ),
    ]
}

fn golden_of_the_rest() -> Vec<(Record, &'static str)> {
    vec![
        (
            config(ConfigResource::Topic("t".to_owned()), Some("v")),
            "080410011a0b080212017422016b2a0176",
        ),
        (
            config(ConfigResource::Broker(BrokerId(0)), Some("")),
            "080410011a090804180022016b2a00",
        ),
        (
            config(ConfigResource::ClusterDefault, None),
            "080410011a05080422016b",
        ),
        (
            config(ConfigResource::Group("g".to_owned()), Some("v")),
            "080410011a0b082012016722016b2a0176",
        ),
        (
            config(ConfigResource::ClientMetrics("m".to_owned()), Some("v")),
            "080410011a0b081012016d22016b2a0176",
        ),
        (
            Record::FeatureLevelSet {
                name: "metadata.version".to_owned(),
                level: 33,
            },
            "080c10011a140a106d657461646174612e76657273696f6e1021",
        ),
        (
            Record::ProducerIdsAllocated {
                broker: BrokerId(1),
                broker_epoch: BrokerEpoch(7),
                next: ProducerId(2000),
            },
            "080f10011a070801100718d00f",
        ),
        (Record::EligibleReplicasCleared { topic: None }, "081c1001"),
        (
            Record::EligibleReplicasCleared { topic: Some(topic()) },
            "081c10011a120a1000112233445566778899aabbccddeeff",
        ),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_record_has_the_bytes_that_it_always_had() {
    for (record, expected) in golden() {
        let bytes = record.encode();
        assert_eq!(hex(&bytes), expected, "{record:?}");
        assert_eq!(Record::decode(&bytes).unwrap(), record);
    }
}

#[test]
fn every_type_has_golden_bytes() {
    let covered: std::collections::BTreeSet<u32> = golden()
        .iter()
        .map(|(record, _)| record.to_encoded().record_type)
        .collect();
    let all = RecordType::ALL.iter().map(|kind| kind.number()).collect();
    assert_eq!(covered, all);
}

fn batch() -> MetadataBatch {
    MetadataBatch {
        decided_in_term: Term(3),
        base_offset: MetadataOffset(41),
        provenance: Provenance {
            actor: "User:alice".to_owned(),
            client_id: "c".to_owned(),
            request_id: "r-1".to_owned(),
            wall_time_ms: 1_700_000_000_000,
        },
        records: vec![Record::NoOp, Record::TopicDeleted { topic: topic() }],
    }
}

#[test]
fn a_batch_has_the_bytes_that_it_always_had() {
    let bytes = batch().encode();
    let expected = "080310291a1b0a0a557365723a616c6963651201631a03722d312080d095ffbc3122040814100122\
        18080910011a120a1000112233445566778899aabbccddeeff";
    assert_eq!(hex(&bytes), expected);
    assert_eq!(MetadataBatch::decode(&bytes).unwrap(), batch());
}

#[test]
fn a_record_of_another_release_is_named() {
    let of_type = |record_type, version| Encoded {
        record_type,
        version,
        bytes: Bytes::new(),
    };
    assert_eq!(
        Record::from_encoded(&of_type(77, 2)),
        Err(DecodeError::UnknownType {
            record_type: 77,
            version: 2
        })
    );
    assert_eq!(
        Record::from_encoded(&of_type(5, 9)),
        Err(DecodeError::UnknownVersion {
            record_type: 5,
            version: 9
        })
    );
}

#[test]
fn fields_that_cannot_be_are_refused_by_name() {
    let negative = messages::ProducerIdsAllocated {
        broker: -1,
        broker_epoch: 0,
        next: 1,
    };
    let encoded = Encoded {
        record_type: RecordType::ProducerIdsAllocated.number(),
        version: VERSION,
        bytes: negative.encode_to_vec().into(),
    };
    let refused = Record::from_encoded(&encoded).unwrap_err();
    assert_eq!(refused.to_string(), "record type 15: broker is not valid");

    let short = messages::TopicDeleted {
        topic: Bytes::from_static(&[1; 15]),
    };
    let encoded = Encoded {
        record_type: RecordType::TopicDeleted.number(),
        version: VERSION,
        bytes: short.encode_to_vec().into(),
    };
    let refused = Record::from_encoded(&encoded).unwrap_err();
    assert_eq!(refused.to_string(), "record type 9: topic is not valid");
}

#[test]
fn a_batch_without_records_or_with_too_many_is_refused() {
    let with = |records| MetadataBatch { records, ..batch() }.encode();
    assert_eq!(
        MetadataBatch::decode(&with(vec![])),
        Err(DecodeError::RecordCount(0))
    );
    let many = BATCH_RECORDS_MAX + 1;
    assert_eq!(
        MetadataBatch::decode(&with(vec![Record::NoOp; many])),
        Err(DecodeError::RecordCount(many))
    );
}

#[test]
fn bytes_past_the_limit_are_not_looked_at() {
    let size = BATCH_BYTES_MAX + 1;
    let refused = MetadataBatch::decode(&vec![0; size]);
    assert_eq!(refused, Err(DecodeError::TooLong { size }));
}

proptest::proptest! {
    #[test]
    fn damaged_bytes_never_panic(at in 0_usize..80, flip in 1_u8..=255, cut in 0_usize..80) {
        let mut bytes = batch().encode().to_vec();
        let length = bytes.len();
        bytes[at % length] ^= flip;
        let _ = MetadataBatch::decode(&bytes);
        let _ = MetadataBatch::decode(&bytes[..cut % length]);
    }
}
