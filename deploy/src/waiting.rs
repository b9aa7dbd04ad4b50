//! What a command waits for, told after a few seconds and then rarely: who waits in silence looks dead, and who speaks all
//! the time is not listened to.

use std::time::Duration;

use host::{Clock as _, Monotonic, OsClock};
use tokio::time::sleep;

use crate::terminal::tell;

/// After how long it is told first: what is on its way comes sooner, also the answer of a new group, which waits 3 s for
/// more members.
const FIRST: Duration = Duration::from_secs(4);

/// After how long it is told again.
const AGAIN: Duration = Duration::from_secs(60);

/// A wait for something.
#[derive(Debug)]
pub struct Waiting {
    clock: OsClock,
    due: Monotonic,
}

impl Waiting {
    /// Begins now.
    pub fn begin() -> Self {
        let clock = OsClock::new();
        Self {
            due: clock.now().after(FIRST),
            clock,
        }
    }

    /// It goes on, for this reason, which is told when it is time to.
    pub fn still(&mut self, why: &str) {
        if self.is_due() {
            told(why);
        }
    }

    /// Whether it is time to tell, for whoever must ask for the reason first. It then counts as told.
    pub fn is_due(&mut self) -> bool {
        self.is_due_at(self.clock.now())
    }

    /// What comes of `work`. As long as nothing does, the reason is told when it is time to.
    pub async fn during<T>(mut self, why: impl Fn() -> String, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = sleep(self.due.since(self.clock.now())) => self.still(&why()),
            }
        }
    }

    fn is_due_at(&mut self, now: Monotonic) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due = now.after(AGAIN);
        }
        is_due
    }
}

/// Tells what is waited for.
pub fn told(why: &str) {
    tell(&format!("waiting: {why}"));
}

/// Why nothing can be asked of a partition, and who knows more.
pub fn no_leader(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition} has no leader; `millrace status` says why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_after_a_few_seconds_and_then_once_a_minute() {
        let mut waiting = Waiting::begin();
        let begin = waiting.clock.now();
        let told: Vec<u64> = (0..200)
            .filter(|second| waiting.is_due_at(begin.after(Duration::from_secs(*second))))
            .collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(4 <= told[0] && told[0] <= 5, "{told:?}");
        assert!(told.windows(2).all(|pair| pair[1] - pair[0] == 60), "{told:?}");
    }
}
