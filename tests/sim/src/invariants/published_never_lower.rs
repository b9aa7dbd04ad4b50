//! A broker never publishes a lower metadata offset than before.

use std::collections::BTreeMap;

use metadata::ids::MetadataOffset;

use super::Invariant;
use crate::fact::{Fact, Incarnation};

/// What each process published last.
#[derive(Default)]
pub struct PublishedNeverLower(BTreeMap<Incarnation, MetadataOffset>);

impl Invariant for PublishedNeverLower {
    fn name(&self) -> &'static str {
        "a broker never publishes a lower offset"
    }

    fn source(&self) -> &'static str {
        "R5.51"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Published { by, image } = fact else {
            return Ok(());
        };
        match self.0.insert(*by, image.next_offset) {
            Some(before) if image.next_offset < before => {
                Err(format!("{by:?} published {} after {before}", image.next_offset))
            }
            _ => Ok(()),
        }
    }
}
