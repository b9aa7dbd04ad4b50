//! The format of `server.properties`: Java's properties, as far as text goes.
//!
//! Comments (`#`, `!`), keys and values separated by `=`, `:` or blanks, lines continued by a backslash,
//! `\t \n \r \f \uXXXX` and escaped separators.

use std::fmt;

/// A `\u` that is not followed by four hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PropertiesError {
    /// The line it stands in, counted from 1.
    pub line: usize,
}

impl fmt::Display for PropertiesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: \\u needs four hexadecimal digits", self.line)
    }
}

impl std::error::Error for PropertiesError {}

/// The pairs of a properties text, in order; a key may come twice.
pub fn parse_properties(text: &str) -> Result<Vec<(String, String)>, PropertiesError> {
    let mut pairs = Vec::new();
    for (line, logical) in logical_lines(text) {
        let (key, value) = split(&logical);
        let unescape = |part: &[char]| unescape(part).ok_or(PropertiesError { line });
        pairs.push((unescape(key)?, unescape(value)?));
    }
    Ok(pairs)
}

/// One pair as a line of a properties text that reads back as the same pair.
pub fn render_property(key: &str, value: &str) -> String {
    let mut line = String::new();
    for letter in key.chars() {
        escape(
            letter,
            matches!(letter, ' ' | '=' | ':' | '#' | '!').then_some('\\'),
            &mut line,
        );
    }
    line.push('=');
    for (index, letter) in value.chars().enumerate() {
        // Only the blanks in front would be taken for the separator.
        let inside = value.chars().take(index).any(|earlier| earlier != ' ');
        escape(letter, (letter == ' ' && !inside).then_some('\\'), &mut line);
    }
    line
}

fn escape(letter: char, before: Option<char>, line: &mut String) {
    match letter {
        '\\' => line.push_str("\\\\"),
        '\t' => line.push_str("\\t"),
        '\n' => line.push_str("\\n"),
        '\r' => line.push_str("\\r"),
        '\u{c}' => line.push_str("\\f"),
        other => {
            line.extend(before);
            line.push(other);
        }
    }
}

const fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\u{c}')
}

/// Lines with content, continuations joined, each with the number at which it begins.
fn logical_lines(text: &str) -> Vec<(usize, Vec<char>)> {
    let normal = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut found = Vec::new();
    let mut open: Option<(usize, Vec<char>)> = None;
    for (index, line) in normal.split('\n').enumerate() {
        let line = line.trim_start_matches(is_blank);
        if open.is_none() && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let (begun, mut joined) = open.take().unwrap_or((index + 1, Vec::new()));
        joined.extend(line.chars());
        let backslashes = line.chars().rev().take_while(|letter| *letter == '\\').count();
        if backslashes % 2 == 1 {
            joined.pop();
            open = Some((begun, joined));
        } else {
            found.push((begun, joined));
        }
    }
    found.extend(open);
    found
}

/// Key and value of a logical line, still escaped.
fn split(line: &[char]) -> (&[char], &[char]) {
    let mut escaped = false;
    let is_end = |letter: &char| {
        let end = !escaped && (is_blank(*letter) || matches!(letter, '=' | ':'));
        escaped = *letter == '\\' && !escaped;
        end
    };
    let end = line.iter().position(is_end).unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = skip_blanks(rest);
    let rest = match rest.first() {
        Some('=' | ':') => skip_blanks(&rest[1..]),
        _ => rest,
    };
    (key, rest)
}

fn skip_blanks(part: &[char]) -> &[char] {
    let start = part
        .iter()
        .position(|letter| !is_blank(*letter))
        .unwrap_or(part.len());
    &part[start..]
}

/// The text without escapes; `None` where a `\u` has no four digits. Halves of a pair make one letter, and a
/// half alone the replacement character, for our text cannot hold it.
fn unescape(part: &[char]) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(part.len());
    let mut letters = part.iter();
    while let Some(letter) = letters.next() {
        let plain = if *letter == '\\' {
            letters.next()
        } else {
            Some(letter)
        };
        let meant = match (letter, plain) {
            ('\\', None) => break,
            ('\\', Some('u')) => {
                let digits: String = letters.by_ref().take(4).collect();
                let right = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                units.push(right.then(|| u16::from_str_radix(&digits, 16).ok()).flatten()?);
                continue;
            }
            ('\\', Some('t')) => '\t',
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('f')) => '\u{c}',
            (_, Some(other)) => *other,
            (_, None) => break,
        };
        units.extend(meant.encode_utf16(&mut [0; 2]).iter());
    }
    Some(String::from_utf16_lossy(&units))
}
