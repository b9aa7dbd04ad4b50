//! What the machine tells a process at its start: a configuration file and the environment.
//!
//! Must not: interpret either.

use std::io::{self, Read};
use std::path::Path;

/// Largest configuration file that is read: far above any real one, far below what would hurt.
pub const CONFIG_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The text of a configuration file.
///
/// # Errors
/// The operating system's error; `InvalidData` if it is larger than [`CONFIG_FILE_BYTES_MAX`] or not UTF-8.
pub fn read_config_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?
        .take(CONFIG_FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    if CONFIG_FILE_BYTES_MAX < read as u64 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the configuration file is larger than 16 MiB",
        ));
    }
    Ok(text)
}

/// The environment variables, sorted by name.
pub fn environment() -> Vec<(String, String)> {
    let mut pairs: Vec<_> = std::env::vars_os()
        .map(|(name, value)| (as_text(&name), as_text(&value)))
        .collect();
    pairs.sort();
    pairs
}

/// What is no text becomes one that no number and no name is: a setting must not be passed over because of it.
fn as_text(given: &std::ffi::OsStr) -> String {
    given.to_string_lossy().into_owned()
}
