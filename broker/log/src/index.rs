//! The two sparse indexes of a segment: offset → position, and time → offset (L-6 to L-8).
//!
//! ```text
//! .index      relative offset i32 | position i32            8 bytes, both big-endian
//! .timeindex  timestamp i64 | relative offset i32          12 bytes
//! ```
//! The segment that is written keeps its entries in memory and brings them to the file when it is synced, rolled or
//! closed: after a crash the entries behind the recovery point are built again anyway. Other segments are searched in
//! the file. Must not: be needed for correctness; a reader scans from where an index points.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use host::{Disk, File, OpenHow};

use crate::LogFault;
use crate::log::remove_if_there;

/// A file that is opened when it is needed, and can be given back.
#[derive(Debug)]
pub(crate) struct LazyFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    open: Mutex<Option<Arc<dyn File>>>,
}

impl LazyFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf) -> LazyFile {
        LazyFile {
            disk,
            path,
            open: Mutex::new(None),
        }
    }

    /// The same file with a handle of its own.
    pub(crate) fn again(&self) -> LazyFile {
        LazyFile::new(self.disk.clone(), self.path.clone())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The handle; the file must exist.
    pub(crate) fn get(&self) -> Result<Arc<dyn File>, LogFault> {
        self.get_as(OpenHow::Write)
    }

    /// The handle; the file is created if needed.
    pub(crate) fn get_or_create(&self) -> Result<Arc<dyn File>, LogFault> {
        self.get_as(OpenHow::CreateOrWrite)
    }

    fn get_as(&self, how: OpenHow) -> Result<Arc<dyn File>, LogFault> {
        let mut open = self.open.lock().expect("nobody panics while opening a file");
        if let Some(file) = &*open {
            return Ok(file.clone());
        }
        let file = self
            .disk
            .open(&self.path, how)
            .map_err(LogFault::io("open", &self.path))?;
        *open = Some(file.clone());
        Ok(file)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
            .lock()
            .expect("nobody panics while opening a file")
            .is_some()
    }

    /// Closes the handle as soon as nobody else uses it.
    pub(crate) fn release(&self) {
        *self.open.lock().expect("nobody panics while opening a file") = None;
    }

    /// Removes the file, if it is there.
    fn remove(&self) -> Result<(), LogFault> {
        self.release();
        remove_if_there(&*self.disk, &self.path)
    }
}

/// A fixed-size entry of an index file.
pub(crate) trait Entry: Copy + std::fmt::Debug {
    const SIZE: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, to: &mut Vec<u8>);
}

/// "The batch that ends at `base + relative` begins at `position`."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    pub relative: u32,
    pub position: u32,
}

impl Entry for OffsetEntry {
    const SIZE: usize = 8;

    fn read(bytes: &[u8]) -> OffsetEntry {
        OffsetEntry {
            relative: be_u32(&bytes[..4]),
            position: be_u32(&bytes[4..8]),
        }
    }

    fn write(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.relative.to_be_bytes());
        to.extend_from_slice(&self.position.to_be_bytes());
    }
}

/// "The largest time so far is `timestamp`, in the batch that ends at `base + relative`."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    pub timestamp: i64,
    pub relative: u32,
}

impl Entry for TimeEntry {
    const SIZE: usize = 12;

    fn read(bytes: &[u8]) -> TimeEntry {
        let mut timestamp = [0; 8];
        timestamp.copy_from_slice(&bytes[..8]);
        TimeEntry {
            timestamp: i64::from_be_bytes(timestamp),
            relative: be_u32(&bytes[8..12]),
        }
    }

    fn write(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.timestamp.to_be_bytes());
        to.extend_from_slice(&self.relative.to_be_bytes());
    }
}

fn be_u32(bytes: &[u8]) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(bytes);
    u32::from_be_bytes(number)
}

/// One index of one segment.
#[derive(Debug)]
pub(crate) struct Index<E> {
    file: LazyFile,
    state: State<E>,
    /// The file holds exactly the entries that count as written.
    exact: bool,
    /// The file was written since the last sync began.
    unsynced: bool,
}

#[derive(Debug)]
enum State<E> {
    /// All entries are in the file.
    OnDisk { count: usize },
    /// All entries are in memory; the first `written` of them are in the file too.
    Loaded { entries: Vec<E>, written: usize },
}

impl<E: Entry> Index<E> {
    /// An index whose file holds `size_bytes`.
    pub(crate) fn on_disk(file: LazyFile, size_bytes: u64) -> Index<E> {
        let count = usize::try_from(size_bytes).unwrap_or(0) / E::SIZE;
        Index {
            file,
            state: State::OnDisk { count },
            exact: true,
            unsynced: false,
        }
    }

    /// An index without entries, whatever its file holds.
    pub(crate) fn empty(file: LazyFile) -> Index<E> {
        Index {
            file,
            state: State::Loaded {
                entries: Vec::new(),
                written: 0,
            },
            exact: false,
            unsynced: false,
        }
    }

    pub(crate) fn count(&self) -> usize {
        match &self.state {
            State::OnDisk { count } => *count,
            State::Loaded { entries, .. } => entries.len(),
        }
    }

    pub(crate) fn get(&self, place: usize) -> Result<E, LogFault> {
        match &self.state {
            State::Loaded { entries, .. } => Ok(entries[place]),
            State::OnDisk { .. } => {
                let mut bytes = [0; 16];
                let bytes = &mut bytes[..E::SIZE];
                let at = (place * E::SIZE) as u64;
                self.file
                    .get()?
                    .read_exact_at(bytes, at)
                    .map_err(self.fault("read"))?;
                Ok(E::read(bytes))
            }
        }
    }

    pub(crate) fn last(&self) -> Result<Option<E>, LogFault> {
        match self.count() {
            0 => Ok(None),
            count => self.get(count - 1).map(Some),
        }
    }

    /// How many entries, from the first, satisfy `holds`; they must be in front of all that do not.
    pub(crate) fn partition_point(&self, holds: impl Fn(&E) -> bool) -> Result<usize, LogFault> {
        if let State::Loaded { entries, .. } = &self.state {
            return Ok(entries.partition_point(holds));
        }
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(&self.get(middle)?) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// How many entries, from the first, are in memory, satisfy `holds` and grow in both of their parts.
    pub(crate) fn growing_while(
        &self,
        parts: impl Fn(&E) -> (u32, u32),
        holds: impl Fn(&E) -> bool,
    ) -> usize {
        let State::Loaded { entries, .. } = &self.state else {
            return 0;
        };
        let mut last: Option<(u32, u32)> = None;
        let grows = |entry: &&E| {
            let now = parts(entry);
            let grows =
                last.is_none_or(|last| last.0 <= now.0 && last.1 <= now.1 && (last != now || now.1 == 0));
            last = Some(now);
            grows && holds(entry)
        };
        entries.iter().take_while(grows).count()
    }

    /// The last entry that satisfies `holds`; see [`Index::partition_point`].
    pub(crate) fn last_where(&self, holds: impl Fn(&E) -> bool) -> Result<Option<E>, LogFault> {
        match self.partition_point(holds)? {
            0 => Ok(None),
            count => self.get(count - 1).map(Some),
        }
    }

    pub(crate) fn push(&mut self, entry: E) -> Result<(), LogFault> {
        self.load()?.push(entry);
        Ok(())
    }

    /// Drops all but the first `count` entries; the file follows when they are written out.
    pub(crate) fn truncate(&mut self, count: usize) -> Result<(), LogFault> {
        self.load()?.truncate(count);
        if let State::Loaded { written, .. } = &mut self.state
            && count < *written
        {
            *written = count;
            self.exact = false;
        }
        Ok(())
    }

    /// An index of the same file with only the first `count` entries; see [`Index::truncate`].
    pub(crate) fn prefix(&mut self, count: usize) -> Result<Index<E>, LogFault> {
        let entries = self.load()?[..count].to_vec();
        let written = match &self.state {
            State::Loaded { written, .. } => count.min(*written),
            State::OnDisk { .. } => count,
        };
        Ok(Index {
            file: self.file.again(),
            state: State::Loaded { entries, written },
            exact: false,
            unsynced: false,
        })
    }

    pub(crate) fn load(&mut self) -> Result<&mut Vec<E>, LogFault> {
        if let State::OnDisk { count } = self.state {
            let mut bytes = vec![0; count * E::SIZE];
            if 0 < count {
                self.file
                    .get()?
                    .read_exact_at(&mut bytes, 0)
                    .map_err(self.fault("read"))?;
            }
            let entries = bytes.chunks_exact(E::SIZE).map(E::read).collect();
            self.state = State::Loaded {
                entries,
                written: count,
            };
        }
        match &mut self.state {
            State::Loaded { entries, .. } => Ok(entries),
            State::OnDisk { .. } => unreachable!("it was loaded above"),
        }
    }

    /// Brings all entries to the file, which then holds nothing else. Not synced.
    ///
    /// What a full disk has no room for stays in memory. No part of an index is left in a file that had none of it: the next
    /// start would take it for the whole, and a segment for older than it is.
    pub(crate) fn write_out(&mut self) -> Result<(), LogFault> {
        let written = self.write_rest();
        if let Err(LogFault::DiskFull { .. }) = written {
            self.exact = false;
            if let State::Loaded { written: 0, .. } = self.state {
                self.file.remove()?;
                // A sync that asked for it would make it anew.
                self.unsynced = false;
            }
        }
        written
    }

    fn write_rest(&mut self) -> Result<(), LogFault> {
        let State::Loaded { entries, written } = &mut self.state else {
            return Ok(());
        };
        if self.exact && *written == entries.len() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity((entries.len() - *written) * E::SIZE);
        for entry in &entries[*written..] {
            entry.write(&mut bytes);
        }
        let at = (*written * E::SIZE) as u64;
        let file = self.file.get_or_create()?;
        let fault = |e| LogFault::io("write to", self.file.path())(e);
        if !self.exact {
            file.set_len(at).map_err(fault)?;
        }
        file.write_at(&bytes, at).map_err(fault)?;
        self.exact = true;
        *written = entries.len();
        self.unsynced = true;
        Ok(())
    }

    /// The handle if the file was written since this was last asked; the caller syncs it.
    pub(crate) fn take_unsynced(&mut self) -> Result<Option<Arc<dyn File>>, LogFault> {
        match std::mem::take(&mut self.unsynced) {
            true => self.file.get_or_create().map(Some),
            false => Ok(None),
        }
    }

    /// Gives the file handle back.
    pub(crate) fn release(&self) {
        self.file.release();
    }

    /// Writes the entries out and forgets them.
    pub(crate) fn unload(&mut self) -> Result<(), LogFault> {
        self.write_out()?;
        self.state = State::OnDisk { count: self.count() };
        self.file.release();
        Ok(())
    }

    fn fault(&self, doing: &'static str) -> impl FnOnce(io::Error) -> LogFault {
        LogFault::io(doing, self.file.path())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use host::SimDisk;

    fn file(disk: &SimDisk, name: &str) -> LazyFile {
        disk.create_dir_all(Path::new("/d")).unwrap();
        LazyFile::new(Arc::new(disk.clone()), Path::new("/d").join(name))
    }

    #[test]
    fn offset_entries_have_kafkas_bytes() {
        let disk = SimDisk::new();
        let mut index = Index::empty(file(&disk, "x.index"));
        index
            .push(OffsetEntry {
                relative: 9,
                position: 4_200,
            })
            .unwrap();
        index
            .push(OffsetEntry {
                relative: 0x0102_0304,
                position: 0x7fff_0000,
            })
            .unwrap();
        index.unload().unwrap();

        let bytes = disk.read_file(Path::new("/d/x.index"), 100).unwrap();
        assert_eq!(
            bytes,
            [0, 0, 0, 9, 0, 0, 0x10, 0x68, 1, 2, 3, 4, 0x7f, 0xff, 0, 0]
        );
    }

    /// An index was written while it was empty. Its file went when the disk was full, and the sync that followed made it
    /// again, without what was to be in it.
    #[test]
    fn an_index_that_finds_no_room_leaves_no_file_and_nothing_to_sync() {
        let disk = SimDisk::new();
        let mut index = Index::empty(file(&disk, "x.index"));
        index.write_out().unwrap();
        let entry = OffsetEntry {
            relative: 9,
            position: 4_200,
        };
        index.push(entry).unwrap();
        disk.set_capacity(Some(0));

        assert!(matches!(index.write_out(), Err(LogFault::DiskFull { .. })));
        assert!(index.take_unsynced().unwrap().is_none());
        assert!(!disk.exists(Path::new("/d/x.index")).unwrap());

        disk.set_capacity(None);
        index.write_out().unwrap();
        assert!(index.take_unsynced().unwrap().is_some());
        let bytes = disk.read_file(Path::new("/d/x.index"), 100).unwrap();
        assert_eq!(bytes, [0, 0, 0, 9, 0, 0, 0x10, 0x68]);
    }

    #[test]
    fn time_entries_have_kafkas_bytes() {
        let disk = SimDisk::new();
        let mut index = Index::empty(file(&disk, "x.timeindex"));
        index
            .push(TimeEntry {
                timestamp: 0x0000_018f_0102_0304,
                relative: 7,
            })
            .unwrap();
        index.write_out().unwrap();

        let bytes = disk.read_file(Path::new("/d/x.timeindex"), 100).unwrap();
        assert_eq!(bytes, [0, 0, 1, 0x8f, 1, 2, 3, 4, 0, 0, 0, 7]);
    }

    #[test]
    fn a_search_finds_the_same_in_memory_and_in_the_file() {
        let disk = SimDisk::new();
        let mut index = Index::empty(file(&disk, "x.index"));
        for n in 0..100_u32 {
            index
                .push(OffsetEntry {
                    relative: n * 10,
                    position: n * 4096,
                })
                .unwrap();
        }
        let find = |index: &Index<OffsetEntry>, upto| index.last_where(|e| e.relative <= upto).unwrap();
        let in_memory: Vec<_> = (0..1_010).map(|upto| find(&index, upto)).collect();
        index.unload().unwrap();
        let in_file: Vec<_> = (0..1_010).map(|upto| find(&index, upto)).collect();

        assert_eq!(in_memory, in_file);
        assert_eq!(
            in_memory[9],
            Some(OffsetEntry {
                relative: 0,
                position: 0
            })
        );
        assert_eq!(
            in_memory[1_009],
            Some(OffsetEntry {
                relative: 990,
                position: 99 * 4096
            })
        );
    }

    #[test]
    fn a_truncated_index_forgets_its_tail_in_the_file_too() {
        let disk = SimDisk::new();
        let mut index = Index::empty(file(&disk, "x.index"));
        for n in 1..=5 {
            index
                .push(OffsetEntry {
                    relative: n,
                    position: n,
                })
                .unwrap();
        }
        index.unload().unwrap();
        index.truncate(2).unwrap();
        index
            .push(OffsetEntry {
                relative: 8,
                position: 8,
            })
            .unwrap();
        index.unload().unwrap();

        assert_eq!(index.count(), 3);
        assert_eq!(disk.read_file(Path::new("/d/x.index"), 100).unwrap().len(), 24);
        assert_eq!(
            index.last().unwrap(),
            Some(OffsetEntry {
                relative: 8,
                position: 8
            })
        );
    }
}
