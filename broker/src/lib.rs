//! The broker: sockets, lanes and files around the decisions of `broker-core`, the log and the wire.
//!
//! A shell: it carries out. What must never be in it: a decision that the simulator should judge, anything of the
//! controller, Kafka's bytes beyond the handlers, protobuf beyond `controllers` and `replication`.

mod checkpoints;
mod controllers;
mod coordinator;
mod errors;
mod essential;
mod handlers;
pub mod log_level;
mod metrics;
mod net;
mod node;
mod producer_ids;
mod repeated;
mod replication;
pub mod run;
mod seam;
mod sessions;
mod stop;
mod storage;
