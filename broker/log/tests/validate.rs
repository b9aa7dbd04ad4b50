//! What a produced batch is asked, rule by rule and in order.

#![allow(clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use partition_log::{
    AppendRefusal, CleanupPolicy, LogConfig, Offset, ProduceVersionLimits, RecordError, RecordFlaw,
    StoredCompression, TimestampKind, check_payload,
};
use support::*;
use wire::batch::{Batch, BatchBuilder, BatchHeader, HEADER_SIZE, TimestampType, seal};
use wire::codec::Codec;

/// The batch with another header, its checksum made to fit.
fn with_header(batch: &Batch, change: impl FnOnce(&mut BatchHeader)) -> Batch {
    let mut header = batch.header;
    change(&mut header);
    let mut bytes = [&header.to_bytes()[..], &batch.bytes[HEADER_SIZE..]].concat();
    seal(&mut bytes);
    Batch::parse(&Bytes::from(bytes)).unwrap()
}

fn refused(config: LogConfig, batch: &Batch) -> AppendRefusal {
    let (_disk, mut log) = fresh(config);
    let refusal = refusal(log.append_as_leader(batch, by_leader(0)));
    assert_eq!(log.log_end(), Offset(0), "nothing is appended");
    refusal
}

fn stored(config: LogConfig, batch: &Batch) -> Batch {
    let (_disk, mut log) = fresh(config);
    append(&mut log, batch);
    let stored = batches(&log.view(), Offset::ZERO).remove(0);
    stored.check().unwrap();
    stored
}

/// The bytes as the leader of epoch 0 stores them at offset 0 when nothing else has to change.
fn as_stored(sent: &Batch) -> Bytes {
    let mut bytes = sent.bytes.to_vec();
    bytes[12..16].copy_from_slice(&[0; 4]);
    Bytes::from(bytes)
}

fn malformed(refusal: &AppendRefusal) -> bool {
    matches!(refusal, AppendRefusal::Malformed { .. })
}

#[test]
fn r5_the_payload_is_exactly_one_batch() {
    let check = |bytes: &[u8]| check_payload(&Bytes::copy_from_slice(bytes), ProduceVersionLimits::None);
    let one = values(2).bytes;
    let two = [&one[..], &one].concat();

    assert_eq!(check(&one).unwrap().bytes, one);
    assert_eq!(check(&[]), Err(AppendRefusal::NoBatch));
    assert_eq!(check(&one[..one.len() - 1]), Err(AppendRefusal::NoBatch));
    assert_eq!(check(&two), Err(AppendRefusal::SeveralBatches));
    assert_eq!(check(&two[..two.len() - 1]).unwrap().bytes, one);
}

#[test]
fn r5_other_formats_and_impossible_lengths() {
    let check = |at: usize, bytes: &[u8]| {
        let mut batch = values(1).bytes.to_vec();
        batch[at..at + bytes.len()].copy_from_slice(bytes);
        check_payload(&Bytes::from(batch), ProduceVersionLimits::None).unwrap_err()
    };
    assert_eq!(check(16, &[1]), AppendRefusal::OldMagic { magic: 1 });
    assert_eq!(check(16, &[0]), AppendRefusal::OldMagic { magic: 0 });
    for corrupt in [
        check(16, &[3]),
        check(16, &[0xff]),
        check(8, &[0, 0, 0, 48]),
        check(8, &[0xff; 4]),
    ] {
        assert!(matches!(corrupt, AppendRefusal::Corrupt { .. }), "{corrupt:?}");
    }
}

#[test]
fn r6_zstd_needs_version_7() {
    let mut builder = BatchBuilder::new(Codec::Zstd);
    builder.append(NOW.0, None, Some(b"v"), &[]);
    let payload = builder.build();
    assert_eq!(
        check_payload(&payload, ProduceVersionLimits::NoZstd),
        Err(AppendRefusal::ZstdTooEarly)
    );
    assert!(check_payload(&payload, ProduceVersionLimits::None).is_ok());
}

#[test]
fn r14_the_base_offset_is_zero() {
    let batch = with_header(&values(1), |header| header.base_offset = 100);
    assert_eq!(
        refused(LogConfig::default(), &batch),
        AppendRefusal::BaseOffsetNotZero { given: 100 }
    );
}

#[test]
fn r15_the_batch_is_not_larger_than_allowed() {
    let batch = values(3);
    let size = batch.bytes.len() as u32;
    let limit = |max_message_bytes| LogConfig {
        max_message_bytes,
        ..LogConfig::default()
    };
    assert_eq!(
        refused(limit(size - 1), &batch),
        AppendRefusal::BatchTooLarge {
            size_bytes: size.into(),
            limit_bytes: (size - 1).into()
        }
    );
    stored(limit(size), &batch);
}

#[test]
fn r16_the_checksum_fits() {
    let mut bytes = values(1).bytes.to_vec();
    bytes[62] ^= 1;
    let batch = Batch::parse(&Bytes::from(bytes)).unwrap();
    assert!(matches!(
        refused(LogConfig::default(), &batch),
        AppendRefusal::Corrupt { .. }
    ));
    // The leader epoch is not covered: the broker writes it anyway.
    let mut bytes = values(1).bytes.to_vec();
    bytes[12] ^= 1;
    stored(LogConfig::default(), &Batch::parse(&Bytes::from(bytes)).unwrap());
}

#[test]
fn r17_counts_and_deltas_agree_with_each_other_and_with_the_records() {
    let batch = values(3);
    let changed = |count, delta| {
        with_header(&batch, |header| {
            header.record_count = count;
            header.last_offset_delta = delta;
        })
    };
    for (count, delta) in [
        (5, 2),
        (3, 9),
        (0, 2),
        (3, -1),
        (0, -1),
        (-1, -2),
        (5, 4),
        (2, 1),
        (i32::MAX, i32::MAX - 1),
    ] {
        let refusal = refused(LogConfig::default(), &changed(count, delta));
        assert!(malformed(&refusal), "{count} {delta}: {refusal:?}");
    }
}

#[test]
fn r18_clients_write_no_control_batches() {
    let batch = with_header(&values(1), |header| {
        header.attributes = header.attributes.control()
    });
    assert_eq!(refused(LogConfig::default(), &batch), AppendRefusal::ControlBatch);
}

#[test]
fn r19_a_producer_id_needs_a_sequence_but_not_the_other_way_round() {
    let with = |id, epoch, sequence| {
        with_header(&values(1), |header| {
            (header.producer_id, header.producer_epoch, header.base_sequence) = (id, epoch, sequence);
        })
    };
    let refusal = refused(LogConfig::default(), &with(5, 0, -1));
    assert!(matches!(refusal, AppendRefusal::SequenceMissing { .. }));
    stored(LogConfig::default(), &with(-1, -1, 4));
    stored(LogConfig::default(), &with(5, -1, 0));
}

#[test]
fn r20_a_compacted_topic_names_every_record_without_a_key() {
    let mut builder = BatchBuilder::new(Codec::None);
    for key in [Some(&b"k"[..]), None, Some(b""), None] {
        builder.append(NOW.0, key, Some(b"v"), &[]);
    }
    let batch = parsed(builder);
    let no_key = |batch_index| RecordError {
        batch_index,
        why: RecordFlaw::NoKey,
    };
    for cleanup in [CleanupPolicy::Compact, CleanupPolicy::CompactAndDelete] {
        let config = LogConfig {
            cleanup,
            ..LogConfig::default()
        };
        assert_eq!(
            refused(config, &batch),
            AppendRefusal::Records {
                records: vec![no_key(1), no_key(3)]
            }
        );
    }
    stored(LogConfig::default(), &batch);
}

#[test]
fn r21_times_are_near_the_brokers_clock() {
    let config = LogConfig {
        timestamp_before_max_ms: 1_000,
        ..LogConfig::default()
    };
    let hour = 3_600_000;
    for near in [NOW.0 + hour, NOW.0 - 1_000, NOW.0, -1] {
        stored(config.clone(), &at_time(near));
    }
    for far in [NOW.0 + hour + 1, NOW.0 - 1_001, 0, -2, i64::MIN, i64::MAX] {
        let AppendRefusal::Records { records } = refused(config.clone(), &at_time(far)) else {
            panic!("{far}")
        };
        assert!(records[0].why.concerns_time());
        assert!(matches!(records[0].why, RecordFlaw::TimestampOutOfRange { given, .. } if given == far));
    }
    // With the default nothing but the end of the numbers is too old.
    stored(LogConfig::default(), &at_time(-2));
    refused(LogConfig::default(), &at_time(i64::MIN));
}

#[test]
fn r22_only_brokers_claim_log_append_time() {
    let mut builder = BatchBuilder::new(Codec::None);
    builder.append(NOW.0 - 50, None, Some(b"v"), &[]);
    let claimed = Batch::parse(&builder.build_log_append_time(NOW.0 - 7)).unwrap();
    let appending = LogConfig {
        timestamp_kind: TimestampKind::LogAppendTime,
        ..LogConfig::default()
    };
    let flaws = |refusal| match refusal {
        AppendRefusal::Records { records } => {
            records.into_iter().map(|record| record.why).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        flaws(refused(appending, &claimed)),
        [RecordFlaw::ClaimsLogAppendTime]
    );
    let without_time = with_header(&claimed, |header| header.max_timestamp = -1);
    assert_eq!(
        flaws(refused(LogConfig::default(), &without_time)),
        [RecordFlaw::ClaimsLogAppendTime]
    );

    let stored = stored(LogConfig::default(), &claimed);
    assert_eq!(
        stored.header.attributes.timestamp_type(),
        TimestampType::CreateTime
    );
    assert_eq!(stored.header.max_timestamp, NOW.0 - 7);
    assert_eq!(stored.bytes[HEADER_SIZE..], claimed.bytes[HEADER_SIZE..]);
}

#[test]
fn r23_the_batch_fits_into_a_segment() {
    let batch = values(3);
    let size = batch.bytes.len() as u32;
    let config = |segment_bytes| LogConfig {
        segment_bytes,
        ..LogConfig::default()
    };
    assert!(matches!(
        refused(config(size - 1), &batch),
        AppendRefusal::RecordListTooLarge { .. }
    ));
    stored(config(size), &batch);
}

#[test]
fn the_order_of_the_rules_is_kafkas() {
    // Each batch breaks one rule more than the next one; the first of them is the answer.
    let config = LogConfig {
        max_message_bytes: 100,
        segment_bytes: 200,
        cleanup: CleanupPolicy::Compact,
        ..LogConfig::default()
    };
    let many = sized(3, 100);
    let corrupt = |batch: &Batch, base_offset: i64| {
        let mut header = batch.header;
        header.base_offset = base_offset;
        header.crc ^= 1;
        header.record_count = 0;
        header.attributes = header.attributes.control();
        let bytes = [&header.to_bytes()[..], &batch.bytes[HEADER_SIZE..]].concat();
        Batch::parse(&Bytes::from(bytes)).unwrap()
    };
    assert_eq!(
        refused(config.clone(), &corrupt(&many, 7)),
        AppendRefusal::BaseOffsetNotZero { given: 7 }
    );
    assert!(matches!(
        refused(config.clone(), &corrupt(&many, 0)),
        AppendRefusal::BatchTooLarge { .. }
    ));
    let config = LogConfig {
        max_message_bytes: 10_000,
        ..config
    };
    assert!(matches!(
        refused(config.clone(), &corrupt(&many, 0)),
        AppendRefusal::Corrupt { .. }
    ));
    let control = |count: i32| {
        with_header(&many, |header| {
            header.record_count = count;
            header.attributes = header.attributes.control();
            header.producer_id = 4;
        })
    };
    assert!(malformed(&refused(config.clone(), &control(0))));
    assert_eq!(refused(config.clone(), &control(3)), AppendRefusal::ControlBatch);
    let no_sequence = with_header(&many, |header| header.producer_id = 4);
    assert!(matches!(
        refused(config.clone(), &no_sequence),
        AppendRefusal::SequenceMissing { .. }
    ));
    assert!(matches!(
        refused(config.clone(), &many),
        AppendRefusal::Records { .. }
    ));
    let config = LogConfig {
        cleanup: CleanupPolicy::Delete,
        ..config
    };
    assert!(matches!(
        refused(config, &many),
        AppendRefusal::RecordListTooLarge { .. }
    ));
}

#[test]
fn r26_a_record_without_key_and_with_a_bad_time_counts_as_the_key_error() {
    let config = LogConfig {
        cleanup: CleanupPolicy::Compact,
        ..LogConfig::default()
    };
    let refusal = refused(config, &at_time(0x7fff_ffff_ffff_ffff));
    assert_eq!(
        refusal,
        AppendRefusal::Records {
            records: vec![RecordError {
                batch_index: 0,
                why: RecordFlaw::NoKey
            }]
        }
    );
}

#[test]
fn r31_an_uncompressed_batch_keeps_odd_deltas_and_a_compressed_one_is_refused() {
    let odd = |codec| {
        let mut builder = BatchBuilder::new(codec);
        for delta in [0, 2, 1] {
            builder.append_at(delta, NOW.0, None, Some(b"v"), &[]);
        }
        with_header(&parsed(builder), |header| header.last_offset_delta = 2)
    };
    assert_eq!(
        stored(LogConfig::default(), &odd(Codec::None)).bytes,
        as_stored(&odd(Codec::None))
    );
    assert!(malformed(&refused(LogConfig::default(), &odd(Codec::Gzip))));
    let rebuilding = LogConfig {
        compression: StoredCompression::Snappy,
        ..LogConfig::default()
    };
    assert!(malformed(&refused(rebuilding, &odd(Codec::None))));
}

#[test]
fn every_codec_is_stored_as_it_came() {
    for codec in Codec::ALL {
        let mut builder = BatchBuilder::new(codec);
        for n in 0..50 {
            builder.append(NOW.0 + n, Some(b"key"), Some(&[b'x'; 100]), &[(b"h", None)]);
        }
        let sent = parsed(builder);
        assert_eq!(
            stored(LogConfig::default(), &sent).bytes,
            as_stored(&sent),
            "{codec}"
        );
    }
}

#[test]
fn r31_compression_type_rebuilds_a_batch_and_keeps_its_records() {
    let wanted = [
        (StoredCompression::Uncompressed, Codec::None),
        (StoredCompression::Gzip(-1), Codec::Gzip),
        (StoredCompression::Snappy, Codec::Snappy),
        (StoredCompression::Lz4(9), Codec::Lz4),
        (StoredCompression::Zstd(3), Codec::Zstd),
    ];
    for sent_as in Codec::ALL {
        let mut builder = BatchBuilder::new(sent_as).producer(wire::batch::ProducerState {
            id: 6,
            epoch: 1,
            base_sequence: 0,
        });
        for n in 0..20 {
            builder.append(NOW.0 + n, Some(b"key"), Some(&[b'x'; 100]), &[]);
        }
        let sent = parsed(builder);
        for (compression, codec) in wanted {
            let stored = stored(
                LogConfig {
                    compression,
                    ..LogConfig::default()
                },
                &sent,
            );
            assert_eq!(stored.header.attributes.codec(), Some(codec));
            assert_eq!(stored.body(1 << 20).unwrap(), sent.body(1 << 20).unwrap());
            assert_eq!((stored.header.producer_id, stored.header.base_sequence), (6, 0));
        }
    }
}

#[test]
fn r34_the_largest_time_is_the_records_and_not_the_clients() {
    let batch = with_header(&values(3), |header| header.max_timestamp = 5);
    assert_eq!(
        stored(LogConfig::default(), &batch).header.max_timestamp,
        NOW.0 + 2
    );
    assert_eq!(
        stored(LogConfig::default(), &at_time(-2)).header.max_timestamp,
        -1
    );
}

#[test]
fn r36_what_does_not_decompress_is_refused_with_the_reason() {
    let broken = with_header(&values(1), |header| {
        header.attributes = header.attributes.with_codec(Codec::Zstd)
    });
    assert!(matches!(
        refused(LogConfig::default(), &broken),
        AppendRefusal::Undecompressable { .. }
    ));
    for id in 5..8 {
        let unknown = with_header(&values(1), |header| header.attributes.0 |= id);
        assert_eq!(
            refused(LogConfig::default(), &unknown),
            AppendRefusal::UnknownCodec { id: id as u8 }
        );
    }
    let mut builder = BatchBuilder::new(Codec::Gzip);
    builder.append(NOW.0, None, Some(&[0; 100_000]), &[]);
    let small = LogConfig {
        decompressed_bytes_max: 50_000,
        ..LogConfig::default()
    };
    assert!(matches!(
        refused(small, &parsed(builder)),
        AppendRefusal::Undecompressable { .. }
    ));
}
