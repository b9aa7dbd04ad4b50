//! From Kafka's names to Rust's.

/// `topicData` → `topic_data`, `v3AndBelowTopics` → `v3_and_below_topics`, `kRaftVersion` → `k_raft_version`.
pub fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let previous = i.checked_sub(1).map(|p| chars[p]);
        let next_is_lower = chars.get(i + 1).is_some_and(|n| n.is_ascii_lowercase());
        let starts_word =
            c.is_ascii_uppercase() && previous.is_some_and(|p| !p.is_ascii_uppercase() || next_is_lower);
        if starts_word {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The name of a field, escaped where Rust uses the word itself.
pub fn field(name: &str) -> String {
    match snake(name).as_str() {
        word @ ("type" | "match") => format!("r#{word}"),
        word => word.to_string(),
    }
}
