//! The controller's shell: it carries out what `controller-core` decides.
//!
//! Reading order: [`node`] (what is started and stopped), [`quorum`] (the replicated log), [`driver`] (the one task
//! around the decisions), [`inbox`] and [`published`] (its two sides), [`services`] (who asks).
//!
//! Never here: a decision about the cluster, Kafka's wire protocol, anything of the broker.

mod announce;
pub mod directory;
pub mod driver;
pub mod inbox;
pub mod metrics;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod node;
pub mod published;
pub mod quorum;
pub mod second_process;
pub mod services;
pub mod settings;
pub mod space;
