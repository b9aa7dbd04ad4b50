//! What keeps happening, as an operator is told of it: when it begins, then once a minute, with how often it was. Clients that
//! ask again and again must not fill a disk with what is told of them.
//!
//! Must not: log. Whoever handles it does.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_core::time::Moment;

/// While something goes on, it is told so often.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Causes that are told apart at one time. Clients may make up more.
const CAUSES_MAX: usize = 64;

/// What happened of late, by its cause.
#[derive(Debug, Default)]
pub struct Repeated {
    causes: BTreeMap<String, Cause>,
}

#[derive(Debug)]
struct Cause {
    told: Moment,
    untold: u64,
}

impl Repeated {
    /// It happened because of this. Returns, where that is to be told now, how often it did since it was told last.
    pub fn happened(&mut self, cause: &str, now: Moment) -> Option<u64> {
        if let Some(known) = self.causes.get_mut(cause) {
            known.untold += 1;
            if now < known.told.after(TOLD_AGAIN_AFTER) {
                return None;
            }
            known.told = now;
            return Some(std::mem::take(&mut known.untold));
        }
        if self.causes.len() == CAUSES_MAX {
            self.causes
                .retain(|_, known| now < known.told.after(TOLD_AGAIN_AFTER));
        }
        if self.causes.len() == CAUSES_MAX {
            return None;
        }
        let begun = Cause { told: now, untold: 0 };
        self.causes.insert(cause.to_owned(), begun);
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_start(Duration::from_secs(seconds))
    }

    /// A broker whose offsets topic could not be made said so ten times a second.
    #[test]
    fn a_cause_is_told_when_it_begins_and_then_once_a_minute_with_a_count() {
        let mut refused = Repeated::default();
        assert_eq!(refused.happened("too few brokers", at(1)), Some(1));
        let told: Vec<u64> = (2..61)
            .filter_map(|second| refused.happened("too few brokers", at(second)))
            .collect();
        assert!(told.is_empty(), "{told:?}");
        assert_eq!(refused.happened("a bad name", at(60)), Some(1), "another cause");
        assert_eq!(refused.happened("too few brokers", at(61)), Some(60));
        assert_eq!(refused.happened("too few brokers", at(62)), None);
    }

    #[test]
    fn causes_that_clients_make_up_take_no_more_than_so_much_memory() {
        let mut refused = Repeated::default();
        let told = (0..1_000).filter_map(|n| refused.happened(&format!("cause {n}"), at(1)));
        assert_eq!(told.count(), CAUSES_MAX);
        assert_eq!(refused.causes.len(), CAUSES_MAX);
        assert_eq!(refused.happened("later", at(61)), Some(1));
        assert_eq!(refused.causes.len(), 1);
    }
}
