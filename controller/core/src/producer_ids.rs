//! Blocks of producer ids: given away once, never again, even when the answer is lost (R4.70).

use metadata::ids::{BrokerEpoch, BrokerId, ProducerId};
use metadata::record::Record;

use crate::command::Reply;
use crate::decision::{Decision, View, registered};
use crate::refusal::Refusal;

/// Ids in one block.
pub const BLOCK_SIZE: i32 = 1000;

/// Gives a block away.
///
/// # Errors
/// When the broker is not registered under this epoch, or no ids are left.
pub fn allocate(view: &View<'_>, broker: BrokerId, epoch: BrokerEpoch) -> Result<Decision, Refusal> {
    registered(view.image, broker, epoch)?;
    let first = view.image.next_producer_id;
    let next = first
        .0
        .checked_add(i64::from(BLOCK_SIZE))
        .ok_or(Refusal::ProducerIdsExhausted)?;
    let record = Record::ProducerIdsAllocated {
        broker,
        broker_epoch: epoch,
        next: ProducerId(next),
    };
    Ok(Decision {
        records: vec![record],
        ..Decision::of(Reply::ProducerIds {
            first,
            count: BLOCK_SIZE,
        })
    })
}
