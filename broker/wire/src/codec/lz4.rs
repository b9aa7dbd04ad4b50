//! LZ4 frames, as Kafka reads and writes them.
//!
//! ```text
//! magic | flags | block size class | [content size, 8 bytes] | header checksum | block* | end mark 0 | [content checksum]
//! block: size, 4 bytes, little endian, top bit set when not compressed | bytes | [block checksum]
//! ```

use std::io::Write;

use lz4_flex::block;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::{Codec, CodecError, xxh32};

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// The bits of the flag byte: the version (two bits), independent blocks, checksums of blocks, the content's size, the
/// content's checksum, and what must be zero (a dictionary id among it).
const VERSION_MASK: u8 = 0xc0;
const VERSION: u8 = 0x40;
const INDEPENDENT: u8 = 0x20;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const RESERVED: u8 = 0x03;
/// A block that was stored as it is.
const NOT_COMPRESSED: u32 = 1 << 31;
/// LZ4 makes at most 255 bytes of one.
const EXPANSION_MAX: usize = 255;

/// What the header of a frame says.
struct Frame<'a> {
    block_size_max: usize,
    block_checksums: bool,
    blocks: &'a [u8],
}

/// One frame of format version 1 with independent blocks, which is all that Kafka takes. As in Kafka, what the header
/// says of the content's size and checksum is not compared, and bytes behind the frame do not matter.
pub(super) fn decompress(stored: &[u8], budget: usize) -> Result<Vec<u8>, CodecError> {
    let frame = header(stored)?;
    let mut plain = Vec::new();
    let mut left = frame.blocks;
    loop {
        let (size, rest) = left.split_first_chunk::<4>().ok_or_else(cut_off)?;
        let field = u32::from_le_bytes(*size);
        if field == 0 {
            return Ok(plain);
        }
        let size = (field & !NOT_COMPRESSED) as usize;
        if size > frame.block_size_max {
            return Err(Codec::Lz4.broken(format!("a block of {size} bytes")));
        }
        let (stored, rest) = rest.split_at_checked(size).ok_or_else(cut_off)?;
        left = rest;
        if frame.block_checksums {
            let (checksum, rest) = left.split_first_chunk::<4>().ok_or_else(cut_off)?;
            if u32::from_le_bytes(*checksum) != xxh32::hash(stored) {
                return Err(Codec::Lz4.broken("a block with a wrong checksum"));
            }
            left = rest;
        }
        match field & NOT_COMPRESSED {
            0 => expand(stored, frame.block_size_max, budget, &mut plain)?,
            _ if size > budget - plain.len() => return Err(over(budget)),
            _ => plain.extend_from_slice(stored),
        }
    }
}

fn header(stored: &[u8]) -> Result<Frame<'_>, CodecError> {
    let described = stored
        .strip_prefix(&MAGIC)
        .ok_or_else(|| Codec::Lz4.broken("no LZ4 frame"))?;
    let [flags, class, ..] = *described else {
        return Err(cut_off());
    };
    if flags & VERSION_MASK != VERSION || flags & INDEPENDENT == 0 || flags & RESERVED != 0 {
        return Err(Codec::Lz4.broken(format!("frame flags {flags:#04x}")));
    }
    // Classes 4 to 7 are 64 KiB, 256 KiB, 1 MiB and 4 MiB.
    let block_size_max = match class {
        0x40 | 0x50 | 0x60 | 0x70 => 1 << (8 + 2 * (class >> 4)),
        _ => return Err(Codec::Lz4.broken(format!("block size class {class:#04x}"))),
    };
    let size = if flags & CONTENT_SIZE == 0 { 2 } else { 10 };
    let (described, rest) = described.split_at_checked(size).ok_or_else(cut_off)?;
    let (checksum, blocks) = rest.split_first().ok_or_else(cut_off)?;
    if *checksum != (xxh32::hash(described) >> 8) as u8 {
        return Err(Codec::Lz4.broken("a header with a wrong checksum"));
    }
    Ok(Frame {
        block_size_max,
        block_checksums: flags & BLOCK_CHECKSUM != 0,
        blocks,
    })
}

/// Appends what a compressed block holds.
fn expand(
    stored: &[u8],
    block_size_max: usize,
    budget: usize,
    plain: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let start = plain.len();
    let possible = block_size_max.min(stored.len().saturating_mul(EXPANSION_MAX));
    plain.resize(start + possible.min(budget - start), 0);
    match block::decompress_into(stored, &mut plain[start..]) {
        Ok(written) => {
            plain.truncate(start + written);
            Ok(())
        }
        Err(block::DecompressError::OutputTooSmall { .. }) if budget - start < possible => Err(over(budget)),
        Err(error) => Err(Codec::Lz4.broken(error)),
    }
}

fn cut_off() -> CodecError {
    Codec::Lz4.broken("a frame that is cut off")
}

fn over(budget: usize) -> CodecError {
    CodecError::OverBudget {
        codec: Codec::Lz4,
        budget,
    }
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
