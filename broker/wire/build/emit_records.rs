//! Lays out the records of internal topics: one module per kind, with its key and its value.

use std::fmt::Write;

use crate::emit::{structure, versions_text};
use crate::names;
use crate::schema::{Message, RecordKind};

/// `internal.rs`: all kinds.
pub fn records(kinds: &[RecordKind]) -> String {
    let mut out = String::new();
    for kind in kinds {
        let (name, module) = (&kind.name, names::snake(&kind.name));
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "/// The key and the value of {name}, kind {}.\npub mod {module} {{\nuse super::generated::*;",
            kind.kind
        );
        part(&mut out, &format!("{name}Key"), &kind.key);
        part(&mut out, &format!("{name}Value"), &kind.value);
        let _ = writeln!(
            out,
            "impl RecordKey for {name}Key {{\n const KIND: i16 = {};\n type Value = {name}Value;\n}}\n}}\n\
             pub use {module}::{{{name}Key, {name}Value}};",
            kind.kind
        );
    }
    out
}

fn part(out: &mut String, name: &str, message: &Message) {
    let doc = format!("A part of a record, {}.", versions_text(message.versions));
    structure(out, name, &doc, &message.fields, message);
    let _ = writeln!(
        out,
        "impl RecordPart for {name} {{\n const NAME: &'static str = \"{name}\";\n\
         const VERSIONS: std::ops::RangeInclusive<i16> = {}..={};\n\
         fn read_fields(version: i16, r: &mut Reader) -> Result<Self, DecodeError> {{ Self::read(version, r) }}\n\
         fn write_fields(&self, version: i16, w: &mut Writer) {{ self.write(version, w); }}\n}}",
        message.versions.first, message.versions.last
    );
    for nested in &message.defined {
        let doc = format!("A part of [`{name}`].");
        structure(out, nested, &doc, &message.structs[nested], message);
    }
}
