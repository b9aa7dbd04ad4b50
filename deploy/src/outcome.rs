//! How a command ends when it does not end well. Scripts read the exit code: 0 is done, 1 is refused or failed,
//! 2 is a command that could not be understood or begun, 141 is an answer that its reader did not wait for.

use crate::client::ClientError;

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The cluster refused, or something broke on the way. Exit code 1.
    #[error("{0}")]
    Refused(String),
    /// The command, or a configuration, is wrong; nothing was begun. One line for each thing. Exit code 2.
    #[error("{}", .0.join("\n"))]
    Usage(Vec<String>),
    /// The cluster could not be asked. Exit code 1.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Whoever read the answer has gone away. Exit code 141, as a shell gives it for other commands that end so: 128 and
    /// the number of SIGPIPE. Nothing is said about it.
    #[error("nobody reads the answer")]
    ReaderGone,
}

impl Failure {
    /// The exit code of this ending.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Client(_) => 1,
            Self::Usage(_) => 2,
            Self::ReaderGone => 141,
        }
    }

    /// A failure of the machine that a person can do something about.
    pub fn machine(what: &str, error: &std::io::Error) -> Self {
        Self::Refused(format!("{what}: {error}"))
    }
}
