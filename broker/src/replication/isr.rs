//! Carries out [`broker_core::proposals`]: wishes for in-sync sets on their way to the controller, one request at a
//! time (F-32, R3.56).
//!
//! Must not: give a proposal up, or judge an answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker_core::proposals::Proposals;
use broker_core::replica::{IsrAnswer, IsrRefusal, PartitionState, Proposal};
use metadata::ids::{BrokerId, LeaderEpoch, PartitionEpoch, PartitionId, PartitionIndex, TopicId};
use metadata::uuid::Uuid;
use millrace_proto::v1::{self, RefusalKind};
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::{debug, warn};

use crate::controllers::admin;
use crate::node::Node;
use crate::storage::lane::Event;

/// How long one request may look for an active controller before what waits meanwhile joins it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends proposals until the node stops.
pub async fn run(node: Arc<Node>, mut submitted: UnboundedReceiver<Proposal>) {
    let mut proposals = Proposals::default();
    loop {
        while let Ok(proposal) = submitted.try_recv() {
            proposals.submit(proposal);
        }
        if let Some(request) = proposals.next_request(node.now()) {
            match send(&node, &request).await {
                Some(answers) => {
                    proposals.answered();
                    for proposal in request {
                        let answer = answers.get(&proposal.partition).cloned();
                        let answer = answer.unwrap_or(Err(IsrRefusal::Unexpected));
                        if answer.is_err() {
                            node.metrics.in_sync.failed.inc();
                        }
                        deliver(&node, &proposal, answer);
                    }
                }
                None => proposals.failed(node.now()),
            }
            continue;
        }
        let pause = proposals.next_send().map(|at| at.since(node.now()));
        tokio::select! {
            proposal = submitted.recv() => match proposal {
                Some(proposal) => proposals.submit(proposal),
                None => return,
            },
            () = sleep_or_wait(pause) => {}
        }
    }
}

async fn sleep_or_wait(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

type Answers = BTreeMap<PartitionId, Result<PartitionState, IsrRefusal>>;

/// Nothing when the request failed as a whole.
async fn send(node: &Arc<Node>, proposals: &[Proposal]) -> Option<Answers> {
    let epoch = node.epoch()?;
    let command = v1::AlterPartitionRequest {
        broker: node.id.0,
        broker_epoch: epoch.0,
        partitions: proposals.iter().map(proposed).collect(),
    };
    let reply = match admin::forward(&node.controllers, command, REQUEST_TIMEOUT).await {
        Ok(reply) => reply,
        Err(error) => {
            debug!(%error, "in-sync sets are proposed again");
            return None;
        }
    };
    if let Some(refusal) = &reply.refusal {
        warn!(kind = ?refusal.kind(), why = %refusal.message, "proposals for in-sync sets are refused as a whole");
        return None;
    }
    Some(reply.partitions.into_iter().filter_map(outcome).collect())
}

fn proposed(proposal: &Proposal) -> v1::PartitionProposal {
    v1::PartitionProposal {
        topic_id: proposal.partition.topic.to_string(),
        partition: proposal.partition.index.0,
        leader_epoch: proposal.leader_epoch.0,
        partition_epoch: proposal.partition_epoch.0,
        in_sync: proposal
            .in_sync
            .iter()
            .map(|member| v1::InSyncMember {
                broker: member.broker.0,
                broker_epoch: member.epoch.map(|epoch| epoch.0),
            })
            .collect(),
        recovering: false,
    }
}

fn outcome(outcome: v1::PartitionOutcome) -> Option<(PartitionId, Result<PartitionState, IsrRefusal>)> {
    let topic: Uuid = outcome.topic_id.parse().ok()?;
    let partition = PartitionId {
        topic: TopicId(topic),
        index: PartitionIndex(outcome.partition),
    };
    let result = match &outcome.refused {
        Some(refusal) => Err(refused(refusal)),
        None => Ok(PartitionState {
            leader: outcome.leader.map(BrokerId),
            leader_epoch: LeaderEpoch(outcome.leader_epoch),
            in_sync: outcome.in_sync.iter().copied().map(BrokerId).collect(),
            epoch: PartitionEpoch(outcome.partition_epoch),
        }),
    };
    Some((partition, result))
}

fn refused(refusal: &v1::Refusal) -> IsrRefusal {
    match refusal.kind() {
        RefusalKind::IneligibleReplica => IsrRefusal::Ineligible,
        RefusalKind::UnknownTopicId | RefusalKind::UnknownTopic => IsrRefusal::UnknownTopic,
        RefusalKind::UnknownPartition => IsrRefusal::UnknownPartition,
        RefusalKind::FencedLeaderEpoch => IsrRefusal::FencedLeaderEpoch,
        RefusalKind::StalePartitionEpoch | RefusalKind::InvalidUpdateVersion => {
            IsrRefusal::StalePartitionEpoch
        }
        RefusalKind::InvalidRequest => IsrRefusal::Invalid,
        RefusalKind::NewLeaderElected => IsrRefusal::NewLeaderElected,
        _ => IsrRefusal::Unexpected,
    }
}

fn deliver(node: &Node, proposal: &Proposal, outcome: Result<PartitionState, IsrRefusal>) {
    if let Err(refusal) = &outcome {
        debug!(partition = %proposal.partition, ?refusal, "a proposal for an in-sync set is refused");
    }
    if let Some(hosted) = node.partitions.get(proposal.partition) {
        let answer = IsrAnswer {
            leader_epoch: proposal.leader_epoch,
            partition_epoch: proposal.partition_epoch,
            outcome,
        };
        hosted.lane.send(Event::IsrAnswered(proposal.partition, answer));
    }
}
