//! Frames that no client sends, and connections that behave badly.

use bytes::Bytes;
use wire::messages::alter_configs::{AlterConfigsResource, AlterableConfig};
use wire::messages::create_topics::CreatableTopic;
use wire::messages::describe_configs::DescribeConfigsResource;
use wire::messages::fetch::{FetchPartition, FetchTopic};
use wire::messages::produce::{PartitionProduceData, TopicProduceData};
use wire::messages::{
    AlterConfigsRequest, ApiVersionsRequest, CreateTopicsRequest, DescribeConfigsRequest, FetchRequest,
    MetadataRequest, ProduceRequest,
};
use wire::{ErrorCode, Records};

use crate::fake_controller::NO_ROOM_FOR;
use crate::harness::{Broker, Peer};

fn is_alive(broker: &Broker) -> bool {
    let answer = broker.connect().ask(0, &ApiVersionsRequest::default());
    answer.error_code == ErrorCode::NONE
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    let mut framed = i32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    framed.extend_from_slice(bytes);
    framed
}

/// Key, version, correlation id, client id; with tagged fields for flexible requests.
fn header(key: i16, version: i16, tail: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&key.to_be_bytes());
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&7_i32.to_be_bytes());
    bytes.extend_from_slice(&(-1_i16).to_be_bytes());
    bytes.extend_from_slice(tail);
    bytes
}

#[test]
fn bytes_that_are_no_request_close_the_connection_and_nothing_else() {
    let broker = Broker::start(&[]);
    let hostile: Vec<(&str, Vec<u8>)> = vec![
        ("2 GiB announced", i32::MAX.to_be_bytes().to_vec()),
        ("one above the limit", 104_857_601_i32.to_be_bytes().to_vec()),
        ("a negative length", (-1_i32).to_be_bytes().to_vec()),
        ("an empty frame", 0_i32.to_be_bytes().to_vec()),
        ("shorter than a header", frame(&[0, 3, 0])),
        ("a web browser", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        ("an unknown key", frame(&header(9999, 0, &[0; 64]))),
        ("a controller's key", frame(&header(62, 0, &[0; 64]))),
        ("an unknown version", frame(&header(3, 99, &[0; 64]))),
        ("Produce v2", frame(&header(0, 2, &[0; 64]))),
        (
            "54 million topics in 18 bytes",
            frame(&[0, 3, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 3, 0x3c, 0x0c, 0]),
        ),
        (
            "a body cut short",
            frame(&header(3, 1, &[0, 0, 0, 1, 0, 50, b'a'])),
        ),
    ];
    for (what, bytes) in hostile {
        let mut peer = broker.connect();
        peer.send(&bytes);
        assert!(peer.is_closed(), "{what}");
        assert!(is_alive(&broker), "after {what}");
    }
}

#[test]
fn a_version_from_the_future_is_told_how_to_ask_again() {
    let broker = Broker::start(&[]);
    let mut peer = broker.connect();

    // No tagged fields, then a body that nobody could read.
    peer.send(&frame(&header(18, 99, b"\0anything")));
    let answer = peer.receive_frame();

    // Correlation id 7, error 35, one key: 18 from 0 to 5.
    assert_eq!(&answer[..], [0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5]);
    assert_eq!(
        peer.ask(0, &ApiVersionsRequest::default()).error_code,
        ErrorCode::NONE
    );
}

#[test]
fn announced_bytes_that_never_come_pin_no_memory() {
    let broker = Broker::start(&[]);
    let before = broker.resident_bytes();

    let mut peers: Vec<Peer> = (0..500).map(|_| broker.connect()).collect();
    for peer in &mut peers {
        peer.send(&[&(100 * 1024 * 1024_i32).to_be_bytes()[..], &[0]].concat());
    }
    assert!(is_alive(&broker));

    let grown = broker.resident_bytes().saturating_sub(before);
    assert!(
        grown < 64 * 1024 * 1024,
        "{grown} bytes for 500 connections that announce 100 MiB each"
    );
}

#[test]
fn a_client_that_has_finished_sending_gets_its_answers() {
    let broker = Broker::start(&[]);
    let mut peer = broker.connect();

    peer.start(0, &ApiVersionsRequest::default());
    peer.start(
        1,
        &MetadataRequest {
            topics: Some(Vec::new()),
            ..Default::default()
        },
    );
    peer.finish_sending();

    assert_eq!(peer.receive::<ApiVersionsRequest>(0).0, 0);
    assert_eq!(peer.receive::<MetadataRequest>(1).0, 1);
    assert!(peer.is_closed());
}

#[test]
fn a_request_that_comes_byte_by_byte_is_answered_like_any_other() {
    let broker = Broker::start(&[]);
    let mut peer = broker.connect();

    for byte in frame(&header(18, 0, &[])) {
        peer.send(&[byte]);
    }

    assert_eq!(peer.receive_frame()[..6], [0, 0, 0, 7, 0, 0]);
}

pub fn produced(topic: &str, value: &[u8]) -> ProduceRequest {
    let records = Records::Bytes(batch(value));
    let partition = PartitionProduceData { index: 0, records };
    ProduceRequest {
        acks: -1,
        timeout_ms: 5000,
        topic_data: vec![TopicProduceData {
            name: topic.into(),
            partition_data: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// One record without a key.
fn batch(value: &[u8]) -> Bytes {
    let mut builder = wire::batch::BatchBuilder::new(wire::codec::Codec::None);
    builder.append(-1, None, Some(value), &[]);
    builder.build()
}

pub fn create(peer: &mut Peer, topic: &str) {
    let topics = vec![CreatableTopic {
        name: topic.into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    }];
    let made = peer.ask(
        7,
        &CreateTopicsRequest {
            topics,
            ..Default::default()
        },
    );
    assert_eq!(made.topics[0].error_code, ErrorCode::NONE);
}

/// A controller whose disk is almost full was asked again and again until the client's time was over, and the client was
/// told nothing but that.
#[test]
fn a_topic_that_the_controller_has_no_room_for_is_refused_with_the_reason() {
    let broker = Broker::start(&[]);
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: NO_ROOM_FOR.into(),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        }],
        // The harness waits less long than that.
        timeout_ms: 600_000,
        ..Default::default()
    };

    let refused = broker.connect().ask(7, &request);

    assert_eq!(refused.topics[0].error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    let why = refused.topics[0].error_message.as_deref();
    assert_eq!(why, Some("controller 100: the disk is almost full"));
}

#[test]
fn answers_leave_in_the_order_of_the_requests() {
    let broker = Broker::start(&[]);
    let mut peer = broker.connect();
    create(&mut peer, "orders");
    let waiting = FetchRequest {
        max_wait_ms: 300,
        min_bytes: 1,
        topics: vec![FetchTopic {
            topic: "orders".into(),
            partitions: vec![FetchPartition {
                partition_max_bytes: 1000,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };

    peer.start(11, &waiting);
    peer.start(9, &produced("orders", b"first"));
    peer.start(9, &produced("orders", b"second"));
    peer.start(0, &ApiVersionsRequest::default());

    let (first, fetched) = peer.receive::<FetchRequest>(11);
    let (second, one) = peer.receive::<ProduceRequest>(9);
    let (third, two) = peer.receive::<ProduceRequest>(9);
    let (fourth, _) = peer.receive::<ApiVersionsRequest>(0);
    assert_eq!([first, second, third, fourth], [1, 2, 3, 4]);
    assert_eq!(
        fetched.responses[0].partitions[0].records.size(),
        0,
        "what came behind it was not there yet"
    );
    assert_eq!(one.responses[0].partition_responses[0].base_offset, 0);
    assert_eq!(two.responses[0].partition_responses[0].base_offset, 1);
}

#[test]
fn what_was_produced_is_fetched_byte_for_byte() {
    let broker = Broker::start(&[]);
    let mut peer = broker.connect();
    create(&mut peer, "bytes");
    let value = vec![b'x'; 100_000];
    let answer = peer.ask(9, &produced("bytes", &value));
    assert_eq!(
        answer.responses[0].partition_responses[0].error_code,
        ErrorCode::NONE
    );

    let fetched = peer.ask(
        11,
        &FetchRequest {
            max_wait_ms: 1000,
            min_bytes: 1,
            topics: vec![FetchTopic {
                topic: "bytes".into(),
                partitions: vec![FetchPartition {
                    partition_max_bytes: 1 << 20,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        },
    );

    let Records::Bytes(stored) = &fetched.responses[0].partitions[0].records else {
        panic!("no records")
    };
    let sent = batch(&value);
    // Base offset and leader epoch are the broker's, everything behind the epoch is the client's.
    assert_eq!(stored[16..], sent[16..]);
    assert_eq!(stored[..8], 0_i64.to_be_bytes());
}

#[test]
fn a_client_that_asks_for_a_wait_of_weeks_and_goes_keeps_no_connection() {
    let broker = Broker::start(&["connections.max.idle.ms=1000"]);
    let mut peer = broker.connect();
    create(&mut peer, "quiet");

    peer.start(
        11,
        &FetchRequest {
            max_wait_ms: i32::MAX,
            min_bytes: i32::MAX,
            topics: vec![FetchTopic {
                topic: "quiet".into(),
                partitions: vec![FetchPartition {
                    partition_max_bytes: 1000,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        },
    );

    assert!(peer.is_closed());
}

#[test]
fn a_client_that_never_reads_its_answers_keeps_no_connection() {
    let broker = Broker::start(&["connections.max.idle.ms=200", "max.connections=1"]);
    let mut deaf = broker.connect();
    deaf.fill(&frame(&header(18, 0, &[])));

    // Its place becomes free.
    let mut refused = 0;
    let mut next = broker.connect();
    next.send(&frame(&header(18, 0, &[])));
    while next.is_closed() {
        refused += 1;
        assert!(refused < 100_000, "the deaf client is still there");
        next = broker.connect();
        next.send(&frame(&header(18, 0, &[])));
    }
}

/// 50 KB that named one broker ten thousand times stopped the broker for minutes and took 500 MB.
#[test]
fn a_resource_that_is_named_ten_thousand_times_is_not_described_as_often() {
    let broker = Broker::start(&[]);
    let mut peer = broker.connect();
    let again = DescribeConfigsResource {
        resource_type: 4,
        resource_name: "1".into(),
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest {
        resources: vec![again; 10_000],
        include_synonyms: true,
        include_documentation: true,
    };

    let answer = peer.ask(4, &request);

    assert_eq!(answer.results.len(), 10_000);
    assert!(100 < answer.results[15].configs.len());
    let refused = |code: ErrorCode| code == ErrorCode::INVALID_REQUEST;
    assert!(
        answer.results[16..]
            .iter()
            .all(|result| refused(result.error_code))
    );
}

#[test]
fn an_error_that_repeats_the_longest_name_is_answered() {
    let broker = Broker::start(&[]);
    let mut peer = broker.connect();
    let config = AlterableConfig {
        name: "k".repeat(32_767),
        value: Some("1".into()),
    };
    let request = AlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 2,
            resource_name: "t".into(),
            configs: vec![config.clone(), config],
        }],
        validate_only: false,
    };

    let answer = peer.ask(1, &request);

    assert_eq!(answer.responses[0].error_code, ErrorCode::INVALID_REQUEST);
    assert_eq!(
        answer.responses[0].error_message.as_ref().map(String::len),
        Some(32_767)
    );
}
