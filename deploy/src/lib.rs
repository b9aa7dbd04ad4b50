//! `millrace`, the operator's command: a cluster on this machine in one line, topics, records, groups, configurations,
//! what state a cluster is in, and how fast it is.
//!
//! It speaks to brokers as any Kafka client does, and to controllers over their own contract only to ask. What must
//! never be in it: decisions of a broker or controller, or a way to change a cluster that clients do not have.

pub mod address;
pub mod args;
pub mod ask;
pub mod bench;
pub mod client;
pub mod cluster;
pub mod config;
pub mod consume;
pub mod coordinator;
pub mod disks;
pub mod group;
pub mod interrupt;
pub mod keys;
pub mod leaderless;
pub mod offsets;
pub mod outcome;
pub mod produce;
pub mod producer_id;
pub mod quorum;
pub mod segment;
pub mod shortage;
pub mod status;
pub mod table;
pub mod terminal;
pub mod topic;
pub mod unserved;
pub mod up;
pub mod waiting;
