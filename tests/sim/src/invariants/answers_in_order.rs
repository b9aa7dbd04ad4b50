//! Answers leave a connection in the order of the requests, and nothing but Produce behind Produce overlaps.

use super::Invariant;
use crate::fact::Fact;

/// Looks at each answer by itself.
#[derive(Default)]
pub struct AnswersInOrder;

impl Invariant for AnswersInOrder {
    fn name(&self) -> &'static str {
        "answers in the order of requests"
    }

    fn source(&self) -> &'static str {
        "A-12"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::AnsweredOutOfOrder { by, number, before } => {
                Err(format!("{by:?} answered {number} after {before}"))
            }
            Fact::StartedBeforeItsTurn { by, number, before } => {
                Err(format!("{by:?} began {number} while {before} was open"))
            }
            _ => Ok(()),
        }
    }
}
