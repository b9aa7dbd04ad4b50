//! The log that all agree on, replayed by the shipped rules: what every state machine must show.

use std::collections::BTreeMap;

use bytes::Bytes;
use metadata::batch::MetadataBatch;
use metadata::dump::dump;
use metadata::ids::Term;
use metadata::image::Image;
use metadata::record::Record;
use metadata::replay::Application;

use crate::history::{Fact, History};

/// A checksum of what an entry carries.
pub fn checksum(batch: Option<&Bytes>) -> u32 {
    batch.map_or(0, |bytes| crc32c::crc32c(bytes))
}

/// A checksum of an image.
pub fn digest(image: &Image) -> u32 {
    let position = [image.next_offset.0.to_be_bytes(), image.last_term.0.to_be_bytes()].concat();
    dump(image).fold(crc32c::crc32c(&position), |so_far, record| {
        crc32c::crc32c_append(so_far, &record.encode())
    })
}

/// What the applied entries add up to.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Checksum of the image at each end of a batch.
    pub digests: BTreeMap<i64, u32>,
    /// How often each block of producer ids was given away, by its end.
    pub blocks: BTreeMap<i64, usize>,
    /// Batches that every replay skips.
    pub skipped: usize,
}

impl Replayed {
    /// Replays what was applied anywhere, by position.
    pub fn of(history: &History) -> Result<Replayed, String> {
        let mut log = BTreeMap::new();
        for fact in history.iter() {
            if let Fact::Applied {
                position,
                term,
                batch,
                ..
            } = fact
            {
                log.insert(*position, (*term, batch.clone()));
            }
        }
        let mut image = Image::default();
        let mut replayed = Replayed::default();
        for (position, (term, batch)) in log {
            if let Some(bytes) = batch {
                let batch =
                    MetadataBatch::decode(&bytes).map_err(|error| format!("at {position}: {error}"))?;
                replayed.apply(&mut image, &batch, Term(term))?;
            }
        }
        Ok(replayed)
    }

    fn apply(&mut self, image: &mut Image, batch: &MetadataBatch, term: Term) -> Result<(), String> {
        let application = image.apply(batch, term).map_err(|error| error.to_string())?;
        if application != Application::Applied {
            self.skipped += 1;
            return Ok(());
        }
        self.digests.insert(image.next_offset.0, digest(image));
        for record in &batch.records {
            if let Record::ProducerIdsAllocated { next, .. } = record {
                *self.blocks.entry(next.0).or_default() += 1;
            }
        }
        Ok(())
    }
}

/// A batch that gives away the next block of ids, for made-up histories.
#[cfg(test)]
pub fn block(image: &mut Image) -> Bytes {
    use metadata::ids::{BrokerEpoch, BrokerId, ProducerId};
    let batch = MetadataBatch {
        decided_in_term: Term(1),
        base_offset: image.next_offset,
        provenance: Default::default(),
        records: vec![Record::ProducerIdsAllocated {
            broker: BrokerId(1),
            broker_epoch: BrokerEpoch(0),
            next: ProducerId(image.next_producer_id.0 + 1000),
        }],
    };
    image.apply(&batch, Term(1)).expect("it follows");
    batch.encode()
}

/// As an entry that was applied.
#[cfg(test)]
pub fn applied(position: u64, batch: Bytes) -> Fact {
    Fact::Applied {
        at: 0,
        life: 0,
        position,
        term: 1,
        batch: Some(batch),
        durable_on: 2,
        majority: 2,
    }
}
