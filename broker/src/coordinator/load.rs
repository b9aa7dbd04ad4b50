//! Reads the log of a partition of `__consumer_offsets` that this broker has begun to lead.
//!
//! Must not: serve before everything that it read is committed. What a former leader acknowledged may lie above the
//! watermark that this one knows of.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use broker_core::fetch::Bound;
use broker_core::group::{self, Committed, Settings, Shard};
use bytes::Bytes;
use metadata::ids::LeaderEpoch;
use partition_log::{FirstBatch, LogFault, Offset, ReadError};
use tokio::sync::Notify;
use tracing::{debug, error, info};
use wire::batch::{Batch, Batches};

use super::{Event, codec};
use crate::seam;
use crate::storage::hosted::Hosted;

/// What a compressed batch may unfold to. Only this coordinator and its like write here.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// The log cannot be read as a coordinator's.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The disk, or the log's own structure.
    #[error(transparent)]
    Log(#[from] LogFault),
    /// A record.
    #[error("offset {at}: {why}")]
    Record {
        /// Where it is.
        at: i64,
        /// What is wrong with it.
        why: String,
    },
}

/// How to load.
#[derive(Clone, Copy)]
pub struct Plan {
    /// For the shard.
    pub settings: Settings,
    /// `offsets.load.buffer.size`
    pub read_bytes: u32,
}

/// Loads, waits until it is committed, and reports. Says nothing when the leadership has ended meanwhile.
pub async fn run(hosted: Arc<Hosted>, under: LeaderEpoch, plan: Plan, lane: Sender<Event>) {
    let reading = Arc::clone(&hosted);
    let read = tokio::task::spawn_blocking(move || read(&reading, plan)).await;
    let loaded = match read {
        Ok(Ok((shard, end))) => {
            if !committed_up_to(&hosted, under, end).await {
                debug!(partition = %hosted.name, epoch = under.0, "no longer the leader; what was loaded is dropped");
                return;
            }
            info!(partition = %hosted.name, epoch = under.0, groups = shard.group_count(), log_end = end.0,
                "group coordinator loaded");
            Ok(Box::new(shard))
        }
        Ok(Err(why)) => {
            error!(partition = %hosted.name, %why, "the groups of this partition cannot be loaded");
            Err(why)
        }
        // The runtime ends with the process.
        Err(_) => return,
    };
    let _ = lane.send(Event::Loaded(hosted.id.index, under, loaded));
}

fn read(hosted: &Hosted, plan: Plan) -> Result<(Shard, Offset), Unreadable> {
    let mut shard = Shard::new(plan.settings);
    let bounds = hosted.log.bounds();
    let end = seam::to_log(group::load_end(seam::facts(bounds)));
    let mut next = bounds.log_start;
    while next < end {
        let slice = hosted.log.read(next, end, plan.read_bytes, FirstBatch::Whole);
        let slice = match slice {
            Ok(Some(slice)) => slice,
            Ok(None) => break,
            // Retention has moved the start meanwhile.
            Err(ReadError::OffsetOutOfRange { log_start, .. }) if next < log_start => {
                next = log_start;
                continue;
            }
            Err(ReadError::OffsetOutOfRange { .. }) => break,
            Err(ReadError::Fault(fault)) => return Err(fault.into()),
        };
        let before = next;
        let unreadable = |why: String| Unreadable::Record { at: before.0, why };
        let bytes = slice.read().map_err(|error| unreadable(error.to_string()))?;
        for batch in Batches::new(Bytes::from(bytes)) {
            let batch = batch.map_err(|error| unreadable(error.to_string()))?;
            replay(&mut shard, &batch, next)?;
            let last = batch.header.base_offset + i64::from(batch.header.last_offset_delta);
            next = Offset(last + 1).max(next);
        }
        if next == before {
            return Err(unreadable("no whole batch".to_owned()));
        }
    }
    Ok((shard, end))
}

fn replay(shard: &mut Shard, batch: &Batch, from: Offset) -> Result<(), Unreadable> {
    let attributes = batch.header.attributes;
    // Nobody here writes offsets in transactions yet; the markers of others mean nothing without them.
    if attributes.is_control() || attributes.is_transactional() {
        return Ok(());
    }
    let at = batch.header.base_offset;
    let unreadable = |why: String| Unreadable::Record { at, why };
    // The log is read as it lies: what the disk has damaged since must not count as somebody's offset.
    batch.check().map_err(|error| unreadable(error.to_string()))?;
    let body = batch
        .body(BATCH_BYTES_MAX)
        .map_err(|error| unreadable(error.to_string()))?;
    for record in batch.records(&body) {
        let record = record.map_err(|error| unreadable(error.to_string()))?;
        if at + i64::from(record.offset_delta) < from.0 {
            continue;
        }
        let Some(key) = record.key else { continue };
        let value = record.value.map(Bytes::copy_from_slice);
        match codec::decode(&Bytes::copy_from_slice(key), value) {
            Ok(Some(record)) => shard.replay(record),
            Ok(None) => debug!(at, "a record of a kind that is not known here is skipped"),
            Err(error) => return Err(unreadable(error.to_string())),
        }
    }
    Ok(())
}

/// Waits until the watermark is there. False when the leadership has ended.
pub async fn committed_up_to(hosted: &Hosted, under: LeaderEpoch, end: Offset) -> bool {
    let woken = Arc::new(Notify::new());
    hosted.waits.add(Bound::Watermark, &woken);
    let reached = loop {
        let watermark = seam::to_core(hosted.log.bounds().high_watermark);
        let standing = group::committed(&hosted.seen.load().view, under, watermark, seam::to_core(end));
        match standing {
            Committed::Yes => break true,
            Committed::Never => break false,
            Committed::NotYet => woken.notified().await,
        }
    };
    hosted.waits.withdraw(&woken);
    reached
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use std::time::Duration;

    use broker_core::group::{OffsetValue, Record};
    use wire::batch::BatchBuilder;
    use wire::codec::Codec;

    use super::*;

    fn shard() -> Shard {
        Shard::new(Settings {
            initial_rebalance_delay: Duration::ZERO,
            session_timeout_ms_min: 1,
            session_timeout_ms_max: 2,
            members_max: 1,
            offset_metadata_units_max: 1,
        })
    }

    /// A damaged record would have counted: with another offset, or as another group's.
    #[test]
    fn a_batch_that_the_disk_has_damaged_is_not_read() {
        let record = Record::Offset {
            group: "g".into(),
            topic: "t".into(),
            partition: 0,
            value: Some(OffsetValue::default()),
        };
        let (key, value) = codec::encode(&record).unwrap();
        let mut builder = BatchBuilder::new(Codec::None);
        builder.append(0, Some(&key), value.as_deref(), &[]);
        let bytes = builder.build();

        let mut groups = shard();
        replay(&mut groups, &Batch::parse(&bytes).unwrap(), Offset(0)).unwrap();
        assert_eq!(groups.group_count(), 1);

        let mut damaged = bytes.to_vec();
        let last = damaged.len() - 1;
        damaged[last - 10] ^= 4;
        let batch = Batch::parse(&Bytes::from(damaged)).unwrap();
        assert!(matches!(
            replay(&mut shard(), &batch, Offset(0)),
            Err(Unreadable::Record { at: 0, .. })
        ));
    }
}
