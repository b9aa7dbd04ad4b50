//! Codecs: framings that others write, budgets, and bodies that are broken.

use wire::codec::{Codec, CodecError, compress, decompress};

use crate::hex;
use crate::ledger::peak_of;

const KIB: usize = 1024;

/// Text that compresses well, and differs from block to block.
fn text(size: usize) -> Vec<u8> {
    (0..)
        .flat_map(|i| format!("line {i}\n").into_bytes())
        .take(size)
        .collect()
}

fn is_over_budget<T>(result: &Result<T, CodecError>) -> bool {
    matches!(result, Err(CodecError::OverBudget { .. }))
}

fn is_broken<T>(result: &Result<T, CodecError>) -> bool {
    matches!(result, Err(CodecError::Broken { .. }))
}

#[test]
fn a_budget_that_just_suffices_does_and_one_byte_less_does_not() {
    for codec in Codec::ALL {
        for size in [0, 1, 5000, 300 * KIB] {
            let stored = compress(codec, None, &text(size));
            assert_eq!(
                decompress(codec, &stored, size).unwrap(),
                text(size),
                "{codec}, {size}"
            );
            if size > 0 {
                assert!(
                    is_over_budget(&decompress(codec, &stored, size - 1)),
                    "{codec}, {size}"
                );
            }
        }
    }
}

#[test]
fn a_bomb_is_refused_for_the_price_of_its_budget() {
    let zeros = vec![0u8; 64 << 20];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let bomb = compress(codec, None, &zeros);
        assert!(bomb.len() < zeros.len() / 20, "{codec}: {} bytes", bomb.len());
        let (result, peak) = peak_of(|| decompress(codec, &bomb, 256 * KIB));
        assert!(is_over_budget(&result), "{codec}");
        assert!(peak < 4 << 20, "{codec}: {peak} bytes of memory");
    }
}

#[test]
fn levels_change_the_size_and_not_the_content() {
    let plain = text(100 * KIB);
    for codec in [Codec::Gzip, Codec::Zstd] {
        let (fast, best) = (compress(codec, Some(1), &plain), compress(codec, Some(9), &plain));
        assert_ne!(best, fast, "{codec}");
        assert_eq!(decompress(codec, &best, 100 * KIB).unwrap(), plain);
        assert_eq!(decompress(codec, &fast, 100 * KIB).unwrap(), plain);
    }
}

#[test]
fn every_truncation_is_broken() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let stored = compress(codec, None, &text(3000));
        for size in 0..stored.len() {
            let result = decompress(codec, &stored[..size], 1 << 20);
            // A snappy stream may end behind any block, so its bare header is an empty one, and zstd's is none at all.
            let whole_prefix = matches!((codec, size), (Codec::Snappy, 16) | (Codec::Zstd, 0));
            assert_eq!(
                is_broken(&result),
                !whole_prefix,
                "{codec}, {size} of {}",
                stored.len()
            );
        }
    }
}

#[test]
fn snappy_is_read_raw_and_in_xerials_framing() {
    // A literal of three bytes, raw.
    assert_eq!(
        decompress(Codec::Snappy, &hex("03 08 616263"), 10).unwrap(),
        "abc"
    );
    // Two blocks, framed.
    let framed = "82 534e41505059 00 00000001 00000001 | 00000005 03 08 616263 | 00000003 01 00 64";
    assert_eq!(decompress(Codec::Snappy, &hex(framed), 10).unwrap(), "abcd");
}

#[test]
fn a_snappy_block_that_says_more_than_it_can_hold_costs_nothing() {
    // Five bytes that claim to be 4 GiB, then 1 MiB.
    for claim in ["ffffffff0f", "80804000"] {
        let (result, peak) = peak_of(|| decompress(Codec::Snappy, &hex(claim), usize::MAX));
        assert!(is_broken(&result));
        assert!(peak < 1000, "{peak}");
    }
}

#[test]
fn lz4_is_written_with_the_header_that_java_writes() {
    let stored = compress(Codec::Lz4, None, b"");
    // Magic, version 1 with independent blocks, 64 KiB, the header's checksum, the end mark.
    assert_eq!(stored, hex("04224d18 60 40 82 00000000"));
}

#[test]
fn lz4_frames_that_kafka_does_not_take_are_broken() {
    let stored = compress(Codec::Lz4, None, &text(100));
    let with = |at: usize, value: u8| {
        let mut bytes = stored.clone();
        bytes[at] = value;
        decompress(Codec::Lz4, &bytes, KIB)
    };
    assert!(is_broken(&with(0, 0x05)), "another magic");
    assert!(is_broken(&with(4, 0x40)), "linked blocks");
    assert!(is_broken(&with(4, 0xa0)), "another version");
    assert!(is_broken(&with(4, 0x61)), "a dictionary");
    assert!(is_broken(&with(6, 0x83)), "a wrong checksum of the header");

    let mut large = hex("04224d18 60 40 82 01000180");
    large.extend([0; 65537]);
    large.extend([0; 4]);
    assert!(
        is_broken(&decompress(Codec::Lz4, &large, 1 << 20)),
        "a block above the size that the header allows"
    );
}

/// Ten times `block checksum `, written by the `lz4` tool: with checksums of the blocks, and with the content's size and
/// checksum.
const LZ4_BY_TOOL: [&str; 2] = [
    "04224d187040ad1a000000ff00626c6f636b20636865636b73756d200f006f506b73756d20986d09c700000000",
    "04224d186c409600000000000000871a000000ff00626c6f636b20636865636b73756d200f006f506b73756d20000000002cfa4bb8",
];

#[test]
fn lz4_checksums_and_sizes_are_read_over_and_those_of_blocks_checked() {
    let plain = "block checksum ".repeat(10);
    for frame in LZ4_BY_TOOL {
        assert_eq!(decompress(Codec::Lz4, &hex(frame), KIB).unwrap(), plain);
    }
    let mut damaged = hex(LZ4_BY_TOOL[0]);
    damaged[20] ^= 1;
    assert!(is_broken(&decompress(Codec::Lz4, &damaged, KIB)));
}

#[test]
fn frames_whose_content_was_only_stored_are_read() {
    // One raw block of three bytes; the frame names the size of its content.
    let zstd = "28b52ffda0 03000000 190000 616263";
    assert_eq!(decompress(Codec::Zstd, &hex(zstd), 3).unwrap(), "abc");
    let lz4 = "04224d18 60 40 82 | 03000080 616263 | 00000000";
    assert_eq!(decompress(Codec::Lz4, &hex(lz4), 3).unwrap(), "abc");
}

#[test]
fn zstd_frames_may_follow_one_another() {
    let mut stored = compress(Codec::Zstd, None, b"one, ");
    stored.extend(compress(Codec::Zstd, None, b"two"));
    assert_eq!(decompress(Codec::Zstd, &stored, 100).unwrap(), "one, two");
    stored.push(0x28);
    assert!(is_broken(&decompress(Codec::Zstd, &stored, 100)));
}

#[test]
fn a_failed_decompression_leaves_nothing_for_the_next_one() {
    let stored = compress(Codec::Zstd, None, &text(5000));
    assert!(is_over_budget(&decompress(Codec::Zstd, &stored, 10)));
    assert!(is_broken(&decompress(Codec::Zstd, &stored[..40], 10_000)));
    assert_eq!(decompress(Codec::Zstd, &stored, 5000).unwrap(), text(5000));
}
