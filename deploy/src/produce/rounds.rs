//! Lines into batches: at most one batch for each partition at a time, as a Produce request may hold. Decides and sends
//! nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::batch::{BatchBuilder, ProducerState};
use wire::codec::Codec;

use super::murmur::partition_of;
use crate::args::ProduceArgs;
use crate::cluster::Topic;
use crate::outcome::Failure;

/// How much a batch holds before compression: far below what any broker refuses by default (1 MiB).
const BATCH_BYTES_MAX: usize = 256 << 10;

/// An idempotent producer and the next sequence of each partition.
#[derive(Debug, Clone)]
pub struct Producer {
    /// Its id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// By partition; 0 where there is none yet.
    pub next: BTreeMap<i32, i32>,
}

/// A batch that is ready to be sent.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Where it goes.
    pub partition: i32,
    /// How many records it has.
    pub records: usize,
    /// How many bytes their keys and values have.
    pub plain_bytes: usize,
    /// The batch.
    pub batch: Bytes,
}

/// What becomes of lines.
#[derive(Debug)]
pub struct Rounds {
    partitions: Vec<i32>,
    only: Option<i32>,
    separator: Option<Vec<u8>>,
    codec: Codec,
    producer: Option<Producer>,
    /// Where lines without a key go at present: one partition until its batch is full.
    sticky: usize,
    lines: u64,
}

struct Open {
    builder: BatchBuilder,
    plain_bytes: usize,
}

impl Rounds {
    /// For the partitions of a topic.
    pub fn new(args: &ProduceArgs, topic: &Topic, producer: Option<Producer>) -> Self {
        Self {
            partitions: topic.leaders.keys().copied().collect(),
            only: args.partition,
            separator: args.key_separator.as_ref().map(|text| text.clone().into_bytes()),
            codec: args.compression,
            producer,
            sticky: 0,
            lines: 0,
        }
    }

    /// The batches of one request, from lines of which the next stands last. Lines for which there is no room stay.
    ///
    /// # Errors
    /// When the first line has no key where one is wanted, or the topic has no such partition. What stands before a
    /// later line of that kind is given first.
    pub fn next(&mut self, lines: &mut Vec<Vec<u8>>, now_ms: i64) -> Result<Vec<Ready>, Failure> {
        let mut open: BTreeMap<i32, Open> = BTreeMap::new();
        while let Some(line) = lines.last() {
            let placed = self
                .split(line)
                .and_then(|(key, value)| Ok((key, value, self.partition(key)?)));
            let (key, value, partition) = match placed {
                // What stands before a wrong line is written first; the line is told of when its turn comes.
                Err(_) if !open.is_empty() => break,
                placed => placed?,
            };
            let size = key.map_or(0, <[u8]>::len) + value.len();
            let batch = open.entry(partition).or_insert_with(|| Open {
                builder: BatchBuilder::new(self.codec),
                plain_bytes: 0,
            });
            if 0 < batch.builder.count() && BATCH_BYTES_MAX < batch.builder.body_size() + size {
                if key.is_none() && self.only.is_none() && open.len() < self.partitions.len() {
                    self.sticky += 1;
                    continue;
                }
                break;
            }
            batch.builder.append(now_ms, key, Some(value), &[]);
            batch.plain_bytes += size;
            self.lines += 1;
            lines.pop();
        }
        self.sticky += 1;
        Ok(open
            .into_iter()
            .map(|(partition, open)| self.close(partition, open))
            .collect())
    }

    fn close(&mut self, partition: i32, open: Open) -> Ready {
        let records = open.builder.count();
        let builder = match &mut self.producer {
            None => open.builder,
            Some(producer) => {
                let next = producer.next.entry(partition).or_default();
                let base_sequence = *next;
                *next = sequence_after(base_sequence, records);
                open.builder.producer(ProducerState {
                    id: producer.id,
                    epoch: producer.epoch,
                    base_sequence,
                })
            }
        };
        Ready {
            partition,
            records,
            plain_bytes: open.plain_bytes,
            batch: builder.build(),
        }
    }

    fn split<'a>(&self, line: &'a [u8]) -> Result<(Option<&'a [u8]>, &'a [u8]), Failure> {
        let Some(separator) = &self.separator else {
            return Ok((None, line));
        };
        let at = line
            .windows(separator.len().max(1))
            .position(|part| part == separator.as_slice());
        let at = at.ok_or_else(|| {
            Failure::Refused(format!(
                "line {} has no key: the separator is not in it; what stands before it was sent, nothing after it",
                self.lines + 1
            ))
        })?;
        Ok((Some(&line[..at]), &line[at + separator.len()..]))
    }

    fn partition(&self, key: Option<&[u8]>) -> Result<i32, Failure> {
        if let Some(only) = self.only {
            return Ok(only);
        }
        let count = self.partitions.len();
        if count == 0 {
            return Err(Failure::Refused("the topic has no partitions".to_owned()));
        }
        let index = key.map_or(self.sticky % count, |key| partition_of(key, count));
        Ok(self.partitions[index])
    }
}

/// Sequences go from 0 to 2³¹−1 and begin again.
fn sequence_after(base: i32, records: usize) -> i32 {
    let next = (i64::from(base) + records as i64) % (1 << 31);
    i32::try_from(next).expect("the remainder of 2³¹ fits")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use wire::batch::Batch;

    fn rounds(separator: Option<&str>, partitions: i32) -> Rounds {
        Rounds {
            partitions: (0..partitions).collect(),
            only: None,
            separator: separator.map(|text| text.as_bytes().to_vec()),
            codec: Codec::None,
            producer: Some(Producer {
                id: 7,
                epoch: 1,
                next: BTreeMap::new(),
            }),
            sticky: 0,
            lines: 0,
        }
    }

    fn lines(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().rev().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn lines_without_a_key_stay_together_and_move_on_with_the_next_round() {
        let mut rounds = rounds(None, 3);
        let first = rounds.next(&mut lines(&["a", "b"]), 5).unwrap();
        let second = rounds.next(&mut lines(&["c"]), 5).unwrap();
        assert_eq!((first.len(), first[0].partition, first[0].records), (1, 0, 2));
        assert_eq!((second.len(), second[0].partition), (1, 1));
    }

    #[test]
    fn sequences_go_on_where_the_last_batch_of_the_partition_ended() {
        let mut rounds = rounds(None, 1);
        rounds.next(&mut lines(&["a", "b"]), 5).unwrap();
        let second = rounds.next(&mut lines(&["c"]), 5).unwrap();
        let header = Batch::parse(&second[0].batch).unwrap().header;
        assert_eq!(
            (header.producer_id, header.producer_epoch, header.base_sequence),
            (7, 1, 2)
        );
        assert_eq!(sequence_after(i32::MAX, 1), 0);
        assert_eq!(sequence_after(i32::MAX - 1, 3), 1);
    }

    #[test]
    fn a_key_is_split_off_and_decides_the_partition() {
        let mut rounds = rounds(Some(":"), 12);
        let ready = rounds.next(&mut lines(&["21:x:y", "21:z"]), 5).unwrap();
        assert_eq!((ready.len(), ready[0].records), (1, 2));
        let batch = Batch::parse(&ready[0].batch).unwrap();
        let body = batch.body(100).unwrap();
        let record = batch.records(&body).next().unwrap().unwrap();
        assert_eq!((record.key, record.value), (Some(&b"21"[..]), Some(&b"x:y"[..])));
    }

    #[test]
    fn a_line_without_its_key_is_named_after_those_before_it_were_sent() {
        let mut rounds = rounds(Some(":"), 1);
        let mut waiting = lines(&["a:b", "nothing", "c:d"]);
        let before = rounds.next(&mut waiting, 5).unwrap();
        assert_eq!((before.len(), before[0].records), (1, 1));
        let refused = rounds.next(&mut waiting, 5).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "line 2 has no key: the separator is not in it; what stands before it was sent, nothing after it"
        );
    }

    #[test]
    fn what_does_not_fit_waits_for_the_next_request() {
        let long = "x".repeat(BATCH_BYTES_MAX / 2 + 1);
        let mut rounds = rounds(None, 2);
        let mut waiting = lines(&[&long, &long, &long]);
        let first = rounds.next(&mut waiting, 5).unwrap();
        assert_eq!((first.len(), waiting.len()), (2, 1));
        assert_eq!(rounds.next(&mut waiting, 5).unwrap().len(), 1);
    }
}
