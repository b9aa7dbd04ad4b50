//! Lays the generated code out: one module per API, one Rust struct per message and nested struct.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::names;
use crate::schema::{Api, Field, Message, Versions};
use crate::values;

/// `messages.rs`: all APIs.
pub fn messages(apis: &[Api]) -> Result<String, String> {
    let mut out = String::new();
    for api in apis {
        if api.request.flexible != api.response.flexible || api.request.versions != api.response.versions {
            return Err(format!(
                "{}: request and response differ in their versions",
                api.name
            ));
        }
        module(&mut out, api);
    }
    Ok(out)
}

/// `api_keys.rs`: one line per API for the macro that defines `ApiKey`, and a macro that visits all of them.
pub fn api_keys(apis: &[Api]) -> String {
    let mut keys = String::from("api_keys! {\n");
    let mut visit = String::from(
        "/// Calls the macro `$visit` once for every API, as `$visit!(Name, NameRequest, NameResponse);`.\n\
         #[macro_export]\nmacro_rules! for_each_api {\n    ($visit:ident) => {\n",
    );
    for api in apis {
        let (name, range) = (&api.name, api.request.versions);
        let flexible = api
            .request
            .flexible
            .map_or("None".to_string(), |first| format!("Some({first})"));
        // Writing to a String cannot fail.
        let _ = writeln!(
            keys,
            "    {name} = {}, {}..={}, {flexible};",
            api.key, range.first, range.last
        );
        let module = names::snake(name);
        let _ = writeln!(
            visit,
            "        $visit!({name}, $crate::messages::{module}::{name}Request, $crate::messages::{module}::{name}Response);"
        );
    }
    keys.push_str("}\n");
    visit.push_str("    };\n}\n");
    keys + &visit
}

/// `schema_texts.rs`: the schema files themselves, from which the tests make messages of their own.
pub fn schema_texts(name: &str, texts: &BTreeMap<String, String>) -> String {
    let list: String = texts.values().map(|text| format!("    {text:?},\n")).collect();
    format!("/// The schema files.\npub const {name}: &[&str] = &[\n{list}];\n")
}

fn module(out: &mut String, api: &Api) {
    let name = &api.name;
    let module = names::snake(name);
    let _ = writeln!(
        out,
        "/// The request and the response of {name}, key {}.\npub mod {module} {{",
        api.key
    );
    out.push_str("use super::generated::*;\n");
    for (side, message) in [("Request", &api.request), ("Response", &api.response)] {
        let top = format!("{name}{side}");
        let doc = format!(
            "The {} of {name}, {}.",
            side.to_lowercase(),
            versions_text(message.versions)
        );
        structure(out, &top, &doc, &message.fields, message);
        let _ = writeln!(
            out,
            "impl Message for {top} {{\n const NAME: &'static str = \"{top}\";\n\
             fn decode(version: ApiVersion, r: &mut Reader) -> Result<Self, DecodeError> {{\n\
             r.begin(Self::NAME, ApiKey::{name}, version)?;\n Self::read(version.0, r) }}\n\
             fn encode(&self, version: ApiVersion, w: &mut Writer) {{\n\
             if w.begin(Self::NAME, ApiKey::{name}, version) {{ self.write(version.0, w); }} }}\n}}"
        );
        for nested in &message.defined {
            let doc = format!("A part of [`{top}`].");
            structure(out, nested, &doc, &message.structs[nested], message);
        }
    }
    let _ = writeln!(
        out,
        "impl Request for {name}Request {{\n const KEY: ApiKey = ApiKey::{name};\n type Response = {name}Response;\n}}\n}}"
    );
    let _ = writeln!(out, "pub use {module}::{{{name}Request, {name}Response}};");
}

/// A struct with what reads and writes it.
pub fn structure(out: &mut String, name: &str, doc: &str, fields: &[Field], message: &Message) {
    let own_defaults = fields.iter().any(|field| values::default(field).is_some());
    let derive = if own_defaults { "" } else { ", Default" };
    let _ = writeln!(
        out,
        "/// {doc}\n#[derive(Debug, Clone, PartialEq{derive})]\npub struct {name} {{"
    );
    for field in fields {
        let _ = writeln!(
            out,
            "/// {}\npub {}: {},",
            field_text(field, message),
            names::field(&field.name),
            values::rust_type(field)
        );
    }
    out.push_str("}\n");
    if own_defaults {
        let _ = writeln!(
            out,
            "impl Default for {name} {{\nfn default() -> Self {{\nSelf {{"
        );
        for field in fields {
            let value = values::default(field).unwrap_or_else(|| "Default::default()".to_string());
            let _ = writeln!(out, "{}: {value},", names::field(&field.name));
        }
        out.push_str("}\n}\n}\n");
    }
    let _ = writeln!(out, "impl {name} {{");
    read(out, fields, message);
    write(out, fields, message);
    out.push_str("}\n");
}

fn read(out: &mut String, fields: &[Field], message: &Message) {
    out.push_str("fn read(v: i16, r: &mut Reader) -> Result<Self, DecodeError> {\n");
    let _ = writeln!(out, "let flex = {};", flexible(message));
    out.push_str("let mut m = Self::default();\n");
    for field in fields.iter().filter(|field| field.tag.is_none()) {
        let assign = format!(
            "m.{} = {};",
            names::field(&field.name),
            values::read(field, message)
        );
        guarded(out, values::condition(field.versions, message.versions), &assign);
    }
    let mut arms = String::new();
    for field in fields {
        if let Some(tag) = field.tag {
            let guard = values::condition(field.versions, message.versions);
            let guard = guard.map_or(String::new(), |guard| format!(" if {guard}"));
            let value = values::read(field, message);
            let _ = writeln!(
                arms,
                "{tag}{guard} => {{ m.{} = {value}; }}",
                names::field(&field.name)
            );
        }
    }
    match (message.flexible, arms.is_empty()) {
        (None, _) => {}
        (Some(_), true) => out.push_str("if flex { r.skip_tagged()?; }\n"),
        (Some(_), false) => {
            let _ = writeln!(
                out,
                "if flex {{ r.tagged(|tag, r| {{ match tag {{\n{arms}_ => return Ok(Tag::Unknown),\n}}\nOk(Tag::Known) }})?; }}"
            );
        }
    }
    out.push_str("Ok(m)\n}\n");
}

fn write(out: &mut String, fields: &[Field], message: &Message) {
    out.push_str("fn write(&self, v: i16, w: &mut Writer) {\n");
    let _ = writeln!(out, "let flex = {};", flexible(message));
    for field in fields.iter().filter(|field| field.tag.is_none()) {
        let statement = format!("{};", values::write(field, message));
        guarded(
            out,
            values::condition(field.versions, message.versions),
            &statement,
        );
    }
    if message.flexible.is_some() {
        write_tagged(out, fields, message);
    }
    out.push_str("}\n");
}

fn write_tagged(out: &mut String, fields: &[Field], message: &Message) {
    let mut tagged: Vec<(u32, &Field)> = fields.iter().filter_map(|f| Some((f.tag?, f))).collect();
    tagged.sort_by_key(|(tag, _)| *tag);
    out.push_str("if flex {\n");
    let mut count = String::from("0");
    for (tag, field) in &tagged {
        let mut present = values::differs_from_default(field);
        if let Some(exists) = values::condition(field.versions, message.versions) {
            present = format!("{exists} && {present}");
        }
        let _ = writeln!(out, "let tag{tag} = {present};");
        let _ = write!(count, " + u32::from(tag{tag})");
    }
    let _ = writeln!(out, "w.unsigned_varint({count});");
    for (tag, field) in &tagged {
        let _ = writeln!(
            out,
            "if tag{tag} {{ w.tagged({tag}, |w| {}); }}",
            values::write(field, message)
        );
    }
    out.push_str("}\n");
}

fn guarded(out: &mut String, condition: Option<String>, statement: &str) {
    let _ = match condition {
        Some(condition) => writeln!(out, "if {condition} {{ {statement} }}"),
        None => writeln!(out, "{statement}"),
    };
}

/// Whether version `v` is flexible, as an expression.
fn flexible(message: &Message) -> String {
    match message.flexible {
        None => "false".to_string(),
        Some(first) if first <= message.versions.first => "true".to_string(),
        Some(first) => format!("v >= {first}"),
    }
}

fn field_text(field: &Field, message: &Message) -> String {
    let mut text = format!("`{}`", field.name);
    if !field.versions.covers(message.versions) {
        let _ = write!(text, ", {}", versions_text(field.versions));
    }
    match field.nullable {
        Some(range) if range.covers(field.versions) => text.push_str(", may be null"),
        Some(range) => {
            let _ = write!(text, ", may be null in {}", versions_text(range));
        }
        None => {}
    }
    if let Some(tag) = field.tag {
        let _ = write!(text, ", tag {tag}");
    }
    match field.default.as_deref() {
        Some(default) if default != "null" => {
            let _ = write!(text, ", {default} by default");
        }
        _ => {}
    }
    text + "."
}

/// A range of versions in words.
pub fn versions_text(range: Versions) -> String {
    if range.first == range.last {
        format!("version {}", range.first)
    } else {
        format!("versions {} to {}", range.first, range.last)
    }
}
