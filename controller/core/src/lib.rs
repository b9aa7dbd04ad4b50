//! decisions.
