//! The control plane's decisions: commands become records, or are refused; and the rules by which a controller
//! leads, proposes, answers and steps down, as a step machine.
//!
//! Reading order: [`command`] and [`refusal`] (the contract), [`settings`], [`driver`] (the machine around the
//! decisions).
//!
//! Pure. Never here: openraft, gRPC types, Kafka's wire, clocks, entropy, threads, async, logging. Time comes in as a
//! [`time::Moment`], entropy as part of a command, and everything that happened is returned.

pub mod alter_configs;
pub mod alter_partition;
mod chance;
pub mod command;
pub mod decision;
pub mod departure;
mod directories;
pub mod driver;
pub mod elect_leaders;
pub mod election;
pub mod feed;
mod grace;
pub mod heartbeat;
pub mod liveness;
pub mod mutants;
pub mod partitions;
pub mod placement;
pub mod producer_ids;
pub mod refusal;
pub mod registration;
pub mod rules;
pub mod settings;
pub mod time;
mod topic_names;
pub mod topics;
