//! Planted defects. A check that cannot fail is a defect itself, so each important check is also run once against a
//! controller that breaks the rule it guards. Without the cargo feature `mutants` nothing can be selected and the
//! questions are constants.

metadata::planted_faults! {
    /// A broker that comes back without a clean stop is trusted like one with it (breaks R1.6).
    UncleanRestartKeepsItsPlace = "unclean_restart_keeps_its_place",
    /// A wish for an in-sync set counts whatever state it was made on (breaks R3.51).
    StaleAlterPartitionAccepted = "stale_alter_partition_accepted",
    /// The fence comes before the leaderships move (breaks R1.32).
    FenceBeforeMovingLeaders = "fence_before_moving_leaders",
    /// A batch that the quorum refused is proposed once more (breaks a promise of the README).
    RefusedBatchProposedAgain = "refused_batch_proposed_again",
    /// A parked reply goes out with whatever entry takes its place in the log (breaks a promise of the README).
    ParkedReplyReleasedByIndex = "parked_reply_released_by_index",
    /// A leader decides before it has applied what was in its log (breaks a promise of the README).
    ActivatedBeforeTheLogIsApplied = "activated_before_the_log_is_applied",
    /// Any live replica may be elected as if it were in sync (breaks R3.13).
    ElectedOutsideInSync = "elected_outside_in_sync",
}
