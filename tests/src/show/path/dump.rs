//! Segments in both directions: Kafka's dump tool reads ours.

use crate::show::Board;

/// One row each.
pub fn rows(_board: &mut Board) {}
