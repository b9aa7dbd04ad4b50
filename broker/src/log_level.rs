//! The level at which this process logs, and how it changes while it runs.
//!
//! Must not: know who asks. Kafka has a logger for each of its classes; here there is one, and it has the name of theirs
//! that stands above all.

use std::sync::OnceLock;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// Kafka's name for the logger above all others.
pub const ROOT: &str = "root";

type Reload = reload::Handle<EnvFilter, Registry>;

static RELOAD: OnceLock<Reload> = OnceLock::new();

/// Notes how the level of this process is changed. The first word counts.
pub fn install(reload: Reload) {
    let _ = RELOAD.set(reload);
}

/// The level in force, in Kafka's words.
pub fn current() -> String {
    match LevelFilter::current() {
        LevelFilter::OFF => "OFF".to_owned(),
        level => level.to_string().to_uppercase(),
    }
}

/// A level in Kafka's words, which are capital letters. Its fatal errors are errors here.
pub fn parse(level: &str) -> Option<LevelFilter> {
    Some(match level {
        "OFF" => LevelFilter::OFF,
        "FATAL" | "ERROR" => LevelFilter::ERROR,
        "WARN" => LevelFilter::WARN,
        "INFO" => LevelFilter::INFO,
        "DEBUG" => LevelFilter::DEBUG,
        "TRACE" => LevelFilter::TRACE,
        _ => return None,
    })
}

/// Logs at this level from now on, whatever the environment said.
///
/// # Errors
/// When this process cannot change its level.
pub fn set(level: LevelFilter) -> Result<(), String> {
    let reload = RELOAD.get().ok_or("this process cannot change its level")?;
    reload
        .reload(EnvFilter::default().add_directive(level.into()))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_kafkas_words_in_capitals() {
        for (word, level) in [
            ("INFO", LevelFilter::INFO),
            ("FATAL", LevelFilter::ERROR),
            ("OFF", LevelFilter::OFF),
        ] {
            assert_eq!(parse(word), Some(level));
        }
        for odd in ["info", "LOUD", ""] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_process_without_a_way_to_change_its_level_says_so() {
        assert!(set(LevelFilter::INFO).is_err());
    }
}
