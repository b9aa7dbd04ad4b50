//! What a member knows of the quorum and of its own place in it.
//!
//! Facts only, read from the consensus library's metrics. Must not decide who is active: the driver does.

use std::collections::BTreeMap;
use std::time::Duration;

use metadata::ids::{ControllerId, Term};
use openraft::ServerState;
use openraft::async_runtime::{Instant, WatchReceiver};

use super::addressing::wire_id;
use super::types::TypeConfig;
use super::{Quorum, position};

type Metrics = openraft::RaftMetrics<TypeConfig>;

/// What a member does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads the term.
    Leader,
    /// It follows, or looks for a leader.
    Follower,
    /// It stands for election.
    Candidate,
    /// It takes everything and has no vote.
    Learner,
}

impl Role {
    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Candidate => "candidate",
            Self::Learner => "learner",
        }
    }
}

/// One look at the quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// This member's.
    pub role: Role,
    /// The newest term known.
    pub term: Term,
    /// Leader of the term, with its configured or known address.
    pub leader: Option<(ControllerId, String)>,
    /// The last position in this node's log.
    pub log_end: u64,
    /// How long ago the last message was sent that a majority acknowledged to this leader; a sole voter acknowledges
    /// itself all the time.
    pub acknowledged_ago: Option<Duration>,
}

impl Standing {
    /// The term that this node leads, if it leads.
    #[must_use]
    pub fn leads(&self) -> Option<Term> {
        (self.role == Role::Leader).then_some(self.term)
    }
}

/// A member of the quorum as the status shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub id: ControllerId,
    /// Whether it has a vote, or is still learning.
    pub votes: bool,
    /// host:port.
    pub address: String,
    /// Base64url id of its data directory.
    pub directory: String,
    /// How far it is.
    pub progress: Progress,
}

/// How far a member is. Nothing is known of the others by whoever does not lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The position up to which it is known to hold the log.
    pub matched: Option<u64>,
    /// How long ago it answered last; zero for the leader itself.
    pub answered_ago: Option<Duration>,
    /// How long ago it last had everything that was in the log when it was asked before.
    pub caught_up_ago: Option<Duration>,
}

/// What the leader remembers of its followers from one look to the next.
#[derive(Debug, Default)]
pub(super) struct CaughtUp {
    /// The end of the log at the last look.
    end: u64,
    /// When each last had everything.
    at: BTreeMap<u64, Heard>,
}

type Heard = openraft::alias::InstantOf<TypeConfig>;

impl CaughtUp {
    /// Takes a look: who has everything that was there at the last one has caught up (R5.11).
    fn look(&mut self, seen: &Metrics) {
        if seen.state != ServerState::Leader {
            *self = Self::default();
            return;
        }
        for (id, matched) in seen.replication.iter().flatten() {
            if self.end <= position(*matched)
                && let Some(answered) = answered_at(seen, *id)
            {
                self.at.insert(*id, answered);
            }
        }
        self.end = seen.last_log_index.map_or(0, |index| index + 1);
    }
}

fn answered_at(seen: &Metrics, id: u64) -> Option<Heard> {
    let last = seen.heartbeat.as_ref()?.get(&id)?.as_ref()?;
    Some(**last)
}

/// Wakes up when the standing may have changed.
pub struct Changes {
    metrics: openraft::alias::WatchReceiverOf<TypeConfig, Metrics>,
}

impl Changes {
    /// Waits for the next change. Never returns once the consensus core has ended: [`Quorum::died`] tells.
    pub async fn next(&mut self) {
        if self.metrics.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Quorum {
    /// How it stands now.
    pub fn standing(&self) -> Standing {
        let metrics = self.raft.metrics();
        let seen = metrics.borrow_watched();
        let led_by_me = seen.state == ServerState::Leader && seen.vote.committed;
        let role = match seen.state {
            ServerState::Leader if led_by_me => Role::Leader,
            ServerState::Candidate | ServerState::Leader => Role::Candidate,
            ServerState::Follower => Role::Follower,
            ServerState::Learner | ServerState::Shutdown => Role::Learner,
        };
        Standing {
            role,
            term: Term(seen.current_term),
            leader: seen
                .current_leader
                .map(|id| (ControllerId(wire_id(id)), self.address_of(&seen, id))),
            log_end: seen.last_log_index.map_or(0, |index| index + 1),
            acknowledged_ago: led_by_me.then(|| self.acknowledged_ago(&seen)).flatten(),
        }
    }

    /// Wakes up when the standing may have changed.
    pub fn changes(&self) -> Changes {
        Changes {
            metrics: self.raft.metrics(),
        }
    }

    /// Whether this node leads a majority of live voters, `without` not counted among the living.
    pub(super) fn leads_live_quorum(&self, without: Option<u64>) -> bool {
        let metrics = self.raft.metrics();
        let seen = metrics.borrow_watched();
        seen.state == ServerState::Leader && seen.vote.committed && self.majority_answers(&seen, without)
    }

    fn acknowledged_ago(&self, seen: &Metrics) -> Option<Duration> {
        let mut voters = seen.membership_config.voter_ids();
        if voters.next() == Some(self.addressing.me()) && voters.next().is_none() {
            return Some(Duration::ZERO);
        }
        seen.last_quorum_acked.as_ref().map(|sent| sent.elapsed())
    }

    fn majority_answers(&self, seen: &Metrics, without: Option<u64>) -> bool {
        let voters: Vec<u64> = seen.membership_config.voter_ids().collect();
        let answered = |id: &u64| {
            answered_at(seen, *id).is_some_and(|last| last.elapsed() < self.timing.election_longest)
        };
        let live = voters
            .iter()
            .filter(|id| Some(**id) != without)
            .filter(|id| **id == self.addressing.me() || answered(id))
            .count();
        voters.len() < 2 * live
    }

    fn address_of(&self, seen: &Metrics, id: u64) -> String {
        let configured = self.addressing.voters().get(&id).cloned();
        let known = || {
            let membership = seen.membership_config.membership();
            membership.get_node(&id).map(|peer| peer.address.clone())
        };
        configured.or_else(known).unwrap_or_default()
    }

    /// Remembers who has caught up. To be called whenever something may have changed.
    pub fn note_progress(&self) {
        let metrics = self.raft.metrics();
        let seen = metrics.borrow_watched();
        self.caught_up.lock().look(&seen);
    }

    /// The members, by the last membership that is committed: one that is not may still come to nothing.
    pub fn members(&self) -> Vec<Member> {
        let metrics = self.raft.metrics();
        let seen = metrics.borrow_watched();
        let membership = seen.committed_membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        membership
            .nodes()
            .map(|(id, peer)| Member {
                id: ControllerId(wire_id(*id)),
                votes: voters.contains(id),
                address: self.address_of(&seen, *id),
                directory: peer.directory.clone(),
                progress: self.progress_of(&seen, *id),
            })
            .collect()
    }

    fn progress_of(&self, seen: &Metrics, id: u64) -> Progress {
        if seen.state != ServerState::Leader || !seen.vote.committed {
            return Progress::default();
        }
        if id == self.addressing.me() {
            return Progress {
                matched: Some(seen.last_log_index.map_or(0, |index| index + 1)),
                answered_ago: Some(Duration::ZERO),
                caught_up_ago: Some(Duration::ZERO),
            };
        }
        let matched = seen.replication.as_ref().and_then(|progress| progress.get(&id));
        Progress {
            matched: Some(position(matched.copied().flatten())),
            answered_ago: answered_at(seen, id).map(|last| last.elapsed()),
            caught_up_ago: self.caught_up.lock().at.get(&id).map(Instant::elapsed),
        }
    }
}
