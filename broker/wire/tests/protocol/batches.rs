//! Batches: golden bytes of Kafka 4.4's own, agreement with another implementation, and hostile bytes.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use wire::batch::{
    Attributes, Batch, BatchBuilder, BatchError, BatchHeader, Batches, HEADER_SIZE, ProducerState,
    TimestampType, seal, set_base_offset, set_leader_epoch,
};
use wire::codec::Codec;

use crate::hex;
use crate::ledger::peak_of;

/// One batch per codec, written by the Java client of Kafka 4.4.0: producer 7, epoch 1, sequence 42; the first record has
/// the key `k`, thirty times `abcdefghij` and the headers h = x and n = null, the second one neither key nor value.
const BY_KAFKA: [(Codec, &str); 5] = [
    (
        Codec::None,
        "000000000000000000000175ffffffff02f3b492be0000000000010000018bcfe568000000018bcfe5680500000000000000 \
         0700010000002a00000002f604000000026bd8046162636465666768696a6162636465666768696a6162636465666768696a \
         6162636465666768696a6162636465666768696a6162636465666768696a6162636465666768696a6162636465666768696a \
         6162636465666768696a6162636465666768696a6162636465666768696a6162636465666768696a6162636465666768696a \
         6162636465666768696a6162636465666768696a6162636465666768696a6162636465666768696a6162636465666768696a \
         6162636465666768696a6162636465666768696a6162636465666768696a6162636465666768696a6162636465666768696a \
         6162636465666768696a6162636465666768696a6162636465666768696a6162636465666768696a6162636465666768696a \
         6162636465666768696a6162636465666768696a0402680278026e010c000a02010100",
    ),
    (
        Codec::Gzip,
        "00000000000000000000006bffffffff0220101d3a0001000000010000018bcfe568000000018bcfe5680500000000000000 \
         0700010000002a000000021f8b08000000000000fffbc6c2c0c0c0947d832531293925352d3d23336b944588c5c294c154c1 \
         94c7c8c3c0c5c4c8c80000a43742fe44010000",
    ),
    (
        Codec::Snappy,
        "00000000000000000000007affffffff02a9bc0f840002000000010000018bcfe568000000018bcfe5680500000000000000 \
         0700010000002a0000000282534e4150505900000000010000000100000035c40248f604000000026bd80461626364656667 \
         68696afe0a00fe0a00fe0a00fe0a00860a00380402680278026e010c000a02010100",
    ),
    (
        Codec::Lz4,
        "00000000000000000000006affffffff026260144e0003000000010000018bcfe568000000018bcfe5680500000000000000 \
         0700010000002a0000000204224d186040822a000000ff04f604000000026bd8046162636465666768696a0a00ff10f00004 \
         02680278026e010c000a0201010000000000",
    ),
    (
        Codec::Zstd,
        "000000000000000000000067ffffffff029b76fa8e0004000000010000018bcfe568000000018bcfe5680500000000000000 \
         0700010000002a0000000228b52ffd00585401002402f604000000026bd8046162636465666768696a0402680278026e010c \
         000a0201010001003faa9630010000",
    ),
];

const BUDGET: usize = 1 << 20;

fn parse(bytes: Vec<u8>) -> Result<Batch, BatchError> {
    Batch::parse(&Bytes::from(bytes))
}

/// The same records as in `BY_KAFKA`.
fn built(codec: Codec) -> Bytes {
    let mut builder = BatchBuilder::new(codec).producer(ProducerState {
        id: 7,
        epoch: 1,
        base_sequence: 42,
    });
    let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h", Some(b"x")), (b"n", None)];
    builder.append(
        1_700_000_000_000,
        Some(b"k"),
        Some("abcdefghij".repeat(30).as_bytes()),
        &headers,
    );
    builder.append(1_700_000_000_005, None, None, &[]);
    builder.build()
}

#[test]
fn batches_written_by_kafka_are_read_in_every_codec() {
    for (codec, bytes) in BY_KAFKA {
        let batch = parse(hex(bytes)).unwrap();
        batch.check().unwrap();
        let header = batch.header;
        assert_eq!(header.attributes.codec(), Some(codec));
        assert_eq!(
            (header.producer_id, header.producer_epoch, header.base_sequence),
            (7, 1, 42)
        );
        assert_eq!(
            (header.base_timestamp, header.max_timestamp),
            (1_700_000_000_000, 1_700_000_000_005)
        );
        assert_eq!(
            (header.last_offset_delta, header.record_count, header.size()),
            (1, 2, batch.bytes.len())
        );

        let body = batch.body(BUDGET).unwrap();
        let records: Vec<_> = batch.records(&body).map(Result::unwrap).collect();

        assert_eq!(records.len(), 2, "{codec}");
        assert_eq!(records[0].key, Some(&b"k"[..]));
        assert_eq!(records[0].value, Some("abcdefghij".repeat(30).as_bytes()));
        let headers: Vec<_> = records[0]
            .headers
            .map(|header| (header.key, header.value))
            .collect();
        assert_eq!(headers, [(&b"h"[..], Some(&b"x"[..])), (&b"n"[..], None)]);
        let last = (
            records[1].offset_delta,
            records[1].timestamp_delta,
            records[1].key,
            records[1].value,
        );
        assert_eq!(last, (1, 5, None, None));
        assert_eq!(records[1].headers.count_left(), 0);
    }
}

#[test]
fn an_uncompressed_batch_is_written_to_the_same_bytes_as_kafka_writes_it() {
    assert_eq!(built(Codec::None), hex(BY_KAFKA[0].1));
}

#[test]
fn a_built_batch_is_read_back_in_every_codec() {
    let plain = Batch::parse(&built(Codec::None)).unwrap().body(BUDGET).unwrap();
    for codec in Codec::ALL {
        let batch = Batch::parse(&built(codec)).unwrap();
        batch.check().unwrap();
        assert_eq!(batch.header.attributes.codec(), Some(codec));
        assert_eq!(batch.body(BUDGET).unwrap(), plain, "{codec}");
    }
}

#[test]
fn the_body_of_an_uncompressed_batch_is_a_slice() {
    let batch = Batch::parse(&built(Codec::None)).unwrap();
    let body = batch.body(0).unwrap();
    assert!(batch.bytes.as_ptr_range().contains(&body.as_ptr()));
}

#[test]
fn base_offset_and_leader_epoch_change_in_place_under_the_same_checksum() {
    let mut bytes = built(Codec::Lz4).to_vec();
    set_base_offset(&mut bytes, 1 << 40);
    set_leader_epoch(&mut bytes, 9);

    let batch = parse(bytes).unwrap();

    batch.check().unwrap();
    assert_eq!(
        (batch.header.base_offset, batch.header.partition_leader_epoch),
        (1 << 40, 9)
    );
    assert_eq!(batch.header.last_offset(), (1 << 40) + 1);
    assert_eq!(batch.header.to_bytes(), batch.bytes[..HEADER_SIZE]);
}

#[test]
fn a_changed_byte_fails_the_checksum_and_a_new_seal_mends_it() {
    let mut bytes = built(Codec::None).to_vec();
    bytes[22] ^= 0x10;
    let error = parse(bytes.clone()).unwrap().check().unwrap_err();
    assert!(matches!(error, BatchError::Checksum { .. }));
    seal(&mut bytes);
    let batch = parse(bytes).unwrap();
    batch.check().unwrap();
    assert!(batch.header.attributes.is_transactional());
}

#[test]
fn attributes_keep_the_bits_that_nobody_uses() {
    let odd = Attributes(0x4f00 | 0x43);
    assert_eq!((odd.codec(), odd.has_delete_horizon()), (Some(Codec::Lz4), true));
    assert_eq!(
        odd.with_codec(Codec::None)
            .with_timestamp_type(TimestampType::LogAppendTime)
            .0,
        0x4f00 | 0x48
    );
    assert_eq!(Attributes(7).codec(), None);
    assert!(Attributes::default().control().transactional().is_control());
}

#[test]
fn the_header_is_judged_in_kafkas_order() {
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = built(Codec::None).to_vec();
        change(&mut bytes);
        parse(bytes).unwrap_err()
    };
    let short = |length: i32| move |bytes: &mut Vec<u8>| bytes[8..12].copy_from_slice(&length.to_be_bytes());
    let mut bytes = built(Codec::None).to_vec();
    short(48)(&mut bytes);
    assert_eq!(parse(bytes).unwrap_err(), BatchError::Length(48));
    assert_eq!(
        with(|bytes| bytes[8] = 0xff),
        BatchError::Length(0xff00_0175u32 as i32)
    );
    assert_eq!(with(|bytes| bytes[16] = 1), BatchError::Magic(1));
    assert_eq!(with(|bytes| bytes[16] = 0xff), BatchError::Magic(-1));
    assert!(matches!(
        with(|bytes| bytes.truncate(60)),
        BatchError::Truncated { left: 60, .. }
    ));
    assert!(matches!(
        with(|bytes| bytes.truncate(100)),
        BatchError::Truncated { left: 100, .. }
    ));
    assert!(matches!(
        with(|bytes| bytes.clear()),
        BatchError::Truncated { left: 0, .. }
    ));
}

#[test]
fn batches_follow_one_another_and_a_cut_off_tail_is_left() {
    let mut bytes = built(Codec::Gzip).to_vec();
    bytes.extend(built(Codec::None));
    bytes.extend(&built(Codec::Zstd)[..70]);

    let mut batches = Batches::new(Bytes::from(bytes));

    let codecs: Vec<_> = batches
        .by_ref()
        .map(|batch| batch.unwrap().header.attributes.codec_id())
        .collect();
    assert_eq!(codecs, [1, 0]);
    assert_eq!(batches.rest().len(), 70);
}

#[test]
fn the_batches_end_at_the_first_one_that_is_broken() {
    let mut bytes = built(Codec::None).to_vec();
    bytes.extend([0; 100]);
    let results: Vec<_> = Batches::new(Bytes::from(bytes)).collect();
    assert_eq!(results.len(), 2);
    assert_eq!(results[1], Err(BatchError::Length(0)));
}

#[test]
fn records_that_do_not_fit_their_batch_are_refused() {
    let read = |body: &str, count: i32| {
        let mut bytes = built(Codec::None)[..HEADER_SIZE].to_vec();
        bytes.extend(hex(body));
        bytes[57..61].copy_from_slice(&count.to_be_bytes());
        let length = bytes.len() as i32 - 12;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        let batch = parse(bytes).unwrap();
        let body = batch.body(BUDGET).unwrap();
        batch
            .records(&body)
            .collect::<Result<Vec<_>, _>>()
            .map(|records| records.len())
    };
    let record = "0c 00 00 00 01 01 00";
    assert_eq!(read(record, 1), Ok(1));
    assert_eq!(read(record, 0), Err(BatchError::TrailingBytes(7)));
    assert_eq!(read(record, -1), Err(BatchError::TrailingBytes(7)));
    assert!(matches!(
        read(record, 2),
        Err(BatchError::Record { index: 1, .. })
    ));
    assert!(matches!(
        read("01", 1),
        Err(BatchError::Record {
            what: "a negative size",
            ..
        })
    ));
    assert!(
        matches!(read("0e 00 00 00 01 01 00 00", 1), Err(BatchError::Record { .. })),
        "a byte too many"
    );
    assert!(
        matches!(read("0a 00 00 00 01 01", 1), Err(BatchError::Record { .. })),
        "no count of headers"
    );
    assert!(
        matches!(read("0c 00 00 00 01 01 01", 1), Err(BatchError::Record { .. })),
        "minus one header"
    );
    let many = "14 00 00 00 01 01 feffffff0f";
    assert!(
        matches!(read(many, 1), Err(BatchError::Record { .. })),
        "two thousand million headers"
    );
    assert!(
        matches!(
            read("10 00 00 00 01 01 02 01 01", 1),
            Err(BatchError::Record { .. })
        ),
        "a null header key"
    );
    assert!(
        matches!(read("0c 00 00 00 02 01 00", 1), Err(BatchError::Record { .. })),
        "a key of one byte too many"
    );
}

#[test]
fn unknown_codecs_and_broken_bodies_are_told_apart() {
    let mut bytes = built(Codec::None).to_vec();
    bytes[22] = 5;
    assert_eq!(
        parse(bytes.clone()).unwrap().body(BUDGET),
        Err(BatchError::UnknownCodec(5))
    );
    for codec in &Codec::ALL[1..] {
        bytes[22] = codec.id();
        let error = parse(bytes.clone()).unwrap().body(BUDGET).unwrap_err();
        assert!(matches!(error, BatchError::Codec(_)), "{codec}: {error}");
    }
}

#[test]
fn log_append_time_is_in_the_header_and_leaves_the_deltas() {
    let mut builder = BatchBuilder::new(Codec::None)
        .base_offset(100)
        .leader_epoch(3)
        .control();
    builder.append(50, None, Some(b"a"), &[]);
    builder.append_at(7, 60, None, Some(b"b"), &[]);
    let batch = Batch::parse(&builder.build_log_append_time(1000)).unwrap();
    batch.check().unwrap();
    let header = batch.header;
    assert_eq!(header.attributes.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(
        (header.base_timestamp, header.max_timestamp, header.last_offset()),
        (50, 1000, 107)
    );
    assert_eq!(
        (header.partition_leader_epoch, header.attributes.is_control()),
        (3, true)
    );
    let body = batch.body(BUDGET).unwrap();
    assert_eq!(
        batch
            .records(&body)
            .map(|record| record.unwrap().timestamp_delta)
            .collect::<Vec<_>>(),
        [0, 10]
    );
}

/// A record as the properties make it: time, key, value, headers.
type Made = (
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(Vec<u8>, Option<Vec<u8>>)>,
);

fn made() -> impl Strategy<Value = Vec<Made>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..80);
    let header = (
        proptest::collection::vec(b'a'..=b'z', 0..9),
        proptest::option::of(bytes()),
    );
    let record = (
        0..i64::MAX / 2,
        proptest::option::of(bytes()),
        proptest::option::of(bytes()),
        proptest::collection::vec(header, 0..4),
    );
    proptest::collection::vec(record, 1..30)
}

fn build(codec: Codec, records: &[Made]) -> Bytes {
    let mut builder = BatchBuilder::new(codec);
    for (time, key, value, headers) in records {
        let headers: Vec<(&[u8], Option<&[u8]>)> = headers
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
            .collect();
        builder.append(*time, key.as_deref(), value.as_deref(), &headers);
    }
    builder.build()
}

fn read(batch: &Batch) -> Result<Vec<Made>, BatchError> {
    let body = batch.body(BUDGET)?;
    let mut records = Vec::new();
    for record in batch.records(&body) {
        let record = record?;
        let headers = record
            .headers
            .map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec)))
            .collect();
        let time = batch.header.base_timestamp.wrapping_add(record.timestamp_delta);
        let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
        records.push((time, key, value, headers));
    }
    Ok(records)
}

proptest! {
    #[test]
    fn any_records_come_back_from_any_codec(records in made(), codec in 0u8..5) {
        let batch = Batch::parse(&build(Codec::from_id(codec).unwrap(), &records)).unwrap();
        batch.check().unwrap();
        prop_assert_eq!(read(&batch).unwrap(), records);
    }

    #[test]
    fn another_implementation_reads_the_same_records(records in made()) {
        let mut bytes = BytesMut::from(&build(Codec::None, &records)[..]);
        let theirs = kafka_protocol::records::RecordBatchDecoder::decode(&mut bytes.split().freeze()).unwrap();
        prop_assert_eq!(theirs.records.len(), records.len());
        for (i, (their, (time, key, value, headers))) in theirs.records.iter().zip(&records).enumerate() {
            prop_assert_eq!(their.offset, i as i64);
            prop_assert_eq!(their.timestamp, *time);
            prop_assert_eq!(their.key.as_deref(), key.as_deref());
            prop_assert_eq!(their.value.as_deref(), value.as_deref());
            // Theirs are a map: a key that is given twice counts once.
            let keys: std::collections::BTreeSet<_> = headers.iter().map(|(key, _)| key.clone()).collect();
            prop_assert_eq!(their.headers.len(), keys.len());
        }
    }

    #[test]
    fn damaged_batches_cost_no_panic_and_little_memory(
        records in made(),
        codec in 0u8..5,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = build(Codec::from_id(codec).unwrap(), &records).to_vec();
        for (at, value) in damage {
            // Magic and length stay, or nothing behind them would be read.
            let at = 17 + at.index(bytes.len() - 17);
            bytes[at] = value;
        }
        let batch = parse(bytes).unwrap();
        let (result, peak) = peak_of(|| batch.body(1 << 16).map(|body| batch.records(&body).count()));
        // The LZ4 decoder of a block of 4 MiB, as a header may say, takes the most.
        prop_assert!(peak < 12 << 20, "{peak} bytes of memory");
        if let Ok(count) = result {
            prop_assert!(count <= 1 + (1 << 16));
        }
    }

    #[test]
    fn no_bytes_make_the_batch_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for batch in Batches::new(Bytes::from(bytes)) {
            let _ = batch.map(|batch| batch.check());
        }
    }

    #[test]
    fn a_header_comes_back_from_its_bytes(bytes in proptest::collection::vec(any::<u8>(), 61)) {
        let mut bytes = bytes;
        bytes[8..12].copy_from_slice(&1000i32.to_be_bytes());
        bytes[16] = 2;
        let header = BatchHeader::parse(&bytes).unwrap();
        prop_assert_eq!(header.to_bytes().to_vec(), bytes);
    }
}
