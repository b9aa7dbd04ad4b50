//! A digest of everything that happened in a run: two runs of a seed must have the same.
//!
//! FNV-1a over 64 bits: equal on every machine and in every build. Must not: be used against an adversary.

/// The digest so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes in some bytes.
    pub fn note(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The digest of everything noted.
    #[must_use]
    pub fn value(self) -> u64 {
        // FNV mixes its high bits badly for short inputs; a final avalanche spreads them.
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
