//! Whoever begins to lead holds everything that was acknowledged under the epochs before.
//!
//! A broker may learn late that it was elected, when another one leads under a newer epoch already and has acknowledged
//! more: nobody follows the late one, so nothing is lost by it.

use std::collections::BTreeMap;

use broker_core::offsets::Offset;
use metadata::ids::{LeaderEpoch, PartitionId};

use super::Invariant;
use crate::fact::Fact;

/// The end of what was acknowledged under each epoch.
#[derive(Default)]
pub struct AcknowledgedBelowLeader(BTreeMap<(PartitionId, LeaderEpoch), Offset>);

impl Invariant for AcknowledgedBelowLeader {
    fn name(&self) -> &'static str {
        "leaders hold what was acknowledged"
    }

    fn source(&self) -> &'static str {
        "README, what is promised"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Acknowledged {
                partition,
                epoch,
                end,
            } => {
                let held = self.0.entry((*partition, *epoch)).or_default();
                *held = (*held).max(*end);
                Ok(())
            }
            Fact::LeadershipBegan {
                by,
                partition,
                epoch,
                log_end,
            } => {
                let earlier = self
                    .0
                    .range((*partition, LeaderEpoch(i32::MIN))..=(*partition, *epoch));
                match earlier.max_by_key(|(_, end)| **end) {
                    Some(((_, under), end)) if log_end < end => Err(format!(
                        "{by:?} leads {partition} in epoch {epoch} with {log_end} records of {end} acknowledged in epoch {under}"
                    )),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}
