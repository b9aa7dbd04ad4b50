//! Every message in every version, against the schema and against an implementation by others.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable, Message as TheirMessage};
use wire::{ApiVersion, Message, Reader, Writer};

use crate::dice::Dice;
use crate::samples;
use crate::schema::Api;

/// Random messages per API, version and direction.
const SAMPLES: u64 = 60;

/// What happened while one message type was compared.
#[derive(Default)]
struct Compared {
    with_schema: usize,
    with_others: usize,
}

fn ours<M: Message>(bytes: &[u8], version: i16) -> Vec<u8> {
    let mut reader = Reader::new(Bytes::copy_from_slice(bytes));
    let message = M::decode(ApiVersion(version), &mut reader).unwrap();
    assert_eq!(
        reader.remaining(),
        0,
        "{} v{version}: nothing is left of {bytes:02x?}",
        M::NAME
    );
    encode(&message, version)
}

fn encode<M: Message>(message: &M, version: i16) -> Vec<u8> {
    let mut writer = Writer::new();
    message.encode(ApiVersion(version), &mut writer);
    writer.finish().unwrap().into_bytes().to_vec()
}

fn theirs<T: Encodable + Decodable>(bytes: &[u8], version: i16) -> Vec<u8> {
    let mut left = Bytes::copy_from_slice(bytes);
    let message = T::decode(&mut left, version).unwrap();
    assert!(left.is_empty(), "they leave {left:02x?} of {bytes:02x?}");
    let mut out = BytesMut::new();
    message.encode(&mut out, version).unwrap();
    out.to_vec()
}

/// Our bytes come back from our code, in every version.
fn compare_with_schema<M: Message>(message: &crate::schema::Message, compared: &mut Compared) {
    for version in message.versions.first..=message.versions.last {
        for seed in 0..SAMPLES {
            let bytes = samples::body(message, version, &mut Dice::new(seed));
            assert_eq!(
                ours::<M>(&bytes, version),
                bytes,
                "{} v{version}, seed {seed}",
                M::NAME
            );
            compared.with_schema += 1;
        }
    }
}

/// The same bytes come back from their code, in every version that they know, and the defaults are the same bytes.
fn compare_with_others<M, T>(message: &crate::schema::Message, compared: &mut Compared)
where
    M: Message,
    T: Encodable + Decodable + TheirMessage + Default,
{
    for version in message.versions.first..=message.versions.last {
        if version < T::VERSIONS.min || T::VERSIONS.max < version {
            continue;
        }
        let mut default = BytesMut::new();
        T::default().encode(&mut default, version).unwrap();
        assert_eq!(
            encode(&M::default(), version),
            default,
            "{} v{version}, the default",
            M::NAME
        );
        for seed in 0..SAMPLES {
            let bytes = samples::body(message, version, &mut Dice::new(seed));
            assert_eq!(
                theirs::<T>(&bytes, version),
                bytes,
                "{} v{version}, seed {seed}",
                M::NAME
            );
            compared.with_others += 1;
        }
    }
}

fn api<'a>(apis: &'a [Api], name: &str) -> &'a Api {
    apis.iter().find(|api| api.name == name).unwrap()
}

#[test]
fn every_message_of_a_schema_is_read_and_written_back_to_the_same_bytes() {
    let apis = samples::apis();
    let mut compared = Compared::default();
    macro_rules! compare {
        ($name:ident, $request:path, $response:path) => {
            let both = api(&apis, stringify!($name));
            compare_with_schema::<$request>(&both.request, &mut compared);
            compare_with_schema::<$response>(&both.response, &mut compared);
        };
    }
    wire::for_each_api!(compare);
    assert_eq!(apis.len(), wire::ApiKey::ALL.len());
    assert!(
        compared.with_schema > 30_000,
        "only {} messages were compared",
        compared.with_schema
    );
}

macro_rules! known_to_both {
    ($($name:ident $request:ident $response:ident,)*) => {
        /// The messages that the other implementation has too.
        fn compare_all(apis: &[Api], compared: &mut Compared) {
            $(
                let both = api(apis, stringify!($name));
                compare_with_others::<wire::messages::$request, kafka_protocol::messages::$request>(
                    &both.request, compared,
                );
                compare_with_others::<wire::messages::$response, kafka_protocol::messages::$response>(
                    &both.response, compared,
                );
            )*
        }
    };
}

#[test]
fn another_implementation_reads_and_writes_the_same_bytes() {
    let mut compared = Compared::default();
    compare_all(&samples::apis(), &mut compared);
    assert!(
        compared.with_others > 25_000,
        "only {} messages were compared",
        compared.with_others
    );
}

known_to_both! {
    Produce ProduceRequest ProduceResponse,
    Fetch FetchRequest FetchResponse,
    ListOffsets ListOffsetsRequest ListOffsetsResponse,
    Metadata MetadataRequest MetadataResponse,
    OffsetCommit OffsetCommitRequest OffsetCommitResponse,
    OffsetFetch OffsetFetchRequest OffsetFetchResponse,
    FindCoordinator FindCoordinatorRequest FindCoordinatorResponse,
    JoinGroup JoinGroupRequest JoinGroupResponse,
    Heartbeat HeartbeatRequest HeartbeatResponse,
    LeaveGroup LeaveGroupRequest LeaveGroupResponse,
    SyncGroup SyncGroupRequest SyncGroupResponse,
    DescribeGroups DescribeGroupsRequest DescribeGroupsResponse,
    ListGroups ListGroupsRequest ListGroupsResponse,
    SaslHandshake SaslHandshakeRequest SaslHandshakeResponse,
    ApiVersions ApiVersionsRequest ApiVersionsResponse,
    CreateTopics CreateTopicsRequest CreateTopicsResponse,
    DeleteTopics DeleteTopicsRequest DeleteTopicsResponse,
    DeleteRecords DeleteRecordsRequest DeleteRecordsResponse,
    InitProducerId InitProducerIdRequest InitProducerIdResponse,
    OffsetForLeaderEpoch OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse,
    AddPartitionsToTxn AddPartitionsToTxnRequest AddPartitionsToTxnResponse,
    AddOffsetsToTxn AddOffsetsToTxnRequest AddOffsetsToTxnResponse,
    EndTxn EndTxnRequest EndTxnResponse,
    WriteTxnMarkers WriteTxnMarkersRequest WriteTxnMarkersResponse,
    TxnOffsetCommit TxnOffsetCommitRequest TxnOffsetCommitResponse,
    DescribeAcls DescribeAclsRequest DescribeAclsResponse,
    CreateAcls CreateAclsRequest CreateAclsResponse,
    DeleteAcls DeleteAclsRequest DeleteAclsResponse,
    DescribeConfigs DescribeConfigsRequest DescribeConfigsResponse,
    AlterConfigs AlterConfigsRequest AlterConfigsResponse,
    AlterReplicaLogDirs AlterReplicaLogDirsRequest AlterReplicaLogDirsResponse,
    DescribeLogDirs DescribeLogDirsRequest DescribeLogDirsResponse,
    SaslAuthenticate SaslAuthenticateRequest SaslAuthenticateResponse,
    CreatePartitions CreatePartitionsRequest CreatePartitionsResponse,
    CreateDelegationToken CreateDelegationTokenRequest CreateDelegationTokenResponse,
    RenewDelegationToken RenewDelegationTokenRequest RenewDelegationTokenResponse,
    ExpireDelegationToken ExpireDelegationTokenRequest ExpireDelegationTokenResponse,
    DescribeDelegationToken DescribeDelegationTokenRequest DescribeDelegationTokenResponse,
    DeleteGroups DeleteGroupsRequest DeleteGroupsResponse,
    ElectLeaders ElectLeadersRequest ElectLeadersResponse,
    IncrementalAlterConfigs IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse,
    AlterPartitionReassignments AlterPartitionReassignmentsRequest AlterPartitionReassignmentsResponse,
    ListPartitionReassignments ListPartitionReassignmentsRequest ListPartitionReassignmentsResponse,
    OffsetDelete OffsetDeleteRequest OffsetDeleteResponse,
    DescribeClientQuotas DescribeClientQuotasRequest DescribeClientQuotasResponse,
    AlterClientQuotas AlterClientQuotasRequest AlterClientQuotasResponse,
    DescribeUserScramCredentials DescribeUserScramCredentialsRequest DescribeUserScramCredentialsResponse,
    AlterUserScramCredentials AlterUserScramCredentialsRequest AlterUserScramCredentialsResponse,
    DescribeQuorum DescribeQuorumRequest DescribeQuorumResponse,
    UpdateFeatures UpdateFeaturesRequest UpdateFeaturesResponse,
    DescribeCluster DescribeClusterRequest DescribeClusterResponse,
    DescribeProducers DescribeProducersRequest DescribeProducersResponse,
    UnregisterBroker UnregisterBrokerRequest UnregisterBrokerResponse,
    DescribeTransactions DescribeTransactionsRequest DescribeTransactionsResponse,
    ListTransactions ListTransactionsRequest ListTransactionsResponse,
    ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest ConsumerGroupHeartbeatResponse,
    ConsumerGroupDescribe ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse,
    GetTelemetrySubscriptions GetTelemetrySubscriptionsRequest GetTelemetrySubscriptionsResponse,
    PushTelemetry PushTelemetryRequest PushTelemetryResponse,
    ListConfigResources ListConfigResourcesRequest ListConfigResourcesResponse,
    DescribeTopicPartitions DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse,
    ShareGroupHeartbeat ShareGroupHeartbeatRequest ShareGroupHeartbeatResponse,
    ShareGroupDescribe ShareGroupDescribeRequest ShareGroupDescribeResponse,
    ShareFetch ShareFetchRequest ShareFetchResponse,
    ShareAcknowledge ShareAcknowledgeRequest ShareAcknowledgeResponse,
    AddRaftVoter AddRaftVoterRequest AddRaftVoterResponse,
    RemoveRaftVoter RemoveRaftVoterRequest RemoveRaftVoterResponse,
    InitializeShareGroupState InitializeShareGroupStateRequest InitializeShareGroupStateResponse,
    ReadShareGroupState ReadShareGroupStateRequest ReadShareGroupStateResponse,
    WriteShareGroupState WriteShareGroupStateRequest WriteShareGroupStateResponse,
    DeleteShareGroupState DeleteShareGroupStateRequest DeleteShareGroupStateResponse,
    ReadShareGroupStateSummary ReadShareGroupStateSummaryRequest ReadShareGroupStateSummaryResponse,
    DescribeShareGroupOffsets DescribeShareGroupOffsetsRequest DescribeShareGroupOffsetsResponse,
    AlterShareGroupOffsets AlterShareGroupOffsetsRequest AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsets DeleteShareGroupOffsetsRequest DeleteShareGroupOffsetsResponse,
}
