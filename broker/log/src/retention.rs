//! Deleting old segments: by a raised log start, by size, by age (L-30 to L-33).
//!
//! Must not: delete what is not committed, or part of a segment.

use std::path::PathBuf;

use host::WallMs;

use crate::{Log, LogFault, Offset};

/// Why a segment may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionRule {
    /// All its records are below the log start.
    LogStart,
    /// The log is larger than `retention.bytes` without it.
    Size,
    /// Its newest record is older than `retention.ms`.
    Age,
}

/// A segment that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedSegment {
    /// Its base offset.
    pub base: Offset,
    /// Its size.
    pub size_bytes: u32,
    /// Why it went.
    pub rule: RetentionRule,
    /// Its files, renamed; to be removed after `file.delete.delay.ms`.
    pub paths: Vec<PathBuf>,
}

impl Log {
    /// Deletes the segments that retention allows, oldest first; the log start moves up to the first that stays. Their
    /// files are renamed; the caller removes the returned paths after `file.delete.delay.ms`.
    ///
    /// # Errors
    /// Faults of the disk.
    pub fn delete_old_segments(&mut self, now: WallMs) -> Result<Vec<DeletedSegment>, LogFault> {
        let mut rules = self.deletable(now)?;
        if rules.len() == self.segments.len() {
            match self.roll(self.bounds.log_end, now) {
                // On a full disk the others go all the same: that makes room for it.
                Err(LogFault::DiskFull { .. }) => drop(rules.pop()),
                rolled => rolled?,
            }
        }
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let first_kept = self.segments[rules.len()].base;
        let start = self
            .bounds
            .log_start
            .max(first_kept)
            .min(self.bounds.high_watermark);
        match self.raise_log_start(start) {
            Ok(_) => {}
            Err(crate::ReadError::Fault(fault)) => return Err(fault),
            Err(e) => unreachable!("only committed segments are deletable: {e}"),
        }
        let gone: Vec<_> = self.segments.drain(..rules.len()).collect();
        self.publish_now();
        let mut deleted = Vec::new();
        for (segment, rule) in gone.iter().zip(rules) {
            let paths = self.rename_segment_files(segment)?;
            deleted.push(DeletedSegment {
                base: segment.base,
                size_bytes: segment.size(),
                rule,
                paths,
            });
        }
        Ok(deleted)
    }

    /// The rules by which the oldest segments go, one per segment (L-31): all by log start, then by size, then by age.
    fn deletable(&self, now: WallMs) -> Result<Vec<RetentionRule>, LogFault> {
        let mut rules = Vec::new();
        for place in 0..self.segments.len() {
            let by_start = self
                .segments
                .get(place + 1)
                .is_some_and(|next| next.base <= self.bounds.log_start);
            if !by_start || !self.may_go(place) {
                break;
            }
            rules.push(RetentionRule::LogStart);
        }
        if !self.config.cleanup.deletes() {
            return Ok(rules);
        }
        if let Some(limit) = self.config.retention_bytes {
            let left: u64 = self.segments[rules.len()..]
                .iter()
                .map(|s| u64::from(s.size()))
                .sum();
            let mut surplus = i128::from(left) - i128::from(limit);
            while let Some(segment) = self.segments.get(rules.len())
                && self.may_go(rules.len())
                && 0 <= surplus - i128::from(segment.size())
            {
                surplus -= i128::from(segment.size());
                rules.push(RetentionRule::Size);
            }
        }
        if let Some(limit_ms) = self.config.retention_ms {
            while rules.len() < self.segments.len()
                && self.may_go(rules.len())
                && self.is_older_than(rules.len(), limit_ms, now)?
            {
                rules.push(RetentionRule::Age);
            }
        }
        Ok(rules)
    }

    /// L-30: everything in it is committed, and it is not the empty last one.
    fn may_go(&self, place: usize) -> bool {
        let end = self
            .segments
            .get(place + 1)
            .map_or(self.bounds.log_end, |next| next.base);
        let empty_last = place + 1 == self.segments.len() && self.segments[place].size() == 0;
        end <= self.bounds.high_watermark && !empty_last
    }

    fn is_older_than(&self, place: usize, limit_ms: u64, now: WallMs) -> Result<bool, LogFault> {
        let segment = &self.segments[place];
        let newest = match segment.peak()?.timestamp {
            timestamp if 0 <= timestamp => timestamp,
            _ => {
                segment
                    .log
                    .get()?
                    .modified()
                    .map_err(LogFault::io("look at", segment.log.path()))?
                    .0
            }
        };
        Ok(i64::try_from(limit_ms).unwrap_or(i64::MAX) < now.0.saturating_sub(newest))
    }
}
