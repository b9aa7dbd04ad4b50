//! What the quorum needs of a durable store: one ordered, atomic batch, made durable on request. Reads come from
//! memory, so there is no read path beyond [`LogBackend::load`].
//!
//! Must not know what an entry means.

use std::io;

use bytes::Bytes;

/// Names a small value kept beside the log.
pub type MetaKey = &'static str;

/// The vote last given.
pub const VOTE: MetaKey = "vote";
/// The last log id that was purged.
pub const PURGED: MetaKey = "purged";
/// The last log id known to be committed.
pub const COMMITTED: MetaKey = "committed";

/// One atomic change, applied in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Entries from this index on are dropped.
    pub truncate_from: Option<u64>,
    /// Entries up to and with this index are dropped.
    pub purge_upto: Option<u64>,
    /// New entries, indexes dense and behind everything that is left.
    pub append: Vec<(u64, Bytes)>,
    /// Small values, replaced as a whole.
    pub meta: Vec<(MetaKey, Bytes)>,
}

impl Batch {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a store held when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The entries, indexes dense.
    pub entries: Vec<(u64, Bytes)>,
    /// The small values by name.
    pub meta: Vec<(MetaKey, Bytes)>,
}

impl Loaded {
    /// One small value.
    pub fn meta(&self, key: MetaKey) -> Option<&Bytes> {
        self.meta
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }
}

/// A durable store. Owned by one thread; never called from an async task.
///
/// All errors are final: what is on disk is then unknown, and the node must not go on.
pub trait LogBackend: Send + 'static {
    /// Everything in the store, checksums and continuity checked.
    ///
    /// # Errors
    /// `InvalidData` on a hole or a checksum that does not fit; the store's own otherwise.
    fn load(&mut self) -> io::Result<Loaded>;

    /// Applies a batch, atomically. It may be lost with the power until [`LogBackend::sync`] returns.
    fn apply(&mut self, batch: &Batch) -> io::Result<()>;

    /// Makes everything applied durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// Fails on the first index that does not follow the one before it.
pub fn assert_dense(entries: &[(u64, Bytes)]) -> io::Result<()> {
    for pair in entries.windows(2) {
        if pair[0].0.checked_add(1) != Some(pair[1].0) {
            let (before, after) = (pair[0].0, pair[1].0);
            return Err(super::types::damaged(&format!(
                "a hole in the log: entry {before} is followed by entry {after}"
            )));
        }
    }
    Ok(())
}
