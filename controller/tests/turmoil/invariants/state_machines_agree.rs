//! At one offset every controller shows the same image, and it is what replaying the log gives: also after snapshots,
//! refused proposals and batches that are skipped.

use super::replayed::Replayed;
use crate::history::{Fact, History};

pub fn check(history: &History) -> Result<(), String> {
    let replayed = Replayed::of(history)?;
    for fact in history.iter() {
        let Fact::Published {
            at,
            life,
            next_offset,
            digest,
        } = fact
        else {
            continue;
        };
        // Before the first batch there is nothing to compare.
        if *next_offset != 0 && replayed.digests.get(next_offset) != Some(digest) {
            return Err(format!(
                "{at}/{life} shows another image at offset {next_offset} than its log gives"
            ));
        }
    }
    Ok(())
}

#[test]
fn an_image_that_the_log_does_not_give_is_rejected() {
    use super::replayed::{applied, block, digest};
    let mut image = metadata::image::Image::default();
    let entry = applied(1, block(&mut image));
    let published = |digest| Fact::Published {
        at: 1,
        life: 0,
        next_offset: 1,
        digest,
    };
    assert!(check(&History::from_iter([entry.clone(), published(digest(&image))])).is_ok());
    assert!(check(&History::from_iter([entry, published(digest(&image) + 1)])).is_err());
}
