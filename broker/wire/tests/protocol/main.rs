//! The wire protocol from outside: agreement with other implementations, golden bytes, hostile bytes, batches.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod agreement;
mod batches;
mod codecs;
mod dice;
mod frames;
mod hostile;
mod internal;
mod ledger;
mod leniency;
mod notation;
mod samples;
#[allow(
    dead_code,
    reason = "the generator needs more of the parser than the tests do"
)]
#[path = "../../build/schema.rs"]
mod schema;

/// Bytes written as hexadecimal digits, spaces allowed.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
