//! Nodes end with the command that began them, even when it is killed and can tell them nothing: on loopback they would
//! otherwise hold their ports and directories with nobody to stop them. Controllers end at once; brokers then find nobody to
//! let them go, and end in order after `broker.session.timeout.ms`.
#![allow(
    unsafe_code,
    reason = "what a child does before it becomes its program can only be said here"
)]

use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::process::Command;

/// Lets the system send SIGTERM to the process when the thread that begins it ends. That thread must be the main one.
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    let before_exec = || set_parent_process_death_signal(Some(Signal::TERM)).map_err(std::io::Error::from);
    // SAFETY: between fork and exec only one system call is made. It allocates nothing and takes no lock.
    unsafe { command.pre_exec(before_exec) }
}
