//! The compression codecs of record batches. Decompression never gives more than a budget that the caller sets, and
//! never reserves more memory than a small multiple of what came in before output is there to fill it.

mod lz4;
mod snappy;
mod xxh32;
mod zstd;

use std::fmt;
use std::io::Read;

use bytes::Bytes;

/// A codec, as the attributes of a batch name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Not compressed.
    None = 0,
    /// Gzip.
    Gzip = 1,
    /// Snappy, raw or in xerial's framing.
    Snappy = 2,
    /// LZ4 frames.
    Lz4 = 3,
    /// Zstandard frames.
    Zstd = 4,
}

/// Why bytes could not be decompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// They would take more than the budget.
    #[error("{codec}: more than {budget} bytes when decompressed")]
    OverBudget {
        /// The codec.
        codec: Codec,
        /// What was allowed, in bytes.
        budget: usize,
    },
    /// They are not what the codec makes.
    #[error("{codec}: {what}")]
    Broken {
        /// The codec.
        codec: Codec,
        /// What the decoder said.
        what: String,
    },
}

impl Codec {
    /// All of them.
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// The codec of a number.
    pub fn from_id(id: u8) -> Option<Codec> {
        Codec::ALL.get(usize::from(id)).copied()
    }

    /// The number in a batch's attributes.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// The name in `compression.type`.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    fn broken(self, what: impl fmt::Display) -> CodecError {
        CodecError::Broken {
            codec: self,
            what: what.to_string(),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Decompresses into at most `budget` bytes.
///
/// # Errors
/// When the bytes are broken, or when there would be more than `budget`.
pub fn decompress(codec: Codec, stored: &[u8], budget: usize) -> Result<Bytes, CodecError> {
    let plain = match codec {
        Codec::None if stored.len() > budget => return Err(CodecError::OverBudget { codec, budget }),
        Codec::None => stored.to_vec(),
        Codec::Gzip => read_all(codec, flate2::read::MultiGzDecoder::new(stored), budget)?,
        Codec::Snappy => snappy::decompress(stored, budget)?,
        Codec::Lz4 => lz4::decompress(stored, budget)?,
        Codec::Zstd => zstd::decompress(stored, budget)?,
    };
    Ok(Bytes::from(plain))
}

/// Compresses in the framing that Kafka's own clients use. `level` is the codec's own scale; none is its default. Snappy has
/// no levels, and LZ4 is written by an encoder with one.
///
/// # Panics
/// Never in practice: compressing into memory has no way to fail.
pub fn compress(codec: Codec, level: Option<i32>, plain: &[u8]) -> Vec<u8> {
    match codec {
        Codec::None => plain.to_vec(),
        Codec::Gzip => gzip(level, plain),
        Codec::Snappy => snappy::compress(plain),
        Codec::Lz4 => lz4::compress(plain),
        Codec::Zstd => zstd::compress(level, plain),
    }
}

fn gzip(level: Option<i32>, plain: &[u8]) -> Vec<u8> {
    let level = level
        .and_then(|level| u32::try_from(level).ok())
        .filter(|level| *level <= 9);
    let level = level.map_or_else(flate2::Compression::default, flate2::Compression::new);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    std::io::Write::write_all(&mut encoder, plain).expect("a Vec takes everything");
    encoder.finish().expect("a Vec takes everything")
}

/// Everything that a streaming decoder gives, up to the budget.
fn read_all(codec: Codec, decoder: impl Read, budget: usize) -> Result<Vec<u8>, CodecError> {
    let mut plain = Vec::new();
    // One byte more tells a full budget from one that does not suffice.
    let most = (budget as u64).saturating_add(1);
    decoder
        .take(most)
        .read_to_end(&mut plain)
        .map_err(|error| codec.broken(error))?;
    if plain.len() > budget {
        return Err(CodecError::OverBudget { codec, budget });
    }
    Ok(plain)
}
