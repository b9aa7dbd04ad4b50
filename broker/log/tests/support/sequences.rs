//! The law that an idempotent producer relies on, over whatever it sends again (T-1 to T-3).

use partition_log::{AppendOutcome, LogConfig, Offset};
use proptest::prelude::*;

use super::{append, batches, fresh, sequenced};

/// What a producer does next.
#[derive(Clone, Copy, Debug)]
pub enum Sent {
    /// The next batch, of so many records.
    Next(usize),
    /// One of its last batches again, this many back.
    Again(usize),
}

/// What a producer with at most five requests in flight may send.
pub fn script() -> impl Strategy<Value = Vec<Sent>> {
    let one = prop_oneof![
        (1..4usize).prop_map(Sent::Next),
        (0..5usize).prop_map(Sent::Again)
    ];
    prop::collection::vec(one, 1..40)
}

/// Each batch lies in the log once, however often it was sent, and each answer carries its offset.
pub fn each_batch_is_stored_once(script: &[Sent]) -> Result<(), String> {
    let (_disk, mut log) = fresh(LogConfig::default());
    // First sequence and number of records; the producer is alone, so its sequences are the offsets.
    let mut stored: Vec<(i32, usize)> = Vec::new();
    for sent in script {
        let next = stored.last().map_or(0, |(first, count)| first + *count as i32);
        let (first, count, outcome) = match *sent {
            Sent::Next(count) => {
                stored.push((next, count));
                (next, count, AppendOutcome::Written)
            }
            Sent::Again(back) => match stored.iter().rev().nth(back) {
                Some((first, count)) => (*first, *count, AppendOutcome::Duplicate),
                None => continue,
            },
        };
        let appended = append(&mut log, &sequenced(9, 0, first, count));
        let got = (appended.first, appended.outcome);
        if got != (Offset(i64::from(first)), outcome) {
            return Err(format!("sequence {first} is stored once: {got:?}"));
        }
    }
    let held: Vec<i32> = batches(&log.view(), Offset::ZERO)
        .iter()
        .map(|batch| batch.header.base_sequence)
        .collect();
    let expected: Vec<i32> = stored.iter().map(|(first, _)| *first).collect();
    if held == expected {
        Ok(())
    } else {
        Err(format!("each batch is stored once: {held:?}, sent {expected:?}"))
    }
}
