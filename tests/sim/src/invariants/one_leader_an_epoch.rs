//! In one leader epoch of a partition at most one broker writes.

use std::collections::BTreeMap;

use metadata::ids::{BrokerId, LeaderEpoch, PartitionId};

use super::Invariant;
use crate::fact::Fact;

/// Who wrote in which epoch.
#[derive(Default)]
pub struct OneLeaderAnEpoch(BTreeMap<(PartitionId, LeaderEpoch), BrokerId>);

impl Invariant for OneLeaderAnEpoch {
    fn name(&self) -> &'static str {
        "one writable leader per epoch"
    }

    fn source(&self) -> &'static str {
        "R3.2, F-37"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let (by, partition, epoch) = match fact {
            Fact::LeadershipBegan {
                by, partition, epoch, ..
            }
            | Fact::Appended {
                by, partition, epoch, ..
            } => (by, partition, epoch),
            _ => return Ok(()),
        };
        let held = *self.0.entry((*partition, *epoch)).or_insert(by.broker);
        if held == by.broker {
            return Ok(());
        }
        Err(format!(
            "{partition} epoch {epoch}: broker {held} led, and so does broker {}",
            by.broker
        ))
    }
}
