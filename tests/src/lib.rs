//! The harness: real processes, real clients, cuts, load, and the oracle that judges what they did.
//!
//! Shared by the end-to-end tests and by `cargo show`. It starts, breaks, asks and compares; it must never
//! contain logic of the cluster, and nothing that ships may depend on it.

pub mod ask;
pub mod binaries;
pub mod cases;
pub mod clients;
pub mod cluster;
pub mod conformance;
pub mod dump;
pub mod kafka;
pub mod load;
pub mod members;
pub mod process;
pub mod quorum;
pub mod raw;
pub mod show;
pub mod siege;
pub mod wait;
pub mod watch;

pub use sim::oracle;
