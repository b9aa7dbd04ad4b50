//! The broker as a process, with a controller that stands in for the quorum: what goes over its sockets.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod beginning;
mod fake_controller;
mod frames;
mod harness;
mod metrics;
