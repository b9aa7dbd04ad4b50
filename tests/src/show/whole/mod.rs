//! `cargo show whole`: what a first user needs to move an application over and keep it running.

mod bench;
mod groups;
mod roll;
mod scale;
mod tools;

use super::Board;

/// All rows.
pub fn show(board: &mut Board) {
    groups::rows(board);
    roll::rows(board);
    scale::rows(board);
    tools::rows(board);
    bench::rows(board);
}
