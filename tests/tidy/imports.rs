//! Which package may import which, as the design's table says. It must follow the design, never the code.

use crate::source::{Tree, lines_with};

/// Folder, package, and the packages of ours that it may import in what it ships.
const TABLE: &[(&str, &str, &[&str])] = &[
    ("proto/metadata", "metadata", &[]),
    ("proto/host", "host", &[]),
    ("proto/observe", "observe", &["host"]),
    ("proto", "millrace-proto", &["metadata"]),
    ("controller/core", "controller-core", &["metadata"]),
    (
        "controller",
        "controller",
        &["metadata", "host", "observe", "millrace-proto", "controller-core"],
    ),
    ("broker/wire", "wire", &[]),
    ("broker/log", "partition-log", &["host", "wire"]),
    ("broker/core", "broker-core", &["metadata"]),
    (
        "broker",
        "broker",
        &[
            "millrace-proto",
            "metadata",
            "host",
            "observe",
            "wire",
            "partition-log",
            "broker-core",
        ],
    ),
    // `millrace log dump` reads segments where no broker runs; one reader of the format is enough.
    (
        "deploy",
        "millrace",
        &["millrace-proto", "metadata", "host", "wire", "partition-log"],
    ),
    (
        "tests/sim",
        "sim",
        &[
            "metadata",
            "controller-core",
            "broker-core",
            "partition-log",
            "host",
            "wire",
        ],
    ),
];

/// What a pure crate may take from others: data structures, bytes and error derivation.
const FOREIGN_TO_PURE: &[&str] = &["bytes", "imbl", "prost", "smallvec", "thiserror"];
const PURE: &[&str] = &["proto/metadata", "controller/core", "broker/core"];

/// Complaints about imports that the table does not have.
pub fn outside_the_table(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree
        .files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"))
    {
        let folder = file.path.trim_end_matches("/Cargo.toml");
        let Some((_, name, allowed)) = TABLE.iter().find(|(place, ..)| *place == folder) else {
            if folder != "tests" {
                complaints.push(format!("{}: no row in the design's table", file.path));
            }
            continue;
        };
        for dependency in shipped_dependencies(&file.text) {
            let ours = TABLE.iter().any(|(_, package, _)| *package == dependency) || dependency == "tests";
            if ours && !allowed.contains(&dependency.as_str()) {
                complaints.push(format!("{}: {name} must not import {dependency}", file.path));
            }
            if !ours && PURE.contains(&folder) && !FOREIGN_TO_PURE.contains(&dependency.as_str()) {
                complaints.push(format!(
                    "{}: {name} is pure and must not import {dependency}",
                    file.path
                ));
            }
        }
    }
    complaints
}

/// Complaints about protobuf named outside the crates that own encodings of ours.
pub fn protobuf_outside_its_crates(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.rust_below(&["broker/", "deploy/", "controller/core/", "tests/"]) {
        for line in lines_with(&file.code, "prost") {
            complaints.push(format!(
                "{}:{line}: protobuf stops at the contract folder",
                file.path
            ));
        }
    }
    complaints
}

/// Names under `[dependencies]`, also those of one target.
fn shipped_dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside =
                line == "[dependencies]" || line.starts_with("[target.") && line.ends_with(".dependencies]");
            if let Some(name) = line.strip_prefix("[dependencies.") {
                names.push(name.trim_end_matches(']').to_owned());
            }
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            names.push(line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned());
        }
    }
    names
}
