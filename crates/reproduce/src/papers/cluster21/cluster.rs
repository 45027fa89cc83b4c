//! The machines of the paper.

/// The cluster: one adapter, at the first of two sockets.
pub(super) const CLUSTER: &str = "cx3-dual";
