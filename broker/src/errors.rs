//! The one place where Kafka's error codes are chosen, from typed refusals.
//!
//! Must not: decide anything else. A handler that needs a code asks here, or names the rule that fixes it.

use broker_core::fetch::FetchRefusal;
use broker_core::group;
use broker_core::produce::{ProduceRefusal, WaitOutcome};
use broker_core::replica::DeletionRefusal;
use broker_core::session::SessionRefusal;
use millrace_proto::v1::{Refusal, RefusalKind};
use partition_log::{AppendError, AppendRefusal, LogFault, ReadError, RecordError, RecordFlaw};
use wire::ErrorCode;

use crate::controllers::admin::Unanswered as Unforwarded;
use crate::coordinator::Unanswered;
use crate::storage::hosted::NotHere;
use crate::storage::lane::DeletionFailure;

/// A partition is not served by this broker: a client looks for its leader again, or waits for the disk of this one.
pub fn of_absence(why: NotHere) -> ErrorCode {
    match why {
        NotHere::Unopened => ErrorCode::KAFKA_STORAGE_ERROR,
        NotHere::Unknown => ErrorCode::NOT_LEADER_OR_FOLLOWER,
    }
}

/// A handler panicked.
pub const CRASHED: ErrorCode = ErrorCode::UNKNOWN_SERVER_ERROR;
/// The client's time was over before there was an answer (R5.42).
pub const OUT_OF_TIME: ErrorCode = ErrorCode::REQUEST_TIMED_OUT;

/// Why a controller gives no reply. What is too large for it is more than one request may ask for (R2.2).
pub fn of_unforwarded(why: Unforwarded) -> ErrorCode {
    match why {
        Unforwarded::OutOfTime(_) => OUT_OF_TIME,
        Unforwarded::TooLarge { .. } => ErrorCode::POLICY_VIOLATION,
    }
}

/// The code for a refusal of the controller.
pub fn of_refusal(refusal: &Refusal) -> ErrorCode {
    match refusal.kind() {
        // A client never learns that a controller changed: forwarding tries again until the time is over (R5.41).
        RefusalKind::NotActive | RefusalKind::TimedOut => ErrorCode::REQUEST_TIMED_OUT,
        // The controller's disk is low, or its log cannot be replayed further; the words say which.
        RefusalKind::Unavailable => ErrorCode::KAFKA_STORAGE_ERROR,
        RefusalKind::InconsistentClusterId => ErrorCode::INCONSISTENT_CLUSTER_ID,
        RefusalKind::DuplicateBrokerRegistration => ErrorCode::DUPLICATE_BROKER_REGISTRATION,
        RefusalKind::InvalidRegistration => ErrorCode::INVALID_REGISTRATION,
        RefusalKind::UnsupportedVersion => ErrorCode::UNSUPPORTED_VERSION,
        RefusalKind::StaleBrokerEpoch => ErrorCode::STALE_BROKER_EPOCH,
        RefusalKind::BrokerNotRegistered => ErrorCode::BROKER_ID_NOT_REGISTERED,
        RefusalKind::UnknownTopic | RefusalKind::UnknownPartition => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        RefusalKind::UnknownTopicId => ErrorCode::UNKNOWN_TOPIC_ID,
        RefusalKind::TopicExists => ErrorCode::TOPIC_ALREADY_EXISTS,
        RefusalKind::InvalidTopicName => ErrorCode::INVALID_TOPIC_EXCEPTION,
        RefusalKind::InvalidPartitions => ErrorCode::INVALID_PARTITIONS,
        RefusalKind::InvalidReplicationFactor => ErrorCode::INVALID_REPLICATION_FACTOR,
        RefusalKind::InvalidReplicaAssignment => ErrorCode::INVALID_REPLICA_ASSIGNMENT,
        RefusalKind::InvalidConfig => ErrorCode::INVALID_CONFIG,
        RefusalKind::InvalidRequest => ErrorCode::INVALID_REQUEST,
        RefusalKind::PolicyViolation => ErrorCode::POLICY_VIOLATION,
        RefusalKind::TopicDeletionDisabled => ErrorCode::TOPIC_DELETION_DISABLED,
        RefusalKind::StaleControllerView => ErrorCode::NOT_CONTROLLER,
        RefusalKind::FencedLeaderEpoch => ErrorCode::FENCED_LEADER_EPOCH,
        RefusalKind::StalePartitionEpoch | RefusalKind::InvalidUpdateVersion => {
            ErrorCode::INVALID_UPDATE_VERSION
        }
        RefusalKind::IneligibleReplica => ErrorCode::INELIGIBLE_REPLICA,
        RefusalKind::NewLeaderElected => ErrorCode::NEW_LEADER_ELECTED,
        RefusalKind::PreferredLeaderNotAvailable => ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE,
        RefusalKind::EligibleLeadersNotAvailable => ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE,
        RefusalKind::ElectionNotNeeded => ErrorCode::ELECTION_NOT_NEEDED,
        RefusalKind::Unspecified | RefusalKind::ProducerIdsExhausted | RefusalKind::DecisionFailed => {
            ErrorCode::UNKNOWN_SERVER_ERROR
        }
    }
}

/// Whether a Produce error tells where the log starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStartShown {
    /// It does.
    Real,
    /// It says −1.
    Hidden,
}

/// How an error of Produce looks to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceError {
    /// The code.
    pub code: ErrorCode,
    /// Whether the log start goes with it.
    pub log_start: LogStartShown,
    /// The records that are at fault.
    pub records: Vec<RecordError>,
    /// What goes with them.
    pub message: Option<String>,
}

impl ProduceError {
    /// An error that says nothing but its code.
    pub fn hidden(code: ErrorCode) -> ProduceError {
        ProduceError {
            code,
            log_start: LogStartShown::Hidden,
            records: Vec::new(),
            message: None,
        }
    }

    /// An error that also tells where the log starts.
    pub fn real(code: ErrorCode) -> ProduceError {
        ProduceError {
            log_start: LogStartShown::Real,
            ..ProduceError::hidden(code)
        }
    }
}

/// Why a payload was refused before its partition was asked: the log start is never told.
pub fn of_payload(refusal: &AppendRefusal) -> ProduceError {
    ProduceError::hidden(match refusal {
        AppendRefusal::Corrupt { .. } => ErrorCode::CORRUPT_MESSAGE,
        AppendRefusal::ZstdTooEarly => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
        _ => ErrorCode::INVALID_RECORD,
    })
}

/// Why an append failed.
pub fn of_append(error: AppendError) -> ProduceError {
    match error {
        AppendError::Fault(_) => ProduceError::hidden(ErrorCode::KAFKA_STORAGE_ERROR),
        AppendError::Refused(refusal) => of_append_refusal(refusal),
    }
}

fn of_append_refusal(refusal: AppendRefusal) -> ProduceError {
    use AppendRefusal as R;
    match refusal {
        R::NoBatch | R::SeveralBatches | R::OldMagic { .. } | R::ZstdTooEarly => of_payload(&refusal),
        R::Corrupt { .. } => ProduceError::hidden(ErrorCode::CORRUPT_MESSAGE),
        R::BatchTooLarge { .. } => ProduceError::hidden(ErrorCode::MESSAGE_TOO_LARGE),
        R::RecordListTooLarge { .. } => ProduceError::hidden(ErrorCode::RECORD_LIST_TOO_LARGE),
        R::BaseOffsetNotZero { .. } | R::Malformed { .. } | R::ControlBatch | R::SequenceMissing { .. } => {
            ProduceError::real(ErrorCode::INVALID_RECORD)
        }
        // Kafka answers both with UNKNOWN_SERVER_ERROR, which tells a producer nothing.
        R::UnknownCodec { .. } => ProduceError::real(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE),
        R::Undecompressable { .. } => ProduceError::real(ErrorCode::INVALID_RECORD),
        R::Records { records } => of_records(records),
        R::StaleProducerEpoch { .. } => ProduceError::real(ErrorCode::INVALID_PRODUCER_EPOCH),
        R::OutOfOrderSequence { .. } => ProduceError::real(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER),
        R::TransactionOpen { .. } => ProduceError::real(ErrorCode::INVALID_TXN_STATE),
        R::NotAtLogEnd { .. } => ProduceError::real(ErrorCode::UNKNOWN_SERVER_ERROR),
    }
}

fn of_records(records: Vec<RecordError>) -> ProduceError {
    let concerns_time = records
        .iter()
        .any(|record| RecordFlaw::concerns_time(&record.why));
    let code = if concerns_time {
        ErrorCode::INVALID_TIMESTAMP
    } else {
        ErrorCode::INVALID_RECORD
    };
    let message = Some(format!(
        "the batch is refused because of {} of its records",
        records.len()
    ));
    ProduceError {
        code,
        log_start: LogStartShown::Real,
        records,
        message,
    }
}

/// Why a partition would not take a batch at all.
pub fn of_produce_refusal(refusal: ProduceRefusal) -> ProduceError {
    match refusal {
        ProduceRefusal::NotLeader { .. } => ProduceError::hidden(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        ProduceRefusal::LogOffline => ProduceError::hidden(ErrorCode::KAFKA_STORAGE_ERROR),
        ProduceRefusal::NotEnoughReplicas { .. } => ProduceError::real(ErrorCode::NOT_ENOUGH_REPLICAS),
    }
}

/// How a wait for the in-sync replicas ended (F-38, F-41).
pub fn of_wait(outcome: WaitOutcome) -> ErrorCode {
    match outcome {
        WaitOutcome::Replicated => ErrorCode::NONE,
        WaitOutcome::NotEnoughReplicasAfterAppend => ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        WaitOutcome::NotLeader { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        WaitOutcome::LogOffline => ErrorCode::KAFKA_STORAGE_ERROR,
        WaitOutcome::Gone => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        WaitOutcome::TimedOut => ErrorCode::REQUEST_TIMED_OUT,
    }
}

/// Why no records are deleted (L-27).
pub fn of_deletion(failure: &DeletionFailure) -> ErrorCode {
    match failure {
        DeletionFailure::Refused(DeletionRefusal::NotLeader { .. }) => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        DeletionFailure::Refused(DeletionRefusal::OutOfRange { .. }) => ErrorCode::OFFSET_OUT_OF_RANGE,
        DeletionFailure::Refused(DeletionRefusal::LogOffline) | DeletionFailure::Fault => {
            ErrorCode::KAFKA_STORAGE_ERROR
        }
        DeletionFailure::NotByPolicy => ErrorCode::POLICY_VIOLATION,
    }
}

/// Why nothing was read.
pub fn of_read(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OffsetOutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        ReadError::Fault(fault) => of_fault(fault),
    }
}

/// The machine failed, or its disk holds something else than was written.
pub fn of_fault(fault: &LogFault) -> ErrorCode {
    match fault {
        LogFault::Damaged { .. } => ErrorCode::CORRUPT_MESSAGE,
        LogFault::DiskFull { .. } | LogFault::Io { .. } => ErrorCode::KAFKA_STORAGE_ERROR,
    }
}

/// A fetch with a limit below 0 (F-10). Kafka answers UNKNOWN_SERVER_ERROR, which tells a client nothing.
pub const NEGATIVE_FETCH_SIZE: ErrorCode = ErrorCode::INVALID_FETCH_SIZE;
/// An isolation level that does not exist. Kafka answers UNKNOWN_SERVER_ERROR.
pub const UNKNOWN_ISOLATION: ErrorCode = ErrorCode::INVALID_REQUEST;

/// Why a partition is not read (F-2 to F-7, F-22).
pub fn of_fetch(refusal: &FetchRefusal) -> ErrorCode {
    match refusal {
        FetchRefusal::InconsistentTopicId { .. } => ErrorCode::INCONSISTENT_TOPIC_ID,
        FetchRefusal::LogOffline => ErrorCode::KAFKA_STORAGE_ERROR,
        FetchRefusal::FencedLeaderEpoch { .. } => ErrorCode::FENCED_LEADER_EPOCH,
        FetchRefusal::UnknownLeaderEpoch { .. } => ErrorCode::UNKNOWN_LEADER_EPOCH,
        FetchRefusal::NotAReplica { given: Some(_), .. } => ErrorCode::UNKNOWN_LEADER_EPOCH,
        FetchRefusal::NotLeader { .. }
        | FetchRefusal::NotAReplica { given: None, .. }
        | FetchRefusal::StaleBrokerEpoch { .. } => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        FetchRefusal::OffsetOutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
    }
}

/// Why a fetch session cannot be continued (F-18).
pub fn of_session(refusal: &SessionRefusal) -> ErrorCode {
    match refusal {
        SessionRefusal::NotFound(_) => ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        SessionRefusal::OtherEpoch { .. } => ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        SessionRefusal::OtherNaming { .. } => ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    }
}

/// Why a coordinator gives no answer (G-1).
pub fn of_unanswered(why: Unanswered) -> ErrorCode {
    match why {
        Unanswered::Elsewhere => ErrorCode::NOT_COORDINATOR,
        Unanswered::Loading => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        Unanswered::Broken => ErrorCode::COORDINATOR_NOT_AVAILABLE,
    }
}

/// Why a group does not do what it is asked (G-2, G-6 to G-58).
pub fn of_group(refusal: group::Refusal) -> ErrorCode {
    use group::Refusal as R;
    match refusal {
        R::InvalidGroupId => ErrorCode::INVALID_GROUP_ID,
        R::InvalidSessionTimeout => ErrorCode::INVALID_SESSION_TIMEOUT,
        R::UnknownMember => ErrorCode::UNKNOWN_MEMBER_ID,
        R::FencedInstance => ErrorCode::FENCED_INSTANCE_ID,
        R::IllegalGeneration => ErrorCode::ILLEGAL_GENERATION,
        R::RebalanceInProgress => ErrorCode::REBALANCE_IN_PROGRESS,
        R::InconsistentProtocol => ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
        R::GroupFull => ErrorCode::GROUP_MAX_SIZE_REACHED,
        R::MemberIdRequired => ErrorCode::MEMBER_ID_REQUIRED,
        R::GroupNotFound => ErrorCode::GROUP_ID_NOT_FOUND,
        R::NonEmptyGroup => ErrorCode::NON_EMPTY_GROUP,
        R::MetadataTooLarge => ErrorCode::OFFSET_METADATA_TOO_LARGE,
        R::WriteUnavailable => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        R::WriteElsewhere => ErrorCode::NOT_COORDINATOR,
        R::WriteImpossible => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}
