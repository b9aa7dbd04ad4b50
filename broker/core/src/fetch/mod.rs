//! Reading: who may read what at this replica, how far, and whether the histories agree. Decides over offsets only;
//! must not touch records.

mod budget;
mod list;
#[cfg(test)]
mod tests;
mod wait;

use metadata::ids::{BrokerEpoch, BrokerId, LeaderEpoch, TopicId};

pub use self::budget::{Allowance, Budget, NegativeSize, Outcome, Sizes};
pub use self::list::{Asker, LeaderLog, OffsetNotAvailable};
pub use self::wait::{AtLeader, Awaited, Position, Reached, Throttled, Wake, Watched, is_due, woken_by};
use crate::mutants::{self, Mutant};
use crate::offsets::{EpochEnd, LogEnd, LogStart, Offset};
use crate::replica::{Assignment, Registration, Serving, View};

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A consumer.
    Consumer {
        /// Whether it can be sent to another replica, and so may also read at a follower (F-4).
        origin: Origin,
        /// How far it may see.
        isolation: Isolation,
    },
    /// A replica of the partition (F-1).
    Follower {
        /// Which broker.
        id: BrokerId,
        /// Which incarnation; old versions do not tell.
        epoch: Option<BrokerEpoch>,
    },
}

/// What a consumer's request tells of it (F-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A request that carries client metadata: Fetch from version 11 on.
    Known,
    /// An older request, or one that only the leader may answer.
    Unknown,
}

/// How far a consumer may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Up to the watermark.
    ReadUncommitted,
    /// Up to the first open transaction.
    ReadCommitted,
}

/// The end of what a reader may see, exclusive (F-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Followers see everything.
    LogEnd,
    /// Consumers see what is committed.
    Watermark,
    /// Or what is committed and belongs to no open transaction.
    LastStable,
}

/// What a request claims to know of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The leader epoch the client believes in; absent: no claim (F-3).
    pub leader_epoch: Option<LeaderEpoch>,
    /// The identity under which it asks; absent below Fetch version 13.
    pub topic: Option<TopicId>,
}

/// Who leads, as evidence in a refusal (F-6, KIP-951).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderHint {
    /// Nobody, if absent.
    pub leader: Option<BrokerId>,
    /// In which epoch; that of the last leadership while nobody leads.
    pub epoch: LeaderEpoch,
}

/// Why nothing is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchRefusal {
    /// The identity is not that of the topic held here (F-2).
    #[error("topic {held} is held, {given} was asked for")]
    InconsistentTopicId {
        /// Held here.
        held: TopicId,
        /// Asked for.
        given: TopicId,
    },
    /// The log cannot be used.
    #[error("the log is offline")]
    LogOffline,
    /// The client's epoch is over (F-3).
    #[error("leader epoch {given} is over, {} is known", hint.epoch)]
    FencedLeaderEpoch {
        /// As given.
        given: LeaderEpoch,
        /// Who leads.
        hint: LeaderHint,
    },
    /// The client knows of a later leadership than this broker does (F-3).
    #[error("leader epoch {given} is not known yet, {held} is")]
    UnknownLeaderEpoch {
        /// As given.
        given: LeaderEpoch,
        /// Known here.
        held: LeaderEpoch,
    },
    /// This replica may not serve this reader (F-4).
    #[error("led by {:?} in epoch {}", hint.leader, hint.epoch)]
    NotLeader {
        /// Who leads.
        hint: LeaderHint,
    },
    /// The reader holds no replica (F-5). Which error it is told depends on whether it gave an epoch.
    #[error("broker {reader} holds no replica")]
    NotAReplica {
        /// Who reads.
        reader: BrokerId,
        /// The leader epoch it gave.
        given: Option<LeaderEpoch>,
        /// Who leads.
        hint: LeaderHint,
    },
    /// A former incarnation reads (F-29).
    #[error("broker epoch {given} is stale, {held} is registered")]
    StaleBrokerEpoch {
        /// Registered.
        held: BrokerEpoch,
        /// As given.
        given: BrokerEpoch,
        /// Who leads.
        hint: LeaderHint,
    },
    /// The offset lies outside of the log, or its epoch has no end here (L-44, F-22).
    #[error("offset {asked} is outside of {}..{end}", start.0)]
    OffsetOutOfRange {
        /// Asked for.
        asked: Offset,
        /// Log start.
        start: LogStart,
        /// Log end.
        end: LogEnd,
    },
}

/// Checks a read before it is done (F-2 to F-7): how far may this reader see? The checks stand in Kafka's order: the
/// identity, the epoch, who may serve, who reads.
///
/// # Errors
/// The first check that fails, with evidence.
pub fn admit(
    view: &View,
    assignment: &Assignment,
    reader: Reader,
    claim: Claim,
) -> Result<Bound, FetchRefusal> {
    let held = assignment.partition.topic;
    if let Some(given) = claim.topic
        && given != held
    {
        return Err(FetchRefusal::InconsistentTopicId { held, given });
    }
    if view.serving == Serving::Offline {
        return Err(FetchRefusal::LogOffline);
    }
    let hint = LeaderHint {
        leader: view.leader,
        epoch: view.leader_epoch,
    };
    check_epoch(claim.leader_epoch, hint)?;
    let leads = matches!(view.serving, Serving::Leader { .. });
    match reader {
        Reader::Consumer { origin, isolation } => {
            if !leads && origin == Origin::Unknown {
                return Err(FetchRefusal::NotLeader { hint });
            }
            Ok(match isolation {
                _ if mutants::is_selected(Mutant::ReadPastWatermark) => Bound::LogEnd,
                Isolation::ReadUncommitted => Bound::Watermark,
                Isolation::ReadCommitted => Bound::LastStable,
            })
        }
        Reader::Follower { .. } if !leads => Err(FetchRefusal::NotLeader { hint }),
        Reader::Follower { id, epoch } => {
            if id == assignment.me || !assignment.state.replicas.contains(&id) {
                return Err(FetchRefusal::NotAReplica {
                    reader: id,
                    given: claim.leader_epoch,
                    hint,
                });
            }
            check_incarnation(epoch, assignment.registrations.get(&id), hint)?;
            Ok(Bound::LogEnd)
        }
    }
}

/// Compares the leader epoch that a client believes in with the one known here (F-3). Comes before the question who
/// leads.
///
/// # Errors
/// [`FetchRefusal::FencedLeaderEpoch`] or [`FetchRefusal::UnknownLeaderEpoch`].
pub fn check_epoch(given: Option<LeaderEpoch>, hint: LeaderHint) -> Result<(), FetchRefusal> {
    match given {
        Some(given) if given < hint.epoch => Err(FetchRefusal::FencedLeaderEpoch { given, hint }),
        Some(given) if hint.epoch < given => Err(FetchRefusal::UnknownLeaderEpoch {
            given,
            held: hint.epoch,
        }),
        Some(_) | None => Ok(()),
    }
}

fn check_incarnation(
    given: Option<BrokerEpoch>,
    registered: Option<&Registration>,
    hint: LeaderHint,
) -> Result<(), FetchRefusal> {
    match (given, registered) {
        (Some(given), Some(registered)) if given < registered.epoch => Err(FetchRefusal::StaleBrokerEpoch {
            held: registered.epoch,
            given,
            hint,
        }),
        _ => Ok(()),
    }
}

/// Whether a log may be read from an offset (L-44).
///
/// # Errors
/// [`FetchRefusal::OffsetOutOfRange`].
pub fn check_range(asked: Offset, start: LogStart, end: LogEnd) -> Result<(), FetchRefusal> {
    if asked < start.0 || end.0 < asked {
        return Err(FetchRefusal::OffsetOutOfRange { asked, start, end });
    }
    Ok(())
}

/// Compares the reader's history with ours (F-22). `last_fetched` is the epoch of the reader's last record, `found` our
/// history's answer for it (L-51). Gives where the reader's history leaves ours; it must then be sent no records, and
/// its fetch does not count.
///
/// # Errors
/// [`FetchRefusal::OffsetOutOfRange`] if our history has no answer, or the offset lies before the log: that is checked
/// before the histories are compared.
pub fn divergence(
    last_fetched: LeaderEpoch,
    asked: Offset,
    found: Option<EpochEnd>,
    start: LogStart,
    end: LogEnd,
) -> Result<Option<EpochEnd>, FetchRefusal> {
    let found = found.ok_or(FetchRefusal::OffsetOutOfRange { asked, start, end })?;
    if asked < start.0 {
        return Err(FetchRefusal::OffsetOutOfRange { asked, start, end });
    }
    let diverges = found.epoch < last_fetched || found.end < asked;
    Ok(diverges.then_some(found))
}
