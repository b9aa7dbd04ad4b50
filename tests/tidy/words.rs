//! Rules about text: headers, pages, names, sleeping tests, and words that do not belong in the project.

use crate::source::{File, Tree, lines_with};

/// The only place where a test may let time pass: between two questions.
const WAITING: &str = "tests/src/wait.rs";

/// Pages that the workspace still owes. Entries only go.
pub const PAGES_OWED: &[&str] = &[];

/// Complaints about Rust files that do not open by saying what they are for.
pub fn modules_without_a_header(tree: &Tree) -> Vec<String> {
    let silent = |file: &&File| file.is_rust() && !file.text.trim_start().starts_with("//!");
    tree.files
        .iter()
        .filter(silent)
        .map(|file| format!("{}: opens without `//!`", file.path))
        .collect()
}

/// Complaints about tests that sleep or never run.
pub fn sleeps_and_ignored_tests(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree
        .files
        .iter()
        .filter(|file| file.is_rust() && file.path != WAITING)
    {
        for line in lines_with(&file.code, "#[ignore") {
            complaints.push(format!("{}:{line}: a test that never runs", file.path));
        }
        // Under a paused or simulated clock a sleep is an event, not a wait.
        let simulated = file.code.contains("start_paused") || file.code.contains("turmoil");
        let tests = file.test_code();
        for name in ["thread::sleep", "time::sleep", "sleep_until"]
            .iter()
            .filter(|_| !simulated)
        {
            for line in lines_with(&tests, name) {
                complaints.push(format!("{}:{line}: ask again instead of sleeping", file.path));
            }
        }
    }
    complaints
}

/// Complaints about names that say nothing.
pub fn empty_names(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let stem = file
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".rs");
        if ["utils", "util", "data", "common", "helpers", "misc", "manager"].contains(&stem) {
            complaints.push(format!("{}: the name says nothing", file.path));
        }
        for (index, line) in file.code.lines().enumerate() {
            let words = line
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|word| !word.is_empty());
            let words: Vec<&str> = words.collect();
            let empty = words.windows(2).any(|pair| match pair {
                ["fn", name] => ["maybe_", "handle_", "process_"]
                    .iter()
                    .any(|prefix| name.starts_with(prefix)),
                ["struct" | "enum" | "trait", name] => name.ends_with("Manager") || name.ends_with("Util"),
                ["mod", name] => ["utils", "util", "data", "common", "helpers"].contains(name),
                _ => false,
            });
            if empty {
                complaints.push(format!(
                    "{}:{}: the name says nothing: {}",
                    file.path,
                    index + 1,
                    line.trim()
                ));
            }
        }
    }
    complaints
}

/// Complaints about text that speaks of how or where the project is made, or of work left undone.
pub fn words_of_the_workplace(tree: &Tree) -> Vec<String> {
    // Put together here, so that this file does not complain about itself.
    let banned = [
        ["/wo", "rk/"],
        ["work", "tree"],
        ["sub", "agent"],
        ["Cla", "ude"],
        ["Anth", "ropic"],
        ["issues ", "show"],
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X"],
        ["/home", "/"],
        ["/ro", "ot/"],
    ]
    .map(|halves| halves.concat());
    let mut complaints = Vec::new();
    for file in &tree.files {
        for word in &banned {
            for line in lines_with(&file.text, word) {
                complaints.push(format!("{}:{line}: {word}", file.path));
            }
        }
    }
    complaints
}

/// Complaints about top folders without a page.
pub fn folders_without_a_page(tree: &Tree, owed: &[&str]) -> Vec<String> {
    let has = |path: &str| tree.files.iter().any(|file| file.path == path);
    let folders = ["proto", "controller", "broker", "deploy", "tests"];
    let present = |folder: &&&str| {
        tree.files
            .iter()
            .any(|file| file.path.starts_with(&format!("{folder}/")))
    };
    let pages = std::iter::once("README.md".to_owned()).chain(
        folders
            .iter()
            .filter(present)
            .map(|folder| format!("{folder}/README.md")),
    );
    pages
        .filter(|page| !has(page) && !owed.contains(&page.as_str()))
        .map(|page| format!("{page}: missing"))
        .collect()
}
