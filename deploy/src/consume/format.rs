//! A record as text: by a template, or as JSON.

use std::str::FromStr;

use serde_json::{Value, json};

use super::reader::Record;

/// A text with places for the parts of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    Value,
    Headers,
}

impl FromStr for Template {
    type Err = String;

    /// `%t` topic, `%p` partition, `%o` offset, `%T` time, `%k` key, `%v` or `%s` value, `%h` headers, `%%`; `\n`, `\t`, `\\`, `\0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            let piece = match (letter, letter == '%' || letter == '\\') {
                ('%', _) => match letters.next() {
                    Some('t') => Piece::Topic,
                    Some('p') => Piece::Partition,
                    Some('o') => Piece::Offset,
                    Some('T') => Piece::Timestamp,
                    Some('k') => Piece::Key,
                    Some('v' | 's') => Piece::Value,
                    Some('h') => Piece::Headers,
                    Some('%') => Piece::Text(vec![b'%']),
                    other => {
                        return Err(format!(
                            "%{} stands for nothing",
                            other.map_or(String::new(), String::from)
                        ));
                    }
                },
                ('\\', _) => match letters.next() {
                    Some('n') => Piece::Text(vec![b'\n']),
                    Some('t') => Piece::Text(vec![b'\t']),
                    Some('0') => Piece::Text(vec![0]),
                    Some('\\') => Piece::Text(vec![b'\\']),
                    other => {
                        return Err(format!(
                            "\\{} stands for nothing",
                            other.map_or(String::new(), String::from)
                        ));
                    }
                },
                (letter, _) => Piece::Text(letter.to_string().into_bytes()),
            };
            match piece {
                Piece::Text(text) => plain.extend(text),
                part => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(part);
                }
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }
}

impl Template {
    /// Writes a record. Bytes stay as they are; what is not there is nothing.
    pub fn write(&self, record: &Record, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Topic => out.extend_from_slice(record.topic.as_bytes()),
                Piece::Partition => out.extend_from_slice(record.partition.to_string().as_bytes()),
                Piece::Offset => out.extend_from_slice(record.offset.to_string().as_bytes()),
                Piece::Timestamp => out.extend_from_slice(record.timestamp.to_string().as_bytes()),
                Piece::Key => out.extend_from_slice(record.key.as_deref().unwrap_or_default()),
                Piece::Value => out.extend_from_slice(record.value.as_deref().unwrap_or_default()),
                Piece::Headers => headers(record, out),
            }
        }
    }
}

fn headers(record: &Record, out: &mut Vec<u8>) {
    for (index, (key, value)) in record.headers.iter().enumerate() {
        if 0 < index {
            out.push(b',');
        }
        out.extend_from_slice(key);
        out.push(b'=');
        out.extend_from_slice(value.as_deref().unwrap_or_default());
    }
}

/// A record as one JSON object. Bytes that are no text are shown with replacement characters.
pub fn json(record: &Record) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<Value> = record
        .headers
        .iter()
        .map(|(key, value)| json!({ "key": text(key), "value": value.as_deref().map(text) }))
        .collect();
    json!({
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": record.key.as_deref().map(text),
        "value": record.value.as_deref().map(text),
        "headers": headers,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use bytes::Bytes;

    fn record() -> Record {
        Record {
            topic: "orders".to_owned(),
            partition: 3,
            offset: 17,
            timestamp: 1000,
            key: Some(Bytes::from_static(b"k")),
            value: None,
            headers: vec![
                (Bytes::from_static(b"a"), None),
                (Bytes::from_static(b"b"), Some(Bytes::from_static(b"1"))),
            ],
        }
    }

    #[test]
    fn a_template_puts_the_parts_where_it_says() {
        let template: Template = r"%t-%p@%o %T [%k] [%v] %h 100%%\t\\\n".parse().unwrap();
        let mut out = Vec::new();
        template.write(&record(), &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "orders-3@17 1000 [k] [] a=,b=1 100%\t\\\n"
        );
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        assert!("%x".parse::<Template>().is_err());
        assert!("50%".parse::<Template>().is_err());
        assert!(r"\q".parse::<Template>().is_err());
    }

    #[test]
    fn json_tells_nothing_from_empty() {
        let shown = json(&record());
        assert_eq!(
            (shown["value"].is_null(), &shown["headers"][1]["value"]),
            (true, &json!("1"))
        );
    }
}
