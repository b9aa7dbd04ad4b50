//! `cargo show path`: the thin path is real. Controllers, brokers, stock Kafka clients, and nothing is lost
//! when processes are killed.

mod cases;
pub(super) mod clean;
pub(super) mod conformance;
mod dump;
mod hostile;
mod kills;
pub mod mutants;
mod store;
mod tools;

pub(super) use cases::judged;

use super::Board;

/// All rows, the quick ones first.
pub fn show(board: &mut Board) {
    clean::rows(board);
    tools::rows(board);
    conformance::rows(board);
    dump::rows(board);
    hostile::rows(board);
    cases::rows(board);
    kills::rows(board);
    store::rows(board);
    mutants::rows(board);
}
