//! The committed log replays to the image that the controllers have, and so does a dump of it.

use metadata::dump::dump;
use metadata::image::Image;

use super::Invariant;
use crate::fact::Fact;

/// Looks at the state at the end.
#[derive(Default)]
pub struct ReplayIsImage;

impl Invariant for ReplayIsImage {
    fn name(&self) -> &'static str {
        "replay of the log is the image"
    }

    fn source(&self) -> &'static str {
        "R5.50"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Converged { image, replayed, .. } = fact else {
            return Ok(());
        };
        if image != replayed {
            return Err(format!("at {} and {}", image.next_offset, replayed.next_offset));
        }
        match Image::from_dump(image.dump_header(), dump(image)) {
            Ok(dumped) if dumped == **image => Ok(()),
            Ok(_) => Err("its dump is another image".to_owned()),
            Err(error) => Err(format!("its dump cannot be replayed: {error}")),
        }
    }
}
