//! `cargo show NAME`: what an issue must show, one row per line, with an exit status that says whether all held.
//!
//! ```text
//! cargo show path                      every row
//! cargo show path --only kill          rows whose name begins so
//! cargo show path --mutant NAME        the tests that must catch a planted fault
//! cargo show whole                     the same for what a user's first application needs, its mutants included
//! cargo show mutants                   every planted fault, with its judge
//! cargo show sim --minutes N           the hunt lasts so long; under ten minutes it does not hold
//! ```
#![allow(clippy::print_stderr, reason = "a command that talks to a terminal")]

use std::process::ExitCode;

use tests::show::{Board, mutants, path, sim, whole};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else { return usage() };
    let (mut only, mut mutant, mut minutes) = (Vec::new(), None, None);
    while let Some(word) = words.next() {
        match (word.as_str(), words.next()) {
            ("--only", Some(prefix)) => only.push(prefix),
            ("--mutant", Some(chosen)) => mutant = Some(chosen),
            ("--minutes", Some(count)) => match count.parse() {
                Ok(count) => minutes = Some(count),
                Err(_) => return usage(),
            },
            _ => return usage(),
        }
    }
    let mut board = Board::new(only);
    match (name.as_str(), mutant) {
        ("path", None) => path::show(&mut board),
        ("whole", None) => whole::show(&mut board),
        ("mutants", None) => mutants::rows(&mut board, mutants::ALL),
        ("path", Some(mutant)) => path::mutants::one(&mut board, &mutant),
        ("sim", None) => sim::show(&mut board, minutes),
        _ => return usage(),
    }
    if board.close() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn usage() -> ExitCode {
    eprintln!("cargo show path|whole [--only PREFIX]… [--mutant NAME]");
    eprintln!("cargo show mutants [--only PREFIX]…");
    eprintln!("cargo show sim [--only PREFIX]… [--minutes N]");
    ExitCode::from(2)
}
