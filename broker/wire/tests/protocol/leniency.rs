//! Where Kafka's decoder is lenient, and where it is not.

use bytes::Bytes;
use wire::messages::{ApiVersionsRequest, DescribeClusterRequest, MetadataRequest};
use wire::{ApiVersion, DecodeReason, Message, Reader};

use crate::hex;

fn read<M: Message>(version: i16, bytes: &str) -> Result<M, DecodeReason> {
    let mut reader = Reader::new(Bytes::from(hex(bytes)));
    M::decode(ApiVersion(version), &mut reader).map_err(|error| error.reason)
}

fn topics(version: i16, bytes: &str) -> Result<Option<usize>, DecodeReason> {
    read::<MetadataRequest>(version, bytes).map(|request| request.topics.map(|topics| topics.len()))
}

#[test]
fn any_length_below_zero_is_null_where_null_may_be() {
    assert_eq!(topics(1, "ffffffff"), Ok(None));
    assert_eq!(topics(1, "80000000"), Ok(None));
    assert_eq!(topics(9, "00 01 00 00 00"), Ok(None));
    assert_eq!(
        topics(9, "81 80 80 80 08 01 00 00 00"),
        Ok(None),
        "a compact length of -2^31 less one wraps"
    );
    assert_eq!(topics(0, "ffffffff"), Err(DecodeReason::Null));
    assert_eq!(
        topics(9, "02 00 00 00 00 00 00"),
        Err(DecodeReason::Null),
        "a topic's name may be null from v10 on"
    );
    assert_eq!(read::<ApiVersionsRequest>(3, "00 01 00"), Err(DecodeReason::Null));
}

#[test]
fn a_count_above_the_bytes_left_is_refused_at_once() {
    let refused = DecodeReason::Truncated {
        needed: i32::MAX as usize,
        left: 2,
    };
    assert_eq!(topics(1, "7fffffff 0000"), Err(refused));
}

#[test]
fn any_byte_but_zero_is_true() {
    let request: DescribeClusterRequest = read(0, "02 00").unwrap();
    assert!(request.include_cluster_authorized_operations);
    let request: DescribeClusterRequest = read(0, "ff 00").unwrap();
    assert!(request.include_cluster_authorized_operations);
}

#[test]
fn a_varint_may_be_longer_than_it_needs_but_not_than_32_bits() {
    assert_eq!(topics(9, "81 80 00 01 00 00 00"), Ok(Some(0)));
    assert_eq!(
        topics(9, "81 80 80 80 80 01 01 00 00 00"),
        Err(DecodeReason::VarintTooWide)
    );
    assert_eq!(
        topics(9, "81 80 80 80 10 01 00 00 00"),
        Err(DecodeReason::VarintTooWide)
    );
    assert_eq!(
        topics(9, "81 80 80 80 80 00 01 00 00 00"),
        Err(DecodeReason::VarintTooWide),
        "six bytes"
    );
    assert!(matches!(topics(9, "81 80"), Err(DecodeReason::Truncated { .. })));
}

#[test]
fn text_that_is_not_utf_8_is_replaced() {
    let request: ApiVersionsRequest = read(3, "03 61ff 02 62 00").unwrap();
    assert_eq!(request.client_software_name, "a\u{fffd}");
}

#[test]
fn tagged_fields_may_be_unknown_out_of_order_or_given_twice() {
    // Two unknown ones, tag 9 before tag 4, then tag 9 again.
    let request: ApiVersionsRequest = read(3, "02 61 02 62 | 03 09 01 ff 04 00 09 02 0102").unwrap();
    assert_eq!(request.client_software_version, "b");

    // A known tag of FetchRequest v12 (the cluster id) twice, an unknown one before: the last value counts.
    let body = "ffffffff 00000000 00000000 00000000 00 00000000 00000000 01 01 01";
    let tags = "03 | 0b 01 00 | 00 02 02 78 | 00 02 02 79";
    let request: wire::messages::FetchRequest = read(12, &format!("{body}{tags}")).unwrap();
    assert_eq!(request.cluster_id.as_deref(), Some("y"));
}

#[test]
fn a_tagged_field_must_be_as_long_as_it_says() {
    let body = "ffffffff 00000000 00000000 00000000 00 00000000 00000000 01 01 01";
    let longer = read::<wire::messages::FetchRequest>(12, &format!("{body} 01 00 03 02 78 00"));
    assert_eq!(longer, Err(DecodeReason::TaggedFieldTooLong(1)));
    let shorter = read::<wire::messages::FetchRequest>(12, &format!("{body} 01 00 01 02 78"));
    assert!(matches!(shorter, Err(DecodeReason::Truncated { .. })));
    let beyond = read::<ApiVersionsRequest>(3, "02 61 02 62 01 09 7f 00");
    assert!(matches!(beyond, Err(DecodeReason::Truncated { .. })));
}

#[test]
fn bytes_behind_a_body_stay_unread() {
    let mut reader = Reader::new(Bytes::from(hex("ffffffff abcd")));
    MetadataRequest::decode(ApiVersion(1), &mut reader).unwrap();
    assert_eq!(reader.rest(), hex("abcd"));
}

#[test]
fn an_error_names_message_version_field_and_place() {
    let mut reader = Reader::new(Bytes::from(hex("02 61 05 62 00")));
    let error = ApiVersionsRequest::decode(ApiVersion(3), &mut reader).unwrap_err();
    let text = "ApiVersionsRequest v3, field clientSoftwareVersion, byte 3: 4 bytes needed, 2 left";
    assert_eq!(error.to_string(), text);
}
