//! Snappy: xerial's framing, which Java's clients write, and the raw block, which others may write (R-36).
//!
//! ```text
//! 82 "SNAPPY" 00 | version i32 | oldest compatible version i32 | (size i32, raw block)*
//! ```

use super::{Codec, CodecError};

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
/// The magic and two versions.
const HEADER_SIZE: usize = 16;
/// What Java's encoder puts into a block, in bytes before compression.
const BLOCK_SIZE: usize = 32 * 1024;
/// A copy takes three bytes for at most 64, so a block never says more than this for each of its bytes and tells the truth.
const EXPANSION_MAX: usize = 32;

pub(super) fn decompress(stored: &[u8], budget: usize) -> Result<Vec<u8>, CodecError> {
    let mut plain = Vec::new();
    if !stored.starts_with(&MAGIC) {
        block(stored, budget, &mut plain)?;
        return Ok(plain);
    }
    let mut left = stored
        .get(HEADER_SIZE..)
        .ok_or_else(|| Codec::Snappy.broken("a header that is cut off"))?;
    while !left.is_empty() {
        let (size, rest) = left.split_first_chunk::<4>().ok_or_else(cut_off)?;
        let size = usize::try_from(i32::from_be_bytes(*size)).map_err(|_| cut_off())?;
        let (one, rest) = rest.split_at_checked(size).ok_or_else(cut_off)?;
        block(one, budget, &mut plain)?;
        left = rest;
    }
    Ok(plain)
}

fn cut_off() -> CodecError {
    Codec::Snappy.broken("a block that is cut off")
}

/// Appends what a raw block holds.
fn block(stored: &[u8], budget: usize, plain: &mut Vec<u8>) -> Result<(), CodecError> {
    let codec = Codec::Snappy;
    let size = snap::raw::decompress_len(stored).map_err(|error| codec.broken(error))?;
    if size > stored.len().saturating_mul(EXPANSION_MAX) {
        return Err(codec.broken(format!("a block of {} bytes that says {size}", stored.len())));
    }
    let start = plain.len();
    if size > budget - start {
        return Err(CodecError::OverBudget { codec, budget });
    }
    plain.resize(start + size, 0);
    let written = snap::raw::Decoder::new()
        .decompress(stored, &mut plain[start..])
        .map_err(|error| codec.broken(error))?;
    plain.truncate(start + written);
    Ok(())
}

pub(super) fn compress(plain: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(HEADER_SIZE + plain.len() / 2);
    stored.extend_from_slice(&MAGIC);
    // The version and the oldest one that can read it: 1 both.
    stored.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
    let mut encoder = snap::raw::Encoder::new();
    for block in plain.chunks(BLOCK_SIZE) {
        let block = encoder
            .compress_vec(block)
            .expect("a block of 32 KiB is within snappy's limits");
        stored.extend_from_slice(&(block.len() as u32).to_be_bytes());
        stored.extend_from_slice(&block);
    }
    stored
}
