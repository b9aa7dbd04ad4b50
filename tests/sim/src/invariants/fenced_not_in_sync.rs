//! A fenced broker is in no in-sync set, except as the last member that nobody replaces while eligible leader replicas
//! are off.

use metadata::ids::BrokerId;

use super::Invariant;
use crate::fact::Fact;

/// Looks at each committed image by itself.
#[derive(Default)]
pub struct FencedNotInSync;

impl Invariant for FencedNotInSync {
    fn name(&self) -> &'static str {
        "fenced brokers in no in-sync set"
    }

    fn source(&self) -> &'static str {
        "R1.34, R3.17"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Committed { image, .. } = fact else {
            return Ok(());
        };
        let keeps_last = image.feature_level("eligible.leader.replicas.version") == 0;
        let is_fenced = |broker: &BrokerId| image.brokers.get(broker).is_none_or(|held| held.fenced);
        for topic in image.topics.values() {
            for (index, state) in &topic.partitions {
                let Some(member) = state.in_sync.iter().find(|member| is_fenced(member)) else {
                    continue;
                };
                let is_last = state.in_sync.len() == 1 && state.leader.is_none();
                if !(keeps_last && is_last) {
                    return Err(format!(
                        "{}-{index}: broker {member} is fenced and in sync",
                        topic.name
                    ));
                }
            }
        }
        Ok(())
    }
}
