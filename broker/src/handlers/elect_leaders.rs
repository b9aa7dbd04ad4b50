//! ElectLeaders: forwarded (R3.70, R3.71).
//!
//! Must not: decide who leads; the controller does.

use millrace_proto::v1;
use wire::ErrorCode;
use wire::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};

use super::{Call, Refusable};
use crate::errors;

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;
/// First version that says which election is meant; before it, leadership goes back to preferred replicas.
const WITH_KINDS: i16 = 1;

/// Answers the request.
pub async fn answer(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse {
    let kind = match request.election_type {
        _ if call.version.0 < WITH_KINDS => v1::ElectionKind::Preferred,
        PREFERRED => v1::ElectionKind::Preferred,
        UNCLEAN => v1::ElectionKind::Unclean,
        odd => {
            let why = format!("there is no election type {odd}");
            return all(&request, ErrorCode::INVALID_REQUEST, Some(&why));
        }
    };
    let command = v1::ElectLeadersRequest {
        caller: Some(call.caller()),
        kind: kind.into(),
        partitions: named(&request).map(|partitions| v1::ElectedPartitions { partitions }),
        timeout_ms: request.timeout_ms,
    };
    let reply = match call.node.forward(command, request.timeout_ms).await {
        Ok(reply) => reply,
        Err(error) => {
            let code = errors::of_unforwarded(error);
            // Out of time, Kafka says nothing more (R0.4).
            let why = Some(error.to_string()).filter(|_| code != errors::OUT_OF_TIME);
            return all(&request, code, why.as_deref());
        }
    };
    if let Some(refusal) = &reply.refusal {
        let code = errors::of_refusal(refusal);
        // Out of time, Kafka says nothing more (R0.4).
        let why = Some(refusal.message.as_str()).filter(|_| code != errors::OUT_OF_TIME);
        return all(&request, code, why);
    }
    call.node
        .until_visible(reply.visible_at, request.timeout_ms)
        .await;
    let results = reply.elections.into_iter().map(|election| {
        let partition = election.partition.unwrap_or_default();
        let result = match &election.refused {
            None => PartitionResult {
                partition_id: partition.partition,
                ..Default::default()
            },
            Some(refusal) => PartitionResult {
                partition_id: partition.partition,
                error_code: errors::of_refusal(refusal),
                error_message: Some(refusal.message.clone()),
            },
        };
        (partition.topic, result)
    });
    ElectLeadersResponse {
        replica_election_results: by_topic(results),
        ..Default::default()
    }
}

fn named(request: &ElectLeadersRequest) -> Option<Vec<v1::NamedPartition>> {
    let topics = request.topic_partitions.as_ref()?;
    let named = topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| v1::NamedPartition {
            topic: topic.topic.clone(),
            partition: *partition,
        })
    });
    Some(named.collect())
}

/// Results of one topic stand together, topics in the order in which they first come.
fn by_topic(results: impl Iterator<Item = (String, PartitionResult)>) -> Vec<ReplicaElectionResult> {
    let mut topics: Vec<ReplicaElectionResult> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for (topic, result) in results {
        let place = *places.entry(topic.clone()).or_insert_with(|| {
            topics.push(ReplicaElectionResult {
                topic,
                ..Default::default()
            });
            topics.len() - 1
        });
        topics[place].partition_result.push(result);
    }
    topics
}

/// The whole request failed: said at the top and of every partition.
fn all(request: &ElectLeadersRequest, code: ErrorCode, why: Option<&str>) -> ElectLeadersResponse {
    let results = named(request).unwrap_or_default().into_iter().map(|partition| {
        let result = PartitionResult {
            partition_id: partition.partition,
            error_code: code,
            error_message: why.map(str::to_owned),
        };
        (partition.topic, result)
    });
    ElectLeadersResponse {
        error_code: code,
        replica_election_results: by_topic(results),
        ..Default::default()
    }
}

impl Refusable for ElectLeadersRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<ElectLeadersResponse> {
        Some(all(self, code, Some("the request failed")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_topic_stand_together() {
        let result = |topic: &str, partition_id| {
            let result = PartitionResult {
                partition_id,
                ..Default::default()
            };
            (topic.to_owned(), result)
        };
        let topics = by_topic([result("b", 0), result("a", 0), result("b", 1)].into_iter());
        let shape: Vec<_> = topics
            .iter()
            .map(|topic| (topic.topic.as_str(), topic.partition_result.len()))
            .collect();
        assert_eq!(shape, [("b", 2), ("a", 1)]);
    }
}
