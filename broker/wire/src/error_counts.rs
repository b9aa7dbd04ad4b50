//! How often each error code stands in a message: what `ErrorsPerSec` counts.

use smallvec::SmallVec;

use crate::error::ErrorCode;

/// The codes of one message, each with how often it stands there; `NONE` is one of them. Most messages have one or two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts(SmallVec<[(ErrorCode, u32); 2]>);

impl ErrorCounts {
    pub(crate) fn add(&mut self, code: ErrorCode) {
        match self.0.iter_mut().find(|(counted, _)| *counted == code) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => self.0.push((code, 1)),
        }
    }

    /// Each code once, in the order in which they came first.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorCode, u32)> + '_ {
        self.0.iter().copied()
    }
}
