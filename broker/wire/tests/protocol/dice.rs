//! Seeded randomness: the same seed gives the same throws.

/// A generator (splitmix64); good enough to vary tests, nothing more.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    /// Any 64 bits, with the extremes far more often than chance would give them.
    pub fn integer(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << 63,
            3 => i64::MAX as u64,
            4 => self.next() % 1000,
            _ => self.next(),
        }
    }

    pub fn bytes(&mut self, size: usize) -> Vec<u8> {
        (0..size).map(|_| self.next() as u8).collect()
    }

    pub fn text(&mut self) -> String {
        const LETTERS: [char; 8] = ['a', 'Z', '0', '-', '.', 'ä', '中', '🦀'];
        (0..self.below(6))
            .map(|_| LETTERS[self.below(LETTERS.len())])
            .collect()
    }
}
