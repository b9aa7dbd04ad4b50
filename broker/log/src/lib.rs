//! durable ordered batches.
