//! the operator CLI.
