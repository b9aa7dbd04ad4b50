//! What a disk damages stays on that disk: nobody takes over a batch whose checksum does not fit.

use std::collections::BTreeSet;

use metadata::ids::BrokerId;

use super::Invariant;
use crate::fact::Fact;

/// Brokers whose disk has damaged something.
#[derive(Default)]
pub struct RotStays(BTreeSet<BrokerId>);

impl Invariant for RotStays {
    fn name(&self) -> &'static str {
        "damage stays on its disk"
    }

    fn source(&self) -> &'static str {
        "R-37, F-26"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Rotted { broker } => {
                self.0.insert(*broker);
            }
            Fact::DiskReplaced { broker } => {
                self.0.remove(broker);
            }
            Fact::Damaged { by, partition, at } if !self.0.contains(&by.broker) => {
                return Err(format!(
                    "{by:?} {partition}: the batch at {at} is damaged, and the disk is well"
                ));
            }
            _ => {}
        }
        Ok(())
    }
}
