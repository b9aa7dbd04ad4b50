//! How a process is watched: named metrics in Prometheus' text form, and the HTTP endpoint for them and for probes.
//!
//! Names are Kafka's, as its operators chart them: an MBean `domain:type=T,name=N` is `domain_t_n` in lower case, with
//! `_total` in place of `PerSec` and `_percent` in place of `Percent`. Times keep Kafka's unit, milliseconds.
//!
//! Counting is one atomic addition: no lock, nothing allocated. Everything else happens when somebody looks. Must not
//! know what is counted, or decide whether a process is ready.

mod endpoint;
mod gathered;
mod metrics;
mod times;

pub use endpoint::{Endpoint, NotReady, Watched, bind};
pub use gathered::Gathered;
pub use metrics::{Counter, Gauge, Metrics};
pub use times::{Times, TimesGroup};
