//! Identities, offsets, epochs and terms as newtypes, so that two bare integers never stand side by side.
//!
//! Must not know what the things they name contain.

use std::fmt;

use crate::uuid::Uuid;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl $name {
            /// The value that follows this one. Overflow is a bug: no counter here can be exhausted in practice.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.checked_add(1).expect("counters of this width are never exhausted"))
            }
        }
    };
}

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

number!(
    /// A broker's `node.id`. Never negative.
    BrokerId(i32)
);
number!(
    /// A controller's `node.id`. Never negative.
    ControllerId(i32)
);
number!(
    /// Position of a partition within its topic, from 0.
    PartitionIndex(i32)
);
number!(
    /// Counts the leaderships of one partition, lost ones included (R3.2).
    LeaderEpoch(i32)
);
number!(
    /// Counts the changes applied to one partition (R3.1).
    PartitionEpoch(i32)
);
number!(
    /// Names one incarnation of a broker: the metadata offset at which its registration was decided (R1.3).
    BrokerEpoch(i64)
);
number!(
    /// Position of one record in the metadata log: dense, one per record, never the Raft index.
    MetadataOffset(i64)
);
number!(
    /// A Raft term of the controller quorum.
    Term(u64)
);
number!(
    /// A producer id; blocks of them are handed to brokers (R4.70).
    ProducerId(i64)
);

identity!(
    /// A topic's identity. A name that is created again gets a new one.
    TopicId
);
identity!(
    /// A log directory's identity, from its `meta.properties`.
    DirectoryId
);
identity!(
    /// Drawn by a broker process at every start: tells a restart from a retry (R1.1).
    IncarnationId
);

/// One partition of one topic incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    /// The topic.
    pub topic: TopicId,
    /// Which of its partitions.
    pub index: PartitionIndex,
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.index)
    }
}

impl DirectoryId {
    /// The replica exists, its directory is not chosen yet (R3.12). Counts as online.
    pub const UNASSIGNED: Self = Self(Uuid(1));
    /// The replica's directory is gone (R3.12). Counts as offline.
    pub const LOST: Self = Self(Uuid(2));
    /// The replica's directory is unknown, as before directories were tracked (R3.12). Counts as online.
    pub const MIGRATING: Self = Self(Uuid(0));

    /// The first hundred ids are reserved and never name a real directory (R1.1 row 5).
    #[must_use]
    pub fn is_reserved(self) -> bool {
        self.0.0 < 100
    }
}
