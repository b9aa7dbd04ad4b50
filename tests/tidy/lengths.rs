//! Lengths of files and functions. New code obeys; what stands in `KNOWN` may only get shorter.

use crate::source::{Tree, block_end};

/// Lines of the longest file.
pub const FILE_LINES_MAX: usize = 800;

/// Lines of the longest function, from `fn` to its closing brace.
pub const FUNCTION_LINES_MAX: usize = 70;

/// What is longer than the rule, with its length. An entry must match exactly: one that shrank is rewritten,
/// one that is gone is removed, and nothing is added.
pub const KNOWN: &[(&str, usize)] = &[];

/// Complaints about everything past its limit, and about entries of `known` that no longer fit.
pub fn past_the_ratchet(tree: &Tree, known: &[(&str, usize)]) -> Vec<String> {
    let mut long: Vec<(String, usize)> = Vec::new();
    for file in tree
        .files
        .iter()
        .filter(|file| file.is_rust() || file.path.ends_with(".py"))
    {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            long.push((file.path.clone(), lines));
        }
        let functions = functions(&file.code);
        long.extend(
            functions
                .into_iter()
                .filter(|(_, lines)| *lines > FUNCTION_LINES_MAX)
                .map(|(name, lines)| (format!("{} {name}", file.path), lines)),
        );
    }
    let mut complaints = Vec::new();
    for (what, lines) in &long {
        match known.iter().find(|(entry, _)| entry == what) {
            None => complaints.push(format!("{what}: {lines} lines")),
            Some((_, allowed)) if allowed != lines => {
                complaints.push(format!("{what}: {lines} lines, the list says {allowed}"));
            }
            Some(_) => {}
        }
    }
    for (entry, _) in known
        .iter()
        .filter(|(entry, _)| !long.iter().any(|(what, _)| what == entry))
    {
        complaints.push(format!("{entry}: short now, so its exception goes"));
    }
    complaints
}

/// Name and lines of every function with a body.
fn functions(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let starts_a_word = code[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let name: String = code[at + 3..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if !starts_a_word || name.is_empty() {
            continue;
        }
        let signature_end = body_or_semicolon(&code[at..]);
        if let Some(open) = signature_end {
            let body = block_end(&code[at + open..]).unwrap_or(0);
            let lines = code[at..at + open + body].lines().count();
            found.push((name, lines));
        }
    }
    found
}

/// Where the body opens; nothing for a declaration without one. A `;` inside `[u8; 4]` ends nothing.
fn body_or_semicolon(code: &str) -> Option<usize> {
    let mut brackets = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '[' | '(' => brackets += 1,
            ']' | ')' => brackets = brackets.saturating_sub(1),
            '{' if brackets == 0 => return Some(at),
            ';' if brackets == 0 => return None,
            _ => {}
        }
    }
    None
}
