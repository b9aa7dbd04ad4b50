//! Whoever begins to lead holds everything that was acknowledged.

use std::collections::BTreeMap;

use broker_core::offsets::Offset;
use metadata::ids::PartitionId;

use super::Invariant;
use crate::fact::Fact;

/// The end of what was acknowledged.
#[derive(Default)]
pub struct AcknowledgedBelowLeader(BTreeMap<PartitionId, Offset>);

impl Invariant for AcknowledgedBelowLeader {
    fn name(&self) -> &'static str {
        "leaders hold what was acknowledged"
    }

    fn source(&self) -> &'static str {
        "design §4 (promise of acks=all)"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Acknowledged { partition, end } => {
                let held = self.0.entry(*partition).or_default();
                *held = (*held).max(*end);
                Ok(())
            }
            Fact::LeadershipBegan {
                by,
                partition,
                epoch,
                log_end,
            } => match self.0.get(partition) {
                Some(end) if log_end < end => Err(format!(
                    "{by:?} leads {partition} in epoch {epoch} with {log_end} records of {end} acknowledged"
                )),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
