//! Short claims about running clusters, each a test that starts what it needs. Long ones are `cargo show path`.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod admin;
mod cli;
mod clients;
mod config;
mod directories;
mod examples;
mod groups;
mod kills;
mod positions;
mod rules;
mod up;
mod upkeep;
mod volumes;
