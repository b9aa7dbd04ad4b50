//! Ctrl-C and SIGTERM, for commands that go on until they are told to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::outcome::Failure;

/// What tells a command to stop.
#[derive(Debug)]
pub struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    /// From now on a signal does not end the process.
    ///
    /// # Errors
    /// When the machine does not deliver signals.
    pub fn new() -> Result<Self, Failure> {
        let open =
            |kind| signal(kind).map_err(|error| Failure::machine("signals cannot be received", &error));
        Ok(Self {
            interrupt: open(SignalKind::interrupt())?,
            terminate: open(SignalKind::terminate())?,
        })
    }

    /// Comes back when the next signal has come.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
