//! When a fetch that waits is answered (F-13), and what wakes it (F-14). On waking, the partitions are read again;
//! here it is only decided whether that is worth it.

use metadata::ids::{LeaderEpoch, PartitionId};

use super::Bound;
use crate::offsets::{EpochEnd, Offset};
use crate::replica::{Serving, View};

/// A place in a log, precise enough to count bytes between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The record.
    pub offset: Offset,
    /// The segment that holds it, by its base offset.
    pub segment: Offset,
    /// Byte position within the segment.
    pub byte: u64,
}

/// One partition of a fetch that waits, as it was when the wait began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Which partition.
    pub partition: PartitionId,
    /// From where it is read.
    pub from: Position,
    /// Up to which end.
    pub bound: Bound,
    /// At most so many bytes count (the request's limit for the partition).
    pub max: u64,
    /// The leadership under which the wait began.
    pub leader_epoch: LeaderEpoch,
    /// Whether it was read at the leader.
    pub at_leader: AtLeader,
}

/// Where a read was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLeader {
    /// By the leader.
    Yes,
    /// By a follower.
    No,
}

/// What a partition looks like on waking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached<'a> {
    /// The replica; absent if it has left this broker.
    pub view: Option<&'a View>,
    /// Where the reader's bound is now.
    pub bound: Position,
    /// The reader's history leaves ours here.
    pub diverging: Option<EpochEnd>,
    /// Whether the reader's traffic is held back at the moment: it then gets nothing and does not end the wait (F-16).
    pub throttled: Throttled,
}

/// Whether a replica's traffic is held back (F-16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttled {
    /// It is.
    Yes,
    /// It is not.
    No,
}

/// What one partition adds to a waiting fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Answer now: the reader must be told something.
    Answer,
    /// So many bytes are there.
    Bytes(u64),
}

impl Awaited {
    /// Looks at the partition again (F-13).
    #[must_use]
    pub fn look(&self, now: &Reached<'_>) -> Watched {
        let Some(view) = now.view else {
            return Watched::Answer;
        };
        let leads = matches!(view.serving, Serving::Leader { .. });
        let same_role = leads == (self.at_leader == AtLeader::Yes);
        let unusable = view.serving == Serving::Offline || view.leader_epoch != self.leader_epoch;
        if unusable || !same_role || now.diverging.is_some() {
            return Watched::Answer;
        }
        if now.bound.offset < self.from.offset {
            return Watched::Answer; // The log was truncated below the reader.
        }
        if now.throttled == Throttled::Yes {
            return Watched::Bytes(0);
        }
        if self.from.segment < now.bound.segment {
            return Watched::Answer; // A segment was rolled: at least the rest of the old one is there.
        }
        if now.bound.offset == self.from.offset {
            return Watched::Bytes(0);
        }
        Watched::Bytes(now.bound.byte.saturating_sub(self.from.byte).min(self.max))
    }
}

/// Whether a waiting fetch is answered, given what each of its partitions adds and the least that it waits for (F-13).
#[must_use]
pub fn is_due(partitions: impl IntoIterator<Item = Watched>, min: u64) -> bool {
    let mut bytes: u64 = 0;
    for partition in partitions {
        match partition {
            Watched::Answer => return true,
            Watched::Bytes(more) => bytes = bytes.saturating_add(more),
        }
    }
    min <= bytes
}

/// What happened to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It grew.
    Appended,
    /// The watermark moved, here or as the leader said.
    WatermarkMoved,
    /// Role, leader or epoch changed, or the replica left.
    RoleChanged,
}

/// Whether a fetch that waits for a bound must look again after that (F-14).
#[must_use]
pub fn woken_by(wake: Wake, bound: Bound) -> bool {
    match (wake, bound) {
        (Wake::RoleChanged, _)
        | (Wake::Appended, Bound::LogEnd)
        | (Wake::WatermarkMoved, Bound::Watermark | Bound::LastStable) => true,
        (Wake::Appended, Bound::Watermark | Bound::LastStable) | (Wake::WatermarkMoved, Bound::LogEnd) => {
            false
        }
    }
}
