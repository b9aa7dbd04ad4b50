//! Commands of brokers for themselves and on behalf of their clients.

use std::sync::Arc;

use controller_core::command::{
    AlterConfigs, AlterPartition, Assignment, Command, ConfigAlteration, ConfigOperation, ConfigWish,
    CreatePartitions, CreateTopics, DeleteTopics, ElectLeaders, ElectionKind, ElectionOutcome, InSyncMember,
    InSyncProposal, MorePartitions, MorePartitionsOutcome, NewTopic, PartitionOutcome, Reply, TopicCreation,
    TopicDeletion, TopicRef,
};
use controller_core::refusal::Refusal;
use metadata::batch::Provenance;
use metadata::ids::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId};
use metadata::record::{ConfigResource, LeaderRecovery};
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
    /// What a command may draw from: the random bits in the name of its request, so that a retry draws the same, else
    /// bits of our own.
    fn entropy(&self, caller: Option<&v1::Caller>) -> u128 {
        let named = caller.and_then(|caller| {
            let id = caller.request_id.as_str();
            let bits = id.get(id.len().checked_sub(32)?..)?;
            u128::from_str_radix(bits, 16).ok()
        });
        named.unwrap_or_else(|| draw(self.0.entropy.as_ref()))
    }

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
            entropy: self.entropy(request.caller.as_ref()),
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

    async fn create_partitions(
        &self,
        request: Request<v1::CreatePartitionsRequest>,
    ) -> Result<Response<v1::CreatePartitionsReply>, Status> {
        let request = request.into_inner();
        let command = Command::CreatePartitions(CreatePartitions {
            topics: request.topics.into_iter().map(more_partitions).collect(),
            validate_only: request.validate_only,
            timeout_ms: request.timeout_ms,
            entropy: self.entropy(request.caller.as_ref()),
        });
        let answer = self.ask(command, on_behalf_of(request.caller)).await;
        let mut reply = v1::CreatePartitionsReply {
            visible_at: answer.visible_at.0,
            ..Default::default()
        };
        let result = |outcome: MorePartitionsOutcome| v1::MorePartitionsResult {
            name: outcome.name,
            refused: outcome.refused.map(|refusal| self.0.refusal(&refusal)),
        };
        match answer.result {
            Ok(Reply::PartitionsCreated(topics)) => reply.topics = topics.into_iter().map(result).collect(),
            Ok(other) => reply.refusal = self.refused(&out_of_place(&other)),
            Err(refusal) => reply.refusal = self.refused(&refusal),
        }
        Ok(Response::new(reply))
    }

    async fn alter_configs(
        &self,
        request: Request<v1::AlterConfigsRequest>,
    ) -> Result<Response<v1::AlterConfigsReply>, Status> {
        let request = request.into_inner();
        let resources: Result<Vec<_>, _> = request.resources.into_iter().map(config_alteration).collect();
        let resources = match resources {
            Ok(resources) => resources,
            Err(problem) => {
                return Ok(Response::new(v1::AlterConfigsReply {
                    refusal: Some(malformed(RefusalKind::InvalidRequest, &problem)),
                    ..Default::default()
                }));
            }
        };
        let command = Command::AlterConfigs(AlterConfigs {
            resources,
            validate_only: request.validate_only,
        });
        let answer = self.ask(command, on_behalf_of(request.caller)).await;
        let mut reply = v1::AlterConfigsReply {
            visible_at: answer.visible_at.0,
            ..Default::default()
        };
        let result = |refused: Option<Refusal>| v1::ConfigResult {
            refused: refused.map(|refusal| self.0.refusal(&refusal)),
        };
        match answer.result {
            Ok(Reply::ConfigsAltered(refusals)) => {
                reply.resources = refusals.into_iter().map(result).collect();
            }
            Ok(other) => reply.refusal = self.refused(&out_of_place(&other)),
            Err(refusal) => reply.refusal = self.refused(&refusal),
        }
        Ok(Response::new(reply))
    }

    async fn elect_leaders(
        &self,
        request: Request<v1::ElectLeadersRequest>,
    ) -> Result<Response<v1::ElectLeadersReply>, Status> {
        let request = request.into_inner();
        let kind = match request.kind() {
            v1::ElectionKind::Preferred => ElectionKind::Preferred,
            v1::ElectionKind::Unclean => ElectionKind::Unclean,
        };
        let named = |partition: v1::NamedPartition| (partition.topic, partition.partition);
        let partitions = request
            .partitions
            .map(|partitions| partitions.partitions.into_iter().map(named).collect());
        let command = Command::ElectLeaders(ElectLeaders {
            kind,
            partitions,
            timeout_ms: request.timeout_ms,
        });
        let answer = self.ask(command, on_behalf_of(request.caller)).await;
        let mut reply = v1::ElectLeadersReply {
            visible_at: answer.visible_at.0,
            ..Default::default()
        };
        let result = |outcome: ElectionOutcome| v1::ElectionResult {
            partition: Some(v1::NamedPartition {
                topic: outcome.topic,
                partition: outcome.partition,
            }),
            refused: outcome.refused.map(|refusal| self.0.refusal(&refusal)),
        };
        match answer.result {
            Ok(Reply::LeadersElected(outcomes)) => {
                reply.elections = outcomes.into_iter().map(result).collect();
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

fn more_partitions(message: v1::MorePartitions) -> MorePartitions {
    let brokers = |replicas: v1::Replicas| replicas.brokers.into_iter().map(BrokerId).collect();
    let by_hand = message.assignments;
    MorePartitions {
        name: message.name,
        count: message.count,
        assignments: by_hand.map(|by_hand| by_hand.partitions.into_iter().map(brokers).collect()),
    }
}

fn config_alteration(message: v1::ConfigAlteration) -> Result<ConfigAlteration, Malformed> {
    use v1::config_alteration::Wish;
    let resource = message.resource.unwrap_or_default();
    let wish = match message.wish {
        Some(Wish::Replace(pairs)) => {
            let value = |entry: v1::ConfigEntry| {
                let value = entry
                    .value
                    .ok_or_else(|| Malformed::new("value", format!("{:?} has none", entry.key)))?;
                Ok((entry.key, value))
            };
            ConfigWish::Replace(pairs.entries.into_iter().map(value).collect::<Result<_, _>>()?)
        }
        Some(Wish::Adjust(adjust)) => {
            let operations = adjust.operations.into_iter().map(config_operation);
            ConfigWish::Adjust(operations.collect::<Result<_, _>>()?)
        }
        None => return Err(Malformed::new("wish", "there is none")),
    };
    Ok(ConfigAlteration {
        resource: ConfigResource::try_from(resource)?,
        wish,
    })
}

fn config_operation(message: v1::ConfigOperation) -> Result<(String, ConfigOperation), Malformed> {
    use v1::config_operation::Operation;
    let operation = match message.operation {
        Some(Operation::Set(value)) => ConfigOperation::Set(value),
        Some(Operation::Delete(_)) => ConfigOperation::Delete,
        Some(Operation::Append(items)) => ConfigOperation::Append(items),
        Some(Operation::Subtract(items)) => ConfigOperation::Subtract(items),
        None => return Err(Malformed::new("operation", format!("{:?} has none", message.key))),
    };
    Ok((message.key, operation))
}
