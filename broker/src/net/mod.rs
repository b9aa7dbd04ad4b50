//! Sockets: listening, reading frames, sending answers. Must not know what a request means.

pub mod connection;
pub mod inbox;
pub mod listener;
pub mod outbox;
pub mod response;
