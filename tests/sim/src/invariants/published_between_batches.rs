//! A broker publishes only what the controllers had between two batches.

use std::collections::BTreeSet;

use metadata::ids::MetadataOffset;

use super::Invariant;
use crate::fact::Fact;

/// Where batches end.
#[derive(Default)]
pub struct PublishedBetweenBatches(BTreeSet<MetadataOffset>);

impl Invariant for PublishedBetweenBatches {
    fn name(&self) -> &'static str {
        "images are published between batches"
    }

    fn source(&self) -> &'static str {
        "R5.50"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Committed { image, .. } => {
                self.0.insert(image.next_offset);
                Ok(())
            }
            Fact::Published { by, image } if !self.0.contains(&image.next_offset) => Err(format!(
                "{by:?} published {}, where no batch ends",
                image.next_offset
            )),
            _ => Ok(()),
        }
    }
}
