//! Types of values, and how text becomes one. The rules are those of Kafka's parser, so that a value it
//! takes is taken here: surrounding blanks are dropped, `+7` is a number, `TRUE` is a truth value.

use super::decimal::Decimal;

/// The type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueType {
    /// `true` or `false`.
    Boolean,
    /// Any text.
    Text,
    /// A whole number of 32 bits.
    Int,
    /// A whole number of 16 bits.
    Short,
    /// A whole number of 64 bits.
    Long,
    /// A number with a fraction.
    Double,
    /// Texts separated by commas.
    List,
    /// The name of a Java class.
    Class,
    /// A secret.
    Password,
}

impl ValueType {
    /// The type that a table calls by this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "boolean" => Self::Boolean,
            "string" => Self::Text,
            "int" => Self::Int,
            "short" => Self::Short,
            "long" => Self::Long,
            "double" => Self::Double,
            "list" => Self::List,
            "class" => Self::Class,
            "password" => Self::Password,
            _ => return None,
        })
    }

    /// The number that DescribeConfigs carries for this type (D-8).
    pub const fn code(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::Text => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }

    /// What a text must be to be of this type, as the end of a sentence.
    pub(super) const fn article(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Text => "a text",
            Self::Int => "a whole number of 32 bits",
            Self::Short => "a whole number of 16 bits",
            Self::Long => "a whole number of 64 bits",
            Self::Double => "a number",
            Self::List => "a list separated by commas",
            Self::Class => "the name of a class",
            Self::Password => "a secret",
        }
    }

    /// What `text` means as a value of this type; `None` when it is not of the type.
    pub fn parse(self, text: &str) -> Option<Value> {
        let text = text.trim_matches(|c: char| c <= ' ');
        Some(match self {
            Self::Boolean if text.eq_ignore_ascii_case("true") => Value::Boolean(true),
            Self::Boolean if text.eq_ignore_ascii_case("false") => Value::Boolean(false),
            Self::Boolean => return None,
            Self::Text | Self::Class | Self::Password => Value::Text(text.to_owned()),
            Self::Short => Value::Integer(text.parse::<i16>().ok()?.into()),
            Self::Int => Value::Integer(text.parse::<i32>().ok()?.into()),
            Self::Long => Value::Integer(text.parse().ok()?),
            Self::Double => Value::Double(Decimal::parse(text)?),
            Self::List => Value::List(items(text)),
        })
    }
}

/// The entries of a list, in order, each once: Kafka drops repetitions (seen with `delete,delete`).
fn items(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    if text.is_empty() {
        return found;
    }
    for item in text.split(',').map(str::trim) {
        if !found.iter().any(|known| known == item) {
            found.push(item.to_owned());
        }
    }
    found
}

/// A value of a key, or its absence (Kafka's null).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing is set and there is no default.
    Absent,
    /// A truth value.
    Boolean(bool),
    /// A whole number, within the bits of the key's type.
    Integer(i64),
    /// A number with a fraction.
    Double(Decimal),
    /// A text, a class name or a secret.
    Text(String),
    /// The entries of a list.
    List(Vec<String>),
}

impl Value {
    /// The value as Kafka writes it in DescribeConfigs (R2.8: parsed, not as given).
    pub fn text(&self) -> Option<String> {
        Some(match self {
            Self::Absent => return None,
            Self::Boolean(truth) => truth.to_string(),
            Self::Integer(number) => number.to_string(),
            Self::Double(number) => number.text(),
            Self::Text(text) => text.clone(),
            Self::List(items) => items.join(","),
        })
    }

    /// The whole number, if it is one.
    pub const fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }
}
