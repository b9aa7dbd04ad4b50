//! How a command ends when it does not end well. Scripts read the exit code: 0 is done, 1 is refused or failed,
//! 2 is a command that could not be understood or begun.

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
}

impl Failure {
    /// The exit code of this ending.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Client(_) => 1,
            Self::Usage(_) => 2,
        }
    }

    /// A failure of the machine that a person can do something about.
    pub fn machine(what: &str, error: &std::io::Error) -> Self {
        Self::Refused(format!("{what}: {error}"))
    }
}
