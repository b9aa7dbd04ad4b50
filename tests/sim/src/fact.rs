//! What happened, as the judges are told. Facts only; nothing here judges.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker_core::offsets::Offset;
use metadata::ids::{
    BrokerEpoch, BrokerId, ControllerId, IncarnationId, LeaderEpoch, MetadataOffset, PartitionEpoch,
    PartitionId, Term, TopicId,
};
use metadata::image::Image;

use crate::digest::Digest;

/// A process of a broker: which, and how often it was started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation {
    /// Which broker.
    pub broker: BrokerId,
    /// Its how many-th process.
    pub boot: u32,
}

impl std::fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "broker {} (process {})", self.broker, self.boot)
    }
}

/// A batch in a log, as far as equality goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBatch {
    /// Offset of its first record.
    pub base: Offset,
    /// Offset of its last record.
    pub last: Offset,
    /// The epoch that it was written in.
    pub leader_epoch: LeaderEpoch,
    /// Its checksum.
    pub crc: u32,
}

/// Of what an offset is committed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OffsetKey {
    /// By which group.
    pub group: String,
    /// For which partition.
    pub partition: PartitionId,
}

/// What a controller says yes to, as far as the image shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// A registration under this epoch.
    Registration(BrokerEpoch),
    /// A topic.
    Topic(TopicId),
    /// An in-sync set, as of this state of the partition.
    InSync(PartitionId, PartitionEpoch),
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A controller's committed image moved.
    Committed {
        /// Whose.
        controller: ControllerId,
        /// The image.
        image: Arc<Image>,
    },
    /// A controller became active.
    Activated {
        /// Which.
        controller: ControllerId,
        /// In which term.
        term: Term,
        /// Up to where it has applied the metadata.
        applied: MetadataOffset,
    },
    /// A controller said yes.
    Granted {
        /// Which.
        controller: ControllerId,
        /// To what.
        what: Grant,
        /// What it has committed by then.
        image: Arc<Image>,
    },
    /// A broker published an image to its lanes.
    Published {
        /// Which process.
        by: Incarnation,
        /// The image.
        image: Arc<Image>,
    },
    /// A broker told that it has applied everything below.
    Applied {
        /// Which process.
        by: Incarnation,
        /// The offset.
        below: MetadataOffset,
        /// What each lane has carried out.
        lanes: Vec<MetadataOffset>,
    },
    /// A broker opened a log that its disk may have held already.
    Opened {
        /// Which process.
        by: Incarnation,
        /// The id that it registered with.
        registered: IncarnationId,
        /// Which partition.
        partition: PartitionId,
        /// The end of the log.
        log_end: Offset,
    },
    /// A broker began to lead.
    LeadershipBegan {
        /// Which process.
        by: Incarnation,
        /// Which partition.
        partition: PartitionId,
        /// In which epoch.
        epoch: LeaderEpoch,
        /// The end of its log.
        log_end: Offset,
    },
    /// A leader appended for a client.
    Appended {
        /// Which process.
        by: Incarnation,
        /// Where.
        partition: PartitionId,
        /// Under which epoch.
        epoch: LeaderEpoch,
        /// Behind the last record.
        end: Offset,
    },
    /// A replica's watermark moved.
    WatermarkMoved {
        /// Which process.
        by: Incarnation,
        /// Which partition.
        partition: PartitionId,
        /// To where.
        to: Offset,
        /// Confirmed members of the in-sync set and the effective minimum, at a leader.
        in_sync: Option<(usize, usize)>,
    },
    /// Batches that lie below a replica's watermark.
    Below {
        /// Which process.
        by: Incarnation,
        /// Which partition.
        partition: PartitionId,
        /// Behind those told before.
        batches: Vec<StoredBatch>,
    },
    /// A disk damaged a record.
    Rotted {
        /// Whose.
        broker: BrokerId,
    },
    /// A broker got an empty disk.
    DiskReplaced {
        /// Which.
        broker: BrokerId,
    },
    /// A batch whose checksum does not fit lies below a replica's watermark, or in what a coordinator read.
    Damaged {
        /// Which process.
        by: Incarnation,
        /// Which partition.
        partition: PartitionId,
        /// Where.
        at: Offset,
    },
    /// A follower cut its log.
    Truncated {
        /// Which process.
        by: Incarnation,
        /// Which partition.
        partition: PartitionId,
        /// To where.
        to: Offset,
    },
    /// An acknowledged batch.
    Acknowledged {
        /// Where.
        partition: PartitionId,
        /// Under which epoch.
        epoch: LeaderEpoch,
        /// Behind its last record.
        end: Offset,
    },
    /// A coordinator appended a committed offset to its log.
    OffsetAppended {
        /// Which process.
        by: Incarnation,
        /// Where in the log of the coordinator's partition.
        at: Offset,
        /// Of what.
        of: OffsetKey,
        /// The name of the commit, which no other one has.
        commit: String,
    },
    /// A coordinator acknowledged a commit.
    OffsetAcknowledged {
        /// Which process.
        by: Incarnation,
        /// Under which leadership of its partition.
        epoch: LeaderEpoch,
        /// Of what.
        of: OffsetKey,
        /// The name of the commit.
        commit: String,
    },
    /// A coordinator told what is committed.
    OffsetTold {
        /// Which process.
        by: Incarnation,
        /// Under which leadership of its partition.
        epoch: LeaderEpoch,
        /// Of what.
        of: OffsetKey,
        /// The name of the commit; nothing if nothing is committed.
        commit: Option<String>,
    },
    /// A client was answered out of the order of its requests.
    AnsweredOutOfOrder {
        /// By whom.
        by: Incarnation,
        /// The answer that came.
        number: u64,
        /// The one that came before it.
        before: u64,
    },
    /// A request was begun before one ahead of it was answered, and one of the two is no Produce.
    StartedBeforeItsTurn {
        /// By whom.
        by: Incarnation,
        /// The request that was begun.
        number: u64,
        /// The one ahead of it.
        before: u64,
    },
    /// A leader wants a broker in the in-sync set.
    Joining {
        /// Which process.
        by: Incarnation,
        /// Which partition.
        partition: PartitionId,
        /// Who joins.
        follower: BrokerId,
        /// Where its log ends, as far as the leader knows.
        log_end: Option<Offset>,
        /// The leader's watermark.
        watermark: Offset,
        /// Where the leadership began.
        epoch_start: Offset,
    },
    /// Something that a process calls for help about.
    Alarm {
        /// Who.
        by: String,
        /// What.
        what: String,
    },
    /// Everything has healed and had its time.
    Converged {
        /// The brokers that run and are unfenced.
        live: BTreeSet<BrokerId>,
        /// The newest image.
        image: Arc<Image>,
        /// The image that the log replays to.
        replayed: Arc<Image>,
    },
}

impl Fact {
    /// Takes the fact into a digest.
    pub fn note(&self, digest: &mut Digest) {
        let number = |digest: &mut Digest, number: i64| digest.note(&number.to_le_bytes());
        match self {
            Self::Committed { controller, image } => {
                number(digest, i64::from(controller.0));
                number(digest, image.next_offset.0);
            }
            Self::Published { by, image } => {
                number(digest, i64::from(by.broker.0));
                number(digest, image.next_offset.0);
            }
            Self::Granted { controller, what, .. } => {
                digest.note(format!("{controller} {what:?}").as_bytes());
            }
            Self::Below { batches, .. } => {
                batches
                    .iter()
                    .for_each(|batch| number(digest, i64::from(batch.crc)));
            }
            Self::Converged { image, .. } => number(digest, image.next_offset.0),
            small => digest.note(format!("{small:?}").as_bytes()),
        }
    }

    /// In a few words, if it belongs into a story.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        Some(match self {
            Self::Activated { controller, term, .. } => {
                format!("controller {controller} is active in term {term}")
            }
            Self::LeadershipBegan {
                by,
                partition,
                epoch,
                log_end,
            } => {
                format!("{by:?} leads {} in epoch {epoch} from {log_end}", partition.index)
            }
            Self::Truncated { by, partition, to } => {
                format!("{by:?} cut partition {} back to {to}", partition.index)
            }
            Self::Alarm { by, what } => format!("{by} calls for help: {what}"),
            _ => return None,
        })
    }
}
