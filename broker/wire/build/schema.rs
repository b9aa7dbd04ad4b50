//! The schema files: their model and their parser. Knows nothing of Rust code.
//!
//! One file describes one API, or one kind of record. Indentation by two spaces nests the fields of a struct below the field that first
//! uses it; later uses name the struct only. `wire/README.md` explains the notation.

use std::collections::BTreeMap;

/// One API: its key, its name, its two messages.
#[derive(Debug, Clone)]
pub struct Api {
    pub name: String,
    pub key: i16,
    pub request: Message,
    pub response: Message,
}

/// A request or a response.
#[derive(Debug, Clone)]
pub struct Message {
    pub versions: Versions,
    /// The first version with compact lengths and tagged fields.
    pub flexible: Option<i16>,
    pub fields: Vec<Field>,
    /// The nested structs by name, also those that the request has defined and the response uses again.
    pub structs: BTreeMap<String, Vec<Field>>,
    /// Names in the order in which this message defines them.
    pub defined: Vec<String>,
}

/// An inclusive range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    pub first: i16,
    pub last: i16,
}

/// One field of a message or of a nested struct.
#[derive(Debug, Clone)]
pub struct Field {
    /// Kafka's spelling, in camel case.
    pub name: String,
    pub array: bool,
    pub item: Item,
    /// Where the field exists.
    pub versions: Versions,
    /// Where it may be null.
    pub nullable: Option<Versions>,
    pub tag: Option<u32>,
    pub default: Option<String>,
}

/// What a field, or an element of an array, is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint16,
    Float64,
    Error,
    Uuid,
    String,
    Bytes,
    Records,
    Struct(String),
}

impl Versions {
    /// Whether a field with this range exists wherever `outer` does.
    pub fn covers(self, outer: Versions) -> bool {
        self.first <= outer.first && outer.last <= self.last
    }
}

/// One kind of record of an internal topic: its number, and what its key and its value are.
#[derive(Debug, Clone)]
pub struct RecordKind {
    pub name: String,
    pub kind: i16,
    pub key: Message,
    pub value: Message,
}

/// Parses one schema file of an API; an error names the line.
pub fn parse(text: &str) -> Result<Api, String> {
    let (name, key, [request, response]) = parse_pair(text, "api", ["request", "response"])?;
    Ok(Api {
        name,
        key,
        request,
        response,
    })
}

/// Parses one schema file of a kind of record; an error names the line.
pub fn parse_record(text: &str) -> Result<RecordKind, String> {
    let (name, kind, [key, value]) = parse_pair(text, "record", ["key", "value"])?;
    Ok(RecordKind {
        name,
        kind,
        key,
        value,
    })
}

fn parse_pair(text: &str, what: &str, sides: [&str; 2]) -> Result<(String, i16, [Message; 2]), String> {
    let mut lines = Lines::of(text);
    let head = lines.take().ok_or("an empty file")?;
    let (name, number) = match head.words.as_slice() {
        [word, name, number] if *word == what => (
            name.to_string(),
            self::number(number).map_err(|e| head.error(&e))?,
        ),
        _ => return Err(head.error(&format!("the first line is `{what} NAME NUMBER`"))),
    };
    let first = message(&mut lines, sides[0], BTreeMap::new())?;
    let second = message(&mut lines, sides[1], first.structs.clone())?;
    match lines.take() {
        Some(line) => Err(line.error(&format!("nothing may follow the {}", sides[1]))),
        None => Ok((name, number, [first, second])),
    }
}

/// The lines of a file that say something, with their indentation.
struct Lines<'a> {
    left: std::iter::Peekable<std::vec::IntoIter<Line<'a>>>,
}

struct Line<'a> {
    number: usize,
    depth: usize,
    words: Vec<&'a str>,
}

impl Line<'_> {
    fn error(&self, what: &str) -> String {
        format!("line {}: {what}", self.number)
    }
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let lines: Vec<Line<'a>> = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default()))
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(number, line)| Line {
                number,
                depth: (line.len() - line.trim_start().len()) / 2,
                words: line.split_whitespace().collect(),
            })
            .collect();
        Lines {
            left: lines.into_iter().peekable(),
        }
    }

    fn take(&mut self) -> Option<Line<'a>> {
        self.left.next()
    }

    fn take_at(&mut self, depth: usize) -> Option<Line<'a>> {
        self.left.next_if(|line| line.depth == depth)
    }

    fn nested_below(&mut self, depth: usize) -> bool {
        self.left.peek().is_some_and(|line| line.depth > depth)
    }
}

fn message(
    lines: &mut Lines<'_>,
    side: &str,
    structs: BTreeMap<String, Vec<Field>>,
) -> Result<Message, String> {
    let head = lines.take().ok_or(format!("no {side}"))?;
    let (range, flexible) = match head.words.as_slice() {
        [word, range] if *word == side => (range, None),
        [word, range, "flexible", first] if *word == side => {
            (range, Some(number(first).map_err(|e| head.error(&e))?))
        }
        _ => return Err(head.error(&format!("expected `{side} VERSIONS [flexible VERSION]`"))),
    };
    let anywhere = Versions {
        first: 0,
        last: i16::MAX,
    };
    let versions = versions(range, anywhere).map_err(|e| head.error(&e))?;
    let mut message = Message {
        versions,
        flexible,
        fields: Vec::new(),
        structs,
        defined: Vec::new(),
    };
    message.fields = fields(lines, 1, &mut message)?;
    Ok(message)
}

fn fields(lines: &mut Lines<'_>, depth: usize, message: &mut Message) -> Result<Vec<Field>, String> {
    let mut fields = Vec::new();
    while let Some(line) = lines.take_at(depth) {
        let field = field(&line.words, message.versions).map_err(|e| line.error(&e))?;
        if let Item::Struct(name) = &field.item {
            let nested = lines.nested_below(depth);
            if nested == message.structs.contains_key(name) {
                return Err(line.error(&format!(
                    "{name} must be defined exactly once, where it is used first"
                )));
            }
            if nested {
                // The place is taken before the fields are read, so that definitions stand in reading order.
                message.defined.push(name.clone());
                let inner = self::fields(lines, depth + 1, message)?;
                message.structs.insert(name.clone(), inner);
            }
        }
        fields.push(field);
    }
    if lines.nested_below(depth) {
        let line = lines.take().ok_or("no line")?;
        return Err(line.error("indented too far"));
    }
    Ok(fields)
}

/// `name type [versions] [tag N] [= default]`
fn field(words: &[&str], message: Versions) -> Result<Field, String> {
    let [name, kind, rest @ ..] = words else {
        return Err("a field is `name type [versions] [tag N] [= default]`".into());
    };
    let (kind, null) = match kind.split_once('?') {
        Some((kind, null)) => (kind, Some(null)),
        None => (*kind, None),
    };
    let (array, item) = match kind.strip_prefix("[]") {
        Some(item) => (true, item),
        None => (false, kind),
    };
    let mut field = Field {
        name: name.to_string(),
        array,
        item: self::item(item)?,
        versions: message,
        nullable: null.map(|range| versions(range, message)).transpose()?,
        tag: None,
        default: None,
    };
    if field.item == Item::Bytes && !array && null.is_some() {
        return Err("no message has nullable bytes yet: teach Reader and Writer first".into());
    }
    let mut rest = rest;
    if let [range, after @ ..] = rest
        && range.starts_with(|c: char| c.is_ascii_digit())
    {
        field.versions = versions(range, message)?;
        rest = after;
    }
    if let ["tag", tag, after @ ..] = rest {
        field.tag = Some(number(tag)?);
        rest = after;
    }
    if let ["=", default, after @ ..] = rest {
        field.default = Some(default.to_string());
        rest = after;
    }
    match rest {
        [] => Ok(field),
        [word, ..] => Err(format!("what is `{word}`?")),
    }
}

fn item(word: &str) -> Result<Item, String> {
    Ok(match word {
        "bool" => Item::Bool,
        "int8" => Item::Int8,
        "int16" => Item::Int16,
        "int32" => Item::Int32,
        "int64" => Item::Int64,
        "uint16" => Item::Uint16,
        "float64" => Item::Float64,
        "error" => Item::Error,
        "uuid" => Item::Uuid,
        "string" => Item::String,
        "bytes" => Item::Bytes,
        "records" => Item::Records,
        name if name.starts_with(|c: char| c.is_ascii_uppercase()) => Item::Struct(name.to_string()),
        other => return Err(format!("`{other}` is no type")),
    })
}

/// ``, `3`, `3+` or `3-5`; an empty text means all versions of the message.
fn versions(text: &str, message: Versions) -> Result<Versions, String> {
    if text.is_empty() {
        return Ok(message);
    }
    if let Some(first) = text.strip_suffix('+') {
        return Ok(Versions {
            first: number(first)?,
            last: message.last,
        });
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Ok(Versions {
        first: number(first)?,
        last: number(last)?,
    })
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number that fits"))
}
