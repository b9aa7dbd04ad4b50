//! Rules of Kafka, and the cases that tests play, are cited by number: each number that is cited stands on one of the pages
//! that list them, and those pages hold no other.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{File, Tree};

/// Where rules and cases are written down.
const PAGES: &[&str] = &["controller/RULES.md", "broker/RULES.md", "tests/README.md"];

/// The areas of the data plane's rules, and of the cases.
const AREAS: &[&str] = &["A", "D", "F", "G", "H", "L", "Q", "R", "S", "T", "Z", "BC"];

/// Marks of the notes that the pages were made from. Nobody finds here what they mean.
const MARKS: &[&str] = &[
    "``", "[V", "[L", "[R;", "[R]", "[X", "[D]", "[pattern", "\u{2605}",
];

/// Complaints about numbers that no page explains.
pub fn cited_and_not_written(tree: &Tree) -> Vec<String> {
    let written = written(tree);
    let cited = cited(tree).into_iter();
    let unknown = cited.filter(|(rule, _)| !written.contains(rule));
    unknown
        .map(|(rule, path)| format!("{path}: {rule} is on none of {}", PAGES.join(", ")))
        .collect()
}

/// Complaints about rules that nothing cites any more.
pub fn written_and_not_cited(tree: &Tree) -> Vec<String> {
    let cited = cited(tree);
    let written = written(tree).into_iter();
    written
        .filter(|rule| !cited.contains_key(rule))
        .map(|rule| format!("{rule}: nothing cites it"))
        .collect()
}

/// Complaints about sections of texts that are not here: a heading of ours has no number, so that a section sign in front
/// of one leads nowhere.
pub fn sections_of_nowhere(tree: &Tree) -> Vec<String> {
    let is_cited = |line: &str| {
        line.split('\u{a7}')
            .skip(1)
            .any(|after| after.trim_start().starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut complaints = Vec::new();
    for file in &tree.files {
        let lines = (1..).zip(file.text.lines());
        let found = lines.filter(|(_, line)| is_cited(line));
        complaints.extend(found.map(|(at, _)| format!("{}:{at}: a section of what?", file.path)));
    }
    complaints
}

/// Complaints about marks on the pages that nothing explains.
pub fn marks_without_a_meaning(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for page in tree.files.iter().filter(|file| is_page(file)) {
        for (at, line) in (1..).zip(page.text.lines()) {
            let marks = MARKS
                .iter()
                .filter(|mark| line.contains(**mark) && !line.starts_with("```"));
            complaints.extend(marks.map(|mark| format!("{}:{at}: what is {mark}?", page.path)));
        }
    }
    complaints
}

fn is_page(file: &File) -> bool {
    PAGES.contains(&file.path.as_str())
}

/// What the pages explain.
fn written(tree: &Tree) -> BTreeSet<String> {
    let pages = tree.files.iter().filter(|file| is_page(file));
    let lines = pages.flat_map(|page| page.text.lines());
    lines
        .filter_map(explained)
        .map(|(rule, _)| rule.to_owned())
        .collect()
}

/// The rule that a line of a page explains, and its words: an entry of a list, or a row of a table.
fn explained(line: &str) -> Option<(&str, &str)> {
    let entry = || line.strip_prefix("- **")?.split_once("** ");
    let row = || line.strip_prefix("| ")?.split_once(" | ");
    entry().or_else(row).filter(|(rule, _)| is_rule(rule))
}

/// The numbers that are cited, each with a file that does. Pages cite as well, but no rule explains itself.
fn cited(tree: &Tree) -> BTreeMap<String, String> {
    let mut cited = BTreeMap::new();
    for file in &tree.files {
        for line in file.text.lines() {
            let own = explained(line).filter(|_| is_page(file));
            let words = own.map_or(line, |(_, words)| words);
            let rules = rules_in(words).filter(|rule| own.is_none_or(|(own, _)| own != *rule));
            cited.extend(rules.map(|rule| (rule.to_owned(), file.path.clone())));
        }
    }
    cited
}

fn rules_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && !['.', '-', '_'].contains(&c))
        .map(|word| word.trim_end_matches(['.', '-']))
        .filter(|word| is_rule(word))
}

/// `R1.10` of the control plane, `F-27` of the data plane, or `BC-` and a number for a case; a letter may follow.
fn is_rule(word: &str) -> bool {
    let number = |text: &str| {
        let digits = text
            .strip_suffix(|c: char| c.is_ascii_lowercase())
            .unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if let Some((area, rest)) = word.split_once('-') {
        return AREAS.contains(&area) && number(rest);
    }
    let control = word.strip_prefix('R').and_then(|rest| rest.split_once('.'));
    control.is_some_and(|(chapter, rest)| chapter.len() == 1 && number(chapter) && number(rest))
}
