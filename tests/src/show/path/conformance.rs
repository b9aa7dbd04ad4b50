//! The wire probes against three controllers and three brokers.

use crate::conformance::{check, cluster};
use crate::show::Board;

/// Cases that must be the same at least; fewer means that something was not asked.
const SAME_MIN: usize = 190;

/// One row.
pub fn rows(board: &mut Board) {
    board.row("conformance", || {
        let cluster = cluster()?.start()?;
        let counts = check(&cluster.bootstrap(), &[])?;
        let sums = format!(
            "{} same, {} accepted, {} differ, {} not served",
            counts.same, counts.accepted, counts.differs, counts.not_served
        );
        let told: Vec<&str> = counts
            .lines
            .iter()
            .map(String::as_str)
            .filter(|l| !l.starts_with("not served"))
            .collect();
        anyhow::ensure!(counts.differs == 0, "{sums}\n{}", told.join("\n"));
        anyhow::ensure!(
            counts.same >= SAME_MIN,
            "{sums}; at least {SAME_MIN} must be the same"
        );
        Ok(sums)
    });
}
