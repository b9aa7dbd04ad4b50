//! Rare branches that a corpus must be seen to reach: a run that never gets near the danger proves nothing.

use std::collections::BTreeMap;

macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// A rare branch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark {
            $($(#[$doc])* $name),+
        }

        impl Mark {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its name in reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text),+
                }
            }
        }
    };
}

marks! {
    /// Two voters believe to lead at the same time.
    TwoQuorumLeaders = "two_quorum_leaders",
    /// A committed batch did not follow from the state before it and was skipped on every node.
    BatchSkipped = "batch_skipped",
    /// A proposal was refused by the quorum.
    ProposalRefused = "proposal_refused",
    /// A controller stopped being active.
    ControllerDeposed = "controller_deposed",
    /// A controller began from a snapshot.
    SnapshotInstalled = "snapshot_installed",
    /// A broker was given a snapshot of the metadata.
    SnapshotFollowed = "snapshot_followed",
    /// A broker was fenced.
    BrokerFenced = "broker_fenced",
    /// An in-sync set shrank.
    IsrShrank = "isr_shrank",
    /// An in-sync set grew.
    IsrExpanded = "isr_expanded",
    /// A proposal of an in-sync set was refused.
    IsrRefused = "isr_refused",
    /// A follower cut its log back to its leader's history.
    FollowerTruncated = "follower_truncated",
    /// A follower cut off records.
    RecordsTruncated = "records_truncated",
    /// A follower began its log anew at its leader's start.
    LogBegunAnew = "log_begun_anew",
    /// A restarted broker's log had lost its tail.
    TailLost = "tail_lost",
    /// A partition had no leader.
    Leaderless = "leaderless",
    /// An idempotent batch came twice and was recognised.
    DuplicateRecognised = "duplicate_recognised",
    /// A sequence was missing before a batch.
    SequenceRefused = "sequence_refused",
    /// A batch was refused as too few replicas were in sync.
    NotEnoughReplicas = "not_enough_replicas",
    /// A producer's wait ended because the leadership moved.
    WaitEndedByMove = "wait_ended_by_move",
    /// A follower's fetch was refused because of its epoch.
    EpochRefused = "epoch_refused",
    /// The disk was full for an append.
    DiskFull = "disk_full",
    /// A segment was rolled.
    SegmentRolled = "segment_rolled",
    /// A broker stopped in order, released by the controller.
    CleanStop = "clean_stop",
    /// A replica was elected from the eligible ones outside of the in-sync set.
    ElectedFromEligible = "elected_from_eligible",
    /// A connection held a request back behind another.
    PipelineHeld = "pipeline_held",
    /// A topic was deleted.
    TopicDeleted = "topic_deleted",
    /// A log was found that the cluster does not give to its broker.
    StrayFound = "stray_found",
    /// A broker was given a whole new disk.
    DiskWiped = "disk_wiped",
    /// A consumer was given a batch whose checksum does not fit, and refused it.
    RotRefusedByConsumer = "rot_refused_by_consumer",
    /// A follower was given one, and refused it.
    RotRefusedByFollower = "rot_refused_by_follower",
    /// Recovery cut a log off at a damaged batch.
    RotCutOff = "rot_cut_off",
    /// A topic's `min.insync.replicas` was changed while it was used.
    MinInSyncAltered = "min_in_sync_altered",
    /// What is configured for a log was changed while it was used.
    LogConfigured = "log_configured",
    /// A committed offset was read back from another broker than the one that had written it.
    OffsetReadBackElsewhere = "offset_read_back_elsewhere",
    /// What a coordinator had written was committed only after nobody waited for it any longer, or never.
    OffsetWriteOverdue = "offset_write_overdue",
}

/// How often each was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<Mark, u64>);

impl Marks {
    /// One was reached.
    pub fn reached(&mut self, mark: Mark) {
        *self.0.entry(mark).or_default() += 1;
    }

    /// How often one was reached.
    #[must_use]
    pub fn count(&self, mark: Mark) -> u64 {
        self.0.get(&mark).copied().unwrap_or(0)
    }

    /// Adds what another run reached.
    pub fn add(&mut self, other: &Self) {
        for (mark, count) in &other.0 {
            *self.0.entry(*mark).or_default() += count;
        }
    }

    /// Those that were never reached.
    pub fn missing(&self) -> impl Iterator<Item = Mark> + '_ {
        Mark::ALL.iter().copied().filter(|mark| self.count(*mark) == 0)
    }
}
