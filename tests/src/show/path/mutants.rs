//! Planted faults.

use crate::show::Board;

/// One row each.
pub fn rows(_board: &mut Board) {}

/// One of them.
pub fn one(_board: &mut Board, _name: &str) {}
