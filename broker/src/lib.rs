//! the broker.
