//! Which leader epoch began where: the history by which diverging logs find their common point.
//!
//! Epochs and start offsets both only grow. Must not: know who led.

use crate::types::{LeaderEpoch, Offset};

/// The first offset that was written in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Where it began.
    pub start: Offset,
}

/// Answer to "where did this epoch end" (L-51).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochEnd {
    /// The history does not reach that epoch.
    Undefined,
    /// The largest epoch up to the asked one, and the offset behind its last record.
    At {
        /// That epoch; the asked one itself if it is older than the history.
        epoch: LeaderEpoch,
        /// Where the next epoch begins, or the log end.
        end: Offset,
    },
}

/// The epochs of one log, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochHistory {
    entries: Vec<EpochStart>,
}

impl EpochHistory {
    /// A history from entries in any order; what contradicts growth is dropped as in [`EpochHistory::assign`].
    pub fn from_entries(entries: impl IntoIterator<Item = EpochStart>) -> EpochHistory {
        let mut history = EpochHistory::default();
        for entry in entries {
            let _ = history.assign(entry.epoch, entry.start);
        }
        history
    }

    /// All entries, oldest first.
    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    /// The newest epoch.
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|entry| entry.epoch)
    }

    /// The epoch in which the record at `offset` was written.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.entries
            .iter()
            .rev()
            .find(|entry| entry.start <= offset)
            .map(|entry| entry.epoch)
    }

    /// Notes that `epoch` begins at `start`. Entries of the same or a later epoch, or at or behind `start`, are
    /// wrong by that and go (L-52). Returns whether anything changed.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) -> EpochChange {
        if self.latest() == Some(epoch) && self.entries.last().is_some_and(|last| last.start <= start) {
            return EpochChange::None;
        }
        self.entries
            .retain(|entry| entry.epoch < epoch && entry.start < start);
        self.entries.push(EpochStart { epoch, start });
        EpochChange::Changed
    }

    /// Forgets what began at or behind `end`.
    pub fn truncate_from_end(&mut self, end: Offset) -> EpochChange {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.start < end);
        if self.entries.len() == before {
            EpochChange::None
        } else {
            EpochChange::Changed
        }
    }

    /// Forgets what ended before `start`; the epoch that covers `start` begins there now.
    pub fn truncate_from_start(&mut self, start: Offset) -> EpochChange {
        let covering = self.entries.iter().rposition(|entry| entry.start <= start);
        let Some(covering) = covering else {
            return EpochChange::None;
        };
        if covering == 0 && self.entries[0].start == start {
            return EpochChange::None;
        }
        self.entries.drain(..covering);
        self.entries[0].start = start;
        EpochChange::Changed
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Where `epoch` ended in a log that ends at `log_end` (L-51).
    pub fn end_offset_for(&self, epoch: LeaderEpoch, log_end: Offset) -> EpochEnd {
        let Some(latest) = self.latest() else {
            return EpochEnd::Undefined;
        };
        if epoch == latest {
            return EpochEnd::At { epoch, end: log_end };
        }
        if latest < epoch {
            return EpochEnd::Undefined;
        }
        let next = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let end = self.entries[next].start;
        let floor = if next == 0 {
            epoch
        } else {
            self.entries[next - 1].epoch
        };
        EpochEnd::At { epoch: floor, end }
    }
}

/// Whether an [`EpochHistory`] has to be written to disk again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum EpochChange {
    /// It is as it was.
    None,
    /// It is not.
    Changed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(entries: &[(i32, i64)]) -> EpochHistory {
        EpochHistory::from_entries(entries.iter().map(|(e, s)| EpochStart {
            epoch: LeaderEpoch(*e),
            start: Offset(*s),
        }))
    }

    fn listed(history: &EpochHistory) -> Vec<(i32, i64)> {
        history.entries().iter().map(|e| (e.epoch.0, e.start.0)).collect()
    }

    #[test]
    fn the_end_of_an_epoch_is_the_start_of_the_next_one_known() {
        let epochs = history(&[(0, 0), (2, 10), (5, 20)]);
        let end = |epoch| epochs.end_offset_for(LeaderEpoch(epoch), Offset(33));
        let at = |epoch, end| EpochEnd::At {
            epoch: LeaderEpoch(epoch),
            end: Offset(end),
        };

        assert_eq!(end(0), at(0, 10));
        assert_eq!(end(1), at(0, 10));
        assert_eq!(end(2), at(2, 20));
        assert_eq!(end(3), at(2, 20));
        assert_eq!(end(5), at(5, 33));
        assert_eq!(end(6), EpochEnd::Undefined);
        assert_eq!(end(-2), at(-2, 0));
        assert_eq!(
            EpochHistory::default().end_offset_for(LeaderEpoch(0), Offset(0)),
            EpochEnd::Undefined
        );
    }

    #[test]
    fn assigning_removes_what_contradicts_it() {
        let mut epochs = history(&[(0, 0), (2, 10), (5, 20)]);
        assert_eq!(epochs.assign(LeaderEpoch(5), Offset(25)), EpochChange::None);
        assert_eq!(epochs.assign(LeaderEpoch(6), Offset(10)), EpochChange::Changed);
        assert_eq!(listed(&epochs), [(0, 0), (6, 10)]);
        assert_eq!(epochs.assign(LeaderEpoch(3), Offset(30)), EpochChange::Changed);
        assert_eq!(listed(&epochs), [(0, 0), (3, 30)]);
    }

    #[test]
    fn truncating_from_the_end_forgets_what_began_there() {
        let mut epochs = history(&[(0, 0), (2, 10), (5, 20)]);
        assert_eq!(epochs.truncate_from_end(Offset(21)), EpochChange::None);
        assert_eq!(epochs.truncate_from_end(Offset(10)), EpochChange::Changed);
        assert_eq!(listed(&epochs), [(0, 0)]);
    }

    #[test]
    fn truncating_from_the_start_moves_the_covering_epoch() {
        let mut epochs = history(&[(0, 0), (2, 10), (5, 20)]);
        assert_eq!(epochs.truncate_from_start(Offset(0)), EpochChange::None);
        assert_eq!(epochs.truncate_from_start(Offset(15)), EpochChange::Changed);
        assert_eq!(listed(&epochs), [(2, 15), (5, 20)]);
        assert_eq!(epochs.epoch_at(Offset(14)), None);
        assert_eq!(epochs.epoch_at(Offset(19)), Some(LeaderEpoch(2)));
    }
}
