//! What must hold of a quorum, whatever befalls it: one law a file, each with a made-up history that it must reject.
//!
//! They see a [`History`] and nothing else, so that none can depend on how the quorum is built.

mod acknowledged_is_kept;
mod applied_in_order;
mod committed_is_durable;
mod heals;
mod leader_completeness;
mod log_matching;
mod nobody_dies;
mod offsets_never_back;
mod one_leader_a_term;
mod one_vote_a_term;
mod replayed;
mod state_machines_agree;

use crate::history::History;

pub use replayed::{Replayed, digest};

type Law = fn(&History) -> Result<(), String>;

/// Every law, by name.
pub const LAWS: &[(&str, Law)] = &[
    ("one leader a term", one_leader_a_term::check),
    ("one vote a term", one_vote_a_term::check),
    ("log matching", log_matching::check),
    ("leader completeness", leader_completeness::check),
    ("committed is durable", committed_is_durable::check),
    ("applied in order", applied_in_order::check),
    ("state machines agree", state_machines_agree::check),
    ("offsets never back", offsets_never_back::check),
    ("acknowledged is kept", acknowledged_is_kept::check),
    ("nobody dies", nobody_dies::check),
    ("heals", heals::check),
];

/// The laws that a history breaks, and how.
pub fn broken(history: &History) -> Vec<String> {
    let judged = LAWS.iter().filter_map(|(name, law)| {
        let why = law(history).err()?;
        Some(format!("{name}: {why}"))
    });
    judged.collect()
}
