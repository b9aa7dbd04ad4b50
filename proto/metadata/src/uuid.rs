//! 128-bit identifiers in Kafka's text form. Draws none itself: entropy comes inside commands.

use std::fmt;
use std::str::FromStr;

/// A 128-bit identifier. Text form: 22 characters of base64url without padding, as Kafka prints it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub u128);

/// The text is not 22 characters of base64url.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id: 22 characters of A-Z a-z 0-9 - _ are expected")]
pub struct NotAnId;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Uuid {
    /// The id of nothing: "absent" on Kafka's wire.
    pub const ZERO: Self = Self(0);

    /// Big-endian bytes, as on Kafka's wire.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// From big-endian bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Turns 128 random bits into a version 4 UUID, as topic and incarnation ids are (R2.6).
    #[must_use]
    pub fn from_random_bits(bits: u128) -> Self {
        let version = (bits & !(0xF << 76)) | (0x4 << 76);
        Self((version & !(0x3 << 62)) | (0x2 << 62))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 128 bits are 21 groups of six and one of two, which is padded with four zero bits.
        let mut text = [0u8; 22];
        for (i, slot) in text.iter_mut().enumerate() {
            let six = if i == 21 {
                (self.0 << 4) & 0x3F
            } else {
                (self.0 >> (122 - 6 * i)) & 0x3F
            };
            *slot = ALPHABET[usize::try_from(six).expect("six bits fit")];
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        if text.len() != 22 {
            return Err(NotAnId);
        }
        let mut bits: u128 = 0;
        for (i, byte) in text.bytes().enumerate() {
            let six = ALPHABET.iter().position(|&a| a == byte).ok_or(NotAnId)? as u128;
            if i == 21 {
                if six & 0xF != 0 {
                    return Err(NotAnId);
                }
                bits = (bits << 2) | (six >> 4);
            } else {
                bits = (bits << 6) | six;
            }
        }
        Ok(Self(bits))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_what_kafka_prints() {
        assert_eq!(Uuid(1).to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(Uuid(u128::MAX).to_string(), "_____________________w");
    }

    #[test]
    fn stray_bits_in_the_last_character_are_refused() {
        assert_eq!("AAAAAAAAAAAAAAAAAAAAAB".parse::<Uuid>(), Err(NotAnId));
    }

    proptest! {
        #[test]
        fn text_round_trips(bits in any::<u128>()) {
            let id = Uuid(bits);
            prop_assert_eq!(id.to_string().parse::<Uuid>().unwrap(), id);
        }

        #[test]
        fn random_ids_are_version_four(bits in any::<u128>()) {
            let bytes = Uuid::from_random_bits(bits).to_bytes();
            prop_assert_eq!(bytes[6] >> 4, 4);
            prop_assert_eq!(bytes[8] >> 6, 2);
        }
    }
}
