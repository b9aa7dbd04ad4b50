//! The control plane's decisions: commands become records, or are refused; and the rules by which a controller
//! leads, proposes, answers and steps down, as a step machine.
//!
//! Reading order: [`command`] and [`refusal`] (the contract), [`settings`], [`driver`] (the machine around the
//! decisions).
//!
//! Pure. Never here: openraft, gRPC types, Kafka's wire, clocks, entropy, threads, async, logging. Time comes in as a
//! [`time::Moment`], entropy as part of a command, and everything that happened is returned.

pub mod command;
pub mod driver;
pub mod refusal;
pub mod settings;
pub mod time;
