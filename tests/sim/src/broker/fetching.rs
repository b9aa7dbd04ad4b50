//! Questions to others: fetches of followers, in-sync sets, producer ids.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_core::fetcher::{Answer, Effect, Failure, Next, RequestId};
use broker_core::offsets::EpochEnd;
use broker_core::producer_ids::Block;
use broker_core::replica::{IsrAnswer, IsrRefusal, PartitionState, Proposal};
use broker_core::time::Moment;
use bytes::Bytes;
use controller_core::command::{
    AlterPartition, Command, InSyncMember, InSyncProposal, PartitionOutcome, Reply,
};
use controller_core::refusal::Refusal;
use metadata::ids::{BrokerId, LeaderEpoch, PartitionId};
use metadata::record::LeaderRecovery;

use super::Broker;
use super::hosted::to_core;
use crate::controller;
use crate::marks::Mark;
use crate::message::{Ask, CallKey, FollowerAnswer, NodeId, Told};
use crate::node::{At, Output};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// A question that is open.
pub(super) enum Errand {
    Fetch(BrokerId, RequestId),
    LeaderEnd(BrokerId, PartitionId, LeaderEpoch),
    LeaderStart(BrokerId, PartitionId, LeaderEpoch),
    InSync(Vec<Proposal>),
    ProducerIds,
}

impl Broker {
    /// Sends whatever is due.
    pub(super) fn pump(&mut self, at: At, out: &mut Vec<Output>) {
        let now = self.now(at);
        let leaders: Vec<BrokerId> = self.fetchers.keys().copied().collect();
        for leader in leaders {
            while let Some(fetcher) = self.fetchers.get_mut(&leader)
                && let Next::Send(plan) = fetcher.next(now)
            {
                let ask = Ask::Fetch {
                    follower: self.config.me,
                    epoch: self.lifecycle.epoch(),
                    fetches: plan.fetches,
                };
                self.ask(
                    NodeId::Broker(leader.0),
                    ask,
                    Errand::Fetch(leader, plan.request),
                    out,
                );
            }
        }
        self.fetchers.retain(|_, fetcher| !fetcher.is_idle());
        self.propose(at, out);
    }

    /// When [`Self::pump`] may have more to send.
    pub(super) fn next_pump(&self) -> Option<Moment> {
        let fetchers = self.fetchers.values().filter_map(|fetcher| {
            // Asking changes nothing as long as nothing is to be sent.
            match fetcher.clone().next(Moment::START) {
                Next::WaitUntil(moment) => Some(moment),
                Next::Send(_) | Next::Wait => None,
            }
        });
        fetchers
            .chain(self.proposals.next_send())
            .chain(self.producer_ids.next_retry())
            .min()
    }

    pub(super) fn ask(&mut self, to: NodeId, ask: Ask, errand: Errand, out: &mut Vec<Output>) {
        let call = self.call();
        self.errands.insert(call, errand);
        out.push(Output::Ask(call, to, ask, PATIENCE));
    }

    fn propose(&mut self, at: At, out: &mut Vec<Output>) {
        let now = self.now(at);
        let Some(request) = self.proposals.next_request(now) else {
            return;
        };
        let (Some(active), Some(epoch)) = (self.active, self.lifecycle.epoch()) else {
            return self.proposals.failed(now);
        };
        let proposed = |proposal: &Proposal| InSyncProposal {
            partition: proposal.partition,
            leader_epoch: proposal.leader_epoch,
            partition_epoch: proposal.partition_epoch,
            in_sync: proposal
                .in_sync
                .iter()
                .map(|member| InSyncMember {
                    broker: member.broker,
                    epoch: member.epoch,
                })
                .collect(),
            recovery: LeaderRecovery::Recovered,
        };
        let command = Command::AlterPartition(AlterPartition {
            broker: self.config.me,
            epoch,
            partitions: request.iter().map(proposed).collect(),
        });
        self.ask(
            controller::node(active),
            Ask::Command(Box::new(command)),
            Errand::InSync(request),
            out,
        );
    }

    pub(super) fn ask_for_producer_ids(&mut self, at: At, out: &mut Vec<Output>) {
        let (Some(active), Some(epoch)) = (self.active, self.lifecycle.epoch()) else {
            let now = self.now(at);
            return self.producer_ids.refused(now);
        };
        let command = Command::AllocateProducerIds {
            broker: self.config.me,
            epoch,
        };
        self.ask(
            controller::node(active),
            Ask::Command(Box::new(command)),
            Errand::ProducerIds,
            out,
        );
    }

    pub(super) fn answered(&mut self, at: At, call: CallKey, told: Option<Told>, out: &mut Vec<Output>) {
        let now = self.now(at);
        match (self.errands.remove(&call), told) {
            // Late, or repeated.
            (None, _) => {}
            (Some(Errand::Fetch(leader, request)), Some(Told::Fetch(answers))) => {
                self.fetched(at, leader, request, answers, out);
            }
            (Some(Errand::Fetch(leader, request)), _) => {
                if let Some(fetcher) = self.fetchers.get_mut(&leader) {
                    fetcher.unreachable(request, now);
                }
            }
            (Some(Errand::LeaderEnd(leader, partition, epoch)), told) => {
                let end = match told {
                    Some(Told::LogEnd(Some(end))) => Ok(end),
                    _ => Err(Failure::Passing),
                };
                let effects = self
                    .fetchers
                    .get_mut(&leader)
                    .map(|fetcher| fetcher.leader_end(partition, epoch, end, now));
                self.carry_fetcher(at, leader, effects.unwrap_or_default(), &BTreeMap::new(), out);
            }
            (Some(Errand::LeaderStart(leader, partition, epoch)), told) => {
                let start = match told {
                    Some(Told::LogStart(Some(start))) => Ok(start),
                    _ => Err(Failure::Passing),
                };
                let effects = self
                    .fetchers
                    .get_mut(&leader)
                    .map(|fetcher| fetcher.leader_start(partition, epoch, start, now));
                self.carry_fetcher(at, leader, effects.unwrap_or_default(), &BTreeMap::new(), out);
            }
            (Some(Errand::InSync(request)), Some(Told::Command(result))) => {
                self.in_sync_answered(at, request, *result, out);
            }
            (Some(Errand::InSync(_)), _) => self.proposals.failed(now),
            (Some(Errand::ProducerIds), Some(Told::Command(result))) => match *result {
                Ok(Reply::ProducerIds { first, count }) => {
                    self.producer_ids.granted(Block { first, count }, now);
                }
                _ => self.producer_ids.refused(now),
            },
            (Some(Errand::ProducerIds), _) => self.producer_ids.refused(now),
        }
    }

    fn fetched(
        &mut self,
        at: At,
        leader: BrokerId,
        request: RequestId,
        told: BTreeMap<PartitionId, FollowerAnswer>,
        out: &mut Vec<Output>,
    ) {
        let now = self.now(at);
        let (mut answers, mut records) = (BTreeMap::new(), BTreeMap::new());
        for (partition, answer) in told {
            let answer = match answer {
                FollowerAnswer::Records {
                    batches,
                    watermark,
                    log_start,
                } => {
                    records.insert(partition, batches);
                    Answer::Records { watermark, log_start }
                }
                FollowerAnswer::Diverging(theirs) => Answer::Diverging {
                    theirs,
                    ours: self.our_end(partition, theirs.epoch),
                },
                FollowerAnswer::Failed(failure) => {
                    if failure == Failure::FencedLeaderEpoch {
                        out.push(Output::Mark(Mark::EpochRefused));
                    }
                    Answer::Failed(failure)
                }
            };
            answers.insert(partition, answer);
        }
        let Some(fetcher) = self.fetchers.get_mut(&leader) else {
            return;
        };
        let effects = fetcher.answered(request, &answers, now);
        self.carry_fetcher(at, leader, effects, &records, out);
    }

    fn our_end(&self, partition: PartitionId, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let view = self.hosted.get(&partition)?.log.view();
        match view.end_offset_for_epoch(partition_log::LeaderEpoch(epoch.0)) {
            partition_log::EpochEnd::Undefined => None,
            partition_log::EpochEnd::At { epoch, end } => Some(EpochEnd {
                epoch: LeaderEpoch(epoch.0),
                end: to_core(end),
            }),
        }
    }

    fn carry_fetcher(
        &mut self,
        at: At,
        leader: BrokerId,
        effects: Vec<Effect>,
        records: &BTreeMap<PartitionId, Bytes>,
        out: &mut Vec<Output>,
    ) {
        let to = NodeId::Broker(leader.0);
        for effect in effects {
            match effect {
                Effect::AskLeaderEnd {
                    partition,
                    leader_epoch,
                } => {
                    let ask = Ask::LogEnd(partition, leader_epoch);
                    self.ask(to, ask, Errand::LeaderEnd(leader, partition, leader_epoch), out);
                }
                Effect::AskLeaderStart {
                    partition,
                    leader_epoch,
                } => {
                    let ask = Ask::LogStart(partition, leader_epoch);
                    self.ask(to, ask, Errand::LeaderStart(leader, partition, leader_epoch), out);
                }
                Effect::Append { partition, .. } => {
                    let batches = records.get(&partition).cloned().unwrap_or_default();
                    self.order_work(at, leader, vec![effect], batches);
                }
                Effect::TruncateTo { .. } | Effect::RestartAt { .. } => {
                    self.order_work(at, leader, vec![effect], Bytes::new());
                }
            }
        }
    }

    fn in_sync_answered(
        &mut self,
        at: At,
        request: Vec<Proposal>,
        result: Result<Reply, Refusal>,
        out: &mut Vec<Output>,
    ) {
        let now = self.now(at);
        let Ok(Reply::PartitionsAltered(outcomes)) = result else {
            return self.proposals.failed(now);
        };
        self.proposals.answered();
        for proposal in request {
            let outcome = outcomes
                .iter()
                .find(|outcome| outcome.partition == proposal.partition);
            let outcome = outcome.map_or(Err(IsrRefusal::Unexpected), outcome_of);
            if outcome.is_err() {
                out.push(Output::Mark(Mark::IsrRefused));
            }
            let answer = IsrAnswer {
                leader_epoch: proposal.leader_epoch,
                partition_epoch: proposal.partition_epoch,
                outcome,
            };
            if let Some(hosted) = self.hosted.get_mut(&proposal.partition) {
                let effects = hosted.replica.isr_answered(answer, now);
                self.carry_out(at, proposal.partition, effects, out);
            }
        }
    }
}

fn outcome_of(outcome: &PartitionOutcome) -> Result<PartitionState, IsrRefusal> {
    match &outcome.result {
        Ok(standing) => Ok(PartitionState {
            leader: standing.leader,
            leader_epoch: standing.leader_epoch,
            in_sync: standing.in_sync.clone(),
            epoch: standing.epoch,
        }),
        Err(refusal) => Err(match refusal {
            Refusal::IneligibleReplica { .. } => IsrRefusal::Ineligible,
            Refusal::UnknownTopicId(_) | Refusal::UnknownTopic { .. } => IsrRefusal::UnknownTopic,
            Refusal::UnknownPartition(_) => IsrRefusal::UnknownPartition,
            Refusal::FencedLeaderEpoch { .. } => IsrRefusal::FencedLeaderEpoch,
            Refusal::StalePartitionEpoch { .. } | Refusal::InvalidUpdateVersion(_) => {
                IsrRefusal::StalePartitionEpoch
            }
            Refusal::InvalidRequest(_) => IsrRefusal::Invalid,
            Refusal::NewLeaderElected { .. } => IsrRefusal::NewLeaderElected,
            _ => IsrRefusal::Unexpected,
        }),
    }
}
