//! The house rules as a test: `cargo tidy`.
//!
//! Each rule is a function from the source tree to its complaints, and each has a twin test that plants a
//! violation, so that a rule can never quietly stop looking. A rule only reads text: it must never build,
//! run or change what it judges.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod imports;
mod lengths;
mod purity;
mod rules;
mod source;
mod words;

use source::Tree;

/// Fails with every complaint of a rule, one a line.
fn holds(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn each_package_imports_only_what_the_design_allows() {
    holds(imports::outside_the_table(&Tree::of_this_workspace()));
}

#[test]
fn an_import_outside_the_table_is_caught() {
    let tree = Tree::planted(
        "broker/core/Cargo.toml",
        "[dependencies]\nwire.workspace = true\n",
    );
    assert_eq!(imports::outside_the_table(&tree).len(), 1);
    let dev_only = Tree::planted(
        "broker/core/Cargo.toml",
        "[dev-dependencies]\nwire.workspace = true\n",
    );
    assert_eq!(imports::outside_the_table(&dev_only).len(), 0);
    let unknown = Tree::planted(
        "libs/new/Cargo.toml",
        "[package]\nname = \"new\"\n[dependencies]\n",
    );
    assert_eq!(imports::outside_the_table(&unknown).len(), 1);
}

#[test]
fn protobuf_stays_where_the_contract_is() {
    holds(imports::protobuf_outside_its_crates(&Tree::of_this_workspace()));
}

#[test]
fn protobuf_in_a_handler_is_caught() {
    let tree = Tree::planted("broker/src/handlers.rs", "//! x\nuse prost::Message;\n");
    assert_eq!(imports::protobuf_outside_its_crates(&tree).len(), 1);
}

#[test]
fn pure_crates_have_no_clock_entropy_io_thread_or_unordered_map() {
    holds(purity::impure_names(&Tree::of_this_workspace()));
}

#[test]
fn an_impure_name_is_caught() {
    for planted in [
        "use std::collections::HashMap;",
        "fn now() { let _ = std::time::Instant::now(); }",
        "struct Load(f64);",
        "async fn wait() {}",
        "use tokio::sync::mpsc;",
    ] {
        let tree = Tree::planted("controller/core/src/lib.rs", &format!("//! x\n{planted}\n"));
        assert_eq!(purity::impure_names(&tree).len(), 1, "{planted}");
    }
    let harmless = "//! x\n// a HashMap would be wrong here\nconst WHY: &str = \"HashMap\";\n";
    assert_eq!(
        purity::impure_names(&Tree::planted("controller/core/src/lib.rs", harmless)).len(),
        0
    );
}

#[test]
fn async_stays_in_the_shells() {
    holds(purity::async_outside_shells(&Tree::of_this_workspace()));
}

#[test]
fn async_in_the_log_is_caught() {
    let tree = Tree::planted("broker/log/src/segment.rs", "//! x\nasync fn append() {}\n");
    assert_eq!(purity::async_outside_shells(&tree).len(), 1);
}

#[test]
fn only_host_names_the_file_system_and_the_clocks() {
    holds(purity::machine_outside_host(&Tree::of_this_workspace()));
}

#[test]
fn a_clock_or_a_file_outside_host_is_caught() {
    for planted in [
        "use std::fs::File;",
        "let t = Instant::now();",
        "let t = SystemTime::now();",
        "tokio::fs::read(p)",
    ] {
        let tree = Tree::planted("broker/src/lanes.rs", &format!("//! x\nfn f() {{ {planted} }}\n"));
        assert_eq!(purity::machine_outside_host(&tree).len(), 1, "{planted}");
    }
    let in_a_test = "//! x\n#[cfg(test)]\nmod tests {\n    use std::fs::File;\n}\n";
    assert_eq!(
        purity::machine_outside_host(&Tree::planted("broker/src/lanes.rs", in_a_test)).len(),
        0
    );
}

#[test]
fn files_and_functions_stay_short() {
    holds(lengths::past_the_ratchet(
        &Tree::of_this_workspace(),
        lengths::KNOWN,
    ));
}

#[test]
fn a_long_file_or_function_is_caught() {
    let long_file = format!("//! x\n{}", "const X: u8 = 1;\n".repeat(lengths::FILE_LINES_MAX));
    assert_eq!(
        lengths::past_the_ratchet(&Tree::planted("broker/src/a.rs", &long_file), &[]).len(),
        1
    );
    let long_function = format!(
        "//! x\nfn f() {{\n{}}}\n",
        "    g();\n".repeat(lengths::FUNCTION_LINES_MAX)
    );
    assert_eq!(
        lengths::past_the_ratchet(&Tree::planted("broker/src/a.rs", &long_function), &[]).len(),
        1
    );
}

#[test]
fn the_exception_list_only_shrinks() {
    let lines = lengths::FUNCTION_LINES_MAX + 10;
    let text = format!("//! x\nfn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
    let tree = Tree::planted("broker/src/a.rs", &text);
    assert_eq!(
        lengths::past_the_ratchet(&tree, &[("broker/src/a.rs f", lines)]).len(),
        0
    );
    assert_eq!(
        lengths::past_the_ratchet(&tree, &[("broker/src/a.rs f", lines - 1)]).len(),
        1,
        "it grew"
    );
    assert_eq!(
        lengths::past_the_ratchet(&tree, &[("broker/src/a.rs f", lines + 1)]).len(),
        1,
        "it shrank"
    );
    let gone = [("broker/src/a.rs f", lines), ("broker/src/a.rs g", 90)];
    assert_eq!(
        lengths::past_the_ratchet(&tree, &gone).len(),
        1,
        "an entry without a function"
    );
}

#[test]
fn every_module_says_what_it_is_for() {
    holds(words::modules_without_a_header(&Tree::of_this_workspace()));
}

#[test]
fn a_module_without_a_header_is_caught() {
    assert_eq!(
        words::modules_without_a_header(&Tree::planted("host/src/a.rs", "use std::fs;\n")).len(),
        1
    );
}

#[test]
fn no_test_sleeps_or_is_ignored() {
    holds(words::sleeps_and_ignored_tests(&Tree::of_this_workspace()));
}

#[test]
fn a_sleeping_or_ignored_test_is_caught() {
    let sleeping = "//! x\nfn wait() { std::thread::sleep(d); }\n";
    assert_eq!(
        words::sleeps_and_ignored_tests(&Tree::planted("tests/e2e/a.rs", sleeping)).len(),
        1
    );
    let ignored = "//! x\n#[cfg(test)]\nmod tests {\n    #[test]\n    #[ignore]\n    fn f() {}\n}\n";
    assert_eq!(
        words::sleeps_and_ignored_tests(&Tree::planted("broker/src/a.rs", ignored)).len(),
        1
    );
    let asleep = "//! x\n#[cfg(test)]\nmod tests {\n    fn f() { tokio::time::sleep(d); }\n}\n";
    assert_eq!(
        words::sleeps_and_ignored_tests(&Tree::planted("broker/src/a.rs", asleep)).len(),
        1
    );
}

#[test]
fn names_say_what_things_are() {
    holds(words::empty_names(&Tree::of_this_workspace()));
}

#[test]
fn an_empty_name_is_caught() {
    for planted in [
        "fn handle_fetch() {}",
        "fn maybe_expand() {}",
        "struct ReplicaManager;",
        "mod utils;",
    ] {
        let tree = Tree::planted("broker/src/a.rs", &format!("//! x\n{planted}\n"));
        assert_eq!(words::empty_names(&tree).len(), 1, "{planted}");
    }
    assert_eq!(
        words::empty_names(&Tree::planted("broker/src/utils.rs", "//! x\n")).len(),
        1
    );
}

#[test]
fn the_project_speaks_of_itself_alone() {
    holds(words::words_of_the_workplace(&Tree::of_this_workspace()));
}

#[test]
fn a_word_of_the_workplace_is_caught() {
    let tree = Tree::planted("README.md", &format!("see {}/main\n", ["", "work"].join("/")));
    assert_eq!(words::words_of_the_workplace(&tree).len(), 1);
    let left_over = format!("//! x\n// {}: later\n", ["TO", "DO"].concat());
    assert_eq!(
        words::words_of_the_workplace(&Tree::planted("broker/src/a.rs", &left_over)).len(),
        1
    );
}

#[test]
fn every_top_folder_has_its_page() {
    holds(words::folders_without_a_page(
        &Tree::of_this_workspace(),
        words::PAGES_OWED,
    ));
}

#[test]
fn a_missing_page_is_caught() {
    let tree = Tree::planted("broker/Cargo.toml", "");
    assert_eq!(
        words::folders_without_a_page(&tree, &["README.md"]),
        ["broker/README.md: missing"]
    );
}

#[test]
fn every_rule_that_is_cited_is_written_down() {
    holds(rules::cited_and_not_written(&Tree::of_this_workspace()));
}

#[test]
fn a_rule_that_is_written_nowhere_is_caught() {
    let cited = "//! As Kafka does (F\u{2d}27, D\u{2d}6, R9\u{2e}1), after BC\u{2d}005.\n";
    let tree = Tree::planted("broker/src/a.rs", cited);
    assert_eq!(rules::cited_and_not_written(&tree).len(), 4);
    let by_a_rule = "- **F\u{2d}27** A leader (F\u{2d}27, F\u{2d}28).\n";
    let tree = Tree::planted("broker/RULES.md", by_a_rule);
    assert_eq!(rules::cited_and_not_written(&tree).len(), 1);
    let other = Tree::planted("broker/src/a.rs", "//! UTF-8, topic-1, R2D2, v1.10, A-b.\n");
    assert_eq!(rules::cited_and_not_written(&other).len(), 0);
}

#[test]
fn no_rule_is_written_down_that_nothing_cites() {
    holds(rules::written_and_not_cited(&Tree::of_this_workspace()));
    let idle = Tree::planted("broker/RULES.md", "- **F-27** A leader, by F\u{2d}27.\n");
    assert_eq!(rules::written_and_not_cited(&idle).len(), 1);
    let unplayed = Tree::planted("tests/README.md", "| BC\u{2d}005 | a case | `a.rs` |\n");
    assert_eq!(rules::written_and_not_cited(&unplayed).len(), 1);
}

#[test]
fn what_is_cited_can_be_looked_up() {
    holds(rules::sections_of_nowhere(&Tree::of_this_workspace()));
    holds(rules::marks_without_a_meaning(&Tree::of_this_workspace()));
    let section = Tree::planted("broker/src/a.rs", "//! As the design says (\u{a7}3.6).\n");
    assert_eq!(rules::sections_of_nowhere(&section).len(), 1);
    let mark = Tree::planted("broker/RULES.md", "- **F\u{2d}27** A leader `` [L, 4.4].\n");
    assert_eq!(rules::marks_without_a_meaning(&mark).len(), 2);
}
