//! What the cluster *is*, and how a record changes it: ids, records, image, delta, configuration catalogue and
//! feature levels.
//!
//! Reading order: [`record`] (what is said), [`image`] (what it adds up to), [`replay`] (how), [`batch`] and
//! [`codec`] (how it is carried), [`dump`] and [`delta`] (how it is handed on).
//!
//! Pure. Never here: IO, clocks, entropy, threads, async, hash order, Kafka wire types, gRPC types.

pub mod batch;
pub mod codec;
pub mod config;
pub mod delta;
pub mod dump;
pub mod feature;
pub mod ids;
pub mod image;
pub mod lookup;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod planted;
pub mod record;
pub mod replay;
pub mod uuid;
