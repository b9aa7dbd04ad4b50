//! What an issue must show: rows of *what*, *figure*, *held or not*, printed as they are measured.
//!
//! A row that proves too little does not hold: each states the least that it must have done. Rows stand in
//! modules by subject; nothing here measures anything itself.
#![allow(clippy::print_stdout, reason = "the rows are what the command is for")]

pub mod mutants;
pub mod path;
pub mod sim;
pub mod whole;

use std::fmt::Display;
use std::time::Instant;

use anyhow::Result;

/// The rows so far.
pub struct Board {
    only: Vec<String>,
    held: usize,
    broken: Vec<String>,
    began: Instant,
}

impl Board {
    /// A board that measures only rows whose name begins with one of `only`; all of them where there is none.
    pub fn new(only: Vec<String>) -> Board {
        Board {
            only,
            held: 0,
            broken: Vec::new(),
            began: Instant::now(),
        }
    }

    /// Whether a row of this name is wanted.
    pub fn wants(&self, what: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|prefix| what.starts_with(prefix.as_str()))
    }

    /// Whether any row whose name begins with `group` can be wanted, so that nothing is started for nothing.
    pub fn wants_some_of(&self, group: &str) -> bool {
        let meets = |prefix: &String| prefix.starts_with(group) || group.starts_with(prefix.as_str());
        self.only.is_empty() || self.only.iter().any(meets)
    }

    /// Measures one row. The figure of a row that does not hold is the reason.
    pub fn row(&mut self, what: &str, measure: impl FnOnce() -> Result<String>) {
        if !self.wants(what) {
            return;
        }
        let began = Instant::now();
        let guarded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(measure));
        let figure = guarded.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map_or("a panic", String::as_str);
            Err(anyhow::anyhow!("{text}"))
        });
        let (held, figure) = match figure {
            Ok(figure) => (true, figure),
            Err(error) => (false, format!("{error:#}")),
        };
        self.put(what, &figure, held, began);
    }

    fn put(&mut self, what: &str, figure: &str, held: bool, began: Instant) {
        let mut lines = figure.lines();
        let verdict = if held { "held" } else { "NOT HELD" };
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{what:<44} {verdict:<8} {seconds:>6.1} s  {}",
            lines.next().unwrap_or_default()
        );
        lines.for_each(|line| println!("{:62}{line}", ""));
        if held {
            self.held += 1;
        } else {
            self.broken.push(what.to_owned());
        }
    }

    /// The last line, and whether everything held.
    pub fn close(self) -> bool {
        let minutes = self.began.elapsed().as_secs_f64() / 60.0;
        let (held, broken) = (self.held, self.broken.len());
        println!("{held} held, {broken} not held, {minutes:.1} minutes");
        self.broken.iter().for_each(|what| println!("  not held: {what}"));
        broken == 0 && held > 0
    }
}

/// Fails unless `got` is at least `least`: a row that did less proves nothing.
pub fn at_least(what: &str, got: impl Into<u64>, least: u64) -> Result<u64> {
    let got = got.into();
    anyhow::ensure!(got >= least, "only {got} {what}, at least {least} are needed");
    Ok(got)
}

/// Fails unless `got` is at most `most`.
pub fn at_most<T: PartialOrd + Display>(what: &str, got: T, most: &T) -> Result<T> {
    anyhow::ensure!(got <= *most, "{what}: {got}, at most {most} is allowed");
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_holds_only_if_every_row_does() {
        let mut board = Board::new(Vec::new());
        board.row("one", || Ok("1".to_owned()));
        assert!(board.close());
        let mut board = Board::new(Vec::new());
        board.row("one", || Ok("1".to_owned()));
        board.row("two", || anyhow::bail!("no"));
        assert!(!board.close());
    }

    #[test]
    fn a_board_without_rows_does_not_hold() {
        let mut board = Board::new(vec!["other".to_owned()]);
        board.row("one", || Ok("1".to_owned()));
        assert!(!board.close());
    }

    #[test]
    fn a_row_that_panics_does_not_hold() {
        let mut board = Board::new(Vec::new());
        board.row("one", || panic!("a surprise"));
        assert!(!board.close());
    }
}
