//! The partitions of this broker: lanes that change them, views that read them, threads that sync them.
//!
//! Must not: know a request or a socket.

mod closing;
pub mod dirs;
pub mod faults;
pub mod follower;
#[cfg(test)]
mod full_disk;
pub mod hosted;
#[cfg(test)]
mod lag_tests;
pub mod lane;
mod owned;
pub mod place;
#[cfg(test)]
mod power_loss;
pub mod recovery;
pub mod settings;
pub mod shared;
pub mod sync;
#[cfg(test)]
mod testing;
pub mod ticket;
pub mod waits;
