//! The laws of the data plane, over random histories.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod model;

use broker_core::fetch::divergence;
use broker_core::fetcher::truncation_point;
use metadata::ids::LeaderEpoch;
use model::log::{Log, Record};
use model::{World, connection, moves};
use proptest::prelude::*;

/// Plants the fault that the environment names, if any.
fn plant() {
    #[cfg(feature = "mutants")]
    if let Ok(name) = std::env::var("MILLRACE_MUTANT") {
        assert!(broker_core::mutants::select(&name), "there is no mutant {name}");
    }
}

/// A log that begins with `common` and goes on under epochs of its own: of two that part, one leads in the even and one
/// in the odd ones.
fn parted(common: &[Record], steps: &[u8], own: i32) -> Log {
    let mut log = Log::default();
    common.iter().for_each(|record| log.append(*record));
    let mut epoch = common.last().map_or(0, |(epoch, _)| epoch.0) / 2 * 2 + 2 + own;
    for step in steps {
        epoch += i32::from(*step) * 2;
        let value = log.records.len() as u64 * 2 + own.cast_unsigned() as u64;
        log.append((LeaderEpoch(epoch), value));
    }
    log
}

/// Cuts a follower back as its leader's answers tell, until the histories agree; how often it was cut.
fn cut_back(follower: &mut Log, leader: &Log) -> Result<usize, String> {
    for cuts in 0.. {
        let Some(last) = follower.last_epoch() else {
            return Ok(cuts);
        };
        let asked = follower.end();
        let answer = divergence(last, asked.0, leader.end_of(last), leader.start(), leader.end());
        let Some(theirs) = answer.map_err(|refusal| refusal.to_string())? else {
            return Ok(cuts);
        };
        let to = truncation_point(theirs, follower.end_of(theirs.epoch), asked);
        if asked <= to {
            return Err(format!(
                "a cut to {theirs:?} takes nothing off a log that ends at {asked}"
            ));
        }
        follower.truncate(to);
    }
    unreachable!("a log is cut only as long as there is something to cut")
}

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

    /// F-23: a follower whose history parts from its leader's is cut back, however often epochs changed on both sides,
    /// until it holds a beginning of what the leader holds, and never loses what both have.
    #[test]
    fn a_diverged_follower_comes_to_hold_what_its_leader_holds(
        common in prop::collection::vec(0..2u8, 0..6),
        mine in prop::collection::vec(0..3u8, 0..6),
        theirs in prop::collection::vec(0..3u8, 0..6),
    ) {
        plant();
        let mut epoch = 0;
        let common: Vec<Record> = (1000..).zip(common).map(|(value, step)| {
            epoch += i32::from(step);
            (LeaderEpoch(epoch), value)
        }).collect();
        let (mut follower, mut leader) = (parted(&common, &mine, 0), parted(&common, &theirs, 1));
        leader.epoch_started(LeaderEpoch(100), leader.end());

        cut_back(&mut follower, &leader).map_err(TestCaseError::fail)?;

        let held = follower.records.len();
        prop_assert!(common.len() <= held, "what both have was cut off");
        prop_assert!(
            leader.records.get(..held) == Some(&follower.records[..]),
            "a follower holds what its leader does not have"
        );
    }

    /// A-12 as ruled: answers leave in order, a barrier stands alone, no batch overtakes another, nothing is forgotten.
    #[test]
    fn a_connection_keeps_its_order(script in connection::script(120)) {
        connection::check(&script).map_err(TestCaseError::fail)?;
    }
}
