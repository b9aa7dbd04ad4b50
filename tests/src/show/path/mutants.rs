//! Planted faults that processes on real disks and sockets must show, and the two laws beside them.

use anyhow::bail;

use crate::cases::{produce, replicas};
use crate::cluster::Role;
use crate::show::Board;
use crate::show::mutants::{self, Judge, Mutant, caught};

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "watermark_ignores_min_isr",
        judge: Judge::Case {
            show: "path",
            roles: &[Role::Broker],
            brokers: 3,
            case: replicas::watermark_below_min_in_sync,
            says: "the watermark is",
        },
    },
    Mutant {
        name: "commit_before_sync",
        judge: Judge::Test {
            package: "controller",
            program: "power_loss",
            test: "what_was_acknowledged_survives_a_power_loss",
            says: "an acknowledged entry was lost with the power",
        },
    },
    Mutant {
        name: "epoch_not_bumped",
        judge: Judge::Case {
            show: "path",
            roles: &[Role::Controller, Role::Broker],
            brokers: 3,
            case: replicas::a_new_leader_has_a_new_epoch,
            says: "its predecessor in",
        },
    },
    Mutant {
        name: "truncate_one_too_few",
        judge: Judge::Case {
            show: "path",
            roles: &[Role::Broker],
            brokers: 3,
            case: replicas::a_diverged_leader_is_cut_back,
            // What it keeps makes every further fetch diverge: it is cut back for ever and never in sync again.
            says: "all of diverged in sync",
        },
    },
    Mutant {
        name: "duplicate_sequence_accepted",
        judge: Judge::Case {
            show: "path",
            roles: &[Role::Broker],
            brokers: 1,
            case: |cluster| produce::sequences(cluster),
            says: "a repeated batch",
        },
    },
    Mutant {
        name: "skipped_chain_check",
        judge: Judge::Test {
            package: "tests",
            program: "laws",
            test: "a_batch_never_applies_without_the_one_that_it_was_decided_on",
            says: "panicked",
        },
    },
];

/// One row for each fault.
pub fn rows(board: &mut Board) {
    mutants::rows(board, MUTANTS);
}

/// The row of one fault.
pub fn one(board: &mut Board, name: &str) {
    let mutant = MUTANTS.iter().find(|mutant| mutant.name == name);
    board.row(&format!("mutant {name}"), || match mutant {
        Some(mutant) => caught(mutant),
        None => bail!("there is none of that name"),
    });
}
