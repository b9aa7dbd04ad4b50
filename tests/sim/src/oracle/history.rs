//! What was done to a cluster and what it answered. Facts only; nothing here judges.

use std::collections::BTreeSet;

/// A partition, by whatever number the recorder gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition(pub u32);

/// Somebody who reads a partition from some offset onwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reader(pub u32);

/// How a send ended, as far as its producer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged with this offset.
    Acknowledged(i64),
    /// It was acknowledged, and nobody told where it is: librdkafka takes the acknowledgement of a later batch for it when
    /// the answer to its own was lost.
    Confirmed,
    /// It was refused for good: it must never be read.
    Refused,
    /// Nobody can tell: it may be read, or not.
    Unknown,
}

/// One record handed to a producer. The order of sends of one producer to one partition is their order in the
/// history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Which producer, idempotent unless the history says otherwise.
    pub producer: u32,
    /// Where to.
    pub partition: Partition,
    /// The record's value; different for every send.
    pub payload: Vec<u8>,
    /// Which of its producer's batches it was a part of, where the recorder knows.
    pub batch: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
}

/// One record that somebody got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Who read it. The order of reads of one reader from one partition is their order in the history.
    pub reader: Reader,
    /// Where from.
    pub partition: Partition,
    /// At which offset.
    pub offset: i64,
    /// The record's value.
    pub payload: Vec<u8>,
}

/// Everything that was done and seen.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Every send, in order.
    pub sends: Vec<Send>,
    /// Every read, in order.
    pub reads: Vec<Read>,
    /// Readers that read every partition from its start to its end after everything had healed.
    pub complete: BTreeSet<Reader>,
    /// Readers that began every partition at its start, and read on until there was nothing more.
    pub settled: BTreeSet<Reader>,
    /// Producers without idempotence: duplicates and gaps are no anomaly of theirs.
    pub plain_producers: BTreeSet<u32>,
}
