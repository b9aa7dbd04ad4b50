//! Random valid messages as bytes, made from the schema files alone: no code of the crate under test has a part in it.

use crate::dice::Dice;
use crate::schema::{Api, Field, Item, Message, RecordKind, Versions, parse, parse_record};

include!(concat!(env!("OUT_DIR"), "/schema_texts.rs"));

/// All APIs.
pub fn apis() -> Vec<Api> {
    SCHEMA_TEXTS.iter().map(|text| parse(text).unwrap()).collect()
}

/// All kinds of records of internal topics.
pub fn record_kinds() -> Vec<RecordKind> {
    RECORD_TEXTS
        .iter()
        .map(|text| parse_record(text).unwrap())
        .collect()
}

/// The bytes of a body in the given version.
pub fn body(message: &Message, version: i16, dice: &mut Dice) -> Vec<u8> {
    let flex = message.flexible.is_some_and(|first| version >= first);
    let mut sampler = Sampler {
        message,
        version,
        flex,
        dice,
        out: Vec::new(),
    };
    sampler.fields(&message.fields, Choice::Random);
    sampler.out
}

/// What to put into fields.
#[derive(Clone, Copy, PartialEq)]
enum Choice {
    Random,
    Default,
}

struct Sampler<'a> {
    message: &'a Message,
    version: i16,
    flex: bool,
    dice: &'a mut Dice,
    out: Vec<u8>,
}

impl Sampler<'_> {
    fn now(&self, range: Versions) -> bool {
        (range.first..=range.last).contains(&self.version)
    }

    fn fields(&mut self, fields: &[Field], choice: Choice) {
        for field in fields {
            if field.tag.is_none() && self.now(field.versions) {
                self.value(field, choice);
            }
        }
        if !self.flex {
            return;
        }
        let mut tagged: Vec<&Field> = match choice {
            Choice::Random => fields
                .iter()
                .filter(|f| f.tag.is_some() && self.now(f.versions))
                .collect(),
            Choice::Default => Vec::new(),
        };
        tagged.sort_by_key(|field| field.tag);
        let mut values = Vec::new();
        for field in tagged {
            let before = std::mem::take(&mut self.out);
            self.value(field, Choice::Random);
            let value = std::mem::take(&mut self.out);
            self.value(field, Choice::Default);
            // A tagged field with its default is left out of the canonical form.
            if std::mem::replace(&mut self.out, before) != value {
                values.push((field.tag.unwrap(), value));
            }
        }
        self.varint(values.len() as u64);
        for (tag, value) in values {
            self.varint(u64::from(tag));
            self.varint(value.len() as u64);
            self.out.extend(value);
        }
    }

    fn value(&mut self, field: &Field, choice: Choice) {
        let may_be_null = field.nullable.is_some_and(|range| self.now(range));
        let null = may_be_null
            && match choice {
                Choice::Random => self.dice.one_in(4),
                Choice::Default => field.default.as_deref() == Some("null"),
            };
        if field.array {
            let count = match choice {
                _ if null => None,
                Choice::Random => Some(self.dice.below(4)),
                Choice::Default => Some(0),
            };
            self.length(count);
            for _ in 0..count.unwrap_or(0) {
                self.item(field, choice);
            }
            return;
        }
        match &field.item {
            Item::Struct(_) if null => self.out.push(0xff),
            Item::String if null && !self.flex => self.out.extend([0xff, 0xff]),
            Item::String | Item::Bytes | Item::Records if null => self.length(None),
            Item::Struct(_) if may_be_null => {
                self.out.push(1);
                self.item(field, choice);
            }
            _ => self.item(field, choice),
        }
    }

    fn item(&mut self, field: &Field, choice: Choice) {
        let random = choice == Choice::Random;
        let default = field.default.as_deref();
        let number = match default {
            _ if random => self.dice.integer() as i64,
            Some(text) if text != "null" && !field.array => text.parse().unwrap_or(0),
            _ => 0,
        };
        match &field.item {
            Item::Bool if random => self.out.push(u8::from(self.dice.one_in(2))),
            Item::Bool => self.out.push(u8::from(default == Some("true"))),
            Item::Int8 => self.out.push(number as u8),
            Item::Int16 | Item::Uint16 | Item::Error => self.out.extend((number as i16).to_be_bytes()),
            Item::Int32 => self.out.extend((number as i32).to_be_bytes()),
            Item::Int64 => self.out.extend(number.to_be_bytes()),
            Item::Float64 => self.out.extend((number as f64 / 3.0).to_be_bytes()),
            Item::Uuid if random => self.out.extend(self.dice.bytes(16)),
            Item::Uuid => self.out.extend([0; 16]),
            Item::String => {
                let text = if random { self.dice.text() } else { String::new() };
                match self.flex {
                    true => self.length(Some(text.len())),
                    false => self.out.extend((text.len() as i16).to_be_bytes()),
                }
                self.out.extend(text.as_bytes());
            }
            Item::Bytes | Item::Records => {
                let size = if random {
                    self.dice.below(3) * self.dice.below(700)
                } else {
                    0
                };
                self.length(Some(size));
                let bytes = self.dice.bytes(size);
                self.out.extend(bytes);
            }
            Item::Struct(name) => {
                let message = self.message;
                self.fields(&message.structs[name], choice);
            }
        }
    }

    fn length(&mut self, length: Option<usize>) {
        match self.flex {
            true => self.varint(length.map_or(0, |length| length as u64 + 1)),
            false => self
                .out
                .extend(length.map_or(-1, |length| length as i32).to_be_bytes()),
        }
    }

    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
