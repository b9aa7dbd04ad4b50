//! The simulator: a whole cluster from one seed. Controllers and brokers are the shipped step machines over a simulated
//! replicated log and simulated disks, in virtual time, over a hostile network; judges watch.
//!
//! Must never: hold cluster logic of its own. Processes here carry effects out, as the shells do; what must be judged
//! lives in the pure crates.

pub mod agenda;
pub mod broker;
pub mod chance;
pub mod client;
pub mod controller;
pub mod corpus;
pub mod digest;
pub mod fact;
pub mod hunt;
pub mod invariants;
pub mod marks;
pub mod message;
pub mod mutants;
pub mod network;
pub mod node;
pub mod oracle;
pub mod plan;
pub mod quorum;
pub mod run;
pub mod setup;
pub mod streams;
pub mod world;
