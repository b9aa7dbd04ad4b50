//! What the leader knows already of a follower's wishes: the follower's side of a fetch session (KIP-227, F-18 to F-21).
//!
//! Without it thousands of idle partitions would be named, read and answered with every record of a busy one. Must not
//! know the wire, and holds for one connection only: a session ends with it.

use std::collections::BTreeMap;

use metadata::ids::PartitionId;

use super::Fetch;
use crate::session::{SessionEpoch, SessionId};

/// What the leader was told over one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The session with the epoch of its next request, once the leader has given one.
    session: Option<(SessionId, SessionEpoch)>,
    partitions: BTreeMap<PartitionId, Fetch>,
}

/// What is to be said in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saying {
    /// To continue; a full request that begins a session where there is none.
    pub session: Option<(SessionId, SessionEpoch)>,
    /// New or changed; all of them where there is no session.
    pub fetches: Vec<(PartitionId, Fetch)>,
    /// No longer wanted.
    pub forgotten: Vec<PartitionId>,
}

impl Told {
    /// How many of these wishes the leader knows as they are.
    #[must_use]
    pub fn known(&self, fetches: &[(PartitionId, Fetch)]) -> usize {
        let is_known =
            |(partition, fetch): &&(PartitionId, Fetch)| self.partitions.get(partition) == Some(fetch);
        fetches.iter().filter(is_known).count()
    }

    /// What must be said so that exactly `fetches` is wanted.
    #[must_use]
    pub fn say(&mut self, fetches: &[(PartitionId, Fetch)]) -> Saying {
        let wanted: BTreeMap<PartitionId, Fetch> = fetches.iter().copied().collect();
        let before = std::mem::replace(&mut self.partitions, wanted);
        let Some((session, epoch)) = self.session else {
            return Saying {
                session: None,
                fetches: fetches.to_vec(),
                forgotten: Vec::new(),
            };
        };
        self.session = Some((session, epoch.following()));
        let is_new = |(partition, fetch): &&(PartitionId, Fetch)| before.get(partition) != Some(fetch);
        let is_over = |partition: &&PartitionId| !self.partitions.contains_key(partition);
        Saying {
            session: Some((session, epoch)),
            fetches: fetches.iter().filter(is_new).copied().collect(),
            forgotten: before.keys().filter(is_over).copied().collect(),
        }
    }

    /// The leader answered, naming a session or none. Another one than before, or none, is no continuation: the next
    /// request says everything.
    pub fn answered(&mut self, session: Option<SessionId>) {
        match (self.session, session) {
            (None, Some(begun)) => self.session = Some((begun, SessionEpoch::FIRST)),
            (Some((held, _)), Some(named)) if held == named => {}
            _ => *self = Told::default(),
        }
    }

    /// The leader refused the request: whatever it knew, it is told everything anew (F-18).
    pub fn refused(&mut self) {
        *self = Told::default();
    }
}

#[cfg(test)]
mod tests {
    use metadata::ids::LeaderEpoch;

    use super::*;
    use crate::offsets::{LogStart, Offset};
    use crate::testing::partition;

    const SESSION: SessionId = SessionId(77);

    fn wish(index: i32, offset: i64) -> (PartitionId, Fetch) {
        let fetch = Fetch {
            offset: Offset(offset),
            leader_epoch: LeaderEpoch(3),
            last_fetched_epoch: None,
            log_start: LogStart(Offset(0)),
        };
        (partition(index), fetch)
    }

    fn begun(fetches: &[(PartitionId, Fetch)]) -> Told {
        let mut told = Told::default();
        let _ = told.say(fetches);
        told.answered(Some(SESSION));
        told
    }

    #[test]
    fn everything_is_said_until_the_leader_gives_a_session() {
        let mut told = Told::default();
        let wishes = [wish(0, 5), wish(1, 6)];
        let everything = Saying {
            session: None,
            fetches: wishes.to_vec(),
            forgotten: Vec::new(),
        };
        assert_eq!(told.say(&wishes), everything);
        // Its cache is full.
        told.answered(None);
        assert_eq!(told.say(&wishes), everything);
    }

    #[test]
    fn in_a_session_only_what_is_new_is_said() {
        let mut told = begun(&[wish(0, 5), wish(1, 6), wish(2, 0)]);
        let said = told.say(&[wish(3, 9), wish(1, 8), wish(0, 5)]);
        assert_eq!(said.session, Some((SESSION, SessionEpoch::FIRST)));
        assert_eq!(said.fetches, [wish(3, 9), wish(1, 8)]);
        assert_eq!(said.forgotten, [partition(2)]);
        told.answered(Some(SESSION));
        let said = told.say(&[wish(0, 5), wish(1, 8), wish(3, 9)]);
        assert_eq!(said.session, Some((SESSION, SessionEpoch(2))));
        assert_eq!((said.fetches.len(), said.forgotten.len()), (0, 0));
    }

    #[test]
    fn a_session_that_ended_is_begun_anew_with_everything() {
        let wishes = [wish(0, 5), wish(1, 6)];
        let endings: [fn(&mut Told); 3] = [
            Told::refused,
            |told| told.answered(None),
            |told| told.answered(Some(SessionId(78))),
        ];
        for end in endings {
            let mut told = begun(&wishes);
            end(&mut told);
            let said = told.say(&wishes);
            assert_eq!((said.session, said.fetches.as_slice()), (None, &wishes[..]));
        }
    }

    #[test]
    fn a_wish_is_known_as_it_was_told() {
        let told = begun(&[wish(0, 5), wish(1, 6)]);
        assert_eq!(told.known(&[wish(0, 5), wish(1, 7), wish(2, 0)]), 1);
    }
}
