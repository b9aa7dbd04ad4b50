//! Kafka bytes and typed requests.
