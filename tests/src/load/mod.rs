//! Load and reading through librdkafka, with everything recorded for the oracle.

pub mod gaps;
pub mod java;
pub mod perf;
pub mod read;
pub mod write;

pub use gaps::Acknowledgements;
pub use read::{Tail, each_record, read_all};
pub use write::{Load, Plan};
