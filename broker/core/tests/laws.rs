//! The laws of the data plane, over random histories.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod model;

use model::{World, connection, moves};
use proptest::prelude::*;

/// So many cases at least; `PROPTEST_CASES` asks for more.
fn config(cases: u32) -> ProptestConfig {
    let asked_for = ProptestConfig::default();
    ProptestConfig {
        cases: asked_for.cases.max(cases),
        failure_persistence: None,
        ..asked_for
    }
}

proptest! {
    #![proptest_config(config(400))]

    /// F-22 to F-35 together: whatever happens, an in-sync replica holds all that was ever shown, what was shown never
    /// changes, and healed replicas come to hold the same log, all of it committed.
    #[test]
    fn nothing_shown_is_lost_and_logs_converge(min_in_sync in 1..3usize, script in moves(80)) {
        let mut world = World::new(min_in_sync);
        for one in script {
            world.make(one).map_err(TestCaseError::fail)?;
        }
        world.settle().map_err(TestCaseError::fail)?;
    }

    /// A-12 as ruled: answers leave in order, a barrier stands alone, no batch overtakes another, nothing is forgotten.
    #[test]
    fn a_connection_keeps_its_order(script in connection::script(120)) {
        connection::check(&script).map_err(TestCaseError::fail)?;
    }
}
