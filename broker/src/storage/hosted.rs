//! The partitions of this broker as everyone but their lane sees them: what to read, what role they have, where to
//! send events.
//!
//! Must not: change a partition. Only its lane does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use broker_core::replica::{Assignment, Replica, Serving, View};
use metadata::ids::{BrokerId, LeaderEpoch, PartitionId};
use metadata::image::Partition;
use parking_lot::RwLock;
use partition_log::{ReadView, TopicPartition};

use super::dirs::DirIndex;
use super::lane::LaneHandle;
use super::waits::Waits;
use crate::metrics::TopicTraffic;

/// One partition with a replica here.
pub struct Hosted {
    /// Its identity.
    pub id: PartitionId,
    /// Its name.
    pub name: TopicPartition,
    /// Its owner.
    pub lane: LaneHandle,
    /// Its log, to be read.
    pub log: ReadView,
    /// Where it lies.
    pub dir: DirIndex,
    /// Its role, published by the lane.
    pub seen: ArcSwap<Seen>,
    /// Fetches that wait here.
    pub waits: Waits,
    /// What its topic counts.
    pub traffic: Arc<TopicTraffic>,
    /// While this broker follows: how many committed records of the leader were missing here after the last fetch.
    pub lag: AtomicU64,
}

/// What readers see of a replica. Bounds of the log are not taken from here: [`ReadView::bounds`] is newer.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Role, leader, epoch.
    pub view: View,
    /// What the image says of it.
    pub assignment: Assignment,
    /// The last leadership that this broker had, if any since it started.
    pub led: Option<LeaderEpoch>,
}

impl Seen {
    /// A replica as it is now; `led` is what was seen before.
    pub fn of(replica: &Replica, led: Option<LeaderEpoch>) -> Seen {
        let view = replica.view();
        let leads = matches!(view.serving, Serving::Leader { .. });
        let led = if leads { Some(view.leader_epoch) } else { led };
        Seen {
            view,
            assignment: replica.assignment().clone(),
            led,
        }
    }
}

/// Why a partition is not served here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHere {
    /// This broker leads it, and could not open its log.
    Unopened,
    /// It has no replica here, as far as this broker knows, or an unopened one while somebody else leads.
    Unknown,
}

/// All partitions with a replica here.
#[derive(Default)]
pub struct Partitions {
    by_id: RwLock<HashMap<PartitionId, Arc<Hosted>>>,
    /// Those whose log could not be opened.
    unopened: RwLock<HashSet<PartitionId>>,
}

impl Partitions {
    /// The partition, if it has a replica here.
    pub fn get(&self, id: PartitionId) -> Option<Arc<Hosted>> {
        self.by_id.read().get(&id).cloned()
    }

    /// The partition, of which the image says `state`; `me` is this broker.
    ///
    /// # Errors
    /// Why it is not served here. Where another broker leads, the client is better off there, whatever this one lacks.
    pub fn find(&self, id: PartitionId, state: &Partition, me: BrokerId) -> Result<Arc<Hosted>, NotHere> {
        self.get(id).ok_or_else(|| {
            let leads = state.leader == Some(me);
            match leads && self.unopened.read().contains(&id) {
                true => NotHere::Unopened,
                false => NotHere::Unknown,
            }
        })
    }

    /// Shows each of them.
    pub fn each(&self, mut show: impl FnMut(&Hosted)) {
        self.by_id.read().values().for_each(|hosted| show(hosted));
    }

    /// How many of them this broker leads.
    pub fn led(&self) -> usize {
        let mut led = 0;
        self.each(|hosted| {
            let leads = matches!(hosted.seen.load().view.serving, Serving::Leader { .. });
            led += usize::from(leads);
        });
        led
    }

    /// All of them, in no order.
    pub fn all(&self) -> Vec<Arc<Hosted>> {
        self.by_id.read().values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.read().len()
    }

    /// A lane has opened this one, or opened it again. Returns whether it could not be opened before.
    pub fn insert(&self, hosted: Arc<Hosted>) -> bool {
        let id = hosted.id;
        self.by_id.write().insert(id, hosted);
        self.unopened.write().remove(&id)
    }

    /// A lane could not open this one. Returns whether that is new.
    pub fn cannot_be_opened(&self, id: PartitionId) -> bool {
        self.unopened.write().insert(id)
    }

    /// A lane has let this one go.
    pub fn remove(&self, id: PartitionId) {
        self.by_id.write().remove(&id);
        self.unopened.write().remove(&id);
    }
}
