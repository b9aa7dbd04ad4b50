//! The controller from outside: transcripts, the rows of the rules, laws over random histories.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod directories;
mod driver;
mod laws;
mod registration;
mod script;
mod topics;
mod world;
