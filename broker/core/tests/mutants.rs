//! Each planted defect breaks the law that guards against it, so the checks in `laws.rs` can fail. Runs with
//! `--features mutants`; each test owns the one mutant that is selected meanwhile.
#![cfg(feature = "mutants")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod model;

use std::sync::{Mutex, PoisonError};

use broker_core::mutants;
use model::{World, connection, moves};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The first failure that a law reports while `mutant` is alive.
fn caught<S: Strategy>(
    mutant: &str,
    strategy: &S,
    law: impl Fn(S::Value) -> Result<(), String>,
) -> Option<String> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(mutants::select(mutant), "this build has the mutant {mutant}");
    let config = ProptestConfig {
        cases: 3000,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Default::default()
    };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(Default::default()),
    );
    let verdict = runner.run(strategy, |value| law(value).map_err(TestCaseError::fail));
    mutants::deselect();
    match verdict {
        Ok(()) => None,
        Err(TestError::Fail(reason, _)) => Some(reason.message().to_owned()),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

fn replication((min_in_sync, script): (usize, Vec<model::Move>)) -> Result<(), String> {
    let mut world = World::new(min_in_sync);
    script.into_iter().try_for_each(|one| world.make(one))?;
    world.settle()
}

#[test]
fn a_watermark_that_ignores_the_minimum_is_caught() {
    let law = caught("watermark_ignores_min_isr", &(2..3usize, moves(80)), replication).unwrap();
    assert!(
        law.contains("no watermark moves below min.insync.replicas"),
        "{law}"
    );
}

#[test]
fn a_truncation_that_keeps_one_record_too_many_is_caught() {
    assert!(caught("truncate_one_too_few", &(1..3usize, moves(80)), replication).is_some());
}

#[test]
fn a_follower_that_joins_below_the_watermark_is_caught() {
    let law = caught(
        "isr_expanded_below_watermark",
        &(1..3usize, moves(80)),
        replication,
    )
    .unwrap();
    assert!(
        law.contains("an in-sync replica holds all that is committed"),
        "{law}"
    );
}

#[test]
fn a_missing_barrier_is_caught() {
    let law = |script: Vec<connection::Step>| connection::check(&script);
    let law = caught("barrier_missing_in_pipeline", &connection::script(120), law).unwrap();
    assert!(law.contains("barrier"), "{law}");
}
