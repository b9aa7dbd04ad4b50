//! Every source of chance in a simulation, closed.
//!
//! | Source | How it is closed |
//! |---|---|
//! | election timeouts and the first tick of the consensus library | its runtime draws from a seed that `Quorum::start` takes from `host::Entropy` |
//! | ids drawn at the founding | the same `host::Entropy`, seeded |
//! | order in which tokio wakes who waits for one `watch`, `tokio::select!` without `biased`, hash order of the standard library | all three begin with `RandomState`, that is with `getrandom(2)`, which this file answers; every run is a process of its own, for tokio counts its runtimes |
//! | latency and loss of messages, order of the hosts | turmoil's seed |
//! | disk latency, faults, load | one stream each, from the seed |
//! | threads | none: the store's writer is a task and snapshots are written in place, on a disk in memory |
//! | time | tokio's, paused and moved by turmoil; the driver's clock reads it |
#![allow(
    unsafe_code,
    reason = "the standard library leaves this symbol to be interposed; there is no other way in"
)]

use std::cell::Cell;

use host::{Entropy, SeededEntropy};

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(1) };
}

/// From now on whatever this thread asks the operating system for is decided by the seed.
pub fn decide_by(seed: u64) {
    SEED.set(seed);
}

/// In place of the C library's: what the standard library seeds its hash maps with.
///
/// # Safety
/// As `getrandom(2)`: `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    let seed = SEED.get();
    SEED.set(seed.wrapping_add(1));
    // SAFETY: the caller promises room for `length` bytes, as for the system call.
    let into = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    SeededEntropy::new(seed).fill(into);
    isize::try_from(length).unwrap_or(isize::MAX)
}
