//! What a field is in Rust: its type, its default, and the expressions that read and write it.
//!
//! Names only the methods of `Reader` and `Writer`; how structs are laid out is `emit`'s subject.

use crate::names;
use crate::schema::{Field, Item, Message, Versions};

/// The type of a field.
pub fn rust_type(field: &Field) -> String {
    let item = item_type(&field.item);
    let whole = if field.array { format!("Vec<{item}>") } else { item };
    if is_option(field) {
        format!("Option<{whole}>")
    } else {
        whole
    }
}

/// A null is `None`, except for records, whose own type has it.
fn is_option(field: &Field) -> bool {
    field.nullable.is_some() && field.item != Item::Records
}

fn item_type(item: &Item) -> String {
    match item {
        Item::Bool => "bool",
        Item::Int8 => "i8",
        Item::Int16 => "i16",
        Item::Int32 => "i32",
        Item::Int64 => "i64",
        Item::Uint16 => "u16",
        Item::Float64 => "f64",
        Item::Error => "ErrorCode",
        Item::Uuid => "Uuid",
        Item::String => "String",
        Item::Bytes => "Bytes",
        Item::Records => "Records",
        Item::Struct(name) => name,
    }
    .to_string()
}

/// The default as an expression, or nothing where `Default::default()` of the type is it.
pub fn default(field: &Field) -> Option<String> {
    match (field.default.as_deref(), is_option(field)) {
        (Some("null"), _) => None,
        (Some(text), false) if field.item == Item::Error => Some(format!("ErrorCode({text})")),
        (Some(text), false) => Some(text.to_string()),
        (Some(text), true) => Some(format!("Some({text})")),
        (None, true) => Some("Some(Default::default())".to_string()),
        (None, false) => None,
    }
}

/// Whether the field holds something else than its default: a tagged field is only then written.
pub fn differs_from_default(field: &Field) -> String {
    let place = format!("self.{}", names::field(&field.name));
    match (default(field), is_option(field)) {
        (None, true) => format!("{place}.is_some()"),
        (None, false) if field.array => format!("!{place}.is_empty()"),
        (None, false) if field.item == Item::Bool => place,
        (None, false) => format!("{place} != Default::default()"),
        (Some(value), _) => format!("{place} != {value}"),
    }
}

/// The condition under which `range` holds, given that the version is one of `message`'s; nothing when it always does.
pub fn condition(range: Versions, message: Versions) -> Option<String> {
    if range.covers(message) {
        return None;
    }
    if range.first == range.last {
        return Some(format!("v == {}", range.first));
    }
    let above = (range.first > message.first).then(|| format!("v >= {}", range.first));
    let below = (range.last < message.last).then(|| format!("v <= {}", range.last));
    match (above, below) {
        (Some(above), Some(_)) => Some(format!("{above} && v <= {}", range.last)),
        (above, below) => above.or(below),
    }
}

/// Reads the field from `r`.
pub fn read(field: &Field, message: &Message) -> String {
    let name = &field.name;
    let null = null_condition(field, message);
    if field.array {
        let item = read_item(&field.item, name);
        return match null {
            Some(null) => format!("r.array_or_null(\"{name}\", flex, {null}, |r| {item})?"),
            None => format!("r.array(\"{name}\", flex, |r| {item})?"),
        };
    }
    match (&field.item, null) {
        (Item::String, Some(null)) => format!("r.string_or_null(\"{name}\", flex, {null})?"),
        (Item::Struct(of), Some(null)) => {
            format!("r.struct_or_null(\"{name}\", {null}, |r| {of}::read(v, r))?")
        }
        (item, _) => format!("{}?", read_item(item, name)),
    }
}

fn read_item(item: &Item, name: &str) -> String {
    match item {
        Item::Bool => format!("r.bool(\"{name}\")"),
        Item::Int8 => format!("r.i8(\"{name}\")"),
        Item::Int16 => format!("r.i16(\"{name}\")"),
        Item::Int32 => format!("r.i32(\"{name}\")"),
        Item::Int64 => format!("r.i64(\"{name}\")"),
        Item::Uint16 => format!("r.u16(\"{name}\")"),
        Item::Float64 => format!("r.f64(\"{name}\")"),
        Item::Error => format!("r.error_code(\"{name}\")"),
        Item::Uuid => format!("r.uuid(\"{name}\")"),
        Item::String => format!("r.string(\"{name}\", flex)"),
        Item::Bytes => format!("r.bytes(\"{name}\", flex)"),
        Item::Records => format!("r.records(\"{name}\", flex)"),
        Item::Struct(of) => format!("{of}::read(v, r)"),
    }
}

/// Writes the field to `w`.
pub fn write(field: &Field, message: &Message) -> String {
    let name = &field.name;
    let place = format!("self.{}", names::field(name));
    let null = null_condition(field, message);
    if field.array {
        let item = write_item(&field.item, name, "item", Place::Borrowed);
        return match null {
            Some(null) => format!("w.array_or_null(\"{name}\", flex, {null}, &{place}, |w, item| {item})"),
            None => format!("w.array(\"{name}\", flex, &{place}, |w, item| {item})"),
        };
    }
    match (&field.item, null) {
        (Item::String, Some(null)) => format!("w.string_or_null(\"{name}\", flex, {null}, &{place})"),
        (Item::Struct(_), Some(null)) => {
            format!("w.struct_or_null(\"{name}\", {null}, &{place}, |w, item| item.write(v, w))")
        }
        (item, _) => write_item(item, name, &place, Place::Owned),
    }
}

/// Whether a place expression is the value or a reference to it.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Owned,
    Borrowed,
}

/// Writes one value.
fn write_item(item: &Item, name: &str, place: &str, kind: Place) -> String {
    let (value, reference) = match kind {
        Place::Borrowed => (format!("*{place}"), place.to_string()),
        Place::Owned => (place.to_string(), format!("&{place}")),
    };
    match item {
        Item::Bool => format!("w.bool({value})"),
        Item::Int8 => format!("w.i8({value})"),
        Item::Int16 => format!("w.i16({value})"),
        Item::Int32 => format!("w.i32({value})"),
        Item::Int64 => format!("w.i64({value})"),
        Item::Uint16 => format!("w.u16({value})"),
        Item::Float64 => format!("w.f64({value})"),
        Item::Error => format!("w.error_code({value})"),
        Item::Uuid => format!("w.uuid({reference})"),
        Item::String => format!("w.string(\"{name}\", flex, {reference})"),
        Item::Bytes => format!("w.bytes(\"{name}\", flex, {reference})"),
        Item::Records => format!("w.records(\"{name}\", flex, {reference})"),
        Item::Struct(_) => format!("{place}.write(v, w)"),
    }
}

/// Where the field may be null, as an expression; nothing where it never may.
fn null_condition(field: &Field, message: &Message) -> Option<String> {
    let nullable = field.nullable?;
    if nullable.covers(field.versions) {
        return Some("true".to_string());
    }
    Some(condition(nullable, message.versions).unwrap_or_else(|| "true".to_string()))
}
