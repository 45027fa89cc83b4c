//! Key-value stores.
