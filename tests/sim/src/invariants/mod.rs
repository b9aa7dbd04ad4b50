//! What must hold at every moment, one file each, with its source and a made-up history that it must reject.

mod acknowledged_below_leader;
mod active_knows_the_log;
mod answers_in_order;
mod applied_by_every_lane;
mod committed_prefix_agrees;
mod epochs_never_back;
mod fenced_not_in_sync;
mod granted_is_committed;
mod images_equal;
mod joining_holds_committed;
mod leader_after_healing;
mod members_are_replicas;
mod min_in_sync_kept;
mod no_alarm;
mod offsets_never_back;
mod one_leader_an_epoch;
mod published_between_batches;
mod published_never_lower;
mod replay_is_image;
mod returning_holds_acknowledged;
mod rot_stays;
mod watermark_never_back;

#[cfg(test)]
mod made_up;

use crate::fact::Fact;

/// Something that must hold. It takes in every fact, in order, and says how the newest one breaks it.
pub trait Invariant {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Where it is promised.
    fn source(&self) -> &'static str;

    /// Takes in a fact.
    ///
    /// # Errors
    /// How the fact breaks it, in words.
    fn observe(&mut self, fact: &Fact) -> Result<(), String>;
}

/// All of them, at the beginning of a run.
#[must_use]
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<one_leader_an_epoch::OneLeaderAnEpoch>::default(),
        Box::<members_are_replicas::MembersAreReplicas>::default(),
        Box::<fenced_not_in_sync::FencedNotInSync>::default(),
        Box::<epochs_never_back::EpochsNeverBack>::default(),
        Box::<images_equal::ImagesEqual>::default(),
        Box::<published_never_lower::PublishedNeverLower>::default(),
        Box::<applied_by_every_lane::AppliedByEveryLane>::default(),
        Box::<watermark_never_back::WatermarkNeverBack>::default(),
        Box::<min_in_sync_kept::MinInSyncKept>::default(),
        Box::<committed_prefix_agrees::CommittedPrefixAgrees>::default(),
        Box::<acknowledged_below_leader::AcknowledgedBelowLeader>::default(),
        Box::<joining_holds_committed::JoiningHoldsCommitted>::default(),
        Box::<answers_in_order::AnswersInOrder>::default(),
        Box::<no_alarm::NoAlarm>::default(),
        Box::<leader_after_healing::LeaderAfterHealing>::default(),
        Box::<replay_is_image::ReplayIsImage>::default(),
        Box::<published_between_batches::PublishedBetweenBatches>::default(),
        Box::<active_knows_the_log::ActiveKnowsTheLog>::default(),
        Box::<granted_is_committed::GrantedIsCommitted>::default(),
        Box::<returning_holds_acknowledged::ReturningHoldsAcknowledged>::default(),
        Box::<offsets_never_back::OffsetsNeverBack>::default(),
        Box::<rot_stays::RotStays>::default(),
    ]
}
