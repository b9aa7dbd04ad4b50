//! Who follows the metadata without a vote, for the status (R5.11).
//!
//! A broker is heard in two ways: it follows this controller, or its session's heartbeats say what it has applied. Must
//! not decide anything with what it knows.

use std::collections::BTreeMap;
use std::time::Duration;

use host::Monotonic;
use millrace_proto::v1;

/// Who was not heard for so long is forgotten.
const MEMORY: Duration = Duration::from_secs(300);

/// Everybody who was heard lately, by broker id.
#[derive(Debug, Default)]
pub struct Observers(BTreeMap<i32, Observer>);

#[derive(Clone, Copy, Debug)]
struct Observer {
    log_end: i64,
    heard: Monotonic,
    caught_up: Option<Monotonic>,
    /// Where the committed metadata ended when it was heard.
    end_then: i64,
    /// Streams of it that this controller feeds: what they were sent is newer than what a heartbeat says.
    streams: u32,
}

impl Observers {
    /// It begins to follow this controller.
    pub fn joined(&mut self, broker: i32, now: Monotonic) {
        let observer = self.0.entry(broker).or_insert(Observer {
            log_end: 0,
            heard: now,
            caught_up: None,
            end_then: i64::MAX,
            streams: 0,
        });
        observer.streams += 1;
    }

    /// One of its streams is over.
    pub fn left(&mut self, broker: i32) {
        if let Some(observer) = self.0.get_mut(&broker) {
            observer.streams = observer.streams.saturating_sub(1);
        }
    }

    /// It was sent everything below `log_end`, of `end` that is committed.
    pub fn sent(&mut self, broker: i32, log_end: i64, end: i64, now: Monotonic) {
        if let Some(observer) = self.0.get_mut(&broker) {
            observer.note(log_end, end, now);
        }
    }

    /// Its heartbeat says that it has applied everything below `log_end`.
    pub fn applied(&mut self, broker: i32, log_end: i64, end: i64, now: Monotonic) {
        let observer = self.0.entry(broker).or_insert(Observer {
            log_end,
            heard: now,
            caught_up: None,
            end_then: i64::MAX,
            streams: 0,
        });
        if observer.streams == 0 {
            observer.note(log_end, end, now);
        }
    }

    /// As the status shows them.
    pub fn status(&mut self, now: Monotonic) -> Vec<v1::ObserverStatus> {
        self.0
            .retain(|_, observer| 0 < observer.streams || now.since(observer.heard) < MEMORY);
        let ago = |at: Monotonic| i64::try_from(now.since(at).as_millis()).unwrap_or(i64::MAX);
        let shown = |(broker, observer): (&i32, &Observer)| v1::ObserverStatus {
            id: *broker,
            log_end: observer.log_end,
            last_fetch_ms: ago(observer.heard),
            last_caught_up_ms: observer.caught_up.map(ago),
            directory: String::new(),
        };
        self.0.iter().map(shown).collect()
    }
}

impl Observer {
    /// As Kafka counts: who has everything now has caught up now, who has everything that there was when it was heard
    /// before had caught up then.
    fn note(&mut self, log_end: i64, end: i64, now: Monotonic) {
        if end <= log_end {
            self.caught_up = Some(now);
        } else if self.end_then <= log_end {
            self.caught_up = self.caught_up.max(Some(self.heard));
        }
        self.log_end = log_end;
        self.end_then = end;
        self.heard = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::default().after(Duration::from_secs(seconds))
    }

    fn only(observers: &mut Observers, now: Monotonic) -> v1::ObserverStatus {
        let mut shown = observers.status(now);
        assert_eq!(shown.len(), 1);
        shown.remove(0)
    }

    #[test]
    fn who_has_what_there_was_before_had_caught_up_then() {
        let mut observers = Observers::default();
        observers.applied(1, 10, 20, at(1));
        assert_eq!(only(&mut observers, at(1)).last_caught_up_ms, None);
        observers.applied(1, 20, 30, at(3));

        let seen = only(&mut observers, at(4));

        assert_eq!((seen.log_end, seen.last_fetch_ms), (20, 1_000));
        assert_eq!(seen.last_caught_up_ms, Some(3_000));
    }

    #[test]
    fn what_was_sent_counts_more_than_a_heartbeat_and_a_broker_that_is_gone_is_forgotten() {
        let mut observers = Observers::default();
        observers.joined(1, at(0));
        observers.sent(1, 30, 30, at(1));
        observers.applied(1, 20, 30, at(2));
        assert_eq!(only(&mut observers, at(2)).log_end, 30);
        observers.left(1);

        assert_eq!(only(&mut observers, at(300)).last_caught_up_ms, Some(299_000));
        assert_eq!(observers.status(at(302)), []);
    }
}
