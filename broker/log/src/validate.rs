//! What is asked of the bytes of a produced batch, in Kafka's order.
//!
//! Pure: the same bytes, configuration and time give the same answer. Must not: look at the log.

use crate::AppendRefusal;

/// What the version of the produce request allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProduceVersionLimits {
    /// Versions below 7, which know no zstd.
    NoZstd,
    /// Version 7 and up.
    None,
}

/// the payload of one partition is exactly one whole batch of version 2; a second one that is cut off
/// is dropped. Returns the bytes of that batch. The produce handler asks this first, for all partitions.
///
/// # Errors
/// `NoBatch`, `SeveralBatches`, `OldMagic`, `Corrupt` (a magic or length that cannot be), `ZstdTooEarly`.
pub fn check_payload(payload: &[u8], limits: ProduceVersionLimits) -> Result<&[u8], AppendRefusal> {
    let _ = (payload, limits);
    todo!()
}
