//! The records that `kafka-producer-perf-test` writes, known beforehand: it draws capital letters from Java's
//! `SplittableRandom` with seed 0, so a reader can be held to every byte.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{Context, Result, ensure};

/// What seed 0 adds to the state for every draw.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Java's `SplittableRandom`, as far as `nextInt(26)` needs it.
struct Letters(u64);

impl Letters {
    fn next_32(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(GAMMA);
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0x62a9_d9ed_7997_05f5);
        ((mixed ^ (mixed >> 28)).wrapping_mul(0xcb24_d0a5_c88c_35b3) >> 32) as u32
    }

    fn letter(&mut self) -> u8 {
        // Draws from the incomplete last stretch of 31 bits would favour the first letters and are drawn again.
        loop {
            let drawn = self.next_32() >> 1;
            if drawn - drawn % 26 <= (1 << 31) - 26 {
                return b'A' + (drawn % 26) as u8;
            }
        }
    }
}

/// Payload number `index`, for `index` from 0 on, each `size` bytes long.
pub fn payloads(size: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut letters = Letters(0);
    std::iter::repeat_with(move || (0..size).map(|_| letters.letter()).collect())
}

/// Every record that must be read, ticked off one by one.
pub struct Ledger {
    owed: HashMap<(u64, u64), u32>,
    newest: BTreeMap<i32, u32>,
    read: usize,
}

fn digest(payload: &[u8]) -> (u64, u64) {
    let mut one = DefaultHasher::new();
    payload.hash(&mut one);
    let mut other = DefaultHasher::new();
    (payload, one.finish()).hash(&mut other);
    (one.finish(), other.finish())
}

impl Ledger {
    /// The first `count` payloads of `size` bytes, none read yet.
    pub fn of(count: u32, size: usize) -> Ledger {
        let owed = payloads(size)
            .zip(0..count)
            .map(|(payload, index)| (digest(&payload), index));
        Ledger {
            owed: owed.collect(),
            newest: BTreeMap::new(),
            read: 0,
        }
    }

    /// One record that was read from `partition`: fails unless it is owed, and sent after all read before it.
    pub fn read(&mut self, partition: i32, payload: &[u8]) -> Result<()> {
        let index = self.owed.remove(&digest(payload));
        let index =
            index.with_context(|| format!("record {} of {partition}: never sent, or twice", self.read))?;
        let before = self.newest.insert(partition, index);
        ensure!(
            before.is_none_or(|before| before < index),
            "{index} after {before:?} in {partition}"
        );
        self.read += 1;
        Ok(())
    }

    /// Fails unless everything has been read; gives how much that was.
    pub fn close(self) -> Result<usize> {
        ensure!(self.owed.is_empty(), "{} records were not read", self.owed.len());
        Ok(self.read)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn a_ledger_closes_only_when_everything_was_read_once_and_in_order() {
        let all: Vec<Vec<u8>> = payloads(16).take(3).collect();
        let mut ledger = Ledger::of(3, 16);
        ledger.read(0, &all[0]).unwrap();
        ledger.read(1, &all[2]).unwrap();
        assert!(ledger.read(0, &all[0]).is_err(), "read twice");
        assert!(ledger.read(1, &all[1]).is_err(), "out of order");
        assert!(ledger.read(0, b"never sent").is_err());
        assert!(Ledger::of(3, 16).close().is_err());
    }
}
