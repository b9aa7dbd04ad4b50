//! Known failures of brokers in the field, by their number in the list of bug cases: each a function that does
//! to a cluster what hurt somebody, and says what it saw. A breach is an error that names what was expected.
//!
//! Shared by the end-to-end tests and by `cargo show`, so that both mean the same by a case.

pub mod admin;
pub mod configs;
pub mod deletions;
pub mod elections;
pub mod fetch;
pub mod frames;
pub mod groups;
pub mod names;
pub mod positions;
pub mod produce;
pub mod quorum;
pub mod replicas;
pub mod rolls;

use anyhow::{Result, ensure};

/// Fails unless `got` is one of `allowed`.
fn expect(what: &str, got: i16, allowed: &[i16]) -> Result<()> {
    ensure!(
        allowed.contains(&got),
        "{what}: error {got} instead of {allowed:?}"
    );
    Ok(())
}
