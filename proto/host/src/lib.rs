//! Ask the machine: disk, clock, entropy, configuration file and environment.
//!
//! This is the only crate of the project that names `std::fs` or a clock. Everything else gets a [`Disk`], a
//! [`Clock`] or an [`Entropy`] handed in, so that the same code runs on the real machine ([`OsDisk`],
//! [`OsClock`], [`OsEntropy`]) and inside a simulation ([`SimDisk`], [`SimClock`], [`SeededEntropy`]).
//!
//! What must never be in it: a domain noun (topic, partition, broker, record), a decision, async.

mod bind;
mod clock;
mod disk;
mod entropy;
mod os_disk;
mod process;
mod settings;
mod sim_disk;
mod terminal;

pub use bind::cannot_bind;
pub use clock::{Clock, Monotonic, OsClock, SimClock, WallMs};
pub use disk::{Disk, EntryKind, File, LockGuard, OpenHow, PathEntry, replace_file};
pub use entropy::{Entropy, OsEntropy, SeededEntropy};
pub use os_disk::OsDisk;
pub use process::{ProcessUsage, usage_of_this_process, without_huge_pages};
pub use settings::{CONFIG_FILE_BYTES_MAX, environment, read_config_file};
pub use sim_disk::{SimDisk, SyncFault};
pub use terminal::stderr_takes_colour;
