//! Requests that come again: whoever forwards a command sends it once more when the answer is late or its controller has
//! gone, and must be told what became of the first attempt, not what the same command would do on top of it.
//!
//! ```text
//!  log:  … │ batch of request r │ …          r again: decided on the image before its batch, for the reply alone
//!          ▲
//!          before(r)
//! ```
//!
//! Images share structure, so those kept here cost what has changed since. The name stands in the log, so a controller
//! that takes over knows it as well.

use std::collections::VecDeque;
use std::sync::Arc;

use metadata::image::Image;

use crate::command::{Command, ElectLeaders};

/// Requests that are known again; clients retry within seconds.
const KEPT_MAX: usize = 256;

/// What was there before each request that came into the log lately.
#[derive(Debug, Default)]
pub(super) struct Retries {
    done: VecDeque<(String, Arc<Image>)>,
}

impl Retries {
    /// A batch of this request was applied to `before`. Of several the first counts.
    pub fn applied(&mut self, request_id: &str, before: &Arc<Image>) {
        if request_id.is_empty() || self.before(request_id).is_some() {
            return;
        }
        if self.done.len() == KEPT_MAX {
            self.done.pop_front();
        }
        self.done.push_back((request_id.to_owned(), Arc::clone(before)));
    }

    /// The image on which this request was decided, if it came into the log lately.
    pub fn before(&self, request_id: &str) -> Option<&Arc<Image>> {
        let mut newest_first = self.done.iter().rev();
        newest_first
            .find(|(held, _)| held == request_id)
            .map(|(_, before)| before)
    }

    /// What was known belongs to another log.
    pub fn forget(&mut self) {
        self.done.clear();
    }
}

/// Whether a command is in the log whole as soon as one of its batches is. One that may be cut short is decided again
/// instead.
pub(super) fn stands_or_falls_together(command: &Command) -> bool {
    !matches!(
        command,
        Command::ElectLeaders(ElectLeaders { partitions: None, .. })
            | Command::Heartbeat(_)
            | Command::AlterPartition(_)
    )
}
