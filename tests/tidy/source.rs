//! The source tree as the rules see it: paths, text, and the text with comments, strings and test modules
//! blanked out. Line numbers survive the blanking. It must never judge anything itself.

use std::path::{Path, PathBuf};

/// One file under the workspace.
pub struct File {
    /// Path from the workspace root, with `/`.
    pub path: String,
    /// The bytes as they stand, read as text.
    pub text: String,
    /// `text` with comments and the insides of string literals blanked; only of Rust files.
    pub code: String,
    /// `code` with test-only modules blanked as well.
    pub shipped: String,
}

impl File {
    fn new(path: &str, text: String) -> File {
        let code = if path.ends_with(".rs") {
            without_comments_and_strings(&text)
        } else {
            String::new()
        };
        let shipped = if is_test_file(path) {
            blanked(&code)
        } else {
            without_test_modules(&code)
        };
        File {
            path: path.to_owned(),
            text,
            code,
            shipped,
        }
    }

    /// Whether the file is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The part of `code` that only tests see.
    pub fn test_code(&self) -> String {
        let pairs = self.code.chars().zip(self.shipped.chars());
        pairs
            .map(|(all, kept)| if all == kept && all != '\n' { ' ' } else { all })
            .collect()
    }
}

/// All files that the rules look at.
pub struct Tree {
    /// Sorted by path.
    pub files: Vec<File>,
}

impl Tree {
    /// The workspace this test was built from.
    pub fn of_this_workspace() -> Tree {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .unwrap()
            .to_path_buf();
        let mut paths = Vec::new();
        collect(&root, &mut paths);
        paths.sort();
        let files = paths
            .iter()
            .filter_map(|path| {
                let text = String::from_utf8(std::fs::read(path).ok()?).ok()?;
                let name = path.strip_prefix(&root).unwrap().to_str()?.replace('\\', "/");
                Some(File::new(&name, text))
            })
            .collect::<Vec<_>>();
        assert!(
            files.iter().filter(|file| file.is_rust()).count() > 10,
            "the workspace was not found"
        );
        Tree { files }
    }

    /// A tree of one file, to show that a rule catches what it must.
    pub fn planted(path: &str, text: &str) -> Tree {
        Tree {
            files: vec![File::new(path, text.to_owned())],
        }
    }

    /// Rust files below one of `folders`.
    pub fn rust_below<'a>(&'a self, folders: &'a [&str]) -> impl Iterator<Item = &'a File> {
        self.files
            .iter()
            .filter(|file| file.is_rust() && folders.iter().any(|f| file.path.starts_with(f)))
    }
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() {
            if !["target", ".git", "millrace-data", "__pycache__"].contains(&name.as_str()) {
                collect(&entry.path(), paths);
            }
        } else if ["rs", "toml", "md", "sh", "py", "proto", "txt", "xml"]
            .iter()
            .any(|e| name.ends_with(&format!(".{e}")))
            || name == "run"
        {
            paths.push(entry.path());
        }
    }
}

/// Files that hold nothing but tests.
fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") && !path.starts_with("tests/sim/src")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

/// Lines of `text` that contain `needle` as a whole word, counted from 1.
pub fn lines_with(text: &str, needle: &str) -> Vec<usize> {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let found = |line: &str| {
        line.match_indices(needle).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + needle.len()..].chars().next();
            let opens = needle.starts_with(|c: char| c.is_alphanumeric());
            let closes = needle.ends_with(|c: char| c.is_alphanumeric());
            !(opens && word(before) || closes && word(after))
        })
    };
    text.lines()
        .enumerate()
        .filter(|(_, line)| found(line))
        .map(|(index, _)| index + 1)
        .collect()
}

fn blanked(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect()
}

/// Blanks comments and the insides of string and character literals, keeping every line where it is.
pub fn without_comments_and_strings(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '"' => closing_quote(rest),
            'r' if raw_string(rest).is_some()
                && !out.ends_with(|c: char| c.is_alphanumeric() || c == '_') =>
            {
                raw_string(rest).unwrap_or(1)
            }
            '\'' => character_literal(rest),
            _ => 0,
        };
        if length == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.push_str(&blanked(&rest[..length]));
            rest = &rest[length..];
        }
    }
    out
}

/// Bytes up to and with the quote that closes the string literal at the start of `text`.
fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the raw string literal at the start of `text`, if there is one.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text[1..].chars().take_while(|c| *c == '#').count();
    text[1 + hashes..].starts_with('"').then(|| {
        let end = format!("\"{}", "#".repeat(hashes));
        text[2 + hashes..]
            .find(&end)
            .map_or(text.len(), |at| 2 + hashes + at + end.len())
    })
}

/// Length of the character literal at the start of `text`; 0 where the quote opens a lifetime.
fn character_literal(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_)) => text[3..].find('\'').map_or(0, |at| at + 4),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

/// Bytes from the first `{` of `text` up to and with the `}` that closes it.
pub fn block_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(at + 1),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Blanks `#[cfg(test)] mod … { … }`.
fn without_test_modules(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let item = rest.find(['{', ';']).unwrap_or(rest.len());
        let end = if rest[item..].starts_with('{') {
            item + block_end(&rest[item..]).unwrap_or(rest.len() - item)
        } else {
            item
        };
        out.push_str(&blanked(&rest[..end]));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}
