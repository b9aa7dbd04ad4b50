//! The store without the consensus library around it, for drills: append, purge, look, and be killed meanwhile.
//!
//! Must not be used by a running controller: it speaks for no quorum.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use host::Disk;
use openraft::EntryPayload;

use super::log_backend::LogBackend;
use super::store::{LogStore, Unusable};
use super::types::{CommittedLeader, Entry, LogId, Proposal, Vote, encode_entry};
use super::writer::Change;
use super::{Layout, open_log};

const TERM: u64 = 1;

/// An open store.
pub struct Drill {
    store: LogStore,
    next: u64,
}

/// A change on its way to the disk.
pub struct Durable(Receiver<io::Result<()>>);

impl Durable {
    /// Waits until it is durable.
    ///
    /// # Errors
    /// The disk's.
    pub fn wait(&self) -> io::Result<()> {
        let ended = |_| io::Error::other("the writer has ended");
        self.0.recv().map_err(ended)?
    }

    /// Whether it was acknowledged by now.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        matches!(self.0.try_recv(), Ok(Ok(())))
    }
}

impl Drill {
    /// Opens the store on sled below `dir`, as a controller does.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn open(disk: &dyn Disk, dir: &Path) -> Result<Drill, Unusable> {
        Ok(Drill::on(open_log(disk, &Layout::below(dir))?))
    }

    /// Opens the store on any backend.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn open_on(backend: impl LogBackend, disk: &dyn Disk, floor: &Path) -> Result<Drill, Unusable> {
        Ok(Drill::on(LogStore::open(backend, disk, floor)?))
    }

    fn on(store: LogStore) -> Drill {
        let next = store.next_index();
        Drill { store, next }
    }

    /// Everything that is not purged: index and payload.
    #[must_use]
    pub fn entries(&self) -> Vec<(u64, Bytes)> {
        let payload = |entry: Entry| match entry.payload {
            EntryPayload::Normal(proposal) => proposal.0,
            EntryPayload::Blank | EntryPayload::Membership(_) => Bytes::new(),
        };
        let entries = self.store.snapshot_of_entries().into_iter();
        entries
            .map(|entry| (entry.log_id.index, payload(entry)))
            .collect()
    }

    /// The index that the next entry gets.
    #[must_use]
    pub fn next_index(&self) -> u64 {
        self.next
    }

    /// The term of the vote that is held.
    #[must_use]
    pub fn voted_term(&self) -> Option<u64> {
        self.store.vote().map(|vote| vote.leader_id.term)
    }

    /// Appends entries with these payloads.
    pub fn append(&mut self, payloads: impl IntoIterator<Item = Bytes>) -> Durable {
        let mut entries = Vec::new();
        for payload in payloads {
            let log_id = LogId::new(CommittedLeader::new(TERM), self.next);
            let payload = EntryPayload::Normal(Proposal(payload));
            entries.push((self.next, encode_entry(&Entry { log_id, payload })));
            self.next += 1;
        }
        self.change(Change::Append(entries))
    }

    /// Drops entries up to and with `upto`.
    pub fn purge(&mut self, upto: u64) -> Durable {
        self.change(Change::Purge(LogId::new(CommittedLeader::new(TERM), upto)))
    }

    /// Drops entries from `from` on.
    pub fn truncate(&mut self, from: u64) -> Durable {
        self.next = from;
        self.change(Change::TruncateFrom(from))
    }

    /// Votes in a term.
    pub fn vote(&mut self, term: u64) -> Durable {
        self.change(Change::Vote(Vote::new(term, 1)))
    }

    fn change(&self, change: Change) -> Durable {
        let (tx, rx) = channel();
        self.store.queue(
            change,
            Box::new(move |result| {
                // The drill may have lost interest.
                let _ = tx.send(result);
            }),
        );
        Durable(rx)
    }
}
