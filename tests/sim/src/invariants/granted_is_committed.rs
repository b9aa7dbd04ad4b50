//! Whoever is told yes finds it in the committed image of the controller that said so.

use super::Invariant;
use crate::fact::{Fact, Grant};

/// Looks at each answer by itself.
#[derive(Default)]
pub struct GrantedIsCommitted;

impl Invariant for GrantedIsCommitted {
    fn name(&self) -> &'static str {
        "what is granted is committed"
    }

    fn source(&self) -> &'static str {
        "R0.1"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Granted {
            controller,
            what,
            image,
        } = fact
        else {
            return Ok(());
        };
        let is_there = match what {
            Grant::Registration(epoch) => image.brokers.values().any(|broker| broker.epoch == *epoch),
            Grant::Topic(topic) => image.topics.contains_key(topic),
            Grant::InSync(partition, epoch) => {
                image.partition(*partition).is_some_and(|it| *epoch <= it.epoch)
            }
        };
        match is_there {
            true => Ok(()),
            false => Err(format!(
                "controller {controller} granted {what:?}, which is not in its image at {}",
                image.next_offset
            )),
        }
    }
}
