//! Whoever becomes the active controller has applied everything that was ever committed before.

use metadata::ids::MetadataOffset;

use super::Invariant;
use crate::fact::Fact;

/// The end of what anybody saw committed.
#[derive(Default)]
pub struct ActiveKnowsTheLog(MetadataOffset);

impl Invariant for ActiveKnowsTheLog {
    fn name(&self) -> &'static str {
        "the active controller has applied the log"
    }

    fn source(&self) -> &'static str {
        "controller/README, promises"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Committed { image, .. } => {
                self.0 = self.0.max(image.next_offset);
                Ok(())
            }
            Fact::Activated {
                controller,
                term,
                applied,
            } if *applied < self.0 => Err(format!(
                "controller {controller} is active in term {term} at {applied} of {}",
                self.0
            )),
            _ => Ok(()),
        }
    }
}
