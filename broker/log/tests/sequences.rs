//! What idempotent producers rely on.

#![allow(clippy::unwrap_used)]

mod support;

use proptest::prelude::*;
use support::sequences::{each_batch_is_stored_once, script};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_batch_that_is_sent_again_is_stored_once(script in script()) {
        each_batch_is_stored_once(&script).map_err(TestCaseError::fail)?;
    }
}
