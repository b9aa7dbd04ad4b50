//! The stored shapes, version 1 of each. A field is never renumbered and never changes its meaning.

use bytes::Bytes;
use prost::Message;

use super::Encoded;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Batch {
    #[prost(uint64, tag = "1")]
    pub decided_in_term: u64,
    #[prost(int64, tag = "2")]
    pub base_offset: i64,
    #[prost(message, optional, tag = "3")]
    pub provenance: Option<Provenance>,
    #[prost(message, repeated, tag = "4")]
    pub records: Vec<Stored>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Provenance {
    #[prost(string, tag = "1")]
    pub actor: String,
    #[prost(string, tag = "2")]
    pub client_id: String,
    #[prost(string, tag = "3")]
    pub request_id: String,
    #[prost(int64, tag = "4")]
    pub wall_time_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Stored {
    #[prost(uint32, tag = "1")]
    pub record_type: u32,
    #[prost(uint32, tag = "2")]
    pub version: u32,
    #[prost(bytes = "bytes", tag = "3")]
    pub bytes: Bytes,
}

impl From<Encoded> for Stored {
    fn from(encoded: Encoded) -> Self {
        let Encoded {
            record_type,
            version,
            bytes,
        } = encoded;
        Self {
            record_type,
            version,
            bytes,
        }
    }
}

impl From<Stored> for Encoded {
    fn from(stored: Stored) -> Self {
        let Stored {
            record_type,
            version,
            bytes,
        } = stored;
        Self {
            record_type,
            version,
            bytes,
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Endpoint {
    #[prost(string, tag = "1")]
    pub listener: String,
    #[prost(string, tag = "2")]
    pub host: String,
    #[prost(uint32, tag = "3")]
    pub port: u32,
    #[prost(uint32, tag = "4")]
    pub security: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Feature {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "2")]
    pub min: i32,
    #[prost(int32, tag = "3")]
    pub max: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BrokerRegistered {
    #[prost(int32, tag = "1")]
    pub broker: i32,
    #[prost(int64, tag = "2")]
    pub epoch: i64,
    #[prost(int64, optional, tag = "3")]
    pub registered_at: Option<i64>,
    #[prost(bytes = "bytes", tag = "4")]
    pub incarnation: Bytes,
    #[prost(message, repeated, tag = "5")]
    pub endpoints: Vec<Endpoint>,
    #[prost(message, repeated, tag = "6")]
    pub features: Vec<Feature>,
    #[prost(string, optional, tag = "7")]
    pub rack: Option<String>,
    /// Sixteen bytes each, one after the other.
    #[prost(bytes = "bytes", tag = "8")]
    pub directories: Bytes,
    #[prost(bool, tag = "9")]
    pub fenced: bool,
    #[prost(bool, tag = "10")]
    pub in_controlled_shutdown: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BrokerRegistrationChanged {
    #[prost(int32, tag = "1")]
    pub broker: i32,
    #[prost(int64, tag = "2")]
    pub epoch: i64,
    #[prost(bool, optional, tag = "3")]
    pub fenced: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub in_controlled_shutdown: Option<bool>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub directories: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BrokerUnregistered {
    #[prost(int32, tag = "1")]
    pub broker: i32,
    #[prost(int64, tag = "2")]
    pub epoch: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TopicCreated {
    #[prost(bytes = "bytes", tag = "1")]
    pub topic: Bytes,
    #[prost(string, tag = "2")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TopicDeleted {
    #[prost(bytes = "bytes", tag = "1")]
    pub topic: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PartitionCreated {
    #[prost(bytes = "bytes", tag = "1")]
    pub topic: Bytes,
    #[prost(int32, tag = "2")]
    pub index: i32,
    #[prost(int32, repeated, tag = "3")]
    pub replicas: Vec<i32>,
    #[prost(bytes = "bytes", tag = "4")]
    pub directories: Bytes,
    #[prost(int32, repeated, tag = "5")]
    pub in_sync: Vec<i32>,
    #[prost(int32, repeated, tag = "6")]
    pub eligible: Vec<i32>,
    #[prost(int32, optional, tag = "7")]
    pub last_known_leader: Option<i32>,
    #[prost(int32, repeated, tag = "8")]
    pub adding: Vec<i32>,
    #[prost(int32, repeated, tag = "9")]
    pub removing: Vec<i32>,
    #[prost(int32, optional, tag = "10")]
    pub leader: Option<i32>,
    #[prost(uint32, tag = "11")]
    pub recovery: u32,
    #[prost(int32, tag = "12")]
    pub leader_epoch: i32,
    #[prost(int32, tag = "13")]
    pub epoch: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Brokers {
    #[prost(int32, repeated, tag = "1")]
    pub ids: Vec<i32>,
}

/// A broker, or nobody when the field is absent.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BrokerOrNobody {
    #[prost(int32, optional, tag = "1")]
    pub id: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PartitionChanged {
    #[prost(bytes = "bytes", tag = "1")]
    pub topic: Bytes,
    #[prost(int32, tag = "2")]
    pub index: i32,
    #[prost(message, optional, tag = "3")]
    pub in_sync: Option<Brokers>,
    #[prost(message, optional, tag = "4")]
    pub leader: Option<BrokerOrNobody>,
    #[prost(message, optional, tag = "5")]
    pub eligible: Option<Brokers>,
    #[prost(message, optional, tag = "6")]
    pub last_known_leader: Option<BrokerOrNobody>,
    #[prost(message, optional, tag = "7")]
    pub replicas: Option<Brokers>,
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub directories: Option<Bytes>,
    #[prost(message, optional, tag = "9")]
    pub adding: Option<Brokers>,
    #[prost(message, optional, tag = "10")]
    pub removing: Option<Brokers>,
    #[prost(uint32, optional, tag = "11")]
    pub recovery: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ConfigChanged {
    /// 2 topic, 4 broker (every broker when `broker` is absent), 16 client metrics, 32 group: Kafka's numbers.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(int32, optional, tag = "3")]
    pub broker: Option<i32>,
    #[prost(string, tag = "4")]
    pub key: String,
    #[prost(string, optional, tag = "5")]
    pub value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FeatureLevelSet {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "2")]
    pub level: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProducerIdsAllocated {
    #[prost(int32, tag = "1")]
    pub broker: i32,
    #[prost(int64, tag = "2")]
    pub broker_epoch: i64,
    #[prost(int64, tag = "3")]
    pub next: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EligibleReplicasCleared {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub topic: Option<Bytes>,
}
