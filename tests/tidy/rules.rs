//! Rules of Kafka are cited by number: each number that is cited stands in one of the two pages of rules, and those pages
//! hold no other.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Tree;

/// Where the rules are written down.
const PAGES: &[&str] = &["controller/RULES.md", "broker/RULES.md"];

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

/// The rules of both pages: each line of a list begins with one.
fn written(tree: &Tree) -> BTreeSet<String> {
    let pages = tree
        .files
        .iter()
        .filter(|file| PAGES.contains(&file.path.as_str()));
    let lines = pages.flat_map(|page| page.text.lines());
    lines
        .filter_map(|line| line.strip_prefix("- **")?.split_once("** "))
        .map(|(rule, _)| rule.to_owned())
        .collect()
}

/// The numbers that are cited, each with a file that does.
fn cited(tree: &Tree) -> BTreeMap<String, String> {
    let mut cited = BTreeMap::new();
    for file in &tree.files {
        if PAGES.contains(&file.path.as_str()) {
            continue;
        }
        let words = file
            .text
            .split(|c: char| !c.is_ascii_alphanumeric() && !['.', '-', '_'].contains(&c));
        for word in words.map(|word| word.trim_end_matches(['.', '-'])) {
            if is_rule(word) {
                cited.insert(word.to_owned(), file.path.clone());
            }
        }
    }
    cited
}

/// `R1.10` of the control plane, or `F-27` of the data plane; a letter may follow.
fn is_rule(word: &str) -> bool {
    let number = |text: &str| {
        let digits = text
            .strip_suffix(|c: char| c.is_ascii_lowercase())
            .unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if let Some((area, rest)) = word.split_once('-') {
        return ["A", "F", "G", "L", "R", "T"].contains(&area) && number(rest);
    }
    let control = word.strip_prefix('R').and_then(|rest| rest.split_once('.'));
    control.is_some_and(|(chapter, rest)| chapter.len() == 1 && number(chapter) && number(rest))
}
