//! Commands of brokers for themselves and on behalf of their clients.

use std::sync::Arc;

use controller_core::command::{
    AlterPartition, Assignment, Command, CreateTopics, DeleteTopics, InSyncMember, InSyncProposal, NewTopic,
    PartitionOutcome, Reply, TopicCreation, TopicDeletion, TopicRef,
};
use controller_core::refusal::Refusal;
use metadata::batch::Provenance;
use metadata::ids::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId};
use metadata::record::LeaderRecovery;
use millrace_proto::convert::{self, Malformed};
use millrace_proto::v1;
use millrace_proto::v1::RefusalKind;
use tonic::{Request, Response, Status};

use super::Desk;
use super::refusal::malformed;
use crate::directory::draw;
use crate::inbox::Answer;

/// Takes commands.
pub struct Admin(pub Arc<Desk>);

/// What the core says to a command that is not this one's: a defect of ours.
fn out_of_place(reply: &Reply) -> Refusal {
    Refusal::DecisionFailed(format!("a reply that does not belong to its command: {reply:?}"))
}

fn on_behalf_of(caller: Option<v1::Caller>) -> Provenance {
    let caller = caller.unwrap_or_default();
    Provenance {
        actor: caller.principal,
        client_id: caller.client_id,
        request_id: caller.request_id,
        wall_time_ms: 0,
    }
}

/// A broker that acts for itself.
pub fn broker_itself(broker: i32) -> Provenance {
    Provenance {
        actor: format!("broker {broker}"),
        ..Provenance::default()
    }
}

impl Admin {
    async fn ask(&self, command: Command, provenance: Provenance) -> Answer {
        let inbox = &self.0.inbox;
        let arrived = inbox.moment();
        inbox
            .hand_in(command, provenance, None, arrived)
            .await
            .answer()
            .await
    }

    fn refused(&self, refusal: &Refusal) -> Option<v1::Refusal> {
        Some(self.0.refusal(refusal))
    }

    fn creation(&self, creation: TopicCreation) -> v1::NewTopicResult {
        use v1::new_topic_result::Result as Made;
        let result = match creation.result {
            Ok(made) => Made::Made(v1::TopicMade {
                topic_id: made.topic.to_string(),
                partitions: made.partitions,
                replication_factor: made.replication_factor,
            }),
            Err(refusal) => Made::Refused(self.0.refusal(&refusal)),
        };
        v1::NewTopicResult {
            name: creation.name,
            result: Some(result),
        }
    }

    fn deletion(&self, deletion: TopicDeletion) -> v1::DeleteTopicResult {
        v1::DeleteTopicResult {
            name: deletion.name,
            topic_id: deletion.topic.map(|id| id.to_string()),
            refused: deletion.refused.map(|refusal| self.0.refusal(&refusal)),
        }
    }

    fn outcome(&self, outcome: PartitionOutcome) -> v1::PartitionOutcome {
        let partition = outcome.partition;
        let named = v1::PartitionOutcome {
            topic_id: partition.topic.to_string(),
            partition: partition.index.0,
            ..Default::default()
        };
        match outcome.result {
            Err(refusal) => v1::PartitionOutcome {
                refused: self.refused(&refusal),
                ..named
            },
            Ok(standing) => v1::PartitionOutcome {
                leader: standing.leader.map(|leader| leader.0),
                leader_epoch: standing.leader_epoch.0,
                in_sync: standing.in_sync.iter().map(|broker| broker.0).collect(),
                recovering: standing.recovery == LeaderRecovery::Recovering,
                partition_epoch: standing.epoch.0,
                ..named
            },
        }
    }
}

#[tonic::async_trait]
impl v1::admin_server::Admin for Admin {
    async fn create_topics(
        &self,
        request: Request<v1::CreateTopicsRequest>,
    ) -> Result<Response<v1::CreateTopicsReply>, Status> {
        let request = request.into_inner();
        let command = Command::CreateTopics(CreateTopics {
            topics: request.topics.into_iter().map(new_topic).collect(),
            validate_only: request.validate_only,
            timeout_ms: request.timeout_ms,
            entropy: draw(self.0.entropy.as_ref()),
        });
        let answer = self.ask(command, on_behalf_of(request.caller)).await;
        let mut reply = v1::CreateTopicsReply {
            visible_at: answer.visible_at.0,
            ..Default::default()
        };
        match answer.result {
            Ok(Reply::TopicsCreated(topics)) => {
                reply.topics = topics.into_iter().map(|topic| self.creation(topic)).collect();
            }
            Ok(other) => reply.refusal = self.refused(&out_of_place(&other)),
            Err(refusal) => reply.refusal = self.refused(&refusal),
        }
        Ok(Response::new(reply))
    }

    async fn delete_topics(
        &self,
        request: Request<v1::DeleteTopicsRequest>,
    ) -> Result<Response<v1::DeleteTopicsReply>, Status> {
        let request = request.into_inner();
        let topics: Result<Vec<_>, _> = request.topics.into_iter().map(topic_ref).collect();
        let topics = match topics {
            Ok(topics) => topics,
            Err(problem) => {
                return Ok(Response::new(v1::DeleteTopicsReply {
                    refusal: Some(malformed(RefusalKind::InvalidRequest, &problem)),
                    ..Default::default()
                }));
            }
        };
        let command = Command::DeleteTopics(DeleteTopics {
            topics,
            timeout_ms: request.timeout_ms,
        });
        let answer = self.ask(command, on_behalf_of(request.caller)).await;
        let mut reply = v1::DeleteTopicsReply {
            visible_at: answer.visible_at.0,
            ..Default::default()
        };
        match answer.result {
            Ok(Reply::TopicsDeleted(topics)) => {
                reply.topics = topics.into_iter().map(|topic| self.deletion(topic)).collect();
            }
            Ok(other) => reply.refusal = self.refused(&out_of_place(&other)),
            Err(refusal) => reply.refusal = self.refused(&refusal),
        }
        Ok(Response::new(reply))
    }

    async fn alter_partition(
        &self,
        request: Request<v1::AlterPartitionRequest>,
    ) -> Result<Response<v1::AlterPartitionReply>, Status> {
        let request = request.into_inner();
        let partitions: Result<Vec<_>, _> = request.partitions.into_iter().map(proposal).collect();
        let partitions = match partitions {
            Ok(partitions) => partitions,
            Err(problem) => {
                return Ok(Response::new(v1::AlterPartitionReply {
                    refusal: Some(malformed(RefusalKind::InvalidRequest, &problem)),
                    ..Default::default()
                }));
            }
        };
        let command = Command::AlterPartition(AlterPartition {
            broker: BrokerId(request.broker),
            epoch: BrokerEpoch(request.broker_epoch),
            partitions,
        });
        let answer = self.ask(command, broker_itself(request.broker)).await;
        let mut reply = v1::AlterPartitionReply::default();
        match answer.result {
            Ok(Reply::PartitionsAltered(outcomes)) => {
                reply.partitions = outcomes
                    .into_iter()
                    .map(|outcome| self.outcome(outcome))
                    .collect();
            }
            Ok(other) => reply.refusal = self.refused(&out_of_place(&other)),
            Err(refusal) => reply.refusal = self.refused(&refusal),
        }
        Ok(Response::new(reply))
    }

    async fn allocate_producer_ids(
        &self,
        request: Request<v1::AllocateProducerIdsRequest>,
    ) -> Result<Response<v1::AllocateProducerIdsReply>, Status> {
        let request = request.into_inner();
        let command = Command::AllocateProducerIds {
            broker: BrokerId(request.broker),
            epoch: BrokerEpoch(request.broker_epoch),
        };
        let answer = self.ask(command, broker_itself(request.broker)).await;
        let mut reply = v1::AllocateProducerIdsReply::default();
        match answer.result {
            Ok(Reply::ProducerIds { first, count }) => {
                reply.first = first.0;
                reply.count = count;
            }
            Ok(other) => reply.refusal = self.refused(&out_of_place(&other)),
            Err(refusal) => reply.refusal = self.refused(&refusal),
        }
        Ok(Response::new(reply))
    }
}

fn new_topic(message: v1::NewTopic) -> NewTopic {
    let brokers = |ids: Vec<i32>| ids.into_iter().map(BrokerId).collect();
    let assignments = message.assignments.into_iter().map(|given| Assignment {
        partition: given.partition,
        replicas: brokers(given.replicas),
    });
    let configs = message.configs.into_iter().map(|entry| (entry.key, entry.value));
    NewTopic {
        name: message.name,
        partitions: message.partitions,
        replication_factor: message.replication_factor,
        assignments: assignments.collect(),
        configs: configs.collect(),
    }
}

fn topic_ref(message: v1::TopicRef) -> Result<TopicRef, Malformed> {
    match message.topic {
        Some(v1::topic_ref::Topic::Name(name)) => Ok(TopicRef::Name(name)),
        Some(v1::topic_ref::Topic::Id(id)) => Ok(TopicRef::Id(TopicId(convert::id("id", &id)?))),
        None => Err(Malformed::new("topic", "neither name nor id")),
    }
}

fn proposal(message: v1::PartitionProposal) -> Result<InSyncProposal, Malformed> {
    let members = message.in_sync.into_iter().map(|member| InSyncMember {
        broker: BrokerId(member.broker),
        epoch: member.broker_epoch.map(BrokerEpoch),
    });
    Ok(InSyncProposal {
        partition: convert::partition(&message.topic_id, message.partition)?,
        leader_epoch: LeaderEpoch(message.leader_epoch),
        partition_epoch: PartitionEpoch(message.partition_epoch),
        in_sync: members.collect(),
        recovery: if message.recovering {
            LeaderRecovery::Recovering
        } else {
            LeaderRecovery::Recovered
        },
    })
}
