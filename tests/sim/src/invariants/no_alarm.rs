//! No process calls for help: no contradiction in replay, no foreign lineage, no damage where none was done.

use super::Invariant;
use crate::fact::Fact;

/// Looks at each call by itself.
#[derive(Default)]
pub struct NoAlarm;

impl Invariant for NoAlarm {
    fn name(&self) -> &'static str {
        "nobody calls for help"
    }

    fn source(&self) -> &'static str {
        "R0.9"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Alarm { by, what } => Err(format!("{by}: {what}")),
            _ => Ok(()),
        }
    }
}
