//! The in-sync set of a led partition: what the controller has confirmed, and the one change that is on its way
//! (F-32). Until a change is settled the *maximal* set counts: the wider of the two, for a replica may already, or
//! still, be elected as a member of either.

use std::fmt;

use metadata::ids::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, PartitionId};

/// A wish of the leader for the in-sync set (R3.50). The recovery state that goes with it is always *recovered*: a
/// leader does nothing special after an unclean election (R3.18).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Which partition.
    pub partition: PartitionId,
    /// The leadership under which it is made.
    pub leader_epoch: LeaderEpoch,
    /// The state of the partition on which it builds.
    pub partition_epoch: PartitionEpoch,
    /// Every member, the leader included.
    pub in_sync: Vec<Member>,
}

/// A member of a proposed in-sync set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which broker.
    pub broker: BrokerId,
    /// The incarnation that fetched; unknown before its first fetch of this leadership (`-1` on the wire).
    pub epoch: Option<BrokerEpoch>,
}

/// The controller's state of a partition after an accepted proposal (R3.53).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// Who leads.
    pub leader: Option<BrokerId>,
    /// Under which epoch.
    pub leader_epoch: LeaderEpoch,
    /// The confirmed in-sync set.
    pub in_sync: Vec<BrokerId>,
    /// The epoch of this state.
    pub epoch: PartitionEpoch,
}

/// Why a proposal was not accepted, for this partition (R3.51, R3.55).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsrRefusal {
    /// A member is fenced, leaving, unregistered or another incarnation.
    Ineligible,
    /// It was never sent, as another change of the partition is under way.
    NotAttempted,
    /// The topic is gone.
    UnknownTopic,
    /// The partition is gone.
    UnknownPartition,
    /// There is a newer leadership.
    FencedLeaderEpoch,
    /// The partition has changed since.
    StalePartitionEpoch,
    /// The controller finds the proposal impossible.
    Invalid,
    /// It was accepted, and with it the leadership moved away (R3.54).
    NewLeaderElected,
    /// Anything that another attempt may cure.
    Unexpected,
}

/// The answer to one proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrAnswer {
    /// The leadership of the proposal.
    pub leader_epoch: LeaderEpoch,
    /// The partition epoch of the proposal.
    pub partition_epoch: PartitionEpoch,
    /// What the controller said.
    pub outcome: Result<PartitionState, IsrRefusal>,
}

/// A leader's in-sync set. Confirmed members never include the same broker twice.
#[derive(Clone, PartialEq, Eq)]
pub struct InSync {
    confirmed: Vec<BrokerId>,
    change: Change,
}

/// The change that is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    None,
    /// These would join.
    Expanding(Vec<BrokerId>, Progress),
    /// These would leave.
    Shrinking(Vec<BrokerId>, Progress),
}

/// How far a change has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Proposed, not answered.
    Asked,
    /// Refused for a reason that only newer metadata can settle: it may even have been carried out (R3.56).
    AwaitingMetadata,
}

impl InSync {
    /// A confirmed set without a change under way.
    #[must_use]
    pub fn confirmed(members: Vec<BrokerId>) -> Self {
        Self {
            confirmed: members,
            change: Change::None,
        }
    }

    /// The set that the controller has confirmed; what min.insync.replicas is compared with before an append
    /// and before the watermark moves (F-35).
    #[must_use]
    pub fn members(&self) -> &[BrokerId] {
        &self.confirmed
    }

    /// Everyone who is, or may already be, in sync (F-32).
    pub fn maximal(&self) -> impl Iterator<Item = BrokerId> {
        let joining: &[BrokerId] = match &self.change {
            Change::Expanding(joining, _) => joining,
            Change::None | Change::Shrinking(..) => &[],
        };
        self.confirmed.iter().chain(joining).copied()
    }

    /// Whether `broker` is, or may already be, in sync.
    #[must_use]
    pub fn maximal_contains(&self, broker: BrokerId) -> bool {
        self.maximal().any(|member| member == broker)
    }

    /// Whether nothing is under way, so that a change may be proposed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.change == Change::None
    }

    /// Proposes that `joining` become members; returns the set to propose.
    pub(super) fn expand(&mut self, joining: Vec<BrokerId>) -> Vec<BrokerId> {
        assert!(self.is_settled(), "one change of an in-sync set at a time");
        assert!(
            joining.iter().all(|broker| !self.confirmed.contains(broker)),
            "only who is outside can join"
        );
        let wished = self.confirmed.iter().chain(&joining).copied().collect();
        self.change = Change::Expanding(joining, Progress::Asked);
        wished
    }

    /// Proposes that `leaving` be dropped; returns the set to propose.
    pub(super) fn shrink(&mut self, leaving: Vec<BrokerId>) -> Vec<BrokerId> {
        assert!(self.is_settled(), "one change of an in-sync set at a time");
        let wished = self
            .confirmed
            .iter()
            .copied()
            .filter(|broker| !leaving.contains(broker))
            .collect();
        self.change = Change::Shrinking(leaving, Progress::Asked);
        wished
    }

    /// The set that is proposed and not answered yet.
    pub(super) fn asked(&self) -> Option<Vec<BrokerId>> {
        match &self.change {
            Change::Expanding(_, Progress::Asked) => Some(self.maximal().collect()),
            Change::Shrinking(leaving, Progress::Asked) => Some(
                self.confirmed
                    .iter()
                    .copied()
                    .filter(|broker| !leaving.contains(broker))
                    .collect(),
            ),
            Change::None | Change::Expanding(..) | Change::Shrinking(..) => None,
        }
    }

    /// Back to the confirmed set: the proposal was refused before anything was written.
    pub(super) fn revert(&mut self) {
        self.change = Change::None;
    }

    /// Keeps the maximal set until newer metadata tells what became of the change.
    pub(super) fn await_metadata(&mut self) {
        if let Change::Expanding(_, progress) | Change::Shrinking(_, progress) = &mut self.change {
            *progress = Progress::AwaitingMetadata;
        }
    }
}

impl fmt::Debug for InSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}",
            self.confirmed.iter().map(|broker| broker.0).collect::<Vec<_>>()
        )?;
        match &self.change {
            Change::None => Ok(()),
            Change::Expanding(joining, progress) => write!(f, " + {joining:?} {progress:?}"),
            Change::Shrinking(leaving, progress) => write!(f, " - {leaving:?} {progress:?}"),
        }
    }
}
