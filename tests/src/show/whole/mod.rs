//! `cargo show whole`: what a first user needs to move an application over and keep it running.

mod bench;
mod cases;
mod groups;
mod mutants;
mod roll;
mod scale;
mod tools;

use super::{Board, path};

/// All rows.
pub fn show(board: &mut Board) {
    groups::rows(board);
    mutants::rows(board);
    roll::rows(board);
    scale::rows(board);
    tools::rows(board);
    path::conformance::rows(board);
    cases::rows(board);
    bench::rows(board);
}
