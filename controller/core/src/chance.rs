//! Chance that comes from a seed: the same seed draws the same. The seed comes inside a command, from outside.
//!
//! Good for spreading and for ids; never for secrets.

/// A stream of draws (SplitMix64, with both halves of the seed mixed in).
#[derive(Clone, Debug)]
pub struct Draws {
    low: u64,
    high: u64,
}

impl Draws {
    /// The draws of a seed.
    #[must_use]
    pub fn from_seed(seed: u128) -> Self {
        let bytes = seed.to_le_bytes();
        let (low, high) = bytes.split_at(8);
        let half = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("half of sixteen bytes"));
        Self {
            low: half(low),
            high: half(high),
        }
    }

    /// 64 bits. Two generators side by side, so that no half of the seed is lost.
    pub fn bits(&mut self) -> u64 {
        self.low = self.low.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.high = self.high.wrapping_add(0xD1B5_4A32_D192_ED03);
        mixed(self.low) ^ mixed(self.high).rotate_left(32)
    }

    /// 128 bits.
    pub fn wide(&mut self) -> u128 {
        (u128::from(self.bits()) << 64) | u128::from(self.bits())
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "there is a number below the end");
        let end = u128::try_from(end).expect("a usize fits");
        let scaled = (u128::from(self.bits()) * end) >> 64;
        usize::try_from(scaled).expect("it is below a usize")
    }

    /// Puts the items into another order, each order as likely as any.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

fn mixed(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_either_half_counts() {
        let first = |seed| Draws::from_seed(seed).bits();
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
        assert_ne!(first(7), first(7 | 1 << 64));
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..20).collect();
        Draws::from_seed(1).shuffle(&mut items);
        let mut sorted = items.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<u32>>());
        assert_ne!(items, sorted);
    }
}
