//! How a part of the node asks the whole to stop, and why.
//!
//! Must not: stop anything itself.

use std::sync::OnceLock;

use tokio::sync::Notify;

/// Why the node cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The committed metadata cannot be followed.
    #[error("the metadata cannot be followed: {0}")]
    Metadata(String),
}

/// The request to stop; the first one counts.
#[derive(Debug, Default)]
pub struct Stop {
    reason: OnceLock<Reason>,
    asked: Notify,
}

impl Stop {
    /// Asks the node to stop.
    pub fn request(&self, reason: Reason) {
        // A later reason is a consequence of the first.
        let _ = self.reason.set(reason);
        self.asked.notify_one();
    }

    /// Waits until somebody asks.
    pub async fn requested(&self) -> Reason {
        loop {
            if let Some(reason) = self.reason.get() {
                return reason.clone();
            }
            self.asked.notified().await;
        }
    }
}
