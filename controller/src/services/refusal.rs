//! Refusals as messages: one kind per variant, and the words.

use controller_core::refusal::Refusal;
use millrace_proto::convert::Malformed;
use millrace_proto::v1;
use millrace_proto::v1::RefusalKind as Kind;

use super::Desk;

impl Desk {
    /// The message for a refusal; one that sends the caller elsewhere says where.
    pub(super) fn refusal(&self, refusal: &Refusal) -> v1::Refusal {
        let kind = kind(refusal);
        let message = match kind {
            // Whoever reads this at a client has to know which node is to be looked at.
            Kind::Unavailable => format!(
                "controller {}: {refusal}",
                self.quorum.addressing().controller_id().0
            ),
            _ => refusal.to_string(),
        };
        v1::Refusal {
            kind: kind.into(),
            message,
            active: (kind == Kind::NotActive).then(|| self.active_address()).flatten(),
        }
    }
}

/// The message for a request that does not say what it must.
pub(super) fn malformed(kind: Kind, problem: &Malformed) -> v1::Refusal {
    v1::Refusal {
        kind: kind.into(),
        message: problem.to_string(),
        active: None,
    }
}

fn kind(refusal: &Refusal) -> Kind {
    match refusal {
        Refusal::NotActive => Kind::NotActive,
        Refusal::InconsistentClusterId { .. } => Kind::InconsistentClusterId,
        Refusal::DuplicateBrokerRegistration { .. } => Kind::DuplicateBrokerRegistration,
        Refusal::InvalidRegistration { .. } => Kind::InvalidRegistration,
        Refusal::UnsupportedVersion { .. } => Kind::UnsupportedVersion,
        Refusal::StaleBrokerEpoch { .. } => Kind::StaleBrokerEpoch,
        Refusal::BrokerNotRegistered(_) => Kind::BrokerNotRegistered,
        Refusal::TimedOut { .. } => Kind::TimedOut,
        Refusal::UnknownTopic { .. } => Kind::UnknownTopic,
        Refusal::UnknownTopicId(_) => Kind::UnknownTopicId,
        Refusal::UnknownPartition(_) => Kind::UnknownPartition,
        Refusal::TopicExists { .. } => Kind::TopicExists,
        Refusal::InvalidTopicName { .. } => Kind::InvalidTopicName,
        Refusal::InvalidPartitions { .. } => Kind::InvalidPartitions,
        Refusal::InvalidReplicationFactor { .. } => Kind::InvalidReplicationFactor,
        Refusal::InvalidReplicaAssignment(_) => Kind::InvalidReplicaAssignment,
        Refusal::InvalidConfig(_) => Kind::InvalidConfig,
        Refusal::InvalidRequest(_) => Kind::InvalidRequest,
        Refusal::PolicyViolation(_) => Kind::PolicyViolation,
        Refusal::TopicDeletionDisabled => Kind::TopicDeletionDisabled,
        Refusal::StaleControllerView { .. } => Kind::StaleControllerView,
        Refusal::FencedLeaderEpoch { .. } => Kind::FencedLeaderEpoch,
        Refusal::StalePartitionEpoch { .. } => Kind::StalePartitionEpoch,
        Refusal::IneligibleReplica { .. } => Kind::IneligibleReplica,
        Refusal::NewLeaderElected { .. } => Kind::NewLeaderElected,
        Refusal::ProducerIdsExhausted => Kind::ProducerIdsExhausted,
        Refusal::PreferredLeaderNotAvailable(_) => Kind::PreferredLeaderNotAvailable,
        Refusal::EligibleLeadersNotAvailable(_) => Kind::EligibleLeadersNotAvailable,
        Refusal::ElectionNotNeeded(_) => Kind::ElectionNotNeeded,
        Refusal::InvalidUpdateVersion(_) => Kind::InvalidUpdateVersion,
        Refusal::Unavailable(_) => Kind::Unavailable,
        Refusal::DecisionFailed(_) => Kind::DecisionFailed,
    }
}
