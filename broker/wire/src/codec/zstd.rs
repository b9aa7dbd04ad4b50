//! Zstandard frames. A context is kept per thread: making one costs as much as a small batch.

use std::cell::RefCell;

use ::zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};
use ::zstd::{DEFAULT_COMPRESSION_LEVEL, bulk};

use super::{Codec, CodecError};

/// What a first output buffer holds at most for each byte of input.
const EXPANSION_GUESS: usize = 4;
const OUTPUT_MIN: usize = 4096;

thread_local! {
    static DECODER: RefCell<Option<Decoder<'static>>> = const { RefCell::new(None) };
}

/// All frames, one after another.
pub(super) fn decompress(stored: &[u8], budget: usize) -> Result<Vec<u8>, CodecError> {
    DECODER.with_borrow_mut(|kept| {
        let mut decoder = match kept.take() {
            Some(decoder) => decoder,
            None => Decoder::new().map_err(|error| Codec::Zstd.broken(error))?,
        };
        let plain = run(&mut decoder, stored, budget);
        // A decoder that failed in the middle of a frame is thrown away.
        if plain.is_ok() {
            *kept = Some(decoder);
        }
        plain
    })
}

fn run(decoder: &mut Decoder<'static>, stored: &[u8], budget: usize) -> Result<Vec<u8>, CodecError> {
    let codec = Codec::Zstd;
    // One byte more tells a full budget from one that does not suffice.
    let most = budget.saturating_add(1);
    let mut plain: Vec<u8> = Vec::with_capacity(
        stored
            .len()
            .saturating_mul(EXPANSION_GUESS)
            .max(OUTPUT_MIN)
            .min(most),
    );
    let mut input = InBuffer::around(stored);
    let mut in_frame = false;
    // Between two frames is an end, and so no bytes at all are an empty text, as they are for Java.
    while in_frame || input.pos() < stored.len() {
        let before = (input.pos(), plain.len());
        let mut output = OutBuffer::around_pos(&mut plain, before.1);
        let hint = decoder
            .run(&mut input, &mut output)
            .map_err(|error| codec.broken(error))?;
        if plain.len() > budget {
            return Err(CodecError::OverBudget { codec, budget });
        }
        in_frame = hint != 0;
        if !in_frame {
            decoder.reinit().map_err(|error| codec.broken(error))?;
        } else if plain.len() == plain.capacity() {
            plain.reserve_exact(plain.capacity().min(most - plain.len()));
        } else if before == (input.pos(), plain.len()) {
            return Err(codec.broken("a frame that is cut off"));
        }
    }
    Ok(plain)
}

pub(super) fn compress(level: Option<i32>, plain: &[u8]) -> Vec<u8> {
    let level = level.unwrap_or(DEFAULT_COMPRESSION_LEVEL);
    bulk::compress(plain, level).expect("the output has room for the worst case")
}
