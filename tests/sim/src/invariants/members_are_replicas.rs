//! The leader is in sync, and whoever is in sync holds a replica.

use super::Invariant;
use crate::fact::Fact;

/// Looks at each committed image by itself.
#[derive(Default)]
pub struct MembersAreReplicas;

impl Invariant for MembersAreReplicas {
    fn name(&self) -> &'static str {
        "leader and in-sync set within the replicas"
    }

    fn source(&self) -> &'static str {
        "R3.14, R3.17"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Committed { image, .. } = fact else {
            return Ok(());
        };
        for topic in image.topics.values() {
            for (index, state) in &topic.partitions {
                let outside = state
                    .in_sync
                    .iter()
                    .find(|member| !state.replicas.contains(member));
                if let Some(member) = outside {
                    return Err(format!(
                        "{}-{index}: {member} is in sync and no replica",
                        topic.name
                    ));
                }
                if state
                    .leader
                    .is_some_and(|leader| !state.in_sync.contains(&leader))
                {
                    return Err(format!(
                        "{}-{index}: the leader is not in sync: {state:?}",
                        topic.name
                    ));
                }
            }
        }
        Ok(())
    }
}
