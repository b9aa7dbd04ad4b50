//! How a cluster begins, and how a controller that lost its disk comes back.
//!
//! No format step: the configured controller with the lowest id founds the cluster, once all configured controllers
//! have answered that they are pristine. A controller that comes back with another data directory is a new
//! incarnation: the leader takes the old one out of the membership, lets the new one learn everything, and gives it
//! its vote back. Must not change the membership while another change is open; must not found twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use metadata::ids::ControllerId;
use metadata::uuid::Uuid;
use millrace_proto::v1;
use millrace_proto::v1::quorum_client::QuorumClient;
use openraft::ChangeMembers;
use openraft::async_runtime::WatchReceiver;
use tonic::transport::{Channel, Endpoint};

use super::addressing::{raft_id, wire_id};
use super::types::Peer;
use super::{Addressing, Quorum};

const ASK_INTERVAL: Duration = Duration::from_millis(100);
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
const REPAIR_INTERVAL: Duration = Duration::from_millis(500);
/// A snapshot of hundreds of MiB may have to be learned first.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(120);

/// What a controller is in the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Voter,
    Learner(Peer),
    Outside,
}

/// Whether some configured controller leads a majority that this node is no part of: only then may it set a damaged
/// store aside and start over.
pub async fn others_lead(addressing: &Addressing) -> bool {
    for (id, address) in addressing.voters() {
        if *id != addressing.me()
            && let Some(reply) = probe(addressing, address).await
            && reply.leads_live_quorum
        {
            return true;
        }
    }
    false
}

/// The directory of the process that answers at an address as controller `me`, if one does.
pub async fn who_answers(me: ControllerId, address: &str) -> Option<String> {
    let anonymous = v1::ProbeRequest {
        cluster_id: String::new(),
        sender: me.0,
    };
    let reply = ask(anonymous, &|endpoint: Endpoint| endpoint.connect_lazy(), address).await?;
    (reply.id == me.0).then_some(reply.directory)
}

async fn probe(addressing: &Addressing, address: &str) -> Option<v1::ProbeReply> {
    let request = v1::ProbeRequest {
        cluster_id: addressing.cluster_id().unwrap_or_default(),
        sender: addressing.controller_id().0,
    };
    ask(request, &|endpoint| addressing.dial(endpoint), address).await
}

async fn ask(
    request: v1::ProbeRequest,
    dial: &(dyn Fn(Endpoint) -> Channel + Sync),
    address: &str,
) -> Option<v1::ProbeReply> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).ok()?;
    let channel = dial(endpoint.connect_timeout(ANSWER_TIMEOUT));
    let mut client = QuorumClient::new(channel);
    let answered = tokio::time::timeout(ANSWER_TIMEOUT, client.probe(request)).await;
    Some(answered.ok()?.ok()?.into_inner())
}

impl Quorum {
    /// Founds the cluster if that falls to this node; returns when the cluster is founded, by whomever.
    ///
    /// # Errors
    /// The disk's, when the cluster's id cannot be kept.
    pub async fn found(&self) -> io::Result<()> {
        let lowest = self.addressing.voters().keys().next().copied();
        let mut ticks = tokio::time::interval(ASK_INTERVAL);
        while self.store.is_pristine() {
            ticks.tick().await;
            if lowest != Some(self.addressing.me()) {
                continue;
            }
            let Some(members) = self.all_pristine().await else {
                continue;
            };
            let held = self.addressing.cluster_id();
            let drawn = || Uuid::from_random_bits(self.draw()).to_string();
            let cluster_id = held.unwrap_or_else(drawn);
            self.addressing.take_cluster_id(&cluster_id)?;
            let voters = members.len();
            match self.raft.initialize(members).await {
                Ok(()) => tracing::info!(cluster_id, voters, "cluster founded"),
                Err(error) => tracing::debug!(%error, "founding was refused"),
            }
        }
        Ok(())
    }

    fn draw(&self) -> u128 {
        u128::from(self.entropy.next_u64()) << 64 | u128::from(self.entropy.next_u64())
    }

    /// The members to found with, if every configured controller is there and new.
    async fn all_pristine(&self) -> Option<BTreeMap<u64, Peer>> {
        let mut members = BTreeMap::new();
        for (id, address) in self.addressing.voters() {
            let directory = if *id == self.addressing.me() {
                self.addressing.directory().to_owned()
            } else {
                let reply = probe(&self.addressing, address).await?;
                if !reply.pristine || reply.id != wire_id(*id) {
                    return None;
                }
                reply.directory
            };
            let address = address.clone();
            members.insert(*id, Peer { address, directory });
        }
        Some(members)
    }

    /// Sees to it that every configured controller has a vote, on the disk that it has now: for as long as it is polled
    /// and whenever this node leads. A change that was begun by an earlier leader is carried on.
    pub async fn keep_membership(&self) {
        let mut ticks = tokio::time::interval(REPAIR_INTERVAL);
        loop {
            ticks.tick().await;
            if !self.leads_live_quorum(None) {
                continue;
            }
            let replaced = self.addressing.take_replaced();
            for id in self.addressing.voters().keys().copied() {
                let moved = replaced.contains(&id);
                let place = self.place_of(id);
                if (moved || place != Place::Voter) && self.leads_live_quorum(Some(id)) {
                    self.take_back(id, place, moved).await;
                }
            }
        }
    }

    fn place_of(&self, id: u64) -> Place {
        let metrics = self.raft.metrics();
        let seen = metrics.borrow_watched();
        let membership = seen.membership_config.membership();
        if membership.voter_ids().any(|voter| voter == id) {
            return Place::Voter;
        }
        match membership.get_node(&id) {
            Some(peer) => Place::Learner(peer.clone()),
            None => Place::Outside,
        }
    }

    async fn new_incarnation(&self, id: u64) -> Option<Peer> {
        let address = self.addressing.voters().get(&id)?.clone();
        let reply = probe(&self.addressing, &address).await?;
        let ours = reply.cluster_id.is_empty() || Some(reply.cluster_id) == self.addressing.cluster_id();
        (reply.pristine && ours && reply.id == wire_id(id)).then_some(Peer {
            address,
            directory: reply.directory,
        })
    }

    /// Gives one controller its vote back: the old incarnation goes, the new one learns everything, then it votes.
    async fn take_back(&self, id: u64, place: Place, moved: bool) {
        let peer = match &place {
            Place::Learner(peer) if !moved => Some(peer.clone()),
            _ => self.new_incarnation(id).await,
        };
        let Some(peer) = peer else {
            return;
        };
        tracing::info!(controller = id, %peer, "taking a controller back");
        let only = BTreeSet::from([id]);
        let change = async {
            match place {
                Place::Voter => {
                    let removal = ChangeMembers::RemoveVoters(only.clone());
                    self.raft.change_membership(removal, false).await?;
                }
                Place::Learner(_) if moved => {
                    let removal = ChangeMembers::RemoveNodes(only.clone());
                    self.raft.change_membership(removal, false).await?;
                }
                Place::Learner(_) | Place::Outside => {}
            }
            self.raft.add_learner(id, peer, true).await?;
            let promotion = ChangeMembers::AddVoterIds(only);
            self.raft.change_membership(promotion, true).await
        };
        match tokio::time::timeout(CHANGE_TIMEOUT, change).await {
            Ok(Ok(_)) => tracing::info!(controller = id, "controller has its vote again"),
            Ok(Err(error)) => tracing::warn!(controller = id, %error, "a controller was not taken back"),
            Err(_) => tracing::warn!(controller = id, "a controller does not catch up"),
        }
    }

    /// What this node tells one that asks before it decides how to start.
    pub(super) fn answer_probe(&self, asked: &v1::ProbeRequest) -> v1::ProbeReply {
        let held = self.addressing.cluster_id().unwrap_or_default();
        let same_cluster = asked.cluster_id.is_empty() || asked.cluster_id == held;
        let asker = raft_id(ControllerId(asked.sender.max(0)));
        v1::ProbeReply {
            cluster_id: held,
            id: self.addressing.controller_id().0,
            directory: self.addressing.directory().to_owned(),
            pristine: self.store.is_pristine(),
            leads_live_quorum: same_cluster && self.leads_live_quorum(Some(asker)),
        }
    }
}
