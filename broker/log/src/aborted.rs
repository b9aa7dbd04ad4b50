//! The aborted transactions of a segment, `.txnindex` (L-9, F-8).
//!
//! ```text
//! version i16 = 0 | producer id i64 | first offset i64 | last offset i64 (the marker) | last stable offset i64
//! ```
//! Entries stand in the order of their markers. Must not: exist for segments without aborted transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host::File;

use crate::LogFault;
use crate::index::LazyFile;
use crate::types::{Offset, ProducerId};

const ENTRY_BYTES: usize = 34;

/// One aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AbortedEntry {
    pub producer: ProducerId,
    pub first: Offset,
    /// The marker.
    pub last: Offset,
    /// The last stable offset once this transaction was decided.
    pub last_stable: Offset,
}

/// The index of one segment.
#[derive(Debug)]
pub(crate) struct AbortedIndex {
    file: LazyFile,
    size_bytes: AtomicU64,
}

impl AbortedIndex {
    pub(crate) fn on_disk(file: LazyFile, size_bytes: u64) -> AbortedIndex {
        AbortedIndex {
            file,
            size_bytes: AtomicU64::new(size_bytes / ENTRY_BYTES as u64 * ENTRY_BYTES as u64),
        }
    }

    pub(crate) fn append(&self, entry: AbortedEntry) -> Result<(), LogFault> {
        let at = self.size_bytes.load(Ordering::Acquire);
        let file = self.file.get_or_create()?;
        let fault = |e| LogFault::io("write to", self.file.path())(e);
        if at == 0 {
            file.set_len(0).map_err(fault)?;
        }
        file.write_at(&entry.to_bytes(), at).map_err(fault)?;
        self.size_bytes.store(at + ENTRY_BYTES as u64, Ordering::Release);
        Ok(())
    }

    pub(crate) fn entries(&self) -> Result<Vec<AbortedEntry>, LogFault> {
        let size = self.size_bytes.load(Ordering::Acquire);
        if size == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let file = self.file.get()?;
        file.read_exact_at(&mut bytes, 0)
            .map_err(LogFault::io("read", self.file.path()))?;
        Ok(bytes
            .chunks_exact(ENTRY_BYTES)
            .filter_map(AbortedEntry::parse)
            .collect())
    }

    /// An index of the same file without the transactions whose marker is at or behind `end`; the file follows with
    /// [`AbortedIndex::cut_file`].
    pub(crate) fn prefix(&self, end: Offset) -> Result<AbortedIndex, LogFault> {
        let kept = self
            .entries()?
            .iter()
            .take_while(|entry| entry.last < end)
            .count();
        Ok(AbortedIndex::on_disk(
            self.file.again(),
            (kept * ENTRY_BYTES) as u64,
        ))
    }

    /// The file holds nothing behind its entries.
    pub(crate) fn cut_file(&self) -> Result<(), LogFault> {
        let size = self.size_bytes.load(Ordering::Acquire);
        match self.file.get() {
            Err(LogFault::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
            opened => opened?
                .set_len(size)
                .map_err(LogFault::io("truncate", self.file.path())),
        }
    }

    pub(crate) fn handle(&self) -> Result<Option<Arc<dyn File>>, LogFault> {
        match self.size_bytes.load(Ordering::Acquire) {
            0 => Ok(None),
            _ => self.file.get().map(Some),
        }
    }

    pub(crate) fn release(&self) {
        self.file.release();
    }
}

impl AbortedEntry {
    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[2..10].copy_from_slice(&self.producer.0.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.first.0.to_be_bytes());
        bytes[18..26].copy_from_slice(&self.last.0.to_be_bytes());
        bytes[26..34].copy_from_slice(&self.last_stable.0.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<AbortedEntry> {
        let number = |at: usize| bytes[at..].first_chunk().map(|eight| i64::from_be_bytes(*eight));
        Some(AbortedEntry {
            producer: ProducerId(number(2)?),
            first: Offset(number(10)?),
            last: Offset(number(18)?),
            last_stable: Offset(number(26)?),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use host::{Disk, SimDisk};
    use std::path::Path;

    fn entry(first: i64, last: i64) -> AbortedEntry {
        AbortedEntry {
            producer: ProducerId(0x0a0b),
            first: Offset(first),
            last: Offset(last),
            last_stable: Offset(last + 1),
        }
    }

    #[test]
    fn an_entry_has_kafkas_bytes_and_truncation_goes_by_the_marker() {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/d")).unwrap();
        let index = AbortedIndex::on_disk(LazyFile::new(Arc::new(disk.clone()), "/d/x.txnindex".into()), 0);
        assert_eq!(index.entries().unwrap(), []);
        assert!(!disk.exists(Path::new("/d/x.txnindex")).unwrap());

        index.append(entry(3, 9)).unwrap();
        index.append(entry(5, 12)).unwrap();
        let bytes = disk.read_file(Path::new("/d/x.txnindex"), 100).unwrap();
        let first = [
            0, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0x0b, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0,
            0, 0, 0, 10,
        ];
        assert_eq!(bytes[..34], first);
        let cut = index.prefix(Offset(12)).unwrap();
        cut.cut_file().unwrap();
        assert_eq!(cut.entries().unwrap(), [entry(3, 9)]);
        assert_eq!(disk.read_file(Path::new("/d/x.txnindex"), 100).unwrap().len(), 34);
    }
}
