//! Whoever has applied the metadata up to one offset has the same image.

use std::collections::BTreeMap;
use std::sync::Arc;

use metadata::ids::MetadataOffset;
use metadata::image::Image;

use super::Invariant;
use crate::fact::Fact;

/// The image at each offset, as seen first.
#[derive(Default)]
pub struct ImagesEqual(BTreeMap<MetadataOffset, Arc<Image>>);

impl Invariant for ImagesEqual {
    fn name(&self) -> &'static str {
        "images equal at equal offsets"
    }

    fn source(&self) -> &'static str {
        "R5.50"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let (who, image) = match fact {
            Fact::Committed { controller, image } => (format!("controller {controller}"), image),
            Fact::Published { by, image } => (format!("{by:?}"), image),
            _ => return Ok(()),
        };
        let held = self
            .0
            .entry(image.next_offset)
            .or_insert_with(|| Arc::clone(image));
        if Arc::ptr_eq(held, image) || held == image {
            return Ok(());
        }
        Err(format!(
            "{who} has another image than others at {}",
            image.next_offset
        ))
    }
}
