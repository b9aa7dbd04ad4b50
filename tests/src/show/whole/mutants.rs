//! Planted faults that the rows of `cargo show whole` must see.

use super::groups;
use crate::cluster::Role;
use crate::members::Kind;
use crate::show::Board;
use crate::show::mutants::{self, Judge, Mutant};

const MUTANTS: &[Mutant] = &[Mutant {
    name: "offsets_not_loaded",
    judge: Judge::Case {
        show: "whole",
        roles: &[Role::Broker],
        brokers: 3,
        case: |cluster| groups::siege(cluster, Kind::Kcat),
        says: "is committed",
    },
}];

/// One row for each fault.
pub fn rows(board: &mut Board) {
    mutants::rows(board, MUTANTS);
}
