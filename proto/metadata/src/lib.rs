//! what the cluster is.
