//! Bytes between our own processes: the gRPC contracts, their generated code, and conversions to and from the types of
//! `metadata`.
//!
//! Protobuf types stop at the services that speak them. Never here: decisions, Kafka's wire protocol.

pub mod convert;

/// Generated from `proto/*.proto`; the comments there are the documentation.
#[allow(missing_docs, clippy::all, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("millrace.v1");
}

/// What all messages can do: so that who sends one can ask for its size.
pub use prost::Message;
