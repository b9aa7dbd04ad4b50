//! Planted defects. A check that cannot fail is a defect itself, so each important check is also run once against a
//! broker that breaks the rule it guards. Without the cargo feature `mutants` nothing can be selected and the
//! questions are constants.

/// A rule that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The watermark moves although the in-sync set is below its minimum (breaks F-35).
    WatermarkIgnoresMinIsr,
    /// A diverging follower keeps one record too many (breaks F-23).
    TruncateOneTooFew,
    /// A follower below the watermark joins the in-sync set (breaks F-31).
    IsrExpandedBelowWatermark,
    /// A request behind a Produce starts before that is answered (breaks the ruling on A-12).
    BarrierMissingInPipeline,
    /// A new process acts on images from before its registration (breaks R1.10).
    PublishedBeforeRegistration,
    /// The fastest lane's offset is told as applied (breaks R1.11).
    AppliedReportedEarly,
    /// The first half of a batch is published before the rest of it (breaks R5.50).
    ImagePublishedMidBatch,
    /// A diverging follower cuts where the leader's epoch ends, even when its own history has another one there (breaks
    /// F-23).
    TruncateToWrongEpoch,
    /// A Produce with acks=all is answered once the leader has appended it (breaks F-41).
    AcknowledgedBeforeReplicated,
    /// Consumers see what is not committed yet (breaks F-7).
    ReadPastWatermark,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::WatermarkIgnoresMinIsr,
        Self::TruncateOneTooFew,
        Self::IsrExpandedBelowWatermark,
        Self::BarrierMissingInPipeline,
        Self::PublishedBeforeRegistration,
        Self::AppliedReportedEarly,
        Self::ImagePublishedMidBatch,
        Self::TruncateToWrongEpoch,
        Self::AcknowledgedBeforeReplicated,
        Self::ReadPastWatermark,
    ];

    /// The name under which it is selected.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WatermarkIgnoresMinIsr => "watermark_ignores_min_isr",
            Self::TruncateOneTooFew => "truncate_one_too_few",
            Self::IsrExpandedBelowWatermark => "isr_expanded_below_watermark",
            Self::BarrierMissingInPipeline => "barrier_missing_in_pipeline",
            Self::PublishedBeforeRegistration => "published_before_registration",
            Self::AppliedReportedEarly => "applied_reported_early",
            Self::ImagePublishedMidBatch => "image_published_mid_batch",
            Self::TruncateToWrongEpoch => "truncate_to_wrong_epoch",
            Self::AcknowledgedBeforeReplicated => "acknowledged_before_replicated",
            Self::ReadPastWatermark => "read_past_watermark",
        }
    }
}

#[cfg(feature = "mutants")]
mod selected {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// 0 is none, else the place in `Mutant::ALL` plus one.
    static SELECTED: AtomicUsize = AtomicUsize::new(0);

    pub(super) fn set(place: Option<usize>) {
        SELECTED.store(place.map_or(0, |place| place + 1), Ordering::Relaxed);
    }

    pub(super) fn get() -> Option<usize> {
        SELECTED.load(Ordering::Relaxed).checked_sub(1)
    }
}

/// Breaks one rule for the whole process from now on, of this crate or of the metadata it replays. The shell calls it
/// once, before anything else. False when this build has none of that name.
#[cfg(feature = "mutants")]
#[must_use]
pub fn select(name: &str) -> bool {
    let place = Mutant::ALL.iter().position(|mutant| mutant.name() == name);
    selected::set(place);
    place.is_some() || metadata::mutants::select(name)
}

/// Keeps every rule again.
#[cfg(feature = "mutants")]
pub fn deselect() {
    selected::set(None);
}

/// Whether a rule is to be broken.
#[must_use]
pub(crate) fn is_selected(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return selected::get().is_some_and(|place| Mutant::ALL[place] == mutant);
    #[cfg(not(feature = "mutants"))]
    {
        let _ = mutant;
        false
    }
}
