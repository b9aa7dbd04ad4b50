//! A committed offset that was acknowledged, or told to somebody, is never unknown afterwards and never an older one: not
//! to the next coordinator either.
//!
//! A coordinator that does not know yet that another one has taken over may tell what it knew. Older and newer are what
//! the log says, for a client may commit what it likes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker_core::offsets::Offset;
use metadata::ids::{LeaderEpoch, TopicId};
use metadata::image::Image;

use super::Invariant;
use crate::fact::{Fact, OffsetKey};

/// Where each commit stands in its log, and the newest that is known to count under each leadership.
#[derive(Default)]
pub struct OffsetsNeverBack {
    places: BTreeMap<String, Offset>,
    known: BTreeMap<(OffsetKey, LeaderEpoch), (Offset, String)>,
    newest: Arc<Image>,
    /// Nobody remembers anything of topics that are no more.
    gone: BTreeSet<TopicId>,
}

impl OffsetsNeverBack {
    fn is_known(&mut self, of: &OffsetKey, epoch: LeaderEpoch, commit: &str) -> Result<Offset, String> {
        let Some(place) = self.places.get(commit) else {
            return Err(format!("{of:?}: commit {commit} counts and was never appended"));
        };
        let known = self.known.entry((of.clone(), epoch)).or_default();
        if known.0 <= *place {
            *known = (*place, commit.to_owned());
        }
        Ok(*place)
    }

    fn told(&mut self, of: &OffsetKey, epoch: LeaderEpoch, commit: Option<&str>) -> Result<(), String> {
        let from = (of.clone(), LeaderEpoch(i32::MIN));
        let earlier = self.known.range(from..=(of.clone(), epoch));
        let newest = earlier.map(|(_, known)| known.clone()).max();
        let place = match commit {
            Some(commit) => Some(self.is_known(of, epoch, commit)?),
            None => None,
        };
        match newest {
            Some((at, before)) if place < Some(at) => Err(format!(
                "{of:?}: commit {commit:?} at {place:?} is told in epoch {epoch}, after {before} at {at}"
            )),
            _ => Ok(()),
        }
    }
}

impl Invariant for OffsetsNeverBack {
    fn name(&self) -> &'static str {
        "committed offsets never back"
    }

    fn source(&self) -> &'static str {
        "README, what is promised, G-2, BC-005"
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::OffsetAppended { at, commit, .. } => {
                self.places.insert(commit.clone(), *at);
            }
            Fact::OffsetAcknowledged {
                epoch, of, commit, ..
            } if !self.gone.contains(&of.partition.topic) => {
                self.is_known(of, *epoch, commit)?;
            }
            Fact::OffsetTold {
                epoch, of, commit, ..
            } if !self.gone.contains(&of.partition.topic) => {
                self.told(of, *epoch, commit.as_deref())?;
            }
            Fact::Committed { image, .. } if self.newest.next_offset < image.next_offset => {
                let before = std::mem::replace(&mut self.newest, Arc::clone(image));
                let is_gone = |topic: &&TopicId| !image.topics.contains_key(*topic);
                self.gone.extend(before.topics.keys().filter(is_gone));
            }
            _ => {}
        }
        Ok(())
    }
}
