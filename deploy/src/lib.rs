//! `millrace`, the operator's command: a cluster on this machine in one line, topics, and what state a cluster is in.
//!
//! It speaks to brokers as any Kafka client does, and to controllers over their own contract only to ask. What must
//! never be in it: decisions of a broker or controller, or a way to change a cluster that clients do not have.

pub mod address;
pub mod args;
pub mod ask;
pub mod client;
pub mod keys;
pub mod outcome;
pub mod quorum;
pub mod status;
pub mod table;
pub mod terminal;
pub mod topic;
pub mod up;
