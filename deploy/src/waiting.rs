//! What a command waits for, told after a few seconds and then rarely: who waits in silence looks dead, and who speaks all
//! the time is not listened to.

use std::time::Duration;

use host::{Clock as _, Monotonic, OsClock};

use crate::terminal::tell;

/// After how long it is told first: what is on its way comes sooner.
const FIRST: Duration = Duration::from_secs(3);

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
        if self.is_due(self.clock.now()) {
            tell(&format!("waiting: {why}"));
        }
    }

    fn is_due(&mut self, now: Monotonic) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due = now.after(AGAIN);
        }
        is_due
    }
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
            .filter(|second| waiting.is_due(begin.after(Duration::from_secs(*second))))
            .collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(3 <= told[0] && told[0] <= 4, "{told:?}");
        assert!(told.windows(2).all(|pair| pair[1] - pair[0] == 60), "{told:?}");
    }
}
