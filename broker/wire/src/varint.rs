//! Variable-length integers: unsigned for lengths and tags, zigzag for the fields of a record.
//!
//! The functions work on slices, so that the protocol and the record batch share them.

/// Why a varint could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadVarint {
    /// The bytes end inside it.
    Truncated,
    /// It does not fit its type.
    TooWide,
}

/// An unsigned varint of at most 32 bits and the number of bytes it took. Leading zero groups are accepted.
pub(crate) fn read_u32(bytes: &[u8]) -> Result<(u32, usize), BadVarint> {
    match bytes.first() {
        // Most lengths are short.
        Some(&byte) if byte < 0x80 => return Ok((u32::from(byte), 1)),
        _ => {}
    }
    let (value, taken) = read(bytes, 5)?;
    let value = u32::try_from(value).map_err(|_| BadVarint::TooWide)?;
    Ok((value, taken))
}

/// A zigzag varint of at most 32 bits.
pub(crate) fn read_i32(bytes: &[u8]) -> Result<(i32, usize), BadVarint> {
    let (value, taken) = read_u32(bytes)?;
    Ok((((value >> 1) as i32) ^ -((value & 1) as i32), taken))
}

/// A zigzag varint of at most 64 bits.
pub(crate) fn read_i64(bytes: &[u8]) -> Result<(i64, usize), BadVarint> {
    let (value, taken) = read(bytes, 10)?;
    Ok((((value >> 1) as i64) ^ -((value & 1) as i64), taken))
}

fn read(bytes: &[u8], longest: usize) -> Result<(u64, usize), BadVarint> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(longest).enumerate() {
        let group = u64::from(byte & 0x7f);
        // The tenth group has room for one bit only.
        if i == 9 && group > 1 {
            return Err(BadVarint::TooWide);
        }
        value |= group << (7 * i);
        if byte < 0x80 {
            return Ok((value, i + 1));
        }
    }
    Err(if bytes.len() < longest {
        BadVarint::Truncated
    } else {
        BadVarint::TooWide
    })
}

/// Calls `put` for every byte of an unsigned varint.
pub(crate) fn write_u64(mut value: u64, mut put: impl FnMut(u8)) {
    while value >= 0x80 {
        put(value as u8 | 0x80);
        value >>= 7;
    }
    put(value as u8);
}

/// Calls `put` for every byte of a zigzag varint; a 32-bit value takes the same bytes as a 64-bit one.
pub(crate) fn write_i64(value: i64, put: impl FnMut(u8)) {
    write_u64(((value << 1) ^ (value >> 63)) as u64, put);
}
