//! A planted fault breaks the law that guards against it, so that law can fail. Runs with `--features mutants`.
#![cfg(feature = "mutants")]
#![allow(clippy::unwrap_used)]

mod support;

use partition_log::mutants;
use support::sequences::{Sent, each_batch_is_stored_once};

#[test]
fn a_duplicate_that_is_appended_again_is_caught() {
    let script = [Sent::Next(1), Sent::Next(2), Sent::Again(1), Sent::Next(1)];
    each_batch_is_stored_once(&script).unwrap();

    assert!(mutants::select("duplicate_sequence_accepted"));
    let law = each_batch_is_stored_once(&script).unwrap_err();
    assert!(law.contains("is stored once"), "{law}");
}

#[test]
fn there_is_no_other() {
    assert!(!mutants::select("no_such_fault"));
}
