//! The data plane's decisions: replicas, in-sync sets, watermarks, waiters, fetching, following the metadata, groups,
//! the broker's life and the order of answers on a connection.
//!
//! Every module is a step machine or a pure decision: something happened, so this must be done. The shell carries the
//! effects out and reports back. Pure. Never here: IO, clocks, entropy, threads, async, hash order, floats, Kafka's
//! wire types and error codes, the log's types, gRPC types. Time enters as [`time::Moment`], chance as an argument.

pub mod fetch;
pub mod fetcher;
pub mod follow;
pub mod group;
pub mod hints;
pub mod lanes;
pub mod lifecycle;
pub mod mutants;
pub mod names;
pub mod offsets;
pub mod pipeline;
pub mod produce;
pub mod producer_ids;
pub mod proposals;
pub mod replica;
pub mod session;
#[cfg(test)]
mod testing;
pub mod time;
