//! How this process may write to those who look at it.

use std::env;
use std::ffi::OsStr;
use std::io::{IsTerminal, stderr};

/// Whether lines on standard error may carry colour codes: it is a terminal, and `NO_COLOR` (no-color.org) is not set
/// to anything.
#[must_use]
pub fn stderr_takes_colour() -> bool {
    takes_colour(stderr().is_terminal(), env::var_os("NO_COLOR").as_deref())
}

fn takes_colour(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_gets_colour_and_only_while_nobody_forbids_it() {
        assert!(takes_colour(true, None));
        assert!(takes_colour(true, Some(OsStr::new(""))));
        assert!(!takes_colour(true, Some(OsStr::new("1"))));
        assert!(!takes_colour(false, None));
    }
}
