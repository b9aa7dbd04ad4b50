//! `.ci/run` in time on a clean clone, and the bug cases that are played by the tests it runs. What each case is stands in
//! `tests/README.md`.

use std::time::Duration;

use anyhow::bail;

use crate::show::Board;
use crate::show::path::clean;

/// The whole of `.ci/run`, with nothing built before.
const CI_MAX: Duration = Duration::from_secs(25 * 60);

/// A case, and the test that plays it.
const CASES: &[(&str, &str)] = &[
    ("BC-001", "a_shutdown_waits_for_no_periodic_heartbeat"),
    ("BC-005", "a_coordinator_that_was_killed_forgets_nothing"),
    ("BC-006", "a_broker_that_comes_back_is_alive_before_it_is_ready"),
    ("BC-008", "heartbeats_go_on_under_a_flood_of_metadata"),
    ("BC-010", "producers_go_on_when_leadership_returns"),
    ("BC-012", "the_only_replica_leaves_and_comes_back_with_everything"),
    ("BC-025", "an_unclean_election_is_allowed_at_run_time"),
    ("BC-046", "a_volume_may_hold_what_is_no_log"),
    ("BC-047", "a_volume_of_somebody_else_is_left_as_it_is"),
    ("BC-055", "what_nobody_can_dial_is_never_told"),
    ("BC-059", "only_honest_batches_are_stored"),
    (
        "BC-068",
        "an_offset_is_right_or_an_error_and_never_out_of_range_for_a_while",
    ),
    (
        "BC-069",
        "an_offset_is_right_or_an_error_and_never_out_of_range_for_a_while",
    ),
    ("BC-070", "times_epochs_and_ends_lead_to_the_right_offset"),
    ("BC-071", "times_epochs_and_ends_lead_to_the_right_offset"),
    ("BC-076", "a_commit_comes_back_as_clients_expect_it"),
    ("BC-077", "times_epochs_and_ends_lead_to_the_right_offset"),
    ("BC-084", "a_torn_tail_goes_and_comes_back_where_others_have_it"),
    ("BC-085", "a_wrong_length_in_the_tail_ends_the_log_there"),
    (
        "BC-087",
        "a_topic_made_anew_while_a_broker_was_down_gets_its_replica_there",
    ),
    ("BC-150", "hostile_bytes_are_answered_or_closed_and_cost_nothing"),
    ("BC-153", "greedy_connections_take_no_more_than_they_may"),
];

/// One row for `.ci/run`, and one a case.
pub fn rows(board: &mut Board) {
    if !board.wants_some_of("clean ci") && !board.wants_some_of("case") {
        return;
    }
    let folder = match clean::clone() {
        Ok(folder) => folder,
        Err(error) => return board.row("clean ci: the clone", || Err(error)),
    };
    board.row("clean ci", || {
        clean::continuous_integration(folder.path(), CI_MAX)
    });
    let wanted: Vec<_> = CASES
        .iter()
        .map(|(case, test)| (format!("case {case}"), *test))
        .filter(|(row, _)| board.wants(row))
        .collect();
    if wanted.is_empty() {
        return;
    }
    let names: Vec<&str> = wanted.iter().map(|(_, test)| *test).collect();
    let passed = clean::passed(folder.path(), &names);
    for (row, test) in wanted {
        board.row(&row, || match &passed {
            Ok(passed) if passed.contains(test) => Ok(test.to_owned()),
            Ok(_) => bail!("no test {test} was run"),
            Err(error) => bail!("{error:#}"),
        });
    }
}
