//! Randomness: the machine's, or a stream that a seed decides.
//!
//! Must not: be used for secrets when seeded.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random bytes.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `into` with random bytes.
    fn fill(&self, into: &mut [u8]);

    /// A random number, every value equally likely.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A random number below `end`, or zero if `end` is zero.
    fn below(&self, end: u64) -> u64 {
        // The high half of a 128-bit product: its bias is below 2^-32 for every bound used here.
        u64::try_from((u128::from(self.next_u64()) * u128::from(end)) >> 64).unwrap_or(0)
    }
}

/// The operating system's random source.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, into: &mut [u8]) {
        getrandom::fill(into).expect("the operating system always has randomness once it has booted");
    }
}

/// A stream that is the same for the same seed (SplitMix64).
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    /// The stream of this seed, from its beginning.
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy {
            state: AtomicU64::new(seed),
        }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, into: &mut [u8]) {
        for chunk in into.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_stream() {
        let (a, b, other) = (
            SeededEntropy::new(7),
            SeededEntropy::new(7),
            SeededEntropy::new(8),
        );
        let stream = |e: &SeededEntropy| [e.next_u64(), e.below(10), e.next_u64()];

        let first = stream(&a);
        assert_eq!(first, stream(&b));
        assert_ne!(first, stream(&other));
        assert!(first[1] < 10);
    }

    #[test]
    fn the_machines_entropy_is_not_constant() {
        let (mut a, mut b) = ([0; 16], [0; 16]);
        OsEntropy.fill(&mut a);
        OsEntropy.fill(&mut b);

        assert_ne!(a, b);
    }
}
