//! LZ4 frames, as Kafka reads and writes them.

use std::io::Write;

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use super::{Codec, CodecError};

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// The bits of the flag byte: the version (two bits), independent blocks, and what must be zero (a dictionary id among it).
const VERSION_MASK: u8 = 0xc0;
const VERSION: u8 = 0x40;
const INDEPENDENT: u8 = 0x20;
const RESERVED: u8 = 0x03;

/// Only what Kafka takes: one frame of format version 1 with independent blocks. The decoder checks the header's checksum.
pub(super) fn decompress(stored: &[u8], budget: usize) -> Result<Vec<u8>, CodecError> {
    let codec = Codec::Lz4;
    let Some(flags) = stored.strip_prefix(&MAGIC).and_then(|rest| rest.first()) else {
        return Err(codec.broken("no LZ4 frame"));
    };
    if flags & VERSION_MASK != VERSION || flags & INDEPENDENT == 0 || flags & RESERVED != 0 {
        return Err(codec.broken(format!("frame flags {flags:#04x}")));
    }
    super::read_all(codec, FrameDecoder::new(stored), budget)
}

/// Blocks of 64 KiB, independent, no checksums.
pub(super) fn compress(plain: &[u8]) -> Vec<u8> {
    let info = FrameInfo::new()
        .block_size(BlockSize::Max64KB)
        .block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(plain).expect("a Vec takes everything");
    encoder.finish().expect("a Vec takes everything")
}
