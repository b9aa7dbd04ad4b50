//! One stream of chance per concern, so that a change to one leaves the others as they were.

use host::{Entropy, SeededEntropy};

/// Faults.
pub const FAULTS: u64 = 1;
/// What a process draws.
pub const PROCESS: u64 = 2;
/// Load.
pub const LOAD: u64 = 3;
/// The network.
pub const NETWORK: u64 = 4;
/// What the operating system would give.
pub const MACHINE: u64 = 5;

/// The seed of a stream.
pub fn of(seed: u64, concern: u64, number: u64) -> u64 {
    let mixed = SeededEntropy::new(seed).next_u64() ^ SeededEntropy::new(concern << 56 ^ number).next_u64();
    SeededEntropy::new(mixed).next_u64()
}
