//! Which offset a client is told when it asks for the end of a log, or for the record of a time (L-48, L-49, L-50).

use super::Isolation;
use crate::offsets::{LogEnd, LogFacts, Offset};

/// Who asks for an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A consumer.
    Consumer(Isolation),
    /// A replica, or a tool that looks at one (L-50).
    Replica,
}

/// A new leader cannot tell yet: its watermark lies before its leadership, so that a consumer would see the end of the
/// log go back (L-49).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the watermark {watermark} has not reached the start of the leadership, {epoch_start}")]
pub struct OffsetNotAvailable {
    /// The watermark.
    pub watermark: Offset,
    /// Where the leadership begins.
    pub epoch_start: Offset,
}

/// A leader's log, as the answer depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderLog {
    /// Its offsets.
    pub log: LogFacts,
    /// First offset of the present leadership.
    pub epoch_start: LogEnd,
    /// End of what belongs to no open transaction.
    pub last_stable: Offset,
}

impl LeaderLog {
    /// The end of the log for this asker.
    ///
    /// # Errors
    /// [`OffsetNotAvailable`] for consumers, as long as the watermark lags behind the leadership.
    pub fn latest(&self, asker: Asker) -> Result<Offset, OffsetNotAvailable> {
        self.settled(asker)?;
        Ok(self.bound(asker))
    }

    /// What of a lookup by time is told: nothing of what the asker may not read yet (L-48).
    ///
    /// # Errors
    /// [`OffsetNotAvailable`] for consumers whose lookup ended beyond what they may read, as long as the watermark lags
    /// behind the leadership.
    pub fn by_time(&self, asker: Asker, found: Option<Offset>) -> Result<Option<Offset>, OffsetNotAvailable> {
        match found.filter(|offset| *offset < self.bound(asker)) {
            Some(offset) => Ok(Some(offset)),
            None => self.settled(asker).map(|()| None),
        }
    }

    fn bound(&self, asker: Asker) -> Offset {
        match asker {
            Asker::Consumer(Isolation::ReadUncommitted) => self.log.watermark.0,
            Asker::Consumer(Isolation::ReadCommitted) => self.last_stable.min(self.log.watermark.0),
            Asker::Replica => self.log.end.0,
        }
    }

    fn settled(&self, asker: Asker) -> Result<(), OffsetNotAvailable> {
        let (watermark, epoch_start) = (self.log.watermark.0, self.epoch_start.0);
        match asker {
            Asker::Consumer(_) if watermark < epoch_start => Err(OffsetNotAvailable {
                watermark,
                epoch_start,
            }),
            Asker::Consumer(_) | Asker::Replica => Ok(()),
        }
    }
}
