//! Once everything has healed, no partition is without a leader while a replica that may lead is alive.

use super::Invariant;
use crate::fact::Fact;

/// Looks at the state at the end.
#[derive(Default)]
pub struct LeaderAfterHealing;

impl Invariant for LeaderAfterHealing {
    fn name(&self) -> &'static str {
        "no partition leaderless while an eligible live replica exists"
    }

    fn source(&self) -> &'static str {
        "R3.70, R1.26"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Converged { live, image, .. } = fact else {
            return Ok(());
        };
        for topic in image.topics.values() {
            for (index, state) in topic
                .partitions
                .iter()
                .filter(|(_, state)| state.leader.is_none())
            {
                let mut candidates = state
                    .in_sync
                    .iter()
                    .chain(&state.eligible)
                    .chain(&state.last_known_leader);
                if let Some(candidate) = candidates.find(|candidate| live.contains(candidate)) {
                    return Err(format!(
                        "{}-{index}: broker {candidate} could lead: {state:?}",
                        topic.name
                    ));
                }
            }
        }
        Ok(())
    }
}
