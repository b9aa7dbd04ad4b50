//! Planted defects. A check that cannot fail is a defect itself, so each important check is also run once against a
//! controller that breaks the rule it guards. Without the cargo feature `mutants` nothing can be selected and the
//! questions are constants.

/// A rule that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A broker that comes back without a clean stop is trusted like one with it (breaks R1.6).
    UncleanRestartKeepsItsPlace,
    /// A wish for an in-sync set counts whatever state it was made on (breaks R3.51).
    StaleAlterPartitionAccepted,
    /// The fence comes before the leaderships move (breaks R1.32).
    FenceBeforeMovingLeaders,
    /// A batch that the quorum refused is proposed once more (breaks design §3).
    RefusedBatchProposedAgain,
    /// A parked reply goes out with whatever entry takes its place in the log (breaks design §3).
    ParkedReplyReleasedByIndex,
    /// A leader decides before it has applied what was in its log (breaks design §3).
    ActivatedBeforeTheLogIsApplied,
    /// Any live replica may be elected as if it were in sync (breaks R3.13).
    ElectedOutsideInSync,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::UncleanRestartKeepsItsPlace,
        Self::StaleAlterPartitionAccepted,
        Self::FenceBeforeMovingLeaders,
        Self::RefusedBatchProposedAgain,
        Self::ParkedReplyReleasedByIndex,
        Self::ActivatedBeforeTheLogIsApplied,
        Self::ElectedOutsideInSync,
    ];

    /// The name under which it is selected.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UncleanRestartKeepsItsPlace => "unclean_restart_keeps_its_place",
            Self::StaleAlterPartitionAccepted => "stale_alter_partition_accepted",
            Self::FenceBeforeMovingLeaders => "fence_before_moving_leaders",
            Self::RefusedBatchProposedAgain => "refused_batch_proposed_again",
            Self::ParkedReplyReleasedByIndex => "parked_reply_released_by_index",
            Self::ActivatedBeforeTheLogIsApplied => "activated_before_the_log_is_applied",
            Self::ElectedOutsideInSync => "elected_outside_in_sync",
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
