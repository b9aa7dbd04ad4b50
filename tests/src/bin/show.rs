//! `cargo show NAME`: what an issue must show, one row per line, with an exit status that says whether all held.
//!
//! ```text
//! cargo show path                      every row
//! cargo show path --only kill          rows whose name begins so
//! cargo show path --mutant NAME        the tests that must catch a planted fault
//! ```
#![allow(clippy::print_stderr, reason = "a command that talks to a terminal")]

use std::process::ExitCode;

use tests::show::{Board, path};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else { return usage() };
    let (mut only, mut mutant) = (Vec::new(), None);
    while let Some(word) = words.next() {
        match (word.as_str(), words.next()) {
            ("--only", Some(prefix)) => only.push(prefix),
            ("--mutant", Some(chosen)) => mutant = Some(chosen),
            _ => return usage(),
        }
    }
    let mut board = Board::new(only);
    match (name.as_str(), mutant) {
        ("path", None) => path::show(&mut board),
        ("path", Some(mutant)) => path::mutants::one(&mut board, &mutant),
        _ => return usage(),
    }
    if board.close() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn usage() -> ExitCode {
    eprintln!("cargo show path [--only PREFIX]… [--mutant NAME]");
    ExitCode::from(2)
}
