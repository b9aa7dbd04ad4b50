//! The group coordinator: classic groups and committed offsets of one partition of `__consumer_offsets`.
//!
//! A [`Shard`] takes a [`Request`] or what became of a write, changes the groups' membership, and says what must be
//! appended and answered. Membership between two rebalances is soft: it is only written when a rebalance ends. Offsets
//! count when their record is committed, in the order of the log, so that nobody ever reads one that could be lost.
//! A successor gets everything by [`Shard::replay`].
//!
//! ```text
//!   Request ─► step ─► Append(write, records) ──► the shell writes them
//!                 └──► Reply                        │
//!   Written(write, outcome) ─► settle, in order ◄───┘  ─► replay(record), Reply
//! ```
//! Must not: know Kafka's bytes, codes or versions, draw chance, or look at a clock.

mod admin;
mod commit;
mod join;
mod leave;
mod load;
mod names;
mod place;
mod post;
mod rebalance;
mod record;
mod request;
mod shard;
mod state;
mod sync;
#[cfg(test)]
mod tests;
mod timers;
mod work;

use std::collections::BTreeSet;

use metadata::ids::TopicId;

pub use names::{Generation, GroupId, InstanceId, MemberId, ReplyId, Stamp, TopicName, WriteId};
pub use place::{OFFSETS, coordinated_by, partition_of, place_of};
pub use post::{
    Committed, Post, PostChange, Posts, Unanswered, committed, leads, load_end, outcome_of, pause, unappended,
};
pub use record::{GroupValue, MemberValue, OffsetValue, Record};
pub use request::{
    Client, Commit, CommittedOffset, Described, DescribedMember, Fetch, FetchTopic, FetchedTopic, Heartbeat,
    Join, JoinAbilities, Joined, JoinedMember, Leave, Listed, NotJoined, Protocol, Refusal, Reply, Request,
    Stability, Sync, Synced,
};
pub use shard::Shard;
pub use state::State;
pub use work::{Effect, Outcome, Settings};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client asks.
    Asked(ReplyId, Request),
    /// A write ended, or nobody can wait for it any longer.
    Written(WriteId, Outcome),
    /// These topics are no more.
    TopicsDeleted(BTreeSet<TopicId>),
    /// Time has passed, and nothing that came before waits.
    Tick,
}
