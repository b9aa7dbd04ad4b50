//! What a person or a script reads: answers on standard output, complaints and progress on standard error.
//! A reader that has gone away (`millrace topic list | head`) is no error.

use std::io::{IsTerminal as _, Write as _};

use serde::Serialize;

/// A line of the answer.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line about what goes on or what is wrong.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The answer as one JSON document.
pub fn say_json(answer: &impl Serialize) {
    let text = serde_json::to_string_pretty(answer).expect("answers hold texts, numbers and lists only");
    say(&text);
}

/// An empty screen, where there is a screen; a line between two answers elsewhere.
pub fn wipe() {
    if std::io::stdout().is_terminal() {
        let _ = write!(std::io::stdout(), "\x1b[2J\x1b[H");
    } else {
        say("---");
    }
}
