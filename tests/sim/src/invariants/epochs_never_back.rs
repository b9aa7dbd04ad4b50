//! Along the metadata log, leader epochs, partition epochs and broker epochs only grow, and a new leader is a new epoch.

use std::sync::Arc;

use metadata::image::Image;

use super::Invariant;
use crate::fact::Fact;

/// The newest image that was committed.
#[derive(Default)]
pub struct EpochsNeverBack(Arc<Image>);

impl Invariant for EpochsNeverBack {
    fn name(&self) -> &'static str {
        "epochs never back"
    }

    fn source(&self) -> &'static str {
        "R3.1, R3.2, R1.4"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Committed { image, .. } = fact else {
            return Ok(());
        };
        if image.next_offset <= self.0.next_offset {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.0, Arc::clone(image));
        for (id, broker) in &before.brokers {
            if image.brokers.get(id).is_some_and(|now| now.epoch < broker.epoch) {
                return Err(format!("broker {id}: its epoch went back from {}", broker.epoch));
            }
        }
        for topic in before.topics.values() {
            let Some(now) = image.topics.get(&topic.id) else {
                continue;
            };
            for (index, was) in &topic.partitions {
                let Some(is) = now.partitions.get(index) else {
                    continue;
                };
                if is.leader_epoch < was.leader_epoch || is.epoch < was.epoch {
                    return Err(format!("{}-{index}: from {was:?} to {is:?}", topic.name));
                }
                let moved = is.leader != was.leader && is.leader_epoch == was.leader_epoch;
                if moved || is != was && is.epoch == was.epoch {
                    return Err(format!(
                        "{}-{index}: no new epoch from {was:?} to {is:?}",
                        topic.name
                    ));
                }
            }
        }
        Ok(())
    }
}
