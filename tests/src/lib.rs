//! cluster harness.
