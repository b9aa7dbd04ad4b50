//! What a person or a script reads: answers on standard output, complaints and progress on standard error.
//!
//! Nobody may take an answer: its reader has gone away (`millrace keys | head -1`), or its disk is full. What cannot be
//! written is dropped, and remembered: whoever has more to do asks [`delivered`] whether anybody still listens, and so
//! does the end of every command.

use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::sync::OnceLock;

use serde::Serialize;

use crate::outcome::Failure;

/// Why standard output takes nothing any more.
static ENDED: OnceLock<io::Error> = OnceLock::new();

/// A line of the answer.
pub fn say(line: &str) {
    let _ = writeln!(Answers, "{line}");
}

/// A line about what goes on or what is wrong.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The answer as one JSON document.
pub fn say_json(answer: &impl Serialize) {
    let text = serde_json::to_string_pretty(answer).expect("answers hold texts, numbers and lists only");
    say(&text);
}

/// An empty screen, where there is a screen; a line between two answers elsewhere.
pub fn wipe() {
    if io::stdout().is_terminal() {
        let _ = write!(Answers, "\x1b[2J\x1b[H");
    } else {
        say("---");
    }
}

/// Whether everything that was said until now was taken.
///
/// # Errors
/// [`Failure::ReaderGone`] where the reader has gone away, else with what is wrong with standard output.
pub fn delivered() -> Result<(), Failure> {
    match ENDED.get() {
        None => Ok(()),
        Some(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::ReaderGone),
        Some(error) => Err(Failure::machine("standard output", error)),
    }
}

/// Standard output, for answers that are more than lines. What it cannot take is remembered for [`delivered`].
#[derive(Debug, Clone, Copy)]
pub struct Answers;

impl Write for Answers {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        remembered(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        remembered(io::stdout().flush())
    }
}

fn remembered<T>(done: io::Result<T>) -> io::Result<T> {
    match done {
        Err(error) if error.kind() != ErrorKind::Interrupted => {
            let again = io::Error::from(error.kind());
            // The first one says why.
            let _ = ENDED.set(error);
            Err(again)
        }
        done => done,
    }
}
