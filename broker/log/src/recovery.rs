//! Opening a log: tidying what a crash left, checking what may be damaged, rebuilding what follows from the batches
//! (L-16 to L-21).
//!
//! What is synced is trusted, what is behind the recovery point is checked batch by batch; at the first bad one the log
//! ends. Must not: fail because of damage, or serve any of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::WallMs;
use wire::batch::Batch;

use crate::append::replay;
use crate::checkpoint;
use crate::epochs::{EpochChange, EpochHistory};
use crate::log::{
    Active, AgeFrom, EPOCH_CHECKPOINT, EpochsFile, Log, LogHost, LogParts, PARTITION_METADATA, new_segment,
    old_segment, remove_if_there, write_epochs,
};
use crate::producer_snapshot;
use crate::producers::Producers;
use crate::scan::{ReadAhead, ScanStop};
use crate::segment::{FileSizes, Segment, file_name, parse_file_name};
use crate::sync::Names;
use crate::types::{LeaderEpoch, Offset};
use crate::{Bounds, LogConfig, LogFault};

/// What is known about a log before it is opened; [`crate::LogDir::opening`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Everything before is trusted and everything behind is checked; `None` after a clean shutdown, when nothing
    /// is (L-16, L-17).
    pub recover_from: Option<Offset>,
    /// First offset that may be read, as last checkpointed (L-20).
    pub log_start: Offset,
    /// Watermark as last checkpointed (L-23).
    pub high_watermark: Offset,
}

/// What opening a log did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Bytes of batches that were checked.
    pub scanned_bytes: u64,
    /// Segments whose indexes were built anew.
    pub rebuilt_segments: u32,
    /// What was cut off, if the tail was bad.
    pub tail_cut: Option<TailCut>,
    /// Files with the name of a segment that no segment of this log can be, as they are called now.
    pub set_aside: Vec<PathBuf>,
}

/// A damaged tail that recovery removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailCut {
    /// The log ends here now.
    pub log_end: Offset,
    /// Bytes removed, later segments included.
    pub removed_bytes: u64,
    /// What was wrong.
    pub why: String,
}

impl Log {
    /// Opens the log in a directory, recovering it if need be (L-16 to L-21). On a full disk, too: what a start writes down is
    /// made of the batches, and can be made again. Two logs need room: one without any segment, for a segment, and one in whose
    /// checked segments transactions were aborted, for their index.
    ///
    /// # Errors
    /// Faults of the disk. Damage behind the recovery point is no error: it is cut off and reported. `Damaged` means that
    /// what was durable once cannot be walked; then nothing is deleted.
    pub fn open(
        host: &LogHost,
        dir: &Path,
        config: LogConfig,
        opening: Opening,
        now: WallMs,
    ) -> Result<(Log, OpenReport), LogFault> {
        let listing = list_and_tidy(host, dir)?;
        let epochs = read_text(host, &dir.join(EPOCH_CHECKPOINT))?.and_then(|t| checkpoint::parse_epochs(&t));
        let topic = read_text(host, &dir.join(PARTITION_METADATA))?.and_then(|t| checkpoint::parse_topic(&t));
        let mut recovery = Recovery {
            host,
            dir,
            config: &config,
            rebuild_epochs: epochs.is_none(),
            epochs: EpochHistory::from_entries(epochs.unwrap_or_default()),
            segments: Vec::new(),
            log_end: Offset::ZERO,
            report: OpenReport::default(),
        };
        let checked_from = recovery.run(&listing, opening)?;
        let log_start = recovery.settle_log_start(opening)?;
        let epochs_file = recovery.settle_epochs(log_start)?;
        let (producers, snapshot_at) =
            recovery.producers(&listing.snapshots, log_start, checked_from, now)?;

        let Recovery {
            epochs,
            segments,
            log_end,
            report,
            ..
        } = recovery;
        let high_watermark = opening.high_watermark.clamp(log_start, log_end);
        let recovery_point = opening.recover_from.unwrap_or(log_end).min(log_end);
        let unknown = match segments[segments.len() - 1].size() {
            0 => AgeFrom::Empty,
            _ => AgeFrom::Unknown,
        };
        let active = Active::new(host, &config, unknown, now);
        // A log that was closed cleanly and is only looked at needs no sync.
        let names = match opening.recover_from.is_none() && report == OpenReport::default() {
            true => Names::AsBefore,
            false => Names::Changed,
        };
        segments.iter().for_each(|segment| segment.release());
        let bounds = Bounds {
            log_start,
            last_stable: log_start,
            high_watermark,
            log_end,
        };
        let mut log = Log::assemble(LogParts {
            host: host.clone(),
            dir: dir.to_owned(),
            config,
            topic,
            segments,
            active,
            bounds,
            recovery_point,
            epochs,
            epochs_file,
            producers,
            snapshot_at,
            names,
        });
        log.publish(high_watermark, log.last_stable_below(high_watermark));
        Ok((log, report))
    }
}

/// What a partition's directory holds, once it is tidy.
struct Listing {
    segments: BTreeMap<Offset, (FileSizes, Indexes)>,
    snapshots: Vec<Offset>,
}

/// Whether a segment's offset index exists (L-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Indexes {
    Present,
    Missing,
}

/// Removes what an earlier process was in the middle of (L-18).
fn list_and_tidy(host: &LogHost, dir: &Path) -> Result<Listing, LogFault> {
    let mut listing = Listing {
        segments: BTreeMap::new(),
        snapshots: Vec::new(),
    };
    let mut by_suffix: BTreeMap<(Offset, &str), u64> = BTreeMap::new();
    let entries = host.disk.list(dir).map_err(LogFault::io("list", dir))?;
    for entry in &entries {
        let name = entry.name.as_str();
        if [".deleted", ".cleaned", ".tmp"]
            .iter()
            .any(|suffix| name.ends_with(suffix))
        {
            remove_if_there(&*host.disk, &dir.join(name))?;
        }
        for suffix in [".log", ".index", ".timeindex", ".txnindex"] {
            if let Some(base) = parse_file_name(name, suffix) {
                by_suffix.insert((base, suffix), entry.size_bytes);
            }
        }
        listing.snapshots.extend(parse_file_name(name, ".snapshot"));
    }
    for (base, suffix) in by_suffix.keys() {
        let size = |suffix| by_suffix.get(&(*base, suffix)).copied();
        let Some(log) = size(".log") else {
            remove_if_there(&*host.disk, &dir.join(file_name(*base, suffix)))?;
            continue;
        };
        let log = u32::try_from(log).map_err(|_| LogFault::Damaged {
            path: dir.join(file_name(*base, ".log")),
            position: u64::from(u32::MAX),
            what: "a segment of 4 GiB or more".to_owned(),
        })?;
        let (index, time_index) = (size(".index"), size(".timeindex"));
        let whole = |size: Option<u64>, entry| size.is_some_and(|size| size % entry == 0);
        let indexes = match whole(index, 8) && whole(time_index, 12) {
            true => Indexes::Present,
            false => Indexes::Missing,
        };
        let sizes = FileSizes {
            log,
            index: index.unwrap_or(0),
            time_index: time_index.unwrap_or(0),
            aborted: size(".txnindex").unwrap_or(0),
        };
        listing.segments.insert(*base, (sizes, indexes));
    }
    Ok(listing)
}

fn read_text(host: &LogHost, path: &Path) -> Result<Option<String>, LogFault> {
    match host.disk.read_file(path, checkpoint::CHECKPOINT_BYTES_MAX) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(LogFault::io("read", path)(e)),
    }
}

/// A log that is being opened.
struct Recovery<'a> {
    host: &'a LogHost,
    dir: &'a Path,
    config: &'a LogConfig,
    rebuild_epochs: bool,
    epochs: EpochHistory,
    segments: Vec<Arc<Segment>>,
    log_end: Offset,
    report: OpenReport,
}

/// Where a scan may begin, and what is known up to there.
struct ScanStart {
    segment: Arc<Segment>,
    position: u32,
    expected: Offset,
}

impl Recovery<'_> {
    /// Loads all segments, checking those behind the recovery point and those that cannot be used otherwise. Returns the
    /// first offset that was checked, or the log end.
    fn run(&mut self, listing: &Listing, opening: Opening) -> Result<Offset, LogFault> {
        let bases: Vec<Offset> = listing.segments.keys().copied().collect();
        let from = opening
            .recover_from
            .map(|point| bases.partition_point(|base| *base <= point).saturating_sub(1));
        let mut checked_from = None;
        for (place, (base, (sizes, indexes))) in listing.segments.iter().enumerate() {
            let last = place + 1 == bases.len();
            let behind_point = from.is_some_and(|from| from <= place);
            // A crash leaves segments behind a gap, but none that begins before the log ends or before what is durable does.
            let may_be_foreign = match behind_point {
                true => from == Some(place) || *base < self.log_end,
                false => last || *indexes == Indexes::Missing,
            };
            if may_be_foreign && let Some(end) = self.end_before_foreign(*base, *sizes, last)? {
                self.set_aside(*base)?;
                self.log_end = end;
                continue;
            }
            let gap = from.is_some_and(|from| from < place)
                && self.log_end < *base
                && !self.config.cleanup.compacts();
            if behind_point && (*base < self.log_end || gap) {
                let why = format!("a segment at {base} where {} was expected", self.log_end);
                self.cut_after(&bases[place..], listing, 0, why)?;
                break;
            }
            if !behind_point && *indexes == Indexes::Present && self.trust(*base, *sizes, last)? {
                continue;
            }
            checked_from = checked_from.or(Some(*base));
            let trusted = opening.recover_from.filter(|_| *indexes == Indexes::Present);
            if let Some((removed, why)) = self.check(*base, *sizes, trusted, last)? {
                self.cut_after(&bases[place + 1..], listing, removed, why)?;
                break;
            }
        }
        Ok(checked_from.unwrap_or(self.log_end))
    }

    /// Where the log ends, if a file has the name of a segment but cannot be one: no batch begins it, and the log does not
    /// end where its name says. Somebody put it there. Taken for a segment it would move the log end, and records would be
    /// cut off or offsets skipped.
    fn end_before_foreign(
        &self,
        base: Offset,
        sizes: FileSizes,
        last: bool,
    ) -> Result<Option<Offset>, LogFault> {
        if self.config.cleanup.compacts() || self.begins_with_batch(base, sizes)? {
            return Ok(None);
        }
        match self.segments.last() {
            Some(previous) => Ok(find_end(previous)?.filter(|end| *end != base)),
            // The oldest one: what follows must not go because of it.
            None => Ok((!last).then_some(self.log_end)),
        }
    }

    fn begins_with_batch(&self, base: Offset, sizes: FileSizes) -> Result<bool, LogFault> {
        let segment = old_segment(self.host, self.dir, base, sizes);
        let mut scanner = segment.scan(0, sizes.log, ReadAhead::Little)?;
        match scanner.next_header() {
            Ok(found) => Ok(found.is_some_and(|found| base.0 <= found.header.base_offset)),
            Err(ScanStop::Bad { .. }) => Ok(false),
            Err(ScanStop::Fault(fault)) => Err(fault),
        }
    }

    /// Takes the name away from a file that is none of the log's, and deletes nothing.
    fn set_aside(&mut self, base: Offset) -> Result<(), LogFault> {
        for path in Segment::paths(self.dir, base) {
            let mut stray = path.as_os_str().to_owned();
            stray.push(".stray");
            let stray = PathBuf::from(stray);
            match self.host.disk.rename(&path, &stray) {
                Ok(()) => self.report.set_aside.push(stray),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(LogFault::io("rename", &path)(e)),
            }
        }
        Ok(())
    }

    /// Takes a segment as it is; false if it cannot be taken so.
    fn trust(&mut self, base: Offset, sizes: FileSizes, last: bool) -> Result<bool, LogFault> {
        let segment = old_segment(self.host, self.dir, base, sizes);
        if self.rebuild_epochs && self.scan_epochs(&segment)?.is_none() {
            return Ok(false);
        }
        if last {
            let Some(end) = find_end(&segment)? else {
                return Ok(false);
            };
            self.log_end = end.max(self.log_end);
        } else {
            self.log_end = base;
        }
        self.segments.push(segment);
        Ok(true)
    }

    fn scan_epochs(&mut self, segment: &Segment) -> Result<Option<()>, LogFault> {
        let mut scanner = segment.scan(0, segment.size(), ReadAhead::Little)?;
        loop {
            match scanner.next_header() {
                Ok(Some(found)) => {
                    self.note_epoch(found.header.partition_leader_epoch, found.header.base_offset)
                }
                Ok(None) => return Ok(Some(())),
                Err(ScanStop::Bad { .. }) => return Ok(None),
                Err(ScanStop::Fault(fault)) => return Err(fault),
            }
        }
    }

    fn note_epoch(&mut self, epoch: i32, start: i64) {
        let epoch = LeaderEpoch(epoch);
        if 0 <= epoch.0 && self.epochs.latest().is_none_or(|latest| latest < epoch) {
            // Only growing epochs are taken, so nothing that stands is contradicted (L-17).
            let _: EpochChange = self.epochs.assign(epoch, Offset(start));
        }
    }

    /// Checks a segment from its start, or from the recovery point if the index leads there. Cuts its file at the first
    /// bad batch, and then returns the bytes cut off and why.
    fn check(
        &mut self,
        base: Offset,
        sizes: FileSizes,
        trusted: Option<Offset>,
        last: bool,
    ) -> Result<Option<(u64, String)>, LogFault> {
        let indexed = match trusted {
            Some(point) if !self.rebuild_epochs => self.start_at(base, sizes, point)?,
            _ => None,
        };
        let start = match indexed {
            Some(start) => start,
            None => self.start_anew(base, sizes)?,
        };
        self.report.rebuilt_segments += 1;
        let segment = start.segment.clone();
        let bad = self.scan(start, sizes.log)?;
        if let Some((at, _)) = &bad {
            let file = segment.log.get()?;
            file.set_len(*at)
                .map_err(LogFault::io("truncate", segment.log.path()))?;
        }
        if !last {
            match segment.unload() {
                // They stay in memory, and the log can be read.
                Err(LogFault::DiskFull { .. }) => {}
                unloaded => unloaded?,
            }
        }
        self.segments.push(segment);
        Ok(bad.map(|(at, what)| (u64::from(sizes.log) - at, what)))
    }

    /// Takes note of all batches up to the end, or up to the first bad one; where that is, and what is wrong with it.
    fn scan(&mut self, start: ScanStart, end: u32) -> Result<Option<(u64, String)>, LogFault> {
        let ScanStart {
            segment,
            position,
            mut expected,
        } = start;
        let mut scanner = segment.scan(position, end, ReadAhead::Much)?;
        segment.set_size(position);
        let (mut since_index, mut newest_epoch) = (0, -1);
        let bad = loop {
            let (at, batch) = match scanner.next_batch() {
                Ok(Some(found)) => found,
                Ok(None) => break None,
                Err(ScanStop::Bad { position, what, .. }) => break Some((position, what)),
                Err(ScanStop::Fault(fault)) => return Err(fault),
            };
            if let Some(what) = flaw(&batch, segment.base, expected) {
                break Some((at, what));
            }
            let header = &batch.header;
            // No leader writes under an epoch that is over: this is the rest of what was cut off before a power loss.
            if 0 <= header.partition_leader_epoch && header.partition_leader_epoch < newest_epoch {
                let (given, held) = (header.partition_leader_epoch, newest_epoch);
                break Some((
                    at,
                    format!("a batch of leader epoch {given} behind one of {held}"),
                ));
            }
            newest_epoch = newest_epoch.max(header.partition_leader_epoch);
            self.note_epoch(header.partition_leader_epoch, header.base_offset);
            segment.note(
                header,
                at as u32,
                &mut since_index,
                self.config.index_interval_bytes,
            )?;
            self.report.scanned_bytes += header.size() as u64;
            expected = Offset(header.last_offset()).next();
        };
        self.log_end = expected;
        Ok(bad)
    }

    /// The beginning of a segment, whose indexes are forgotten.
    fn start_anew(&self, base: Offset, sizes: FileSizes) -> Result<ScanStart, LogFault> {
        for path in &Segment::paths(self.dir, base)[1..] {
            remove_if_there(&*self.host.disk, path)?;
        }
        let segment = Segment::without_indexes(&self.host.disk, self.dir, base, sizes.log);
        Ok(ScanStart {
            segment: Arc::new(segment),
            position: 0,
            expected: base,
        })
    }

    /// The last indexed batch before the recovery point, if the indexes up to there make sense and the batch is whole:
    /// everything before it was synced together with them.
    fn start_at(&self, base: Offset, sizes: FileSizes, point: Offset) -> Result<Option<ScanStart>, LogFault> {
        if point <= base {
            return Ok(None);
        }
        // The index of aborted transactions is filled again by the replay that follows.
        let segment = old_segment(self.host, self.dir, base, FileSizes { aborted: 0, ..sizes });
        segment.aborted.cut_file()?;
        segment.load()?;
        let relative = u32::try_from(point.0 - base.0).unwrap_or(u32::MAX);
        let entry = {
            let mut lookups = segment.lookups_mut();
            let kept = lookups
                .offsets
                .growing_while(|e| (e.relative, e.position), |e| e.relative < relative);
            lookups.offsets.truncate(kept)?;
            let last = lookups.offsets.last()?;
            let Some(entry) = last.filter(|entry| entry.position < sizes.log) else {
                return Ok(None);
            };
            let times = lookups
                .times
                .growing_while(|e| (e.relative, 0), |e| e.relative <= entry.relative);
            lookups.times.truncate(times)?;
            entry
        };
        // It is read from the index that was just cut.
        segment.peak()?;
        let found = segment
            .scan(entry.position, sizes.log, ReadAhead::Little)?
            .next_batch();
        let batch = match found {
            Ok(Some((_, batch))) => batch,
            Ok(None) | Err(ScanStop::Bad { .. }) => return Ok(None),
            Err(ScanStop::Fault(fault)) => return Err(fault),
        };
        if batch.check().is_err() || batch.header.last_offset() != base.0 + i64::from(entry.relative) {
            return Ok(None);
        }
        let expected = Offset(batch.header.base_offset);
        Ok(Some(ScanStart {
            segment,
            position: entry.position,
            expected,
        }))
    }

    /// Deletes segments that follow damage, and reports what was lost.
    fn cut_after(
        &mut self,
        later: &[Offset],
        listing: &Listing,
        mut removed_bytes: u64,
        why: String,
    ) -> Result<(), LogFault> {
        // The newest goes first: a process that dies half-way leaves no hole.
        for base in later.iter().rev() {
            removed_bytes += u64::from(listing.segments[base].0.log);
            for path in Segment::paths(self.dir, *base) {
                remove_if_there(&*self.host.disk, &path)?;
            }
        }
        self.report.tail_cut = Some(TailCut {
            log_end: self.log_end,
            removed_bytes,
            why,
        });
        Ok(())
    }

    /// L-19, L-20: a log that ends before its own start begins anew there.
    fn settle_log_start(&mut self, opening: Opening) -> Result<Offset, LogFault> {
        let never_written = self.segments.is_empty();
        if never_written || self.log_end < opening.log_start {
            for segment in self.segments.drain(..) {
                for path in Segment::paths(self.dir, segment.base) {
                    remove_if_there(&*self.host.disk, &path)?;
                }
            }
            self.segments
                .push(new_segment(self.host, self.dir, opening.log_start)?);
            self.log_end = opening.log_start;
            self.epochs.clear();
        }
        Ok(opening.log_start.max(self.segments[0].base))
    }

    /// Where a full disk has no room for the file, it is told with the next record, and the next start does this again.
    fn settle_epochs(&mut self, log_start: Offset) -> Result<EpochsFile, LogFault> {
        // An epoch in which nothing was written goes, as in Kafka: whoever leads next decides anew (L-20).
        let ended = self.epochs.truncate_from_end(self.log_end);
        let begun = self.epochs.truncate_from_start(log_start);
        let rebuilt = self.rebuild_epochs && !self.epochs.entries().is_empty();
        if rebuilt || ended == EpochChange::Changed || begun == EpochChange::Changed {
            match write_epochs(&*self.host.disk, self.dir, &self.epochs) {
                Err(LogFault::DiskFull { .. }) => return Ok(EpochsFile::Behind),
                written => drop(written?),
            }
        }
        Ok(EpochsFile::Current)
    }

    /// L-21: the newest snapshot that can be used, and what was written behind it.
    fn producers(
        &self,
        snapshots: &[Offset],
        log_start: Offset,
        checked_from: Offset,
        now: WallMs,
    ) -> Result<(Producers, Option<Offset>), LogFault> {
        #[cfg(feature = "mutants")]
        if crate::mutants::producer_state_not_rebuilt() {
            return Ok((Producers::default(), None));
        }
        let disk = &*self.host.disk;
        let mut usable: Vec<Offset> = Vec::new();
        for at in snapshots {
            let newest_stray =
                self.segments.iter().all(|s| s.base != *at) && *at < checked_from.min(self.log_end);
            let superseded =
                newest_stray && snapshots.iter().any(|other| at < other && *other <= checked_from);
            if self.log_end < *at || superseded {
                remove_if_there(disk, &self.dir.join(file_name(*at, ".snapshot")))?;
            } else if *at <= checked_from && log_start <= *at {
                usable.push(*at);
            }
        }
        // What was checked is replayed too, so that the indexes of aborted transactions are whole again.
        let (mut producers, mut from) = (Producers::default(), self.segments[0].base);
        let mut snapshot_at = None;
        for at in usable.iter().rev() {
            let path = self.dir.join(file_name(*at, ".snapshot"));
            let bytes = disk.read_file(&path, producer_snapshot::SNAPSHOT_BYTES_MAX);
            if let Some(loaded) = bytes.ok().and_then(|bytes| producer_snapshot::decode(&bytes)) {
                (producers, from) = (loaded, *at);
                snapshot_at = Some(*at);
                break;
            }
            remove_if_there(disk, &path)?;
        }
        producers.expire(now, self.config.producer_id_expiration_ms);
        replay_from(&self.segments, &mut producers, from, checked_from)?;
        Ok((producers, snapshot_at))
    }
}

/// Tells the producers about all batches at or behind `from`; those at or behind `index_from` also fill the indexes of
/// aborted transactions.
pub(crate) fn replay_from(
    segments: &[Arc<Segment>],
    producers: &mut Producers,
    from: Offset,
    index_from: Offset,
) -> Result<(), LogFault> {
    let first = segments
        .partition_point(|segment| segment.base <= from)
        .saturating_sub(1);
    for segment in &segments[first..] {
        let fault = |stop: ScanStop| stop.into_fault();
        let Some(start) = segment.find(from, segment.size()).map_err(fault)? else {
            continue;
        };
        let mut scanner = segment.scan(start.position, segment.size(), ReadAhead::Little)?;
        loop {
            let before = scanner.position();
            let Some(found) = scanner.next_header().map_err(fault)? else {
                break;
            };
            if found.header.base_offset < from.0 {
                continue;
            }
            let marker = match found.header.attributes.is_control() {
                false => None,
                true => {
                    let mut again = segment.scan(before as u32, segment.size(), ReadAhead::Little)?;
                    again.next_batch().map_err(fault)?.map(|(_, batch)| batch)
                }
            };
            let index = (index_from.0 <= found.header.base_offset).then_some(&**segment);
            replay(producers, &found.header, marker.as_ref(), index)?;
        }
    }
    Ok(())
}

/// Why a batch that lies wholly in the file still cannot be the next one.
fn flaw(batch: &Batch, base: Offset, expected: Offset) -> Option<String> {
    let (first, last) = (batch.header.base_offset, batch.header.last_offset());
    if let Err(e) = batch.check() {
        return Some(e.to_string());
    }
    if first < expected.0 {
        return Some(format!("a batch at offset {first} where {expected} was expected"));
    }
    if last < first || i64::from(i32::MAX) < last - base.0 {
        return Some(format!("a batch from offset {first} to {last}"));
    }
    None
}

/// Where the last segment of a cleanly closed log ends; `None` if it is not as it was closed.
pub(crate) fn find_end(segment: &Segment) -> Result<Option<Offset>, LogFault> {
    let size = segment.size();
    let entry = segment.lookups().offsets.last()?;
    let position = entry.map_or(0, |entry| entry.position);
    if size <= position && 0 < size {
        return Ok(None);
    }
    let mut scanner = segment.scan(position, size, ReadAhead::Little)?;
    let mut end = segment.base;
    loop {
        match scanner.next_header() {
            Ok(None) => return Ok(Some(end)),
            Ok(Some(found)) if found.header.base_offset < end.0 => return Ok(None),
            Ok(Some(found)) => end = Offset(found.header.last_offset()).next(),
            Err(ScanStop::Bad { .. }) => return Ok(None),
            Err(ScanStop::Fault(fault)) => return Err(fault),
        }
    }
}
