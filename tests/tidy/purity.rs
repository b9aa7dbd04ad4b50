//! Who may touch the machine: clocks, entropy, files, threads, async. What only tests contain is free.

use crate::source::{Tree, lines_with};

/// Crates that decide and never do.
const PURE: &[&str] = &["proto/metadata/src", "controller/core/src", "broker/core/src"];

/// Crates without an event loop of their own: the pure ones, and those that answer before they return.
const WITHOUT_ASYNC: &[&str] = &[
    "proto/metadata/src",
    "proto/host/src",
    "controller/core/src",
    "broker/core/src",
    "broker/wire/src",
    "broker/log/src",
];

/// Everything that ships, `host` excepted.
const OUTSIDE_HOST: &[&str] = &[
    "proto/src",
    "proto/metadata/src",
    "proto/observe/src",
    "controller/src",
    "controller/core/src",
    "broker/src",
    "broker/core/src",
    "broker/wire/src",
    "broker/log/src",
    "deploy/src",
];

/// Names that would let the machine, its clock or chance into a decision.
const IMPURE: &[&str] = &[
    "HashMap",
    "HashSet",
    "RandomState",
    "f32",
    "f64",
    "tokio",
    "async",
    "Instant",
    "SystemTime",
    "std::fs",
    "std::io",
    "std::net",
    "std::env",
    "std::thread",
    "std::process",
    "getrandom",
    "rand",
];

/// Files and clocks under each name that reaches them.
const MACHINE: &[&str] = &[
    "std::fs",
    "tokio::fs",
    "Instant::now",
    "SystemTime::now",
    "UNIX_EPOCH",
];

fn named(tree: &Tree, folders: &[&str], names: &[&str], why: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.rust_below(folders) {
        for name in names {
            for line in lines_with(&file.shipped, name) {
                complaints.push(format!("{}:{line}: {name} {why}", file.path));
            }
        }
    }
    complaints
}

/// Complaints about impure names in pure crates, one a line of code.
pub fn impure_names(tree: &Tree) -> Vec<String> {
    let mut complaints = named(tree, PURE, IMPURE, "has no place in a pure crate");
    let place = |complaint: &str| complaint.split(": ").next().unwrap_or_default().to_owned();
    complaints.sort();
    complaints.dedup_by_key(|complaint| place(complaint));
    complaints
}

/// Complaints about `async` outside the shells.
pub fn async_outside_shells(tree: &Tree) -> Vec<String> {
    named(tree, WITHOUT_ASYNC, &["async", ".await"], "belongs to the shells")
}

/// Complaints about files and clocks named outside `host`.
pub fn machine_outside_host(tree: &Tree) -> Vec<String> {
    named(tree, OUTSIDE_HOST, MACHINE, "belongs to host")
}
