//! The 128-bit ids of topics and directories, in Kafka's notation.

use std::fmt;
use std::str::FromStr;

/// An id; written as 22 characters of URL-safe base64 without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

/// Text that is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an id of 22 base64 characters")]
pub struct BadUuid(String);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Uuid {
    /// All zero: "no id" on the wire.
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// Whether this stands for "no id".
    pub fn is_zero(&self) -> bool {
        *self == Uuid::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for i in 0..22 {
            // 128 bits are 21 groups of six and one of two, which stands at the top of its group.
            let group = if i < 21 { bits >> (122 - 6 * i) } else { bits << 4 };
            fmt::Write::write_char(f, char::from(ALPHABET[(group & 63) as usize]))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = BadUuid;

    fn from_str(text: &str) -> Result<Uuid, BadUuid> {
        let bad = || BadUuid(text.to_string());
        if text.len() != 22 {
            return Err(bad());
        }
        let mut bits = 0u128;
        for (i, byte) in text.bytes().enumerate() {
            let group = ALPHABET.iter().position(|&c| c == byte).ok_or_else(bad)? as u128;
            bits |= if i < 21 {
                group << (122 - 6 * i)
            } else {
                group >> 4
            };
        }
        Ok(Uuid(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn an_id_is_written_as_url_safe_base64_and_read_back() {
        let id = Uuid([0xfb, 0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xff]);
        assert_eq!(id.to_string(), "-_8AAQIDBAUGBwgJCgsM_w");
        assert_eq!("-_8AAQIDBAUGBwgJCgsM_w".parse::<Uuid>().unwrap(), id);
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
    }

    #[test]
    fn text_of_another_length_or_alphabet_is_no_id() {
        assert!("AAAA".parse::<Uuid>().is_err());
        assert!("AAAAAAAAAAAAAAAAAAAAA+".parse::<Uuid>().is_err());
    }
}
