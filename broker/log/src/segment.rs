//! One segment: a file of batches and its two indexes, shared by the owner and the readers.
//!
//! The owner alone appends; what a reader may look at is bounded by the view it came from, so it never sees a batch
//! that is half written. A sealed segment never changes. Cutting a segment makes a new `Segment` of the same files.
//! Must not: know what comes before or behind it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use host::{Disk, File};
use wire::batch::BatchHeader;

use crate::LogFault;
use crate::aborted::AbortedIndex;
use crate::index::{Index, LazyFile, OffsetEntry, TimeEntry};
use crate::scan::{Located, ReadAhead, ScanStop, Scanner};
use crate::types::Offset;

/// How many of the newest batches are remembered exactly: readers at the tail then find their place without the disk.
const TAIL_BATCHES: usize = 64;

/// The name of a segment's file: its base offset in 20 digits, and what it is (L-2).
pub(crate) fn file_name(base: Offset, suffix: &str) -> String {
    format!("{:020}{suffix}", base.0)
}

/// The offset in a file name of the given suffix.
pub(crate) fn parse_file_name(name: &str, suffix: &str) -> Option<Offset> {
    let digits = name.strip_suffix(suffix)?;
    if digits.len() != 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Offset)
}

/// The largest time in a segment, and the last offset of the first batch that has it. −1 is "no record has a time".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimePeak {
    pub timestamp: i64,
    pub offset: Offset,
}

#[derive(Debug)]
pub(crate) struct Segment {
    pub base: Offset,
    pub log: LazyFile,
    /// Aborted transactions; the file exists only if there are any (L-9).
    pub aborted: AbortedIndex,
    size: AtomicU32,
    lookups: RwLock<Lookups>,
    peak: Mutex<Option<TimePeak>>,
}

#[derive(Debug)]
pub(crate) struct Lookups {
    pub offsets: Index<OffsetEntry>,
    pub times: Index<TimeEntry>,
    tail: VecDeque<TailBatch>,
}

#[derive(Clone, Copy, Debug)]
struct TailBatch {
    last: Offset,
    place: Place,
}

/// Where a batch lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub base: Offset,
    pub position: u32,
    pub size: u32,
}

/// What the files of a segment were found to hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileSizes {
    pub log: u32,
    pub index: u64,
    pub time_index: u64,
    pub aborted: u64,
}

impl Segment {
    /// The segment of files that exist.
    pub(crate) fn on_disk(disk: &Arc<dyn Disk>, dir: &Path, base: Offset, sizes: FileSizes) -> Segment {
        let lookups = Lookups {
            offsets: Index::on_disk(lazy(disk, dir, base, ".index"), sizes.index),
            times: Index::on_disk(lazy(disk, dir, base, ".timeindex"), sizes.time_index),
            tail: VecDeque::new(),
        };
        Segment {
            base,
            log: lazy(disk, dir, base, ".log"),
            aborted: AbortedIndex::on_disk(lazy(disk, dir, base, ".txnindex"), sizes.aborted),
            size: AtomicU32::new(sizes.log),
            lookups: RwLock::new(lookups),
            peak: Mutex::new(None),
        }
    }

    /// The segment of a log file of `size` bytes whose indexes are to be built anew.
    pub(crate) fn without_indexes(disk: &Arc<dyn Disk>, dir: &Path, base: Offset, size: u32) -> Segment {
        let lookups = Lookups {
            offsets: Index::empty(lazy(disk, dir, base, ".index")),
            times: Index::empty(lazy(disk, dir, base, ".timeindex")),
            tail: VecDeque::new(),
        };
        Segment {
            base,
            log: lazy(disk, dir, base, ".log"),
            aborted: AbortedIndex::on_disk(lazy(disk, dir, base, ".txnindex"), 0),
            size: AtomicU32::new(size),
            lookups: RwLock::new(lookups),
            peak: Mutex::new(Some(TimePeak {
                timestamp: -1,
                offset: base,
            })),
        }
    }

    /// The same segment without the batches from `first_gone` on; the files follow with [`Segment::cut_files`].
    pub(crate) fn shortened(&self, first_gone: Option<Place>) -> Result<Segment, LogFault> {
        let size = first_gone.map_or(self.size(), |batch| batch.position);
        let gone = first_gone.map_or(u32::MAX, |batch| self.relative(batch.base));
        let mut lookups = self.lookups_mut();
        let offsets = lookups.offsets.partition_point(|entry| entry.position < size)?;
        let times = lookups.times.partition_point(|entry| entry.relative < gone)?;
        let kept = Lookups {
            offsets: lookups.offsets.prefix(offsets)?,
            times: lookups.times.prefix(times)?,
            tail: VecDeque::new(),
        };
        Ok(Segment {
            base: self.base,
            log: self.log.again(),
            aborted: self
                .aborted
                .prefix(first_gone.map_or(Offset(i64::MAX), |batch| batch.base))?,
            size: AtomicU32::new(size),
            lookups: RwLock::new(kept),
            peak: Mutex::new(None),
        })
    }

    /// The files hold nothing behind what the segment holds. Index entries that a full disk has no room for stay in memory;
    /// who syncs or closes the log writes them out, and recovery makes them again.
    pub(crate) fn cut_files(&self) -> Result<(), LogFault> {
        let file = self.log.get()?;
        file.set_len(u64::from(self.size()))
            .map_err(LogFault::io("truncate", self.log.path()))?;
        self.aborted.cut_file()?;
        match self.write_indexes_out() {
            Err(LogFault::DiskFull { .. }) => Ok(()),
            done => done,
        }
    }

    pub(crate) fn size(&self) -> u32 {
        self.size.load(Ordering::Acquire)
    }

    pub(crate) fn set_size(&self, size: u32) {
        self.size.store(size, Ordering::Release);
    }

    pub(crate) fn lookups(&self) -> RwLockReadGuard<'_, Lookups> {
        self.lookups.read().expect("nobody panics while holding an index")
    }

    pub(crate) fn lookups_mut(&self) -> RwLockWriteGuard<'_, Lookups> {
        self.lookups
            .write()
            .expect("nobody panics while holding an index")
    }

    pub(crate) fn relative(&self, offset: Offset) -> u32 {
        u32::try_from(offset.0 - self.base.0).unwrap_or(0)
    }

    /// The batches from the one at `position`.
    pub(crate) fn scan(&self, position: u32, end: u32, ahead: ReadAhead) -> Result<Scanner, LogFault> {
        let path = self.log.path().to_owned();
        Ok(Scanner::new(
            self.log.get()?,
            path,
            u64::from(position),
            u64::from(end),
            ahead,
        ))
    }

    /// The first batch that ends at or behind `offset` among the first `size` bytes; `None` if all end before.
    pub(crate) fn find(&self, offset: Offset, size: u32) -> Result<Option<Place>, ScanStop> {
        let relative = self.relative(offset);
        let start = {
            let lookups = self.lookups();
            if let Some(place) = lookups.in_tail(offset) {
                return Ok(place.filter(|place| place.position < size));
            }
            let entry = lookups.offsets.last_where(|entry| entry.relative <= relative);
            entry.map_err(ScanStop::Fault)?.map_or(0, |entry| entry.position)
        };
        let mut scanner = self
            .scan(start.min(size), size, ReadAhead::Little)
            .map_err(ScanStop::Fault)?;
        while let Some(found) = scanner.next_header()? {
            if offset.0 <= found.header.last_offset() {
                return Ok(Some(Place::of(&found)));
            }
        }
        Ok(None)
    }

    /// The largest time in the segment.
    pub(crate) fn peak(&self) -> Result<TimePeak, LogFault> {
        let mut peak = self.peak.lock().expect("nobody panics while looking a time up");
        if let Some(peak) = *peak {
            return Ok(peak);
        }
        let last = self.lookups().times.last()?;
        let found = match last {
            None => TimePeak {
                timestamp: -1,
                offset: self.base,
            },
            Some(last) => TimePeak {
                timestamp: last.timestamp,
                offset: Offset(self.base.0 + i64::from(last.relative)),
            },
        };
        *peak = Some(found);
        Ok(found)
    }

    pub(crate) fn set_peak(&self, found: TimePeak) {
        *self.peak.lock().expect("nobody panics while looking a time up") = Some(found);
    }

    /// Has everything in memory that [`Segment::note`] needs, so that it cannot fail on a file.
    pub(crate) fn load(&self) -> Result<(), LogFault> {
        self.peak()?;
        let mut lookups = self.lookups_mut();
        lookups.offsets.load()?;
        lookups.times.load()?;
        Ok(())
    }

    /// Takes note of a batch at `position` that is now in the file: peak, indexes (L-6, L-7), tail, size.
    ///
    /// `since_index` counts the bytes since the last entry; it belongs to the owner.
    pub(crate) fn note(
        &self,
        header: &BatchHeader,
        position: u32,
        since_index: &mut u32,
        interval: u32,
    ) -> Result<(), LogFault> {
        let last = Offset(header.last_offset());
        let mut peak = self.peak()?;
        if peak.timestamp < header.max_timestamp {
            peak = TimePeak {
                timestamp: header.max_timestamp,
                offset: last,
            };
            self.set_peak(peak);
        }
        let size = u32::try_from(header.size()).expect("a batch fits into its segment");
        let mut lookups = self.lookups_mut();
        if interval < *since_index {
            lookups.offsets.push(OffsetEntry {
                relative: self.relative(last),
                position,
            })?;
            self.push_time(&mut lookups, peak)?;
            *since_index = 0;
        }
        *since_index = since_index.saturating_add(size);
        if lookups.tail.len() == TAIL_BATCHES {
            lookups.tail.pop_front();
        }
        let place = Place {
            base: Offset(header.base_offset),
            position,
            size,
        };
        lookups.tail.push_back(TailBatch { last, place });
        drop(lookups);
        self.set_size(position + size);
        Ok(())
    }

    fn push_time(&self, lookups: &mut Lookups, peak: TimePeak) -> Result<(), LogFault> {
        let last = lookups.times.last()?;
        if last.map_or(-1, |entry| entry.timestamp) < peak.timestamp {
            let relative = self.relative(peak.offset);
            lookups.times.push(TimeEntry {
                timestamp: peak.timestamp,
                relative,
            })?;
        }
        Ok(())
    }

    /// Both indexes are wholly in their files.
    pub(crate) fn write_indexes_out(&self) -> Result<(), LogFault> {
        let mut lookups = self.lookups_mut();
        lookups.offsets.write_out()?;
        lookups.times.write_out()
    }

    /// Both indexes are wholly in their files and out of memory, and the last entry of the time index is the peak (L-7).
    pub(crate) fn unload(&self) -> Result<(), LogFault> {
        let peak = self.peak()?;
        let mut lookups = self.lookups_mut();
        self.push_time(&mut lookups, peak)?;
        lookups.offsets.unload()?;
        lookups.times.unload()?;
        lookups.tail = VecDeque::new();
        Ok(())
    }

    /// The handles of what may have been written since the last sync began.
    pub(crate) fn unsynced(&self) -> Result<Vec<Arc<dyn File>>, LogFault> {
        let mut lookups = self.lookups_mut();
        let mut handles = vec![self.log.get()?];
        handles.extend(lookups.offsets.take_unsynced()?);
        handles.extend(lookups.times.take_unsynced()?);
        handles.extend(self.aborted.handle()?);
        Ok(handles)
    }

    /// Gives the handles of its files back.
    pub(crate) fn release(&self) {
        self.log.release();
        self.aborted.release();
        let lookups = self.lookups();
        lookups.offsets.release();
        lookups.times.release();
    }

    /// Paths of all files that a segment may have.
    pub(crate) fn paths(dir: &Path, base: Offset) -> [PathBuf; 4] {
        [".log", ".index", ".timeindex", ".txnindex"].map(|suffix| dir.join(file_name(base, suffix)))
    }
}

impl Lookups {
    /// The place of the first remembered batch that ends at or behind `offset`, if the memory reaches that far back.
    /// `Some(None)`: all batches end before it.
    fn in_tail(&self, offset: Offset) -> Option<Option<Place>> {
        let oldest = self.tail.front()?;
        if offset < oldest.place.base {
            return None;
        }
        let found = self.tail.partition_point(|batch| batch.last < offset);
        Some(self.tail.get(found).map(|batch| batch.place))
    }
}

impl Place {
    pub(crate) fn of(found: &Located) -> Place {
        Place {
            base: Offset(found.header.base_offset),
            position: u32::try_from(found.position).expect("a segment has less than 4 GiB"),
            size: u32::try_from(found.header.size()).expect("a batch fits into its segment"),
        }
    }
}

fn lazy(disk: &Arc<dyn Disk>, dir: &Path, base: Offset, suffix: &str) -> LazyFile {
    LazyFile::new(disk.clone(), dir.join(file_name(base, suffix)))
}
