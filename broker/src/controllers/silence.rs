//! That no controller answers, as an operator is told of it: once it has lasted, with whom was tried and why it failed, then
//! ever more rarely.
//!
//! Must not: log, or decide whom to try.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_core::time::Moment;

/// A controller that fails over, or starts a little later than its brokers, is nothing to be told of.
const TOLD_AFTER: Duration = Duration::from_secs(2);
/// The first pause until it is told again; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// Whether controllers answer.
#[derive(Debug, Default)]
pub enum Silence {
    /// As far as is known.
    #[default]
    None,
    /// Nobody did since then.
    Since {
        /// The first time that nobody did.
        since: Moment,
        /// Why not, by address.
        tried: BTreeMap<String, String>,
        /// When it is to be told.
        due: Moment,
        /// How long it is not told after that.
        pause: Duration,
    },
}

/// What is to be told.
#[derive(Debug, PartialEq, Eq)]
pub struct Untold {
    /// Whom, and why they did not answer.
    pub tried: String,
    /// How long it has been so.
    pub lasts: Duration,
}

impl Silence {
    /// This one did not answer, or is of no use.
    pub fn goes_on(&mut self, address: &str, why: String, now: Moment) -> Option<Untold> {
        if let Silence::None = self {
            *self = Silence::Since {
                since: now,
                tried: BTreeMap::new(),
                due: now.after(TOLD_AFTER),
                pause: PAUSE,
            };
        }
        let Silence::Since {
            since,
            tried,
            due,
            pause,
        } = self
        else {
            return None;
        };
        tried.insert(address.to_owned(), why);
        if now < *due {
            return None;
        }
        *due = now.after(*pause);
        *pause = (*pause * 2).min(PAUSE_MAX);
        let said: Vec<String> = tried
            .iter()
            .map(|(address, why)| format!("{address}: {why}"))
            .collect();
        // Names may be other ones the next time.
        tried.clear();
        Some(Untold {
            tried: said.join("; "),
            lasts: now.since(*since),
        })
    }

    /// One answers. Returns whether it was told that none did.
    pub fn ends(&mut self) -> bool {
        match std::mem::take(self) {
            Silence::None => false,
            Silence::Since { pause, .. } => PAUSE < pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_start(Duration::from_secs(seconds))
    }

    /// A broker that reached no controller said nothing at all.
    #[test]
    fn a_silence_is_told_when_it_has_lasted_then_ever_more_rarely_and_when_it_is_over() {
        let mut silence = Silence::default();
        let told: Vec<u64> = (0..1_000)
            .filter(|second| {
                let address = format!("c:{}", second % 2);
                silence
                    .goes_on(&address, "refused".to_owned(), at(*second))
                    .is_some()
            })
            .collect();
        assert_eq!(told, [2, 12, 32, 72, 152, 312, 612, 912]);
        assert!(silence.ends());
        assert!(!silence.ends());
    }

    #[test]
    fn whom_it_tried_and_why_is_told() {
        let mut silence = Silence::default();
        assert_eq!(silence.goes_on("c:2", "refused".to_owned(), at(0)), None);
        let told = silence.goes_on("c:1", "no such name".to_owned(), at(3));
        let expected = Untold {
            tried: "c:1: no such name; c:2: refused".to_owned(),
            lasts: Duration::from_secs(3),
        };
        assert_eq!(told, Some(expected));
    }

    #[test]
    fn a_failover_is_not_told() {
        let mut silence = Silence::default();
        for second in [0, 10, 20] {
            assert_eq!(silence.goes_on("c:1", "closed".to_owned(), at(second)), None);
            assert_eq!(
                silence.goes_on("c:2", "not active".to_owned(), at(second + 1)),
                None
            );
            assert!(!silence.ends());
        }
    }
}
