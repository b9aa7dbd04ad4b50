//! Generates the messages of the Kafka protocol from the files in `schema/`, and the records of its internal topics from
//! those in `records/`.
//!
//! Reads nothing outside the package and writes only to the directory that cargo gives.

// The only way to tell cargo what the output depends on.
#![allow(
    clippy::print_stdout,
    reason = "cargo reads the instructions of a build script from its output"
)]

mod emit;
mod emit_records;
mod names;
mod schema;
mod values;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let package = env::var("CARGO_MANIFEST_DIR")?;
    let output = env::var("OUT_DIR")?;
    println!("cargo::rerun-if-changed=schema");
    println!("cargo::rerun-if-changed=records");
    println!("cargo::rerun-if-changed=build");
    let texts = read_all(&Path::new(&package).join("schema"))?;
    let apis = parse_all(&texts)?;
    fs::write(Path::new(&output).join("messages.rs"), emit::messages(&apis)?)?;
    fs::write(Path::new(&output).join("api_keys.rs"), emit::api_keys(&apis))?;
    let record_texts = read_all(&Path::new(&package).join("records"))?;
    fs::write(
        Path::new(&output).join("internal.rs"),
        emit_records::records(&parse_records(&record_texts)?),
    )?;
    fs::write(
        Path::new(&output).join("schema_texts.rs"),
        emit::schema_texts("SCHEMA_TEXTS", &texts) + &emit::schema_texts("RECORD_TEXTS", &record_texts),
    )?;
    Ok(())
}

/// The text of every schema file, by the file's name.
fn read_all(directory: &Path) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "schema") {
            texts.insert(path.display().to_string(), fs::read_to_string(&path)?);
        }
    }
    Ok(texts)
}

/// Every API, in the order of the keys.
fn parse_all(texts: &BTreeMap<String, String>) -> Result<Vec<schema::Api>, Box<dyn Error>> {
    let mut apis = Vec::new();
    for (name, text) in texts {
        apis.push(schema::parse(text).map_err(|e| format!("{name}: {e}"))?);
    }
    apis.sort_by_key(|api| api.key);
    for pair in apis.windows(2) {
        if pair[0].key == pair[1].key {
            return Err(format!("{} and {} have the same key", pair[0].name, pair[1].name).into());
        }
    }
    Ok(apis)
}

/// Every kind of record.
fn parse_records(texts: &BTreeMap<String, String>) -> Result<Vec<schema::RecordKind>, Box<dyn Error>> {
    let parse = |(name, text): (&String, &String)| {
        schema::parse_record(text).map_err(|e| format!("{name}: {e}").into())
    };
    texts.iter().map(parse).collect()
}
