//! Chance: one stream per concern, so that drawing more for one changes nothing for the others.
//!
//! Must not: take entropy from anywhere but the seed.

use std::time::Duration;

use host::{Entropy, SeededEntropy};

/// A stream of random numbers.
#[derive(Debug)]
pub struct Chance(SeededEntropy);

impl Chance {
    /// The stream of a seed for one concern, such as `network`.
    #[must_use]
    pub fn of(seed: u64, concern: &str) -> Self {
        let mut hash = crate::digest::Digest::default();
        hash.note(&seed.to_le_bytes());
        hash.note(concern.as_bytes());
        Self(SeededEntropy::new(hash.value()))
    }

    /// A number below `end`; zero if `end` is zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// A number from `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.below(to - from + 1)
    }

    /// A duration from `from` to `to`, in steps of a microsecond.
    pub fn span(&mut self, from: Duration, to: Duration) -> Duration {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 2);
        Duration::from_micros(self.between(micros(from), micros(to)))
    }

    /// True in so many of a thousand cases.
    pub fn per_mille(&mut self, share: u64) -> bool {
        self.0.below(1000) < share
    }

    /// One of them.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = usize::try_from(self.0.below(of.len() as u64)).expect("it is below a length");
        &of[at]
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Any 128 bits.
    pub fn wide_bits(&mut self) -> u128 {
        u128::from(self.0.next_u64()) << 64 | u128::from(self.0.next_u64())
    }
}
