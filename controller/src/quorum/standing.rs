//! What a member knows of the quorum and of its own place in it.
//!
//! Facts only, read from the consensus library's metrics. Must not decide who is active: the driver does.

use std::time::Duration;

use metadata::ids::{ControllerId, Term};
use openraft::ServerState;
use openraft::async_runtime::{Instant, WatchReceiver};

use super::addressing::wire_id;
use super::types::TypeConfig;
use super::{Quorum, Raft, position};

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

/// A voter as the status shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoterProgress {
    /// Which.
    pub id: ControllerId,
    /// host:port.
    pub address: String,
    /// Base64url id of its data directory.
    pub directory: String,
    /// The position up to which it is known to hold the log; only the leader knows.
    pub matched: Option<u64>,
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
            let last = seen.heartbeat.as_ref().and_then(|heartbeat| heartbeat.get(id));
            last.and_then(|last| last.as_ref())
                .is_some_and(|last| last.elapsed() < self.timing.election_longest)
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

    /// The voters, by the last membership that is committed: one that is not may still come to nothing.
    pub fn voters(&self) -> Vec<VoterProgress> {
        let raft: &Raft = &self.raft;
        let metrics = raft.metrics();
        let seen = metrics.borrow_watched();
        let membership = seen.committed_membership_config.membership();
        let leads = seen.state == ServerState::Leader && seen.vote.committed;
        let matched = |id: u64| {
            if !leads {
                return None;
            }
            if id == self.addressing.me() {
                return Some(seen.last_log_index.map_or(0, |index| index + 1));
            }
            let matched = seen.replication.as_ref().and_then(|progress| progress.get(&id));
            Some(position(matched.copied().flatten()))
        };
        seen.committed_membership_config
            .voter_ids()
            .map(|id| VoterProgress {
                id: ControllerId(wire_id(id)),
                address: self.address_of(&seen, id),
                directory: membership
                    .get_node(&id)
                    .map(|peer| peer.directory.clone())
                    .unwrap_or_default(),
                matched: matched(id),
            })
            .collect()
    }
}
