//! Appending: as the leader, who decides offsets, and as a follower, who takes them.
//!
//! Everything that can be refused is refused before the one write; after a failed write the log is as before. Must not:
//! copy a payload, or sync.

use std::io::IoSlice;

use bytes::Bytes;
use host::WallMs;
use wire::batch::{Batch, BatchError, BatchHeader, Batches};

use crate::aborted::AbortedEntry;
use crate::errors::{AppendError, AppendRefusal, LogFault};
use crate::log::{Active, AgeFrom, Log, new_segment};
use crate::producers::{Producers, SequencedBatch, TransactionEnd};
use crate::scan::ReadAhead;
use crate::segment::Segment;
use crate::sync::Names;
use crate::types::{CoordinatorEpoch, LeaderEpoch, Offset};
use crate::validate::{Origin, admit, check_size};

/// Around an append at the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderAppend {
    /// Stamped into the batch.
    pub leader_epoch: LeaderEpoch,
    /// The broker's wall clock.
    pub now: WallMs,
    /// Who appends.
    pub origin: Origin,
}

/// Whether an append wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It did.
    Written,
    /// The same batch is in the log already; the offsets are those of the first time (T-2).
    Duplicate,
}

/// When a sync is needed because of a change to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncNeed {
    /// Not because of this.
    None,
    /// Soon, in the background: a segment was rolled (L-15).
    Background,
    /// Before the append is answered (`flush.messages`), and before anything is written in the place of what was cut off.
    BeforeAnswer,
}

/// An append at the leader succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub first: Offset,
    /// Offset of the last record.
    pub last: Offset,
    /// The time the answer carries: the broker's for LogAppendTime, the original's for a duplicate, else none.
    pub log_append_time: Option<WallMs>,
    /// First readable offset.
    pub log_start: Offset,
    /// Written or recognised.
    pub outcome: AppendOutcome,
    /// Bytes written.
    pub size_bytes: u32,
    /// Whether to sync.
    pub sync: SyncNeed,
}

/// An append of fetched batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerAppended {
    /// The log ends here now.
    pub log_end: Offset,
    /// Bytes appended; less than given if the tail was cut off or skipped.
    pub size_bytes: u32,
    /// Whether to sync.
    pub sync: SyncNeed,
}

/// Whether an append had to begin a new segment first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rolled {
    No,
    Yes,
}

impl Log {
    /// Whether this batch repeats one that the log holds (T-2): an append would only recognise it.
    #[must_use]
    pub fn repeats(&self, batch: &Batch) -> bool {
        self.producers.duplicate_of(&batch.header).is_some()
    }

    /// Validates a batch (what [`crate::check_payload`] returned) in the order, gives it the next offsets
    /// and the leader's epoch, and writes it. Its payload is not copied.
    ///
    /// # Errors
    /// The first rule that it breaks; faults of the disk. The log is then as before.
    pub fn append_as_leader(&mut self, batch: &Batch, append: LeaderAppend) -> Result<Appended, AppendError> {
        let mut admitted = admit(batch, &self.config, append.origin, append.now)?;
        let header = &mut admitted.header;
        if header.length != batch.header.length {
            check_size(header.size() as u64, &self.config)?;
        }
        let limit_bytes = u64::from(self.config.segment_bytes);
        if limit_bytes < header.size() as u64 {
            return Err(AppendRefusal::RecordListTooLarge {
                size_bytes: header.size() as u64,
                limit_bytes,
            }
            .into());
        }
        if append.origin == Origin::Client {
            if let Some(original) = self.producers.duplicate_of(header) {
                return Ok(self.recognised(&original));
            }
            self.producers.check(header)?;
        }
        header.base_offset = self.bounds.log_end.0;
        header.partition_leader_epoch = append.leader_epoch.0;
        let head = header.to_bytes();
        let parts = [IoSlice::new(&head), IoSlice::new(&admitted.records)];
        let stored = [(*header, 0_u32)];
        let markers = if header.attributes.is_control() {
            whole(&head, &admitted.records)?
        } else {
            Vec::new()
        };
        let header = *header;
        let rolled = self.store(&stored, &parts, &markers, append.now)?;
        let appends_time = header.attributes.timestamp_type() == wire::batch::TimestampType::LogAppendTime;
        Ok(Appended {
            first: Offset(header.base_offset),
            last: Offset(header.last_offset()),
            log_append_time: appends_time.then_some(append.now),
            log_start: self.bounds.log_start,
            outcome: AppendOutcome::Written,
            size_bytes: u32::try_from(header.size()).expect("a batch fits into its segment"),
            sync: self.sync_need(rolled),
        })
    }

    fn recognised(&self, original: &SequencedBatch) -> Appended {
        Appended {
            first: original.first,
            last: original.last,
            log_append_time: Some(WallMs(original.timestamp)),
            log_start: self.bounds.log_start,
            outcome: AppendOutcome::Duplicate,
            size_bytes: 0,
            sync: SyncNeed::None,
        }
    }

    /// Appends batches fetched from a leader, with the offsets and epochs they have. A batch that is cut
    /// off at the end is left out, as are all from the first one of an epoch beyond `leader_epoch`. An empty log whose
    /// end lies within the first batch begins at that batch.
    ///
    /// # Errors
    /// `NotAtLogEnd`, `Corrupt`; faults of the disk. The log is then as before. A fault behind the first batches is no
    /// error yet: what came before it is appended, and the next append, which begins there, meets it again.
    pub fn append_as_follower(
        &mut self,
        batches: &Bytes,
        leader_epoch: LeaderEpoch,
        now: WallMs,
    ) -> Result<FollowerAppended, AppendError> {
        let (stored, markers) = check_fetched(batches, leader_epoch)?;
        let mut rolled = Rolled::No;
        let mut size_bytes = 0;
        if let Some((first, _)) = stored.first() {
            let (base, last) = (Offset(first.base_offset), Offset(first.last_offset()));
            let log_end = self.bounds.log_end;
            if base < log_end {
                let empty = self.bounds.log_start == log_end;
                if !empty || last < log_end {
                    return Err(AppendRefusal::NotAtLogEnd { log_end, given: base }.into());
                }
                self.begin_anew_at(base)?;
            }
            for run in self.runs_per_segment(&stored) {
                let (from, to) = span(run);
                let parts = [IoSlice::new(&batches[from..to])];
                let relative: Vec<_> = run.iter().map(|(h, at)| (*h, *at - from as u32)).collect();
                let markers: Vec<_> = markers.iter().filter(|m| within(m, run)).cloned().collect();
                match self.store(&relative, &parts, &markers, now) {
                    Ok(Rolled::Yes) => rolled = Rolled::Yes,
                    Ok(Rolled::No) => {}
                    Err(_) if 0 < size_bytes => break,
                    Err(fault) => return Err(fault.into()),
                }
                size_bytes += (to - from) as u32;
            }
        }
        let sync = self.sync_need(rolled);
        Ok(FollowerAppended {
            log_end: self.bounds.log_end,
            size_bytes,
            sync,
        })
    }

    /// Splits batches so that each part fits into one segment; usually there is one part.
    fn runs_per_segment<'a>(&self, stored: &'a [(BatchHeader, u32)]) -> Vec<&'a [(BatchHeader, u32)]> {
        let limit = u64::from(self.config.segment_bytes);
        let mut runs = Vec::new();
        let mut start = 0;
        let mut size = 0_u64;
        for (place, (header, _)) in stored.iter().enumerate() {
            let span = header.last_offset() - stored[start].0.base_offset;
            if start < place && (limit < size + header.size() as u64 || i64::from(i32::MAX) < span) {
                runs.push(&stored[start..place]);
                (start, size) = (place, 0);
            }
            size += header.size() as u64;
        }
        runs.push(&stored[start..]);
        runs
    }

    /// Writes batches whose offsets are decided: rolls if need be, one write, then everything that follows from it.
    /// Positions in `stored` are relative to the first byte of `parts`.
    fn store(
        &mut self,
        stored: &[(BatchHeader, u32)],
        parts: &[IoSlice<'_>],
        markers: &[Batch],
        now: WallMs,
    ) -> Result<Rolled, LogFault> {
        let size: u32 = stored.iter().map(|(header, _)| header.size() as u32).sum();
        let first = stored[0].0;
        let last = Offset(stored[stored.len() - 1].0.last_offset());
        let max_timestamp = stored
            .iter()
            .map(|(header, _)| header.max_timestamp)
            .max()
            .unwrap_or(-1);
        let rolled = self.roll_if_due(Offset(first.base_offset), last, size, max_timestamp, now)?;
        for (header, _) in stored {
            if 0 <= header.partition_leader_epoch {
                self.write_epoch(
                    LeaderEpoch(header.partition_leader_epoch),
                    Offset(header.base_offset),
                )?;
            }
        }
        let position = self.write(parts)?;
        self.active.torn = true;
        for (header, relative) in stored {
            self.note(header, position + relative, markers)?;
        }
        self.active.torn = false;
        self.bounds.log_end = last.next();
        self.publish_now();
        Ok(rolled)
    }

    /// The one write. The file is then either longer by all of it or, after an error, as long as before.
    fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<u32, LogFault> {
        self.save_identity()?;
        let segment = self.active_segment().clone();
        segment.load()?;
        let file = segment.log.get()?;
        let position = segment.size();
        let fault = |e| LogFault::io("append to", segment.log.path())(e);
        if self.active.torn {
            file.set_len(u64::from(position)).map_err(fault)?;
            self.active.torn = false;
        }
        if let Err(e) = file.write_vectored_at(parts, u64::from(position)) {
            self.active.torn = file.set_len(u64::from(position)).is_err();
            return Err(fault(e));
        }
        Ok(position)
    }

    fn note(&mut self, header: &BatchHeader, position: u32, markers: &[Batch]) -> Result<(), LogFault> {
        let segment = self.active_segment().clone();
        if self.active.age_from == AgeFrom::Empty {
            self.active.age_from = AgeFrom::Record(header.max_timestamp);
        }
        segment.note(
            header,
            position,
            &mut self.active.since_index,
            self.config.index_interval_bytes,
        )?;
        let marker = markers
            .iter()
            .find(|marker| marker.header.base_offset == header.base_offset);
        replay(&mut self.producers, header, marker, Some(&segment))
    }

    /// L-11 to L-15.
    fn roll_if_due(
        &mut self,
        first: Offset,
        last: Offset,
        size: u32,
        max_timestamp: i64,
        now: WallMs,
    ) -> Result<Rolled, LogFault> {
        let segment = self.active_segment().clone();
        // A batch that is too large for any segment goes into an empty one.
        if segment.size() == 0 && segment.base == first {
            return Ok(Rolled::No);
        }
        let full = u64::from(self.config.segment_bytes) < u64::from(segment.size()) + u64::from(size);
        let wide = i64::from(i32::MAX) < last.0 - segment.base.0;
        if !(full || wide || self.indexes_full(&segment) || self.is_old(&segment, max_timestamp, now)?) {
            return Ok(Rolled::No);
        }
        self.roll(first, now)?;
        Ok(Rolled::Yes)
    }

    fn indexes_full(&self, segment: &Segment) -> bool {
        let limit = self.config.segment_index_bytes as usize;
        let lookups = segment.lookups();
        // One place is kept for the time entry that is written when the segment ends.
        limit / 8 <= lookups.offsets.count() || limit / 12 <= lookups.times.count() + 1
    }

    fn is_old(&mut self, segment: &Segment, max_timestamp: i64, now: WallMs) -> Result<bool, LogFault> {
        if segment.size() == 0 {
            return Ok(false);
        }
        if self.active.age_from == AgeFrom::Unknown {
            let mut scanner = segment.scan(0, segment.size(), ReadAhead::Little)?;
            let first = scanner.next_header().map_err(|stop| stop.into_fault())?;
            self.active.age_from = first.map_or(AgeFrom::Empty, |f| AgeFrom::Record(f.header.max_timestamp));
        }
        let age_ms = match self.active.age_from {
            AgeFrom::Record(since) if 0 <= since => max_timestamp.saturating_sub(since),
            _ => now.0.saturating_sub(self.active.created.0),
        };
        let limit_ms = self.config.segment_ms.saturating_sub(self.active.jitter_ms);
        Ok(i64::try_from(limit_ms).unwrap_or(i64::MAX) < age_ms)
    }

    /// Ends the active segment and begins one at `base`.
    pub(crate) fn roll(&mut self, base: Offset, now: WallMs) -> Result<(), LogFault> {
        let ending = self.active_segment().clone();
        ending.unload()?;
        self.snapshot_producers()?;
        let begun = new_segment(&self.host, &self.dir, base)?;
        self.unsynced.names = Names::Changed;
        self.segments.push(begun);
        self.active = Active::new(&self.host, &self.config, AgeFrom::Empty, now);
        self.publish_now();
        Ok(())
    }

    fn sync_need(&self, rolled: Rolled) -> SyncNeed {
        let unsynced = self.bounds.log_end.0.saturating_sub(self.recovery_point.0);
        if self.config.flush_messages <= u64::try_from(unsynced).unwrap_or(0) {
            SyncNeed::BeforeAnswer
        } else if rolled == Rolled::Yes {
            SyncNeed::Background
        } else {
            SyncNeed::None
        }
    }
}

/// The headers of fetched batches with their positions, and the markers among them.
type Fetched = (Vec<(BatchHeader, u32)>, Vec<Batch>);

/// whole, intact, in order, and of no epoch that this follower does not know yet.
fn check_fetched(batches: &Bytes, leader_epoch: LeaderEpoch) -> Result<Fetched, AppendRefusal> {
    let (mut stored, mut markers) = (Vec::new(), Vec::new());
    let mut position = 0_u32;
    let mut expected = None;
    for batch in Batches::new(batches.clone()) {
        let batch = batch.map_err(|e| match e {
            BatchError::Magic(magic @ (0 | 1)) => AppendRefusal::OldMagic { magic },
            _ => AppendRefusal::Corrupt {
                what: "no batch where one should begin",
            },
        })?;
        if leader_epoch.0 < batch.header.partition_leader_epoch {
            break;
        }
        batch.check().map_err(|_| AppendRefusal::Corrupt {
            what: "the checksum does not fit",
        })?;
        let (base, last) = (batch.header.base_offset, batch.header.last_offset());
        if last < base || base < 0 || last == i64::MAX {
            return Err(AppendRefusal::Malformed {
                what: "the last offset is below the first",
            });
        }
        if let Some(expected) = expected
            && base < expected
        {
            return Err(AppendRefusal::NotAtLogEnd {
                log_end: Offset(expected),
                given: Offset(base),
            });
        }
        expected = Some(last + 1);
        stored.push((batch.header, position));
        position += batch.bytes.len() as u32;
        if batch.header.attributes.is_control() {
            markers.push(batch);
        }
    }
    Ok((stored, markers))
}

fn span(run: &[(BatchHeader, u32)]) -> (usize, usize) {
    let (last, at) = run[run.len() - 1];
    (run[0].1 as usize, at as usize + last.size())
}

fn within(marker: &Batch, run: &[(BatchHeader, u32)]) -> bool {
    let (first, last) = (run[0].0.base_offset, run[run.len() - 1].0.base_offset);
    (first..=last).contains(&marker.header.base_offset)
}

/// A control batch of the leader's own, put together; it is a few bytes.
fn whole(head: &[u8], records: &[u8]) -> Result<Vec<Batch>, AppendRefusal> {
    let bytes = Bytes::from([head, records].concat());
    let batch = Batch::parse(&bytes).map_err(|_| AppendRefusal::Malformed {
        what: "a broken control batch",
    })?;
    Ok(vec![batch])
}

/// Tells the producers about a batch that is in the log; a transaction that it aborts goes into the segment's index.
pub(crate) fn replay(
    producers: &mut Producers,
    header: &BatchHeader,
    marker: Option<&Batch>,
    index: Option<&Segment>,
) -> Result<(), LogFault> {
    if !header.attributes.is_control() {
        if 0 <= header.producer_id {
            producers.replay_data(header);
        }
        return Ok(());
    }
    let Some((how, coordinator_epoch)) = marker.and_then(parse_marker) else {
        return Ok(());
    };
    let ended = producers.replay_marker(header, how, coordinator_epoch);
    if let (Some(ended), Some(segment)) = (ended, index)
        && ended.how == TransactionEnd::Aborted
    {
        segment.aborted.append(AbortedEntry {
            producer: ended.producer,
            first: ended.first,
            last: ended.last,
            last_stable: producers.first_open().unwrap_or(ended.last.next()),
        })?;
    }
    Ok(())
}

/// The end of a transaction that a control batch says; `None` for control records of another kind.
fn parse_marker(batch: &Batch) -> Option<(TransactionEnd, CoordinatorEpoch)> {
    let body = batch.body(MARKER_BYTES_MAX).ok()?;
    let record = batch.records(&body).next()?.ok()?;
    let key = record.key?;
    let how = match i16::from_be_bytes(*key.get(2..)?.first_chunk()?) {
        0 => TransactionEnd::Aborted,
        1 => TransactionEnd::Committed,
        _ => return None,
    };
    let epoch = i32::from_be_bytes(*record.value?.get(2..)?.first_chunk()?);
    Some((how, CoordinatorEpoch(epoch)))
}

/// A control record has a key of 4 bytes and a value of 6; later versions may say more.
const MARKER_BYTES_MAX: usize = 64 * 1024;
