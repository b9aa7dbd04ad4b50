//! Headers and frames: golden bytes, and the parts of a message whose records are not in memory.

use bytes::Bytes;
use wire::messages::fetch::{FetchResponse, FetchableTopicResponse, PartitionData};
use wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, HeartbeatRequest, HeartbeatResponse, ListGroupsRequest,
};
use wire::{
    ApiKey, ApiVersion, CorrelationId, DecodeReason, EncodeError, ErrorCode, Message, Part, Reader, Records,
    RequestHeader, Uuid, Writer, frame,
};

use crate::hex;

fn header_of(bytes: &str) -> Result<RequestHeader, wire::DecodeError> {
    RequestHeader::decode(&mut Reader::new(Bytes::from(hex(bytes))))
}

#[test]
fn a_request_of_an_old_version_has_a_header_without_tagged_fields() {
    let request = HeartbeatRequest {
        group_id: "g".into(),
        generation_id: 5,
        member_id: "m".into(),
        ..Default::default()
    };

    let sent = frame::request(ApiVersion(0), CorrelationId(7), Some("c"), &request).unwrap();

    let golden = "00000015 000c 0000 00000007 0001 63 | 0001 67 00000005 0001 6d";
    assert_eq!(sent.into_bytes(), hex(golden));
}

#[test]
fn a_flexible_request_has_a_header_with_tags_and_a_client_id_that_is_not_compact() {
    let request = ApiVersionsRequest {
        client_software_name: "kit".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };

    let sent = frame::request(ApiVersion(3), CorrelationId(1), None, &request).unwrap();

    let golden = "00000012 0012 0003 00000001 ffff 00 | 04 6b6974 02 31 00";
    assert_eq!(sent.into_bytes(), hex(golden));
}

#[test]
fn the_response_header_has_tags_in_flexible_versions_but_never_for_api_versions() {
    let heartbeat = HeartbeatResponse {
        error_code: ErrorCode::UNKNOWN_MEMBER_ID,
        ..Default::default()
    };
    let sent = |version| {
        frame::response(
            ApiKey::Heartbeat,
            ApiVersion(version),
            CorrelationId(7),
            &heartbeat,
        )
    };
    assert_eq!(sent(0).unwrap().into_bytes(), hex("00000006 00000007 | 0019"));
    assert_eq!(
        sent(4).unwrap().into_bytes(),
        hex("0000000c 00000007 00 | 00000000 0019 00")
    );

    let versions = ApiVersionsResponse::default();
    let sent = frame::response(ApiKey::ApiVersions, ApiVersion(3), CorrelationId(7), &versions).unwrap();
    assert_eq!(sent.into_bytes(), hex("0000000c 00000007 | 0000 01 00000000 00"));
}

#[test]
fn a_response_is_read_back_with_its_correlation_id() {
    let heartbeat = HeartbeatResponse {
        throttle_time_ms: 9,
        ..Default::default()
    };
    let sent = frame::response(ApiKey::Heartbeat, ApiVersion(4), CorrelationId(-3), &heartbeat).unwrap();

    let received = sent.into_bytes().slice(frame::PREFIX..);
    let (correlation_id, read) = frame::parse_response::<HeartbeatRequest>(ApiVersion(4), received).unwrap();

    assert_eq!((correlation_id, read), (CorrelationId(-3), heartbeat));
}

#[test]
fn the_header_of_an_unsupported_version_is_still_read() {
    let header = header_of("0012 7fff 00000001 0001 63 00").unwrap();
    assert_eq!(header.api_version, ApiVersion(i16::MAX));
    let header = header_of("0012 ffff 00000001 0001 63").unwrap();
    assert_eq!(
        (header.api_version, header.client_id.as_deref()),
        (ApiVersion(-1), Some("c"))
    );
}

#[test]
fn a_key_that_no_broker_has_is_told_apart_from_a_broken_header() {
    assert_eq!(
        header_of("0004 0000 00000001 ffff").unwrap_err().reason,
        DecodeReason::UnknownApi(4)
    );
    assert_eq!(
        header_of("ffff 0000 00000001 ffff").unwrap_err().reason,
        DecodeReason::UnknownApi(-1)
    );
    assert!(matches!(
        header_of("0000 00").unwrap_err().reason,
        DecodeReason::Truncated { .. }
    ));
}

#[test]
fn a_body_of_a_version_that_the_api_does_not_have_is_refused_in_both_directions() {
    let mut reader = Reader::new(Bytes::from_static(&[0; 32]));
    let error = HeartbeatRequest::decode(ApiVersion(5), &mut reader).unwrap_err();
    assert_eq!(error.reason, DecodeReason::UnsupportedVersion(ApiKey::Heartbeat));

    let mut writer = Writer::new();
    HeartbeatRequest::default().encode(ApiVersion(-1), &mut writer);
    let error = writer.finish().unwrap_err();
    assert_eq!(
        error,
        EncodeError::UnsupportedVersion {
            api: ApiKey::Heartbeat,
            version: -1
        }
    );
}

#[test]
fn a_frame_length_is_judged_before_anything_is_allocated() {
    assert_eq!(
        frame::length(104_857_600i32.to_be_bytes(), 104_857_600),
        Ok(104_857_600)
    );
    assert!(frame::length(104_857_601i32.to_be_bytes(), 104_857_600).is_err());
    assert_eq!(
        frame::length((-1i32).to_be_bytes(), 104_857_600),
        Err(frame::BadLength::Negative(-1))
    );
}

#[test]
fn the_header_versions_of_all_apis_are_those_of_their_flexible_versions() {
    assert_eq!(ApiKey::Produce.request_header_version(ApiVersion(8)), 1);
    assert_eq!(ApiKey::Produce.request_header_version(ApiVersion(9)), 2);
    assert_eq!(ApiKey::SaslHandshake.request_header_version(ApiVersion(1)), 1);
    assert_eq!(ApiKey::OffsetDelete.response_header_version(ApiVersion(0)), 0);
    assert_eq!(
        ApiKey::ListConfigResources.response_header_version(ApiVersion(0)),
        1
    );
    for &api in ApiKey::ALL {
        assert_eq!(ApiKey::from_code(api.code()), Some(api));
        assert!(!api.versions().is_empty(), "{api}");
    }
}

#[test]
fn produced_records_are_a_slice_of_the_frame() {
    let records = Bytes::from(vec![7u8; 5000]);
    let partition = PartitionProduceData {
        index: 1,
        records: records.clone().into(),
    };
    let topic = TopicProduceData {
        topic_id: Uuid([1; 16]),
        partition_data: vec![partition],
        ..Default::default()
    };
    let request = ProduceRequest {
        topic_data: vec![topic],
        ..Default::default()
    };
    let sent = frame::request(ApiVersion(13), CorrelationId(1), None, &request).unwrap();
    let frame = sent.into_bytes().slice(frame::PREFIX..);

    let mut reader = Reader::new(frame.clone());
    RequestHeader::decode(&mut reader).unwrap();
    let read = ProduceRequest::decode(ApiVersion(13), &mut reader).unwrap();

    assert_eq!(read, request);
    let slice = read.topic_data[0].partition_data[0].records.bytes().unwrap();
    assert!(
        frame.as_ptr_range().contains(&slice.as_ptr()),
        "the records were copied"
    );
}

/// A fetch response with one partition per given field value.
fn fetched(records: Vec<Records>) -> FetchResponse {
    let partitions = records.into_iter().map(|records| PartitionData {
        records,
        ..Default::default()
    });
    let topic = FetchableTopicResponse {
        topic_id: Uuid([2; 16]),
        partitions: partitions.collect(),
        ..Default::default()
    };
    FetchResponse {
        responses: vec![topic],
        ..Default::default()
    }
}

#[test]
fn slots_stand_between_the_bytes_and_count_in_every_length() {
    let large = Bytes::from(vec![9u8; 4000]);
    let records = || {
        vec![
            Records::Slot { id: 3, size: 100_000 },
            Records::Bytes(large.clone()),
            Records::Null,
        ]
    };

    let sent = frame::response(
        ApiKey::Fetch,
        ApiVersion(17),
        CorrelationId(1),
        &fetched(records()),
    )
    .unwrap();

    let size = sent.size();
    let parts = sent.into_parts();
    assert_eq!(parts[1], Part::Slot { id: 3, size: 100_000 });
    assert_eq!(parts[3], Part::Bytes(large.clone()));
    let mut all = Vec::new();
    for part in &parts {
        match part {
            Part::Bytes(bytes) => all.extend_from_slice(bytes),
            Part::Slot { size, .. } => all.resize(all.len() + size, 5),
        }
    }
    assert_eq!(all.len(), size);
    assert_eq!(all[..4], (size as i32 - 4).to_be_bytes());

    // Read as a client does, it is the same response with the bytes in place of the slot.
    let frame = Bytes::from(all).slice(frame::PREFIX..);
    let (_, read) = frame::parse_response::<wire::messages::FetchRequest>(ApiVersion(17), frame).unwrap();
    let in_memory = vec![
        Records::Bytes(vec![5; 100_000].into()),
        Records::Bytes(large.clone()),
        Records::Null,
    ];
    assert_eq!(read, fetched(in_memory));
}

#[test]
fn small_records_do_not_become_a_part_of_their_own() {
    let records = vec![Records::Bytes(Bytes::from_static(&[1; 100])); 3];
    let sent = frame::response(ApiKey::Fetch, ApiVersion(17), CorrelationId(1), &fetched(records)).unwrap();
    assert_eq!(sent.into_parts().len(), 1);
}

#[test]
fn what_cannot_be_written_is_named() {
    let null = wire::messages::metadata::MetadataRequest {
        topics: None,
        ..Default::default()
    };
    let error = frame::request(ApiVersion(0), CorrelationId(1), None, &null).unwrap_err();
    assert_eq!(
        error,
        EncodeError::Null {
            message: "MetadataRequest",
            version: 0,
            field: "topics"
        }
    );

    let long = ListGroupsRequest {
        states_filter: vec!["x".repeat(32_768)],
        ..Default::default()
    };
    let error = frame::request(ApiVersion(4), CorrelationId(1), None, &long).unwrap_err();
    let named = EncodeError::TooLong {
        message: "ListGroupsRequest",
        version: 4,
        field: "statesFilter",
        length: 32_768,
    };
    assert_eq!(error, named);

    let huge = fetched(vec![Records::Slot { id: 0, size: 2 << 30 }]);
    assert!(frame::response(ApiKey::Fetch, ApiVersion(17), CorrelationId(1), &huge).is_err());
}
