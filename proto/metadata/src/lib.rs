//! What the cluster *is*, and how a record changes it: ids, records, image, delta, configuration catalogue and
//! feature levels.
//!
//! Pure. Never here: IO, clocks, entropy, threads, async, hash order, Kafka wire types, gRPC types.

pub mod batch;
pub mod config;
pub mod ids;
pub mod image;
pub mod record;
pub mod uuid;
