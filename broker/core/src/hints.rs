//! Where the leader is, told to clients in errors (KIP-951), and the short hold of a Produce that comes before the news
//! of the move it is about.

#[cfg(test)]
mod tests;

use std::time::Duration;

use metadata::ids::{BrokerId, PartitionId};
use metadata::image::Image;
use metadata::record::Endpoint;

use crate::fetch::LeaderHint;
use crate::time::Moment;

/// How long a Produce may wait for the news that this broker leads. A client learns of a move from whichever broker
/// hears first; the others follow within a round trip of the controllers.
pub const HOLD_MAX: Duration = Duration::from_millis(50);

/// Who leads a partition, as the image has it.
#[must_use]
pub fn leader_hint(image: &Image, partition: PartitionId) -> Option<LeaderHint> {
    let state = image.partition(partition)?;
    Some(LeaderHint {
        leader: state.leader,
        epoch: state.leader_epoch,
    })
}

/// Where a broker is reached under a listener, and on which rack; a hint names only what is there (F-6, A-20).
#[must_use]
pub fn leader_endpoint<'a>(
    image: &'a Image,
    leader: BrokerId,
    listener: &str,
) -> Option<(&'a Endpoint, Option<&'a str>)> {
    let broker = image.brokers.get(&leader)?;
    Some((broker.endpoint(listener)?, broker.rack.as_deref()))
}

/// What becomes of a Produce for a partition that this broker does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Wait for the next image, but not beyond this moment; then ask again.
    Hold {
        /// When waiting ends.
        until: Moment,
    },
    /// Refuse, naming who leads.
    Refuse(LeaderHint),
    /// The image has no such partition.
    Unknown,
    /// This broker leads: go on.
    Lead,
}

/// Decides about a Produce that arrived at `arrived`, at the time `now`. It is held only where a move to this broker is
/// possible and would be news: `me` may be elected, and nothing newer is known than that another leads, or nobody.
/// A broker that was deposed itself already has the news, and sends the client on at once: `deposed` is the last
/// leader epoch it led.
#[must_use]
pub fn arrival(
    image: &Image,
    partition: PartitionId,
    me: BrokerId,
    deposed: Option<metadata::ids::LeaderEpoch>,
    arrived: Moment,
    now: Moment,
) -> Arrival {
    let Some(state) = image.partition(partition) else {
        return Arrival::Unknown;
    };
    if state.leader == Some(me) {
        return Arrival::Lead;
    }
    let until = arrived.after(HOLD_MAX);
    let electable = state.in_sync.contains(&me) || state.eligible.contains(&me);
    // Epochs count leaderships: if ours was the one before this, the move away from us is the news.
    let knows_better =
        deposed.is_some_and(|ours| state.leader_epoch <= ours.next() && state.leader.is_some());
    if electable && !knows_better && now < until {
        return Arrival::Hold { until };
    }
    Arrival::Refuse(LeaderHint {
        leader: state.leader,
        epoch: state.leader_epoch,
    })
}
