//! What probes are told: whether this controller takes part in a quorum that makes progress, and if not, why.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use host::Clock;
use observe::{NotReady, Watched};

use super::ControllerMetrics;
use crate::quorum::Role;
use crate::services::Desk;
use crate::space::Space;

/// The active controller writes at least so often while it has not much to say; several are missed before a controller
/// counts as left behind.
const MISSED_MAX: u32 = 6;
/// Shorter silences are a busy machine's.
const SILENCE_MIN: Duration = Duration::from_secs(3);

/// What the endpoint asks.
pub struct Watch {
    metrics: Arc<ControllerMetrics>,
    clock: Arc<dyn Clock>,
    /// How often the active controller writes something; nothing is expected without it.
    idle_interval: Option<Duration>,
    /// What there is once the log is open.
    desk: OnceLock<Weak<Desk>>,
}

impl Watch {
    /// A controller that begins.
    #[must_use]
    pub fn new(
        metrics: Arc<ControllerMetrics>,
        clock: Arc<dyn Clock>,
        idle_interval: Option<Duration>,
    ) -> Watch {
        Watch {
            metrics,
            clock,
            idle_interval,
            desk: OnceLock::new(),
        }
    }

    /// The log is open, and everything is at work.
    pub fn works(&self, desk: &Arc<Desk>) {
        // It begins once.
        let _ = self.desk.set(Arc::downgrade(desk));
    }

    fn obstacle(&self) -> Option<String> {
        let Some(desk) = self.desk.get().and_then(Weak::upgrade) else {
            return Some("starting: the metadata log is being opened".into());
        };
        if let Some(why) = desk.quarantine.lock().as_ref() {
            return Some(format!("the metadata log cannot be replayed further: {why}"));
        }
        let standing = desk.quorum.standing();
        let (role, term) = (standing.role.as_str(), standing.term);
        if standing.leader.is_none() {
            return Some(format!("{role}: no leader is known in term {term}"));
        }
        if standing.leads().is_some() && desk.inbox.active().is_none() {
            return Some(format!(
                "leader of term {term}, and not active: no majority has answered lately"
            ));
        }
        if standing.role == Role::Learner {
            return Some("learner: it has no vote yet".into());
        }
        if let Some(lack) = lack(desk.inbox.space()) {
            return Some(format!("{role}: the disk of the metadata log is {lack}"));
        }
        let silent = self.clock.now().since(self.metrics.applied_at());
        let expected = self.idle_interval? * MISSED_MAX;
        (expected.max(SILENCE_MIN) < silent).then(|| {
            let silent_ms = silent.as_millis();
            format!("{role}: nothing was committed for {silent_ms} ms")
        })
    }
}

/// What lack of room means for those who ask this controller.
fn lack(space: Space) -> Option<&'static str> {
    match space {
        Space::Enough => None,
        Space::Scarce => Some("almost full: no topic, partition or broker is added"),
        Space::Exhausted => Some("full: nothing is decided"),
    }
}

impl Watched for Watch {
    fn metrics(&self) -> Result<String, String> {
        self.metrics.metrics.text()
    }

    fn ready(&self) -> Result<(), NotReady> {
        match self.obstacle() {
            None => Ok(()),
            Some(obstacle) => Err(NotReady(obstacle)),
        }
    }
}
