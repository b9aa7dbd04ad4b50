//! What each producer wrote last: duplicates, sequences and open transactions (T-1 to T-9).
//!
//! One partition's own knowledge, derived from its batches alone: replaying the same batches gives the same state on
//! every replica. Must not: know about coordinators or verification.

use std::collections::{BTreeMap, VecDeque};

use host::WallMs;
use wire::batch::BatchHeader;

use crate::AppendRefusal;
use crate::types::{CoordinatorEpoch, Offset, ProducerEpoch, ProducerId};

/// Batches remembered per producer: a client has at most five requests in flight (T-1).
const BATCHES_REMEMBERED: usize = 5;

/// One remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequencedBatch {
    pub first_sequence: i32,
    pub last_sequence: i32,
    pub first: Offset,
    pub last: Offset,
    /// The batch's largest time.
    pub timestamp: i64,
}

/// One producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Producer {
    pub epoch: ProducerEpoch,
    /// Of the current epoch, oldest first.
    pub batches: VecDeque<SequencedBatch>,
    /// Of the last marker.
    pub coordinator_epoch: Option<CoordinatorEpoch>,
    /// Largest time of the last batch, or time of the marker.
    pub last_timestamp: i64,
    /// First record of the transaction that is open.
    pub open_from: Option<Offset>,
}

/// A transaction that a marker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedTransaction {
    pub producer: ProducerId,
    pub first: Offset,
    /// The marker.
    pub last: Offset,
    pub how: TransactionEnd,
}

/// What a marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionEnd {
    Aborted,
    Committed,
}

/// All producers of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Producers {
    by_id: BTreeMap<ProducerId, Producer>,
    /// Ended, but readers below the marker must still wait for it: first offset → marker (F-7).
    ended: BTreeMap<Offset, Offset>,
}

impl Producers {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ProducerId, &Producer)> {
        self.by_id.iter().map(|(id, producer)| (*id, producer))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub(crate) fn insert(&mut self, id: ProducerId, producer: Producer) {
        self.by_id.insert(id, producer);
    }

    /// The batch in the log that this one repeats: same epoch, same bounds of sequence (T-2).
    pub(crate) fn duplicate_of(&self, header: &BatchHeader) -> Option<SequencedBatch> {
        #[cfg(feature = "mutants")]
        if crate::mutants::duplicate_sequence_accepted() {
            return None;
        }
        self.remembered(header)
    }

    fn remembered(&self, header: &BatchHeader) -> Option<SequencedBatch> {
        let (id, epoch) = identity(header)?;
        let producer = self.by_id.get(&id).filter(|producer| producer.epoch == epoch)?;
        let bounds = (header.base_sequence, last_sequence(header));
        producer
            .batches
            .iter()
            .copied()
            .find(|batch| (batch.first_sequence, batch.last_sequence) == bounds)
    }

    /// Whether a client's data batch may follow what the producer wrote (T-3, T-4, T-7).
    pub(crate) fn check(&self, header: &BatchHeader) -> Result<(), AppendRefusal> {
        let Some((id, given)) = identity(header) else {
            return Ok(());
        };
        #[cfg(feature = "mutants")]
        if crate::mutants::duplicate_sequence_accepted() && self.remembered(header).is_some() {
            return Ok(());
        }
        // Nothing is known: any first sequence will do, for the records before may be gone.
        let Some(producer) = self.by_id.get(&id) else {
            return Ok(());
        };
        let held = producer.epoch;
        if given < held {
            return Err(AppendRefusal::StaleProducerEpoch {
                producer: id,
                held,
                given,
            });
        }
        let last = producer.batches.back().map(|batch| batch.last_sequence);
        let expected = match last {
            Some(last) if given == held => advance(last, 1),
            _ => 0,
        };
        let unknown_epoch = held.0 < 0;
        if header.base_sequence != expected && !unknown_epoch {
            let held = last.filter(|_| given == held);
            return Err(AppendRefusal::OutOfOrderSequence {
                producer: id,
                held,
                given: header.base_sequence,
            });
        }
        if producer.open_from.is_some() && !header.attributes.is_transactional() {
            return Err(AppendRefusal::TransactionOpen { producer: id });
        }
        Ok(())
    }

    /// Takes note of a data batch that is in the log.
    pub(crate) fn replay_data(&mut self, header: &BatchHeader) {
        let Some((id, epoch)) = identity(header) else {
            return;
        };
        let producer = self.by_id.entry(id).or_insert_with(|| Producer::new(epoch));
        producer.enter(epoch);
        if producer.batches.len() == BATCHES_REMEMBERED {
            producer.batches.pop_front();
        }
        producer.batches.push_back(SequencedBatch {
            first_sequence: header.base_sequence,
            last_sequence: last_sequence(header),
            first: Offset(header.base_offset),
            last: Offset(header.last_offset()),
            timestamp: header.max_timestamp,
        });
        producer.last_timestamp = header.max_timestamp;
        if header.attributes.is_transactional() && producer.open_from.is_none() {
            producer.open_from = Some(Offset(header.base_offset));
        }
    }

    /// Takes note of a marker that is in the log; the transaction that it ended, if one was open (T-6).
    pub(crate) fn replay_marker(
        &mut self,
        header: &BatchHeader,
        how: TransactionEnd,
        coordinator_epoch: CoordinatorEpoch,
    ) -> Option<EndedTransaction> {
        let (id, epoch) = identity(header)?;
        let producer = self.by_id.entry(id).or_insert_with(|| Producer::new(epoch));
        producer.enter(epoch);
        producer.coordinator_epoch = Some(coordinator_epoch);
        producer.last_timestamp = header.max_timestamp;
        let first = producer.open_from.take()?;
        let last = Offset(header.base_offset);
        self.ended.insert(first, last);
        Some(EndedTransaction {
            producer: id,
            first,
            last,
            how,
        })
    }

    /// First offset that a read-committed reader may not pass while the watermark is `high_watermark` (F-7).
    pub(crate) fn first_unstable(&self, high_watermark: Offset) -> Option<Offset> {
        let open = self
            .by_id
            .values()
            .filter_map(|producer| producer.open_from)
            .min();
        let ended = self
            .ended
            .iter()
            .find(|(_, marker)| high_watermark <= **marker)
            .map(|(first, _)| *first);
        open.into_iter().chain(ended).min()
    }

    /// First record of the earliest transaction that is open.
    pub(crate) fn first_open(&self) -> Option<Offset> {
        self.by_id
            .values()
            .filter_map(|producer| producer.open_from)
            .min()
    }

    /// Forgets ended transactions whose marker is under the watermark.
    pub(crate) fn settle(&mut self, high_watermark: Offset) {
        if !self.ended.is_empty() {
            self.ended.retain(|_, marker| high_watermark <= *marker);
        }
    }

    /// Forgets producers without an open transaction that have been silent for `silent_ms` (T-9).
    pub(crate) fn expire(&mut self, now: WallMs, silent_ms: u64) -> usize {
        let before = self.by_id.len();
        let silent_ms = i64::try_from(silent_ms).unwrap_or(i64::MAX);
        self.by_id.retain(|_, producer| {
            producer.open_from.is_some() || now.0.saturating_sub(producer.last_timestamp) < silent_ms
        });
        before - self.by_id.len()
    }
}

impl Producer {
    fn new(epoch: ProducerEpoch) -> Producer {
        Producer {
            epoch,
            batches: VecDeque::new(),
            coordinator_epoch: None,
            last_timestamp: -1,
            open_from: None,
        }
    }

    /// Sequences begin anew with each epoch (T-3).
    fn enter(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }
}

fn identity(header: &BatchHeader) -> Option<(ProducerId, ProducerEpoch)> {
    (0 <= header.producer_id).then_some((
        ProducerId(header.producer_id),
        ProducerEpoch(header.producer_epoch),
    ))
}

/// The sequence of a batch's last record.
pub(crate) fn last_sequence(header: &BatchHeader) -> i32 {
    advance(header.base_sequence, header.last_offset_delta)
}

/// Sequences go from the largest i32 to 0.
pub(crate) fn advance(sequence: i32, by: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(by);
    i32::try_from(if i64::from(i32::MAX) < sum {
        sum - i64::from(i32::MAX) - 1
    } else {
        sum
    })
    .unwrap_or(0)
}

/// The inverse of [`advance`].
pub(crate) fn go_back(sequence: i32, by: i32) -> i32 {
    let difference = i64::from(sequence) - i64::from(by);
    i32::try_from(if difference < 0 {
        difference + i64::from(i32::MAX) + 1
    } else {
        difference
    })
    .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use wire::batch::{Batch, BatchBuilder, ProducerState};
    use wire::codec::Codec;

    fn header(epoch: i16, sequence: i32, count: usize, base_offset: i64) -> BatchHeader {
        let mut builder = BatchBuilder::new(Codec::None)
            .base_offset(base_offset)
            .producer(ProducerState {
                id: 9,
                epoch,
                base_sequence: sequence,
            });
        for _ in 0..count {
            builder.append(1_000 + base_offset, None, Some(b"v"), &[]);
        }
        Batch::parse(&builder.build()).unwrap().header
    }

    fn transactional(header: BatchHeader) -> BatchHeader {
        BatchHeader {
            attributes: header.attributes.transactional(),
            ..header
        }
    }

    #[test]
    fn the_same_bounds_of_sequence_are_a_duplicate() {
        let mut producers = Producers::default();
        producers.replay_data(&header(0, 0, 3, 10));
        producers.replay_data(&header(0, 3, 2, 13));

        let found = producers.duplicate_of(&header(0, 0, 3, 0)).unwrap();
        assert_eq!(
            (found.first, found.last, found.timestamp),
            (Offset(10), Offset(12), 1_010)
        );
        assert_eq!(producers.duplicate_of(&header(0, 0, 2, 0)), None);
        assert_eq!(producers.duplicate_of(&header(1, 0, 3, 0)), None);
    }

    #[test]
    fn a_duplicate_older_than_five_batches_is_out_of_order() {
        let mut producers = Producers::default();
        for n in 0..6 {
            producers.replay_data(&header(0, n, 1, i64::from(n)));
        }
        assert!(producers.duplicate_of(&header(0, 1, 1, 0)).is_some());
        assert_eq!(producers.duplicate_of(&header(0, 0, 1, 0)), None);
        assert_eq!(
            producers.check(&header(0, 0, 1, 0)),
            Err(AppendRefusal::OutOfOrderSequence {
                producer: ProducerId(9),
                held: Some(5),
                given: 0
            })
        );
    }

    #[test]
    fn an_older_epoch_is_refused_and_a_newer_one_begins_at_zero() {
        let mut producers = Producers::default();
        producers.replay_data(&header(4, 7, 1, 0));
        let stale = |held, given| {
            Err(AppendRefusal::StaleProducerEpoch {
                producer: ProducerId(9),
                held: ProducerEpoch(held),
                given: ProducerEpoch(given),
            })
        };
        assert_eq!(producers.check(&header(3, 8, 1, 0)), stale(4, 3));
        assert_eq!(
            producers.check(&header(5, 8, 1, 0)),
            Err(AppendRefusal::OutOfOrderSequence {
                producer: ProducerId(9),
                held: None,
                given: 8
            })
        );
        assert_eq!(producers.check(&header(5, 0, 1, 0)), Ok(()));
    }

    #[test]
    fn an_unknown_producer_may_begin_anywhere() {
        assert_eq!(Producers::default().check(&header(3, 77, 1, 0)), Ok(()));
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let mut producers = Producers::default();
        producers.replay_data(&header(0, i32::MAX, 1, 0));
        assert_eq!(producers.check(&header(0, 0, 1, 0)), Ok(()));
        assert_eq!(advance(i32::MAX - 1, 3), 1);
        assert_eq!(go_back(1, 3), i32::MAX - 1);
    }

    #[test]
    fn plain_records_are_refused_while_a_transaction_is_open() {
        let mut producers = Producers::default();
        producers.replay_data(&transactional(header(0, 0, 1, 5)));

        assert_eq!(
            producers.check(&header(0, 1, 1, 0)),
            Err(AppendRefusal::TransactionOpen {
                producer: ProducerId(9)
            })
        );
        assert_eq!(producers.check(&transactional(header(0, 1, 1, 0))), Ok(()));
    }

    #[test]
    fn readers_wait_for_open_transactions_and_for_markers_above_the_watermark() {
        let mut producers = Producers::default();
        producers.replay_data(&transactional(header(0, 0, 1, 5)));
        assert_eq!(producers.first_unstable(Offset(9)), Some(Offset(5)));

        let marker = header(1, -1, 1, 8);
        let ended = producers
            .replay_marker(&marker, TransactionEnd::Aborted, CoordinatorEpoch(2))
            .unwrap();
        assert_eq!((ended.first, ended.last), (Offset(5), Offset(8)));
        assert_eq!(producers.first_unstable(Offset(8)), Some(Offset(5)));
        assert_eq!(producers.first_unstable(Offset(9)), None);
        producers.settle(Offset(9));
        assert_eq!(producers.ended.len(), 0);
        // The marker raised the epoch: its data begins at sequence 0.
        assert_eq!(producers.check(&header(1, 0, 1, 0)), Ok(()));
    }

    #[test]
    fn silent_producers_expire_by_the_time_of_their_records() {
        let mut producers = Producers::default();
        producers.replay_data(&header(0, 0, 1, 0));
        assert_eq!(producers.expire(WallMs(1_999), 1_000), 0);
        assert_eq!(producers.expire(WallMs(2_000), 1_000), 1);
        assert_eq!(producers.iter().count(), 0);

        producers.replay_data(&transactional(header(0, 0, 1, 0)));
        assert_eq!(producers.expire(WallMs(i64::MAX), 0), 0);
    }
}
