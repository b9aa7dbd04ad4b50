//! What brokers, tools and the operator's CLI ask of a controller, over gRPC.
//!
//! Protobuf types end here: requests become commands, replies become messages. Must not decide.

mod admin;
mod follow;
mod observers;
mod refusal;
mod session;
#[cfg(test)]
pub mod testing;

use std::sync::Arc;
use std::time::Duration;

use host::{Clock, Entropy};
use millrace_proto::v1;
use millrace_proto::v1::admin_server::AdminServer;
use millrace_proto::v1::metadata_server::MetadataServer;
use millrace_proto::v1::session_server::SessionServer;
use parking_lot::Mutex;

use crate::inbox::Inbox;
use crate::published::Published;
use crate::quorum::Quorum;

pub use observers::Observers;

/// Largest message taken or sent: a batch is at most 4 MiB.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Largest reply to a command: it says something about each of the things that the command names, and a command that
/// was carried out must not look like one that was never answered.
const REPLY_BYTES_MAX: usize = 32 * MESSAGE_BYTES_MAX;

/// What the services work with.
pub struct Desk {
    /// The way to the driver.
    pub inbox: Inbox,
    /// The committed state.
    pub published: Arc<Published>,
    /// The quorum, for who leads.
    pub quorum: Arc<Quorum>,
    /// For topic ids and placements.
    pub entropy: Arc<dyn Entropy>,
    /// For what is told about observers.
    pub clock: Arc<dyn Clock>,
    /// Why replay stopped, if it did.
    pub quarantine: Arc<Mutex<Option<String>>>,
    /// How often those who follow hear something.
    pub progress_interval: Duration,
    /// Brokers that follow.
    pub observers: Mutex<Observers>,
}

impl Desk {
    /// Where the active controller is believed to be. A leader that was cut off is the last to hear of its successor: it
    /// knows that it is not active any more, and must not send brokers back to itself.
    fn active_address(&self) -> Option<v1::ControllerAddress> {
        let standing = self.quorum.standing();
        let was_demoted = standing.leads().is_some() && self.inbox.active().is_none();
        let leader = standing.leader.filter(|_| !was_demoted);
        leader.map(|(id, address)| v1::ControllerAddress { id: id.0, address })
    }
}

/// The server of [`v1::metadata_server::Metadata`].
pub fn metadata(desk: Arc<Desk>) -> MetadataServer<impl v1::metadata_server::Metadata> {
    MetadataServer::new(follow::Follow(desk))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// The server of [`v1::session_server::Session`].
pub fn session(desk: Arc<Desk>) -> SessionServer<impl v1::session_server::Session> {
    SessionServer::new(session::Sessions(desk)).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// The server of [`v1::admin_server::Admin`].
pub fn admin(desk: Arc<Desk>) -> AdminServer<impl v1::admin_server::Admin> {
    AdminServer::new(admin::Admin(desk))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(REPLY_BYTES_MAX)
}
