//! The unit of replication: records that stand or fall together, and who asked for them.

use crate::ids::{MetadataOffset, Term};
use crate::record::Record;

/// What one Raft entry carries. Applied iff `decided_in_term` is the entry's term **and** `base_offset` is the
/// image's `next_offset`; every node alike skips it otherwise. So a batch never commits without the one it was
/// decided on, nor after its leader was deposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataBatch {
    /// The term of the leader that decided it.
    pub decided_in_term: Term,
    /// Offset of the first record.
    pub base_offset: MetadataOffset,
    /// Who asked, for audit and blame.
    pub provenance: Provenance,
    /// At least one.
    pub records: Vec<Record>,
}

/// Where a change came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The principal (`User:ANONYMOUS`), or the part of the controller that acted by itself.
    pub actor: String,
    /// The client id that the caller gave.
    pub client_id: String,
    /// Names one forwarded request, so that a retry gets its own result. Empty when there is none.
    pub request_id: String,
    /// Milliseconds since 1970 on the deciding controller. Never read by a decision.
    pub wall_time_ms: i64,
}

impl MetadataBatch {
    /// The offset that follows the last record.
    #[must_use]
    pub fn end_offset(&self) -> MetadataOffset {
        let count = i64::try_from(self.records.len()).expect("a batch is far smaller than i64::MAX records");
        MetadataOffset(self.base_offset.0 + count)
    }
}
