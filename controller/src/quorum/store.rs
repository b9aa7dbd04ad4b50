//! The log as the consensus library sees it: reads from memory, writes through the [`Writer`].
//!
//! Opening it decides whether the store may be trusted. Must not start on a log with a hole, below its floor, or
//! behind its snapshot.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use host::Disk;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{EntryPayload, OptionalSend};
use parking_lot::RwLock;
use tokio::sync::oneshot;

use super::floor::{Floor, FloorFile};
use super::log_backend::{COMMITTED, Loaded, LogBackend, PURGED, VOTE};
use super::types::{Entry, LogId, TypeConfig, Vote, decode_entry, decode_log_id, decode_vote, encode_entry};
use super::writer::{Change, Done, Writer};

/// What one replication message may carry, unless a single entry is larger.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Why a store may not be started on.
#[derive(Debug)]
pub enum Unusable {
    /// It lost or garbled something that it had promised to keep.
    Damaged(String),
    /// The disk failed, or another process holds the store.
    Fault(io::Error),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(why) => write!(f, "damaged: {why}"),
            Self::Fault(fault) => write!(f, "cannot be opened: {fault}"),
        }
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Damaged(error.to_string()),
            _ => Self::Fault(error),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<u64, Entry>,
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
}

/// The log of one node. Clones share it.
#[derive(Clone)]
pub struct LogStore {
    state: Arc<RwLock<State>>,
    writer: Arc<Writer>,
}

impl LogStore {
    /// Loads the store and puts it behind its writer.
    ///
    /// # Errors
    /// [`Unusable`], before anything was written.
    pub fn open(backend: impl LogBackend, disk: &dyn Disk, floor_path: &Path) -> Result<LogStore, Unusable> {
        LogStore::open_behind(backend, disk, floor_path, Writer::start)
    }

    /// As [`LogStore::open`], with the writer that `start` makes.
    pub fn open_behind<B: LogBackend>(
        mut backend: B,
        disk: &dyn Disk,
        floor_path: &Path,
        start: impl FnOnce(B, FloorFile) -> io::Result<Writer>,
    ) -> Result<LogStore, Unusable> {
        let loaded = backend.load()?;
        let state = State::of(&loaded)?;
        let floor_missing = !disk.exists(floor_path)?;
        if floor_missing && !state.is_pristine() {
            return Err(Unusable::Damaged("the floor file is gone".into()));
        }
        let floor = FloorFile::open(disk, floor_path)?;
        state.stands_on(floor.held()).map_err(Unusable::Damaged)?;
        let writer = start(backend, floor)?;
        Ok(LogStore {
            state: Arc::new(RwLock::new(state)),
            writer: Arc::new(writer),
        })
    }

    /// Never voted, no log.
    pub fn is_pristine(&self) -> bool {
        self.state.read().is_pristine()
    }

    /// The last log id that is only in a snapshot.
    pub fn purged(&self) -> Option<LogId> {
        self.state.read().purged
    }

    /// The index behind the last one.
    pub(super) fn next_index(&self) -> u64 {
        self.state.read().last().map_or(0, |last| last.index + 1)
    }

    /// Every entry that is not purged.
    pub(super) fn snapshot_of_entries(&self) -> Vec<Entry> {
        self.state.read().entries.values().cloned().collect()
    }

    /// The vote last given.
    pub(super) fn vote(&self) -> Option<Vote> {
        self.state.read().vote
    }

    /// Queues a change past the state in memory.
    pub(super) fn queue(&self, change: Change, done: Done) {
        self.writer.write(change, done);
    }

    async fn written(&self, change: Change) -> io::Result<()> {
        let (tx, rx) = oneshot::channel();
        self.writer.write(
            change,
            Box::new(move |result| {
                // The waiter is gone only when its task was dropped; the change stands all the same.
                let _ = tx.send(result);
            }),
        );
        rx.await
            .unwrap_or_else(|_| Err(io::Error::other("the writer of the metadata log has ended")))
    }
}

impl State {
    fn of(loaded: &Loaded) -> io::Result<State> {
        let purged = loaded.meta(PURGED).map(decode_log_id).transpose()?;
        let mut entries = BTreeMap::new();
        for (index, bytes) in &loaded.entries {
            let entry = decode_entry(bytes)?;
            if entry.log_id.index != *index {
                return Err(super::types::damaged(&format!(
                    "entry {index} says that it is entry {}",
                    entry.log_id.index
                )));
            }
            // A chunk that reaches beyond the purge point is kept whole on disk.
            if purged.is_none_or(|purged| purged.index < *index) {
                entries.insert(*index, entry);
            }
        }
        let expected = purged.map_or(0, |purged| purged.index + 1);
        if let Some((first, _)) = entries.first_key_value()
            && *first != expected
        {
            return Err(super::types::damaged(&format!(
                "a hole in the log: it begins at entry {first}, and {expected} was expected"
            )));
        }
        Ok(State {
            entries,
            vote: loaded.meta(VOTE).map(decode_vote).transpose()?,
            committed: loaded.meta(COMMITTED).map(decode_log_id).transpose()?,
            purged,
        })
    }

    fn is_pristine(&self) -> bool {
        self.vote.is_none() && self.entries.is_empty() && self.purged.is_none()
    }

    fn last(&self) -> Option<LogId> {
        let last = self.entries.last_key_value().map(|(_, entry)| entry.log_id);
        last.or(self.purged)
    }

    /// Whether everything the floor promises is there.
    fn stands_on(&self, floor: &Floor) -> Result<(), String> {
        let last = self.last().map(|id| id.index);
        if last < floor.index {
            return Err(format!(
                "its log ends at {}, and everything up to {} was synced",
                last.map_or("nothing".into(), |index| index.to_string()),
                floor.index.unwrap_or_default()
            ));
        }
        let behind = match (&self.vote, &floor.vote) {
            (_, None) => false,
            (None, Some(_)) => true,
            // A vote of the same term for the same node can only have been committed since.
            (Some(held), Some(promised)) => !matches!(
                held.partial_cmp(promised),
                Some(std::cmp::Ordering::Greater | std::cmp::Ordering::Equal)
            ),
        };
        if behind {
            return Err("its vote is older than the last one it gave".into());
        }
        Ok(())
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        if is_empty(&range) {
            return Ok(Vec::new());
        }
        let state = self.state.read();
        Ok(state
            .entries
            .range(range)
            .map(|(_, entry)| entry.clone())
            .collect())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.state.read().vote)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        let state = self.state.read();
        let mut size_bytes = 0;
        let mut entries = Vec::new();
        for (_, entry) in state.entries.range(start..end) {
            size_bytes += payload_bytes(entry);
            if MESSAGE_BYTES_MAX < size_bytes && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let state = self.state.read();
        Ok(LogState {
            last_purged_log_id: state.purged,
            last_log_id: state.last(),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.written(Change::Vote(*vote)).await?;
        self.state.write().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.state.write().committed = committed;
        if let Some(committed) = committed {
            self.writer.note(Change::Committed(committed));
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        let state = self.state.read();
        // The hint may be ahead of a log whose unsynced tail was lost with the power.
        Ok(state.committed.min(state.last()))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut encoded: Vec<(u64, Bytes)> = Vec::new();
        {
            let mut state = self.state.write();
            for entry in entries {
                encoded.push((entry.log_id.index, encode_entry(&entry)));
                state.entries.insert(entry.log_id.index, entry);
            }
        }
        self.writer.write(
            Change::Append(encoded),
            Box::new(|result| callback.io_completed(result)),
        );
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        let from = last_log_id.map_or(0, |last| last.index + 1);
        self.state.write().entries.split_off(&from);
        self.written(Change::TruncateFrom(from)).await
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        {
            let mut state = self.state.write();
            state.purged = state.purged.max(Some(log_id));
            state.entries = state.entries.split_off(&(log_id.index + 1));
        }
        // Written with the next change: whoever waits here hears no leader meanwhile, and entries that a snapshot stands
        // for do no harm if they come back.
        self.writer.note(Change::Purge(log_id));
        Ok(())
    }
}

fn payload_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(proposal) => proposal.0.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    }
}

/// `BTreeMap::range` panics on a range that ends before it begins.
fn is_empty(range: &(Bound<u64>, Bound<u64>)) -> bool {
    let start = match range.0 {
        Bound::Included(start) => start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    match range.1 {
        Bound::Included(end) => end < start,
        Bound::Excluded(end) => end <= start,
        Bound::Unbounded => false,
    }
}
