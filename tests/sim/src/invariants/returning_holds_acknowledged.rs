//! A process that comes back in an in-sync or eligible set holds everything that was acknowledged: it may be elected.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker_core::offsets::Offset;
use metadata::ids::PartitionId;
use metadata::image::Image;

use super::Invariant;
use crate::fact::Fact;

/// The end of what was acknowledged, and who may lead by the newest image.
#[derive(Default)]
pub struct ReturningHoldsAcknowledged {
    acknowledged: BTreeMap<PartitionId, Offset>,
    newest: Arc<Image>,
}

impl Invariant for ReturningHoldsAcknowledged {
    fn name(&self) -> &'static str {
        "who comes back eligible holds what was acknowledged"
    }

    fn source(&self) -> &'static str {
        "R1.6, R3.30"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Acknowledged { partition, end, .. } => {
                let held = self.acknowledged.entry(*partition).or_default();
                *held = (*held).max(*end);
            }
            Fact::Committed { image, .. } if self.newest.next_offset < image.next_offset => {
                self.newest = Arc::clone(image);
            }
            Fact::Opened {
                by,
                registered,
                partition,
                log_end,
            } => {
                let held = self.newest.brokers.get(&by.broker);
                let is_it = held.is_some_and(|held| held.incarnation == *registered);
                let may_lead = self.newest.partition(*partition).is_some_and(|state| {
                    state.in_sync.contains(&by.broker) || state.eligible.contains(&by.broker)
                });
                if let Some(end) = self.acknowledged.get(partition)
                    && is_it
                    && may_lead
                    && log_end < end
                {
                    return Err(format!(
                        "{by:?} may lead {partition} with {log_end} records of {end} acknowledged"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
