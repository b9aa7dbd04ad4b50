//! The replicated log that controllers work on, simulated: terms, elections, majorities, commits in order.
//!
//! Each voter holds its own log. Entries are committed when a majority holds them and the leader's own term reached
//! them; votes need an up-to-date log and are refused while a leader was heard. Votes and entries are durable before
//! they count, so a crash of a voter loses nothing but its role. What the real quorum may do to the driver, this one
//! does: it refuses a proposal and takes the next, lets the lease lapse, loses the lead, restarts in place.
//!
//! Must not: know what entries mean. The real quorum is judged elsewhere; here it is the ground to stand on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use controller_core::driver::event::Entry;
use metadata::ids::Term;

use crate::chance::Chance;
use crate::marks::{Mark, Marks};

/// How often leaders reach out, as the shipped configuration has it.
pub const HEARTBEAT: Duration = Duration::from_millis(50);
/// Shortest time without a leader before a voter stands for election.
pub const ELECTION_MIN: Duration = Duration::from_millis(150);
/// Longest.
pub const ELECTION_MAX: Duration = Duration::from_millis(300);

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The term of the leader that appended it.
    pub term: Term,
    /// What it carries.
    pub entry: Entry,
}

/// What a voter's process learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It leads this term; its log ends there.
    Led(Term, u64),
    /// A majority acknowledged what was sent at that moment of the world.
    Acknowledged(Term, Duration),
    /// It leads no more.
    Lost,
    /// The entry at this position is committed.
    Committed(u64, LogEntry),
}

#[derive(Debug)]
struct Voter {
    log: Vec<LogEntry>,
    term: Term,
    voted: Option<i32>,
    /// It runs.
    up: bool,
    leads: Option<Term>,
    /// Last word of a leader.
    heard: Duration,
    /// When it stands for election.
    stands_at: Duration,
    commit: u64,
    /// Told to its process.
    told: u64,
    /// For the leader: how far each follower's log is known to match.
    matched: BTreeMap<i32, u64>,
    /// For the leader: the last moment at which each follower answered.
    answered: BTreeMap<i32, Duration>,
}

/// The whole quorum.
#[derive(Debug)]
pub struct Quorum {
    chance: Chance,
    voters: BTreeMap<i32, Voter>,
    /// Everything that was ever committed, for the judges.
    committed: Vec<LogEntry>,
    next_round: Duration,
}

impl Quorum {
    /// Voters with empty logs that do not run yet.
    #[must_use]
    pub fn new(chance: Chance, ids: impl IntoIterator<Item = i32>) -> Self {
        let voter = |id| {
            let voter = Voter {
                log: Vec::new(),
                term: Term(0),
                voted: None,
                up: false,
                leads: None,
                heard: Duration::ZERO,
                stands_at: Duration::ZERO,
                commit: 0,
                told: 0,
                matched: BTreeMap::new(),
                answered: BTreeMap::new(),
            };
            (id, voter)
        };
        Self {
            chance,
            voters: ids.into_iter().map(voter).collect(),
            committed: Vec::new(),
            next_round: Duration::ZERO,
        }
    }

    /// When [`Self::round`] is due.
    #[must_use]
    pub fn next_round(&self) -> Duration {
        self.next_round
    }

    /// Everything that was committed.
    #[must_use]
    pub fn committed(&self) -> &[LogEntry] {
        &self.committed
    }

    /// Who leads the highest term, if anybody does.
    #[must_use]
    pub fn leader(&self) -> Option<i32> {
        let leading = self
            .voters
            .iter()
            .filter_map(|(id, voter)| voter.leads.map(|term| (term, *id)));
        leading.max().map(|(_, id)| id)
    }

    /// A voter's process starts; entries up to `applied` are in the snapshot that it begins with.
    pub fn start(&mut self, id: i32, applied: u64, now: Duration) {
        let stands_at = now + self.patience();
        let voter = self.voter(id);
        voter.up = true;
        voter.heard = Duration::ZERO;
        voter.stands_at = stands_at;
        voter.commit = applied;
        voter.told = applied;
    }

    /// A voter's process is gone. Its log and vote are durable.
    pub fn stop(&mut self, id: i32) {
        let voter = self.voter(id);
        voter.up = false;
        voter.leads = None;
    }

    /// The leader's core is rebuilt inside its process: it leads no more, and may be elected again.
    pub fn restart_in_place(&mut self, id: i32, now: Duration) -> Vec<(i32, Told)> {
        let stands_at = now + self.patience();
        let voter = self.voter(id);
        voter.stands_at = stands_at;
        self.depose(id)
    }

    /// The leader hands over: another voter with its whole log stands at once.
    pub fn hand_over(&mut self, now: Duration, reach: &impl Fn(i32, i32) -> bool) -> Vec<(i32, Told)> {
        let Some(leader) = self.leader() else {
            return Vec::new();
        };
        let log_len = self.voters[&leader].log.len();
        let heir = self.voters.iter().find(|(id, voter)| {
            **id != leader
                && voter.up
                && voter.log.len() == log_len
                && reach(leader, **id)
                && reach(**id, leader)
        });
        let Some(heir) = heir.map(|(id, _)| *id) else {
            return Vec::new();
        };
        let mut told = self.depose(leader);
        for voter in self.voters.values_mut() {
            voter.heard = Duration::ZERO;
        }
        told.extend(self.stand(heir, now, reach));
        told
    }

    /// A process asks its quorum to append; false when it will never be in the log.
    pub fn propose(&mut self, id: i32, term: Term, batch: Bytes) -> bool {
        let voter = self.voter(id);
        if voter.leads != Some(term) {
            return false;
        }
        voter.log.push(LogEntry {
            term,
            entry: Entry::Batch(batch),
        });
        true
    }

    /// Replicates, commits, elects. `reach` says whether a message from the one arrives at the other just now.
    pub fn round(
        &mut self,
        now: Duration,
        reach: &impl Fn(i32, i32) -> bool,
        marks: &mut Marks,
    ) -> Vec<(i32, Told)> {
        self.next_round = now + self.chance.span(HEARTBEAT / 10, HEARTBEAT / 2);
        let mut told = Vec::new();
        let leaders: Vec<i32> = self
            .voters
            .iter()
            .filter(|(_, v)| v.up && v.leads.is_some())
            .map(|(id, _)| *id)
            .collect();
        if 1 < leaders.len() {
            marks.reached(Mark::TwoQuorumLeaders);
        }
        for leader in leaders {
            told.extend(self.replicate(leader, now, reach));
            self.commit(leader);
            told.extend(self.acknowledge(leader, now));
        }
        let standing: Vec<i32> = self
            .voters
            .iter()
            .filter(|(_, v)| v.up && v.leads.is_none() && v.stands_at <= now)
            .map(|(id, _)| *id)
            .collect();
        for candidate in standing {
            told.extend(self.stand(candidate, now, reach));
        }
        told.extend(self.tell_committed());
        told
    }

    fn voter(&mut self, id: i32) -> &mut Voter {
        self.voters.get_mut(&id).expect("voters are fixed")
    }

    fn patience(&mut self) -> Duration {
        self.chance.span(ELECTION_MIN, ELECTION_MAX)
    }

    fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    fn depose(&mut self, id: i32) -> Vec<(i32, Told)> {
        match self.voter(id).leads.take() {
            Some(_) => vec![(id, Told::Lost)],
            None => Vec::new(),
        }
    }

    fn others(&self, id: i32) -> Vec<i32> {
        self.voters.keys().copied().filter(|other| *other != id).collect()
    }

    /// One exchange with each follower that answers.
    fn replicate(
        &mut self,
        leader: i32,
        now: Duration,
        reach: &impl Fn(i32, i32) -> bool,
    ) -> Vec<(i32, Told)> {
        let mut told = Vec::new();
        let Some(term) = self.voters[&leader].leads else {
            return told;
        };
        for follower in self.others(leader) {
            if !self.voters[&follower].up || !reach(leader, follower) || self.chance.per_mille(100) {
                continue;
            }
            if self.voters[&follower].term > term {
                if reach(follower, leader) {
                    let newer = self.voters[&follower].term;
                    self.voter(leader).term = newer;
                    told.extend(self.depose(leader));
                    return told;
                }
                continue;
            }
            told.extend(self.depose(follower));
            let source = &self.voters[&leader];
            let held = &self.voters[&follower].log;
            let same = source.log.iter().zip(held).take_while(|(a, b)| a == b).count();
            let missing = source.log.len() - same;
            let sent = self
                .chance
                .between(0, missing as u64)
                .max(u64::from(missing < 4) * missing as u64);
            let upto = same + usize::try_from(sent).expect("it is a length");
            let (entries, commit) = (source.log[same..upto].to_vec(), source.commit);
            let patience = self.patience();
            let voter = self.voter(follower);
            if !entries.is_empty() {
                voter.log.truncate(same);
                voter.log.extend(entries);
            }
            voter.term = term;
            voter.heard = now;
            voter.stands_at = now + patience;
            voter.commit = voter.commit.max(commit.min(upto as u64));
            if reach(follower, leader) {
                let lead = self.voter(leader);
                lead.matched.insert(follower, upto as u64);
                lead.answered.insert(follower, now);
            }
        }
        told
    }

    fn commit(&mut self, leader: i32) {
        let majority = self.majority();
        let Some(lead) = self.voters.get(&leader) else {
            return;
        };
        let Some(term) = lead.leads else { return };
        let mut ends: Vec<u64> = lead.matched.values().copied().collect();
        ends.push(lead.log.len() as u64);
        ends.resize(self.voters.len(), 0);
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let end = ends[majority - 1];
        let of_own_term = end > 0 && lead.log[usize::try_from(end - 1).expect("a length")].term == term;
        if !of_own_term || end <= lead.commit {
            return;
        }
        for at in self.committed.len()..usize::try_from(end).expect("a length") {
            let entry = self.voters[&leader].log[at].clone();
            self.committed.push(entry);
        }
        self.voter(leader).commit = end;
    }

    fn acknowledge(&mut self, leader: i32, now: Duration) -> Vec<(i32, Told)> {
        let majority = self.majority();
        let lead = &self.voters[&leader];
        let Some(term) = lead.leads else { return Vec::new() };
        let mut moments: Vec<Duration> = lead.answered.values().copied().collect();
        moments.push(now);
        moments.resize(self.voters.len(), Duration::ZERO);
        moments.sort_unstable_by(|a, b| b.cmp(a));
        let at = moments[majority - 1];
        // A leader that nobody answers steps down, as the check of the real quorum makes it.
        if at + ELECTION_MAX * 3 < now && at > Duration::ZERO {
            return self.depose(leader);
        }
        vec![(leader, Told::Acknowledged(term, at))]
    }

    /// Asks for votes. The votes of voters that heard a leader lately are not given.
    fn stand(
        &mut self,
        candidate: i32,
        now: Duration,
        reach: &impl Fn(i32, i32) -> bool,
    ) -> Vec<(i32, Told)> {
        let patience = self.patience();
        self.voter(candidate).stands_at = now + patience;
        let me = &self.voters[&candidate];
        let (term, last) = (me.term.next(), (me.log.last().map(|e| e.term), me.log.len()));
        let grants: BTreeSet<i32> = self
            .others(candidate)
            .into_iter()
            .filter(|other| {
                let voter = &self.voters[other];
                let heard_lately = voter.heard > Duration::ZERO && now < voter.heard + ELECTION_MIN;
                let up_to_date = (voter.log.last().map(|e| e.term), voter.log.len()) <= last;
                let free = voter.term < term || voter.term == term && voter.voted == Some(candidate);
                voter.up
                    && !self.lease_holds(*other, now)
                    && reach(candidate, *other)
                    && reach(*other, candidate)
                    && up_to_date
                    && free
                    && !heard_lately
            })
            .collect();
        // Pre-vote: no term is spent on an election that cannot be won.
        if grants.len() + 1 < self.majority() {
            let highest = self
                .others(candidate)
                .into_iter()
                .filter(|o| self.voters[o].up && reach(*o, candidate));
            let highest = highest.map(|o| self.voters[&o].term).max().unwrap_or_default();
            let voter = self.voter(candidate);
            voter.term = voter.term.max(highest);
            return Vec::new();
        }
        let mut told = Vec::new();
        for granting in &grants {
            told.extend(self.depose(*granting));
            let patience = self.patience();
            let voter = self.voter(*granting);
            (voter.term, voter.voted) = (term, Some(candidate));
            voter.stands_at = now + patience;
        }
        let voter = self.voter(candidate);
        (voter.term, voter.voted, voter.leads) = (term, Some(candidate), Some(term));
        voter.matched.clear();
        voter.answered = grants.iter().map(|id| (*id, now)).collect();
        voter.log.push(LogEntry {
            term,
            entry: Entry::Blank,
        });
        told.push((candidate, Told::Led(term, voter.log.len() as u64)));
        told
    }

    /// Whether a leader may believe that nobody else was elected.
    fn lease_holds(&self, id: i32, now: Duration) -> bool {
        let voter = &self.voters[&id];
        let heard = voter
            .answered
            .values()
            .filter(|at| now < **at + ELECTION_MIN)
            .count();
        voter.leads.is_some() && self.majority() <= heard + 1
    }

    fn tell_committed(&mut self) -> Vec<(i32, Told)> {
        let mut told = Vec::new();
        for (id, voter) in &mut self.voters {
            if !voter.up {
                continue;
            }
            while voter.told < voter.commit {
                let entry = voter.log[usize::try_from(voter.told).expect("a length")].clone();
                voter.told += 1;
                told.push((*id, Told::Committed(voter.told, entry)));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn run(
        quorum: &mut Quorum,
        from_ms: u64,
        to_ms: u64,
        reach: impl Fn(i32, i32) -> bool,
    ) -> Vec<(i32, Told)> {
        let mut told = Vec::new();
        for ms in (from_ms..to_ms).step_by(10) {
            told.extend(quorum.round(Duration::from_millis(ms), &reach, &mut Marks::default()));
        }
        told
    }

    fn three() -> Quorum {
        let mut quorum = Quorum::new(Chance::of(1, "quorum"), [1, 2, 3]);
        [1, 2, 3]
            .into_iter()
            .for_each(|id| quorum.start(id, 0, Duration::from_millis(1)));
        quorum
    }

    #[test]
    fn a_majority_elects_one_leader_and_commits_on_every_voter() {
        let mut quorum = three();
        let mut told = run(&mut quorum, 10, 1000, |_, _| true);
        let leader = quorum.leader().unwrap();
        let term = quorum.voters[&leader].leads.unwrap();
        assert!(quorum.propose(leader, term, Bytes::from_static(b"x")));
        told.extend(run(&mut quorum, 1000, 2000, |_, _| true));

        let took = |id| {
            told.iter()
                .filter(|(to, told)| *to == id && matches!(told, Told::Committed(..)))
                .count()
        };
        assert_eq!([took(1), took(2), took(3)], [2, 2, 2]);
    }

    #[test]
    fn a_leader_without_its_majority_commits_nothing_and_is_replaced() {
        let mut quorum = three();
        run(&mut quorum, 10, 1000, |_, _| true);
        let old = quorum.leader().unwrap();
        let term = quorum.voters[&old].leads.unwrap();
        let alone = move |from: i32, to: i32| from != old && to != old;
        assert!(quorum.propose(old, term, Bytes::from_static(b"lost")));
        run(&mut quorum, 1000, 3000, alone);

        assert_ne!(quorum.leader(), Some(old));
        assert!(quorum.committed().iter().all(|entry| entry.entry == Entry::Blank));
    }
}
