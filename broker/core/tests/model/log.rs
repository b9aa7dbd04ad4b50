//! A log that is a list, with the history of leader epochs that Kafka keeps (L-51, L-52).

use broker_core::offsets::{EpochEnd, LogEnd, LogStart, Offset};
use metadata::ids::LeaderEpoch;

/// A record: the epoch of the leader that wrote it, and a value that is never used twice.
pub type Record = (LeaderEpoch, u64);

#[derive(Default)]
pub struct Log {
    pub records: Vec<Record>,
    history: Vec<(LeaderEpoch, Offset)>,
}

impl Log {
    pub fn start(&self) -> LogStart {
        LogStart(Offset(0))
    }

    pub fn end(&self) -> LogEnd {
        LogEnd(Offset(self.records.len() as i64))
    }

    pub fn last_epoch(&self) -> Option<LeaderEpoch> {
        self.history.last().map(|(epoch, _)| *epoch)
    }

    pub fn epoch_started(&mut self, epoch: LeaderEpoch, at: LogEnd) {
        assert_eq!(at, self.end(), "a leadership begins at the end of the log");
        self.history
            .retain(|(held, start)| *held < epoch && *start < at.0);
        self.history.push((epoch, at.0));
    }

    pub fn append(&mut self, record: Record) {
        if self.last_epoch() < Some(record.0) {
            self.history.push((record.0, self.end().0));
        }
        self.records.push(record);
    }

    pub fn truncate(&mut self, to: LogEnd) {
        self.records.truncate(to.0.0 as usize);
        self.history.retain(|(_, start)| *start < to.0);
    }

    pub fn end_of(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let last = self.last_epoch()?;
        if last < epoch {
            return None;
        }
        let (first, first_start) = self.history[0];
        if epoch < first {
            return Some(EpochEnd {
                epoch,
                end: first_start,
            });
        }
        let at = self.history.iter().rposition(|(held, _)| *held <= epoch)?;
        let end = self.history.get(at + 1).map_or(self.end().0, |(_, start)| *start);
        Some(EpochEnd {
            epoch: self.history[at].0,
            end,
        })
    }
}
